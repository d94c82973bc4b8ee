use std::sync::Arc;

use ::redis::{Client, IntoConnectionInfo};

use thiserror::Error;

use super::connection::Route;
use super::{RedisMaster, Timeouts};
use crate::master::{Admissions, Master, Notices};
#[cfg(feature = "testing")]
use crate::simulation::Connector;

/// A master that is yet to be built.
#[derive(Clone)]
pub(crate) struct RedisSource {
    route: Route,
}

impl RedisSource {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            route: Route::new(client),
        }
    }
}

impl RedisSource {
    /// The same over streams of the connector.
    #[cfg(feature = "testing")]
    pub(crate) fn over(self, connector: Arc<dyn Connector>) -> Self {
        Self {
            route: self.route.over(connector),
        }
    }

    /// Whether time is tokio's there.
    #[cfg(feature = "testing")]
    pub(crate) fn is_simulated(&self) -> bool {
        self.route.is_simulated()
    }

    pub(crate) fn parse(url: &str) -> Result<Self, InvalidUrl> {
        let invalid = |reason: String| InvalidUrl {
            url: without_secrets(url),
            reason,
        };
        let expected = "expected redis://[user][:password@]host[:port][/db]";
        let info = url
            .into_connection_info()
            .map_err(|error| invalid(format!("{error}; {expected}")))?;
        if !info.addr().is_supported() {
            return Err(invalid(
                "this kind of address needs a feature of the crate that is off; rediss:// needs \
                 tls-rustls or tls-native-tls"
                    .into(),
            ));
        }
        let client = Client::open(info).map_err(|error| invalid(error.to_string()))?;
        Ok(Self::new(client))
    }

    pub(crate) fn address(&self) -> Arc<str> {
        self.route.address().to_ascii_lowercase().into()
    }

    pub(crate) fn open(
        self,
        timeouts: Timeouts,
        admissions: Admissions,
        notices: Notices,
    ) -> Arc<dyn Master> {
        let address = self.address();
        Arc::new(RedisMaster::new(
            self.route, address, timeouts, admissions, notices,
        ))
    }
}

/// A master's URL can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the master {url:?} can't be used: {reason}")]
#[non_exhaustive]
pub struct InvalidUrl {
    /// The URL, without what may be a password.
    pub url: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The URL without what may be a password, however broken it is: everything
/// between the scheme and the last `@`, the query, and, where there is no `@`,
/// everything after a second colon.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = match rest.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => match rest.split_once(':') {
            Some((host, port)) if !host.is_empty() && is_port(port) => format!("{host}:{port}"),
            Some((host, _)) => format!("{host}:***"),
            None => rest.to_owned(),
        },
    };
    match scheme {
        "" => host,
        scheme => format!("{scheme}://{host}"),
    }
}

fn is_port(text: &str) -> bool {
    let port = text.split('/').next().unwrap_or_default();
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_urls_are_shown_without_passwords() {
        for url in [
            "redis://user:hunter2@host:port",
            "redis://:hunter2@@host",
            "redis://:hunter2",
            "redis://host:hunter2",
            "redis://user:hun:ter2@host:70000",
            "user:hunter2@host",
            "hunter2@host",
            "redis+unix:///sock?user=u&pass=hunter2",
            "redis://a@b:hunter2@host",
            "redis://host:hunter2/0",
        ] {
            let shown = without_secrets(url);
            assert!(!shown.contains("hun"), "{url} is shown as {shown}");
        }
    }

    #[test]
    fn broken_urls_can_be_recognised() {
        assert_eq!(
            without_secrets("redis://u:p@host:99999"),
            "redis://***@host:99999"
        );
        assert_eq!(without_secrets("http://host:1/x"), "http://host:1/x");
        assert_eq!(without_secrets("host"), "host");
    }
}
