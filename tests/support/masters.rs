//! Masters that all tests of a file share, for tests that only need healthy ones.

use std::time::Duration;

use tokio::sync::OnceCell;

use super::fleet::Fleet;
use super::inspect;
use super::server::random;

/// Names the masters to use instead of own ones: URLs separated by commas.
const VARIABLE: &str = "REDQUORUM_TEST_MASTERS";

/// Healthy masters that other tests use at the same time: take [`unique`] resources, and leave the
/// masters as they are.
pub struct Masters {
    urls: Vec<String>,
    /// Kept alive. (As the masters are in a static, it is their watchers that end them.)
    _own: Option<Fleet>,
}

/// The masters that `REDQUORUM_TEST_MASTERS` names, else five of this test process's own.
pub async fn shared() -> &'static Masters {
    static SHARED: OnceCell<Masters> = OnceCell::const_new();
    SHARED.get_or_init(Masters::find).await
}

/// A name that no other test uses.
pub fn unique(name: &str) -> String {
    format!("{name}:{:016x}", random())
}

impl Masters {
    async fn find() -> Self {
        match std::env::var(VARIABLE) {
            Ok(urls) => Self {
                urls: urls.split(',').map(str::to_owned).collect(),
                _own: None,
            },
            Err(_) => {
                let fleet = Fleet::start(5).await;
                Self {
                    urls: fleet.urls(),
                    _own: Some(fleet),
                }
            }
        }
    }

    /// The URLs of the masters, in order.
    pub fn urls(&self) -> Vec<String> {
        self.urls.clone()
    }

    /// What each master holds at `key`, in order.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Vec<Option<Vec<u8>>> {
        inspect::get_everywhere(&self.urls, key).await
    }

    /// Panics unless `key` is gone from all masters within `within`.
    pub async fn assert_free(&self, key: impl AsRef<[u8]>, within: Duration) {
        inspect::assert_free(&self.urls, key, within).await;
    }
}
