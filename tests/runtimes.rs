//! One coordinator in several runtimes, one after the other: what the masters
//! are owed, and what is known of their connections, outlives a runtime.

mod support;

use std::time::Duration;

use redquorum::Redlock;
use support::proxy::Proxy;
use support::server::Server;
use support::wait::eventually;
use tokio::runtime::{Builder, Runtime};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(600);

/// A master behind a proxy, and a coordinator of its own; the runtime that the
/// proxy runs on outlives those of the coordinator.
struct Master {
    server: Server,
    proxy: Proxy,
    redlock: Redlock,
    lasting: Runtime,
}

impl Master {
    fn start() -> Self {
        let lasting = Runtime::new().unwrap();
        let (server, proxy) = lasting.block_on(async {
            let server = Server::start().await;
            let proxy = Proxy::in_front_of(server.addr()).await;
            (server, proxy)
        });
        let redlock = support::builder().masters([proxy.url()]).build().unwrap();
        Self {
            server,
            proxy,
            redlock,
            lasting,
        }
    }

    async fn assert_free(&self, key: &str) {
        eventually("the key is gone", 5 * SECOND, async || {
            self.server.get(key).await.is_none()
        })
        .await;
    }

    /// Waits until the lock can be had: so the connection stands.
    async fn comes_back(&self) {
        eventually("the lock can be had", 5 * SECOND, async || {
            match self.redlock.lock("other").try_once().await {
                Ok(lock) => lock.release().await.is_ok(),
                Err(_) => false,
            }
        })
        .await;
    }
}

fn short_runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn s17_a_release_that_is_being_repeated_when_its_runtime_ends_is_repeated_in_the_next() {
    let master = Master::start();
    let ending = short_runtime();
    ending.block_on(async {
        let lock = master.redlock.lock("a").ttl(TTL).await.unwrap();
        master.proxy.refuse().await;
        master.proxy.reset();
        eventually("the loss is known", 5 * SECOND, async || {
            master.redlock.lock("other").try_once().await.is_err()
        })
        .await;
        let _ = lock.release().await.unwrap_err();
        master.proxy.hold_requests_with("EVALSHA");
        master.proxy.accept().await;
        eventually("the release is repeated", 5 * SECOND, async || {
            master.proxy.requests_waiting() > 0
        })
        .await;
    });
    drop(ending);
    master.proxy.reset();
    master.lasting.block_on(async {
        eventually("what was held back is lost", 5 * SECOND, async || {
            master.proxy.open_connections() == 0
        })
        .await;
        master.proxy.release_held();
        assert!(master.server.get("a").await.is_some());
    });
    short_runtime().block_on(async {
        master.comes_back().await;
        master.assert_free("a").await;
    });
}

#[test]
fn s17_a_guard_that_outlives_its_runtime_is_released_in_the_next() {
    let master = Master::start();
    let ending = short_runtime();
    let lock = ending.block_on(master.redlock.lock("a").ttl(TTL).into_future());
    drop(ending);

    short_runtime().block_on(async {
        master.comes_back().await;
        drop(lock.unwrap());
        master.assert_free("a").await;
    });
}

#[test]
fn a_connection_of_the_next_runtime_is_not_taken_for_one_that_broke_in_the_last() {
    let master = Master::start();
    let ending = short_runtime();
    ending.block_on(async {
        for _ in 0..4 {
            master.comes_back().await;
            master.proxy.reset_at_reply_to("SET");
            let _ = master.redlock.lock("a").try_once().await.unwrap_err();
        }
        master.comes_back().await;
    });
    drop(ending);

    let before = master.proxy.connections();
    short_runtime().block_on(async {
        for _ in 0..20 {
            master.comes_back().await;
        }
    });
    assert_eq!(master.proxy.connections(), before + 1);
}

#[test]
fn s07_the_connection_of_a_runtime_that_ended_is_killed_in_the_next() {
    let master = Master::start();
    let ending = short_runtime();
    ending.block_on(async {
        master.comes_back().await;
        master.proxy.hold_requests_with("SET");
        let _ = master.redlock.lock("a").ttl(TTL).try_once().await;
    });
    drop(ending);

    short_runtime().block_on(async {
        let kills = master.server.commandstats("client|kill").await;
        master.proxy.hold_requests_with("a");
        let _ = master.redlock.lock("other").try_once().await;
        eventually("it is killed", 5 * SECOND, async || {
            master.server.commandstats("client|kill").await > kills
        })
        .await;
        master.proxy.release_held();
        master.comes_back().await;
        assert_eq!(master.server.get("a").await, None);
    });
}
