//! Locks with a token that orders their owners, and those without.

use std::fmt;
use std::ops::Deref;

use crate::error::ReleaseError;
use crate::guard::{Guard, Released};

/// A request for a lock without a fencing token: the usual one.
#[derive(Clone, Copy, Debug)]
pub enum Plain {}

/// A request for a lock with a fencing token; see
/// [`Request::fenced`](crate::Request::fenced).
#[derive(Clone, Copy, Debug)]
pub enum Fenced {}

/// What a request comes to: [`Plain`] or [`Fenced`], and no other.
pub trait Kind: sealed::Sealed {
    /// The lock that is held.
    type Guard;

    #[doc(hidden)]
    const IS_FENCED: bool;

    #[doc(hidden)]
    fn guard(guard: Guard) -> Self::Guard;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Plain {}
    impl Sealed for super::Fenced {}
}

impl Kind for Plain {
    type Guard = Guard;

    const IS_FENCED: bool = false;

    fn guard(guard: Guard) -> Guard {
        guard
    }
}

impl Kind for Fenced {
    type Guard = FencedGuard;

    const IS_FENCED: bool = true;

    fn guard(guard: Guard) -> FencedGuard {
        let fence = guard.fence();
        FencedGuard {
            guard,
            fence: fence.expect("a fenced lock is not held before a quorum knows its token"),
        }
    }
}

/// A lock that is held, with a token that orders its owners (S16): a [`Guard`]
/// that has one more method.
#[must_use = "a guard that is dropped releases its lock"]
pub struct FencedGuard {
    guard: Guard,
    fence: u64,
}

impl FencedGuard {
    /// The fencing token: greater than that of each earlier fenced acquisition
    /// of this resource, by whatever client. It is no time and no count of
    /// anything, and stays below 2^53, so that it is exact in JSON and Lua.
    ///
    /// Give it along with each write, and have the protected resource refuse a
    /// write whose token is lower than the highest that it has seen: then an
    /// owner that slept through its lease can't overwrite what a later one wrote.
    pub fn fencing_token(&self) -> u64 {
        self.fence
    }

    /// Releases the lock on all masters: see [`Guard::release`].
    ///
    /// # Errors
    ///
    /// As for [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// As for [`Guard::release`].
    pub async fn release(self) -> Result<Released, ReleaseError> {
        self.guard.release().await
    }
}

impl Deref for FencedGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for FencedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedGuard")
            .field("fencing_token", &self.fence)
            .field("guard", &self.guard)
            .finish()
    }
}
