use std::time::Duration;

/// A point in time on the lease clock: the time since an origin that is the
/// same for all moments of one process, and means nothing outside of it.
///
/// No arithmetic on moments overflows: it stops at the ends of [`Duration`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment at this distance from the origin.
    pub const fn from_origin(distance: Duration) -> Self {
        Self(distance)
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment this much later.
    pub const fn after(self, delay: Duration) -> Moment {
        Moment(self.0.saturating_add(delay))
    }
}
