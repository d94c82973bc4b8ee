//! What a simulation of the whole library needs: connections over streams of its
//! own, and chance that follows from a seed. For the tests of this library.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

pub use crate::chance::seed;

/// A stream to a master, as TCP would be.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Makes connections.
pub trait Connector: Send + Sync {
    /// Connects to a master by its address, `host:port`.
    fn connect(&self, address: &str) -> Connecting;
}

impl fmt::Debug for dyn Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}
