//! The least that a user must be allowed on the masters: the very line that
//! docs/operations.md gives.

mod support;

use std::time::Duration;

use redquorum::{Fault, LockError, Redlock};
use support::inspect;
use support::proxy::Proxy;
use support::server::{DURABLE, Server};
use support::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);

/// The words of the documented line, from `SETUSER` on.
fn documented() -> Vec<&'static str> {
    let line = include_str!("../docs/operations.md")
        .lines()
        .find_map(|line| line.strip_prefix("ACL SETUSER "))
        .expect("docs/operations.md has the line");
    line.split(' ').collect()
}

async fn set_user(server: &Server, rules: &[&str]) {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg(rules);
    let _: () = inspect::ask(&server.url(), &acl).await;
}

fn redlock(address: impl std::fmt::Display) -> Redlock {
    support::builder()
        .masters([format!("redis://redquorum:password@{address}")])
        .key_prefix("lock:")
        .build()
        .unwrap()
}

/// How many commands the server has refused for want of permission.
async fn denied(server: &Server) -> usize {
    let entries: Vec<redis::Value> =
        inspect::ask(&server.url(), redis::cmd("ACL").arg("LOG")).await;
    entries.len()
}

#[tokio::test]
async fn the_documented_line_is_enough_for_everything() {
    let server = Server::start().await;
    set_user(&server, &documented()).await;
    let proxy = Proxy::in_front_of(server.addr()).await;
    let redlock = redlock(proxy.addr());
    for turn in 0..2 {
        let _: () = inspect::ask(&server.url(), redis::cmd("SCRIPT").arg("FLUSH")).await;
        let lock = redlock.lock("a").await.unwrap();
        lock.extend(SECOND).await.unwrap();
        lock.release().await.unwrap();
        // A silent connection is pinged, given up and killed.
        proxy.hold_requests();
        let _ = redlock.lock("b").try_once().await.unwrap_err();
        eventually("there is another connection", 5 * SECOND, async || {
            proxy.connections() > turn + 1
        })
        .await;
        proxy.release_held();
        eventually("the lock can be had again", 5 * SECOND, async || {
            redlock.lock("c").try_once().await.is_ok()
        })
        .await;
    }
    assert!(server.commandstats("client|kill").await >= 2);
    assert_eq!(denied(&server).await, 0);
}

#[tokio::test]
async fn each_permission_of_the_line_is_needed() {
    let server = Server::start().await;
    let line = documented();
    for without in line.iter().filter(|word| word.starts_with('+')) {
        let mut rules = vec!["redquorum", "reset"];
        rules.extend(line[1..].iter().filter(|word| word != &without));
        set_user(&server, &rules).await;
        let _: () = inspect::ask(&server.url(), redis::cmd("ACL").arg("LOG").arg("RESET")).await;
        let _: () = inspect::ask(&server.url(), redis::cmd("SCRIPT").arg("FLUSH")).await;

        let proxy = Proxy::in_front_of(server.addr()).await;
        let redlock = redlock(proxy.addr());
        if let Ok(lock) = redlock.lock("a").try_once().await {
            let _: () = inspect::ask(&server.url(), redis::cmd("SCRIPT").arg("FLUSH")).await;
            let _ = lock.extend(SECOND).await;
            let _ = lock.release().await;
        }
        match *without {
            "+ping" => {
                proxy.hold_requests();
                let _ = redlock.lock("b").try_once().await;
                proxy.release_held();
            }
            "+client|kill" => proxy.reset(),
            _ => {}
        }
        eventually(&format!("{without} is missed"), 5 * SECOND, async || {
            let _ = redlock.lock("c").try_once().await;
            denied(&server).await > 0
        })
        .await;
        server.wipe().await;
    }
}

#[tokio::test]
async fn what_is_not_allowed_is_said_in_the_servers_words() {
    let server = Server::start().await;
    set_user(
        &server,
        &["redquorum", "on", ">password", "~other:*", "+@all"],
    )
    .await;
    let refused = redlock(server.addr())
        .lock("a")
        .try_once()
        .await
        .unwrap_err();
    let LockError::NoQuorum { report, .. } = &refused else {
        panic!("{refused}");
    };
    let fault = report.first_fault().unwrap();
    assert!(matches!(fault, Fault::Rejected { .. }), "{fault}");
    assert!(fault.to_string().contains("NOPERM"), "{fault}");
}

/// The words of one of the other lines.
fn documented_beside(index: usize) -> Vec<&'static str> {
    let mut lines = include_str!("../docs/operations.md")
        .lines()
        .filter_map(|line| line.strip_prefix("ACL SETUSER "));
    lines
        .nth(index)
        .expect("there is a line")
        .split(' ')
        .collect()
}

#[tokio::test]
async fn each_word_of_the_third_line_is_needed_for_fenced_locks_and_they_are_enough() {
    let server = Server::start().await;
    let line = documented_beside(2);
    let words = &line[1..];
    for without in std::iter::once(None).chain((0..words.len()).map(Some)) {
        set_user(&server, &["redquorum", "reset"]).await;
        set_user(&server, &documented()).await;
        let given = words
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != without);
        let mut rules = vec!["redquorum"];
        rules.extend(given.map(|(_, word)| word));
        set_user(&server, &rules).await;
        let redlock = redlock(server.addr());
        let mut served = 0;
        for _ in 0..2 {
            if let Ok(lock) = redlock.lock("a").fenced().try_once().await {
                served += 1;
                lock.release().await.unwrap();
            }
        }
        let expected = if without.is_none() { 2 } else { 0 };
        assert_eq!(served, expected, "without {without:?} of {words:?}");
        server.wipe().await;
    }
}

#[tokio::test]
async fn s16_without_info_there_are_plain_locks_and_no_fenced_ones() {
    let server = Server::start().await;
    set_user(&server, &documented()).await;
    let allowed = &documented_beside(2)[1..];
    set_user(&server, &[&["redquorum", "-info"], allowed].concat()).await;
    let redlock = redlock(server.addr());
    let plain = redlock.lock("a").try_once().await.unwrap();
    plain.release().await.unwrap();
    let refused = redlock.lock("a").fenced().try_once().await.unwrap_err();
    let LockError::NoQuorum { report, .. } = &refused else {
        panic!("{refused}");
    };
    let fault = report.first_fault().unwrap();
    assert_eq!(fault, &Fault::NoGeneration);
    assert!(fault.to_string().contains("+info"), "{fault}");
    assert_eq!(server.keys().await, Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn s13_the_second_line_is_what_exempts_a_master_that_syncs_always() {
    let server = Server::start_with(DURABLE).await;
    set_user(&server, &documented()).await;
    for exempt in [false, true] {
        // It answers when its file is on the disk.
        let builder = Redlock::builder().master_timeout(5 * SECOND);
        let builder = builder.key_prefix("lock:").ttl(600 * SECOND);
        let url = format!("redis://redquorum:password@{}", server.addr());
        let redlock = builder.masters([url]).build().unwrap();
        let locked = redlock.lock("a").try_once().await;
        assert_eq!(locked.is_ok(), exempt, "{locked:?}");
        assert_eq!(denied(&server).await == 0, exempt);
        set_user(&server, &documented_beside(1)).await;
        let _: () = inspect::ask(&server.url(), redis::cmd("ACL").arg("LOG").arg("RESET")).await;
    }
}
