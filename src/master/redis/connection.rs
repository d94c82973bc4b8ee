//! The way to a master, and a connection over it.

#[cfg(feature = "testing")]
use std::sync::Arc;

use std::ops::{Deref, DerefMut};

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, RedisResult};

#[cfg(feature = "testing")]
use crate::simulation::Connector;

/// How a master is reached.
#[derive(Clone)]
pub(crate) struct Route {
    client: Box<Client>,
    /// Makes the stream, instead of TCP.
    #[cfg(feature = "testing")]
    connector: Option<Arc<dyn Connector>>,
}

/// A connection. Clones share it; it is closed when the last is dropped.
#[derive(Clone)]
pub(super) struct Connection {
    inner: MultiplexedConnection,
    /// Over TCP, the crate itself looks after the task that drives it.
    #[cfg(feature = "testing")]
    _driver: Option<Arc<Driver>>,
}

impl Route {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client: Box::new(client),
            #[cfg(feature = "testing")]
            connector: None,
        }
    }

    /// The same over the connector's streams.
    #[cfg(feature = "testing")]
    pub(crate) fn over(self, connector: Arc<dyn Connector>) -> Self {
        Self {
            connector: Some(connector),
            ..self
        }
    }

    /// Whether time is tokio's, as it is where streams are simulated.
    #[cfg(feature = "testing")]
    pub(crate) fn is_simulated(&self) -> bool {
        self.connector.is_some()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Connects by this client, which has the way's address.
    pub(super) async fn connect(
        &self,
        client: &Client,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Connection> {
        #[cfg(feature = "testing")]
        if let Some(connector) = &self.connector {
            return simulate(&**connector, client, config, &self.address()).await;
        }
        let inner = client.get_multiplexed_async_connection_with_config(config);
        Ok(Connection {
            inner: inner.await?,
            #[cfg(feature = "testing")]
            _driver: None,
        })
    }
}

#[cfg(feature = "testing")]
async fn simulate(
    connector: &dyn Connector,
    client: &Client,
    config: &AsyncConnectionConfig,
    address: &str,
) -> RedisResult<Connection> {
    let stream = connector.connect(address).await?;
    let settings = client.get_connection_info().redis_settings();
    let connecting = MultiplexedConnection::new_with_config(settings, stream, config.clone());
    let (inner, driver) = connecting.await?;
    let driver = Driver(tokio::spawn(driver).abort_handle());
    Ok(Connection {
        inner,
        _driver: Some(Arc::new(driver)),
    })
}

/// The task that drives a connection, until this is dropped.
#[cfg(feature = "testing")]
struct Driver(tokio::task::AbortHandle);

#[cfg(feature = "testing")]
impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Deref for Connection {
    type Target = MultiplexedConnection;

    fn deref(&self) -> &MultiplexedConnection {
        &self.inner
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut MultiplexedConnection {
        &mut self.inner
    }
}
