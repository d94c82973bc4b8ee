//! A lock that a task has: fenced, or not. Both are asked for on the same resources.

use std::ops::Deref;

use redquorum::{FencedGuard, Guard, LockError, Request};

pub enum Owned {
    Plain(Guard),
    Fenced(FencedGuard),
}

impl Owned {
    pub async fn ask(request: Request, fenced: bool) -> Result<Self, LockError> {
        match fenced {
            true => Ok(Self::Fenced(request.fenced().await?)),
            false => Ok(Self::Plain(request.await?)),
        }
    }

    pub fn fence(&self) -> Option<u64> {
        match self {
            Self::Plain(_) => None,
            Self::Fenced(guard) => Some(guard.fencing_token()),
        }
    }

    /// Whether it was held until now is no matter to one who gives it up.
    pub async fn release(self) {
        let _ = match self {
            Self::Plain(guard) => guard.release().await,
            Self::Fenced(guard) => guard.release().await,
        };
    }
}

impl Deref for Owned {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Fenced(guard) => guard,
        }
    }
}
