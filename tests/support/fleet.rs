//! Several real masters.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::inspect;
use super::proxy::Proxy;
use super::server::Server;
use super::wait;

/// Independent real masters, started together.
pub struct Fleet {
    servers: Vec<Server>,
}

impl Fleet {
    /// Starts `count` masters in parallel.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, &[]).await
    }

    /// Starts `count` masters in parallel with further arguments.
    pub async fn start_with(count: usize, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let start = |args: Vec<String>| async move {
            Server::start_with(&args.iter().map(String::as_str).collect::<Vec<_>>()).await
        };
        let starting: Vec<_> = (0..count)
            .map(|_| tokio::spawn(start(args.clone())))
            .collect();
        let mut servers = Vec::with_capacity(count);
        for server in starting {
            servers.push(server.await.expect("the server starts"));
        }
        Self { servers }
    }

    /// The URLs of the masters, in order.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    /// How many masters there are.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The masters, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Server> {
        self.servers.iter()
    }

    /// The masters, in order.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Server> {
        self.servers.iter_mut()
    }

    /// A proxy in front of each master, in order.
    pub async fn proxies(&self) -> Vec<Proxy> {
        let mut proxies = Vec::with_capacity(self.len());
        for server in &self.servers {
            proxies.push(Proxy::in_front_of(server.addr()).await);
        }
        proxies
    }

    /// What each master holds at `key`, in order.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Vec<Option<Vec<u8>>> {
        inspect::get_everywhere(&self.urls(), key).await
    }

    /// What the counters of a fenced lock say, on those masters that have one.
    pub async fn counts(&self, resource: &str) -> Vec<u64> {
        let counter = redquorum::core::helper_key(resource.as_bytes(), "fence");
        let mut counts = Vec::with_capacity(self.len());
        for server in &self.servers {
            counts.extend(inspect::count(&server.url(), &counter).await);
        }
        counts
    }

    /// All keys on all masters, by master.
    pub async fn keys_left(&self) -> Vec<Vec<Vec<u8>>> {
        let mut keys = Vec::with_capacity(self.len());
        for server in &self.servers {
            keys.push(server.keys().await);
        }
        keys
    }

    /// Waits until no master has any key; the error says which were left where.
    pub async fn wait_until_no_keys(&self, within: Duration) -> Result<(), String> {
        let none = wait::until(within, async || {
            self.keys_left().await.iter().all(Vec::is_empty)
        });
        if none.await {
            Ok(())
        } else {
            Err(self.describe_keys().await)
        }
    }

    /// Panics unless all keys are gone within `within`.
    pub async fn assert_no_keys(&self, within: Duration) {
        if let Err(left) = self.wait_until_no_keys(within).await {
            panic!("keys left after {within:?}: {left}");
        }
    }

    /// Panics unless `key` is gone from all masters within `within`, whatever else they hold.
    pub async fn assert_free(&self, key: impl AsRef<[u8]>, within: Duration) {
        inspect::assert_free(&self.urls(), key, within).await;
    }

    async fn describe_keys(&self) -> String {
        let mut text = Vec::new();
        for (server, keys) in self.servers.iter().zip(self.keys_left().await) {
            let keys: Vec<_> = keys
                .iter()
                .map(|key| String::from_utf8_lossy(key))
                .collect();
            if !keys.is_empty() {
                text.push(format!("{} has {}", server.addr(), keys.join(", ")));
            }
        }
        text.join("; ")
    }
}

impl Index<usize> for Fleet {
    type Output = Server;

    fn index(&self, master: usize) -> &Server {
        &self.servers[master]
    }
}

impl IndexMut<usize> for Fleet {
    fn index_mut(&mut self, master: usize) -> &mut Server {
        &mut self.servers[master]
    }
}
