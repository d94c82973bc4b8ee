//! The coordinator: what all locks of one set of masters share.

use std::fmt;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::{Builder, Settings};
use crate::master::Master;
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
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) masters: Vec<Arc<dyn Master>>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
}

impl Redlock {
    /// Begins a configuration.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Asks for the lock of a resource: any bytes but none, which become the
    /// key on the masters as they are, after the configured prefix.
    ///
    /// Does nothing until the request is awaited, in a tokio runtime.
    pub fn lock(&self, resource: impl AsRef<[u8]>) -> Request {
        Request::new(self.inner.clone(), resource.as_ref())
    }

    /// The masters' addresses, without credentials, in the order of the
    /// configuration.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.inner.masters.iter().map(|master| &**master.address())
    }
}

impl Inner {
    pub(crate) fn new(masters: Vec<Arc<dyn Master>>, settings: Settings, clock: Clock) -> Self {
        Self {
            masters,
            settings,
            clock,
        }
    }

    /// The key of a resource.
    pub(crate) fn key(&self, resource: &Arc<[u8]>) -> Arc<[u8]> {
        match &*self.settings.key_prefix {
            [] => resource.clone(),
            prefix => [prefix, resource].concat().into(),
        }
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("masters", &self.addresses().collect::<Vec<_>>())
            .field("quorum", &self.inner.settings.quorum.needed())
            .finish_non_exhaustive()
    }
}
