//! Passwords stay out of errors, logs and debug output.

mod support;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redquorum::{LockError, Redlock};
use support::server::Server;
use support::wait::eventually;
use tracing::level_filters::LevelFilter;

const SECRET: &str = "correct-horse";

/// All that is logged in this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> Self {
        let log = Self::default();
        let lines = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_writer(move || lines.clone())
            .init();
        log
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_password_is_used_and_never_shown() {
    let log = Log::start();
    let server = Server::start_with(&["--requirepass", SECRET]).await;
    let with = |password: &str| {
        support::builder()
            .masters([format!("redis://:{password}@{}/0", server.addr())])
            .build()
            .unwrap()
    };
    let mut shown = Vec::new();

    let redlock = with(SECRET);
    let request = redlock.lock("a");
    shown.push(format!("{redlock:?} {request:?}"));
    let lock = request.await.unwrap();
    shown.push(format!("{lock:?}"));
    lock.release().await.unwrap();
    let states = redlock.masters().await;
    shown.push(format!("{states} {states:?}"));

    let wrong = with(&format!("{SECRET}-not"));
    eventually("the reason is known", Duration::from_secs(2), async || {
        let refused = wrong.lock("a").try_once().await.unwrap_err();
        let text = format!("{refused} {refused:?}");
        assert!(matches!(refused, LockError::NoQuorum { .. }), "{text}");
        shown.push(text);
        shown.last().is_some_and(|text| text.contains("WRONGPASS"))
    })
    .await;

    let states = wrong.masters().await;
    shown.push(format!("{states} {states:?}"));

    // A server that doesn't know a command repeats what it was sent.
    let renamed = Server::start_with(&[
        "--rename-command",
        "HELLO",
        "",
        "--rename-command",
        "AUTH",
        "",
    ])
    .await;
    let refused = Redlock::builder()
        .masters([format!("redis://:{SECRET}@{}", renamed.addr())])
        .build()
        .unwrap();
    eventually("the reason is known", Duration::from_secs(2), async || {
        let refused = refused.lock("a").try_once().await.unwrap_err();
        shown.push(format!("{refused} {refused:?}"));
        shown
            .last()
            .is_some_and(|text| text.contains("authentication failed"))
    })
    .await;

    let builder = Redlock::builder().masters([format!("redis://u:{SECRET}@host:99999")]);
    shown.push(format!("{builder:?}"));
    let refused = builder.build().unwrap_err();
    assert!(refused.to_string().contains("host:99999"), "{refused}");
    shown.push(format!("{refused} {refused:?}"));

    let logged = log.text();
    assert!(logged.contains("redquorum"), "something was logged");
    for text in shown.iter().chain([&logged]) {
        assert!(!text.contains(SECRET), "{text}");
    }
}
