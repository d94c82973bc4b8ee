//! What is said of a server once, however often it is connected to. One test,
//! since it hears all that is logged in its process.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::proxy::Proxy;
use support::server::Server;
use support::wait::eventually;

/// One of them may not be asked to tell of changes.
const WITHOUT_TRACKING: [&str; 8] = [
    "--user",
    "default",
    "on",
    "nopass",
    "~*",
    "&*",
    "+@all",
    "-client|tracking",
];

const SECOND: Duration = Duration::from_secs(1);

/// What is logged at the usual level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .init();
        log
    }

    fn lines_with(&self, words: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains(words));
        lines.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_server_that_may_evict_locks_or_does_not_tell_of_releases_is_told_of_once() {
    let log = Log::start();
    let mut proxies = Vec::new();
    let mut servers = Vec::new();
    for policy in ["noeviction", "allkeys-lru", "volatile-ttl"] {
        let mut options = vec!["--maxmemory-policy", policy];
        if policy == "volatile-ttl" {
            options.extend(WITHOUT_TRACKING);
        }
        let server = Server::start_with(&options).await;
        proxies.push(Proxy::in_front_of(server.addr()).await);
        servers.push(server);
    }
    let builder = support::builder().masters(proxies.iter().map(Proxy::url));
    let redlock = builder.quorum(3).build().unwrap();
    for turn in 1..=3 {
        eventually("all are connected anew", 5 * SECOND, async || {
            let lock = redlock.lock("a").try_once().await;
            let again = proxies.iter().all(|proxy| proxy.connections() >= turn);
            again && lock.is_ok()
        })
        .await;
        proxies.iter().for_each(Proxy::reset);
    }
    let warnings = log.lines_with("maxmemory-policy");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for (proxy, policy) in proxies[1..].iter().zip(["allkeys-lru", "volatile-ttl"]) {
        let of_it = |line: &&String| line.contains(&proxy.addr().to_string());
        let warning = warnings.iter().find(of_it).unwrap();
        assert!(warning.contains(policy), "{warning}");
    }
    let said = log.lines_with("by backoff alone");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains(&proxies[2].addr().to_string()), "{said:?}");
}
