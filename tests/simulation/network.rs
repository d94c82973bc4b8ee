//! The connections of a client over the simulated network.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};

use redquorum::simulation::{Connecting, Connector, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

type Shared = Mutex<Option<TcpStream>>;

/// Makes the connections of one client, and can end all of them at once.
#[derive(Clone, Default)]
pub(crate) struct Network {
    sockets: Arc<Mutex<Vec<Weak<Shared>>>>,
}

impl Network {
    /// Ends all connections without a word, as when the client's machine ends. A
    /// runtime would drop them in an order that no seed decides.
    pub(crate) fn vanish(&self) {
        for socket in lock(&self.sockets).drain(..) {
            if let Some(socket) = socket.upgrade() {
                drop(lock(&socket).take());
            }
        }
    }
}

impl Connector for Network {
    fn connect(&self, address: &str) -> Connecting {
        let (address, sockets) = (address.to_owned(), self.sockets.clone());
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            let socket = Arc::new(Mutex::new(Some(stream)));
            lock(&sockets).push(Arc::downgrade(&socket));
            Ok(Box::new(Socket(socket)) as Box<dyn Stream>)
        })
    }
}

struct Socket(Arc<Shared>);

impl Socket {
    fn with<T>(
        &self,
        act: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut *lock(&self.0) {
            Some(stream) => act(Pin::new(stream)),
            None => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(context))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}
