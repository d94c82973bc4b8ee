//! The coordinator: what all locks of one set of masters share.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;

use crate::core::Ttl;
use crate::master::MasterStates;
use crate::masters::Masters;
use crate::request::Request;

/// A coordinator of locks over N independent masters. Cheap to clone; make one
/// and share it.
///
/// ```no_run
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use redquorum::Redlock;
///
/// let redlock = Redlock::builder()
///     .masters(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .build()?;
/// let lock = redlock.lock("orders:42").ttl(Duration::from_secs(10)).await?;
/// // … the critical section …
/// lock.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redlock {
    pub(crate) masters: Arc<Masters>,
}

impl Redlock {
    pub(crate) fn new(masters: Masters) -> Self {
        Self {
            masters: Arc::new(masters),
        }
    }

    /// Asks for the lock of a resource: any bytes but none, which become the
    /// key on the masters as they are, after the configured prefix.
    ///
    /// Does nothing until the request is awaited, in a tokio runtime.
    pub fn lock(&self, resource: impl AsRef<[u8]>) -> Request {
        Request::new(self.masters.clone(), resource.as_ref())
    }

    /// Waits until the releases that go on in the background, of guards and
    /// requests that were dropped and of attempts that failed, are confirmed
    /// or, where a master can't be reached, left for when it can be. It takes
    /// at most the master time-out; longer if other releases begin meanwhile.
    ///
    /// Call it before the runtime ends: a release that was not written yet is
    /// lost then, and its key stays for the TTL.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn settled(&self) {
        self.masters.settled().await;
    }

    /// How each master is just now: whether it is connected, whether it would
    /// have a vote on a lock with the default TTL and why not, and how long it
    /// takes to answer. Each is asked (`PING`); those that are not connected yet
    /// are given the connect time-out. Shown, it is a table:
    ///
    /// ```no_run
    /// # async fn doc(redlock: redquorum::Redlock) {
    /// let masters = redlock.masters().await;
    /// println!("{masters}");
    /// let healthy = masters.has_quorum();
    /// # }
    /// ```
    ///
    /// Outside of a tokio runtime, or in one without its timer and I/O, it panics.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn masters(&self) -> MasterStates {
        let settings = &self.masters.settings;
        let ttl = Ttl::new(settings.ttl).expect("it was checked when this was built");
        let states = self.masters.all.iter().map(|master| master.state(ttl));
        MasterStates::new(join_all(states).await, settings.quorum.needed())
    }

    /// The masters' addresses, without credentials, in the order of the
    /// configuration.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.masters.all.iter().map(|master| &**master.address())
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("masters", &self.addresses().collect::<Vec<_>>())
            .field("quorum", &self.masters.settings.quorum.needed())
            .finish_non_exhaustive()
    }
}
