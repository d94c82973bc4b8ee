//! Releases that a master has not confirmed: they are repeated until it has,
//! without a lock being asked for, and without a storm.

mod support;

use std::time::Duration;

use redquorum::Redlock;
use support::inspect;
use support::proxy::{Flow, Proxy};
use support::server::Server;
use support::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(600);

async fn set_user(server: &Server, rules: &[&str]) {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER").arg("locks").arg(rules);
    let _: () = inspect::ask(&server.url(), &acl).await;
}

fn redlock(server: &Server) -> Redlock {
    support::builder()
        .masters([format!("redis://locks:password@{}", server.addr())])
        .build()
        .unwrap()
}

async fn with_user(args: &[&str]) -> Server {
    let server = Server::start_with(args).await;
    set_user(&server, &["on", ">password", "~*", "+@all"]).await;
    server
}

async fn assert_no_keys(server: &Server) {
    eventually("no key is left", 8 * SECOND, async || {
        server.keys().await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn s05_a_rejected_release_is_repeated_on_the_connection_that_stands() {
    let server = with_user(&[]).await;
    for turn in 0..12 {
        let redlock = redlock(&server);
        let lock = redlock.lock(format!("a:{turn}")).ttl(TTL).await.unwrap();
        set_user(&server, &["-evalsha", "-eval"]).await;
        let _ = lock.release().await.unwrap_err();
        set_user(&server, &["+evalsha", "+eval"]).await;
        assert_no_keys(&server).await;
    }
}

#[tokio::test]
async fn s07_a_repetition_that_finds_the_connection_broken_has_it_replaced_without_resp3_too() {
    let server = with_user(&["--rename-command", "HELLO", ""]).await;
    let redlock = redlock(&server);
    let lock = redlock.lock("a").ttl(TTL).await.unwrap();
    set_user(&server, &["-evalsha", "-eval"]).await;
    let _ = lock.release().await.unwrap_err();
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("USER").arg("locks");
    let _: () = inspect::ask(&server.url(), &kill).await;
    set_user(&server, &["+evalsha", "+eval"]).await;
    assert_no_keys(&server).await;
}

#[tokio::test]
async fn releases_that_are_rejected_are_not_repeated_all_of_them_for_each_new_one() {
    const LOCKS: u64 = 100;
    let server = with_user(&[]).await;
    let redlock = redlock(&server);
    let _ = redlock.lock("warm-up").await.unwrap().release().await;
    set_user(&server, &["-evalsha", "-eval"]).await;
    let before = rejected(&server).await;
    for lock in 0..LOCKS {
        let lock = redlock.lock(format!("a:{lock}")).ttl(TTL).await.unwrap();
        let _ = lock.release().await.unwrap_err();
    }
    let sent = rejected(&server).await - before;
    assert!(sent < 10 * LOCKS, "{sent} for {LOCKS} locks");
    set_user(&server, &["+evalsha", "+eval"]).await;
    assert_no_keys(&server).await;
}

#[tokio::test]
async fn a_master_that_rejects_the_lock_is_owed_no_release_of_it() {
    let server = with_user(&[]).await;
    let redlock = redlock(&server);
    let _ = redlock.lock("warm-up").await.unwrap().release().await;
    set_user(&server, &["-set", "-evalsha"]).await;
    let before = rejected(&server).await;
    for _ in 0..20 {
        let _ = redlock.lock("a").try_once().await.unwrap_err();
    }
    tokio::time::sleep(SECOND).await;
    let sent = rejected(&server).await - before;
    assert_eq!(sent, 40, "a SET and a release each");
}

/// How many releases the server was sent.
async fn releases(server: &Server) -> u64 {
    server.commandstats("evalsha").await
}

#[tokio::test]
async fn what_is_owed_to_a_master_that_is_always_too_slow_is_settled() {
    const LOCKS: u64 = 30;
    let servers = [
        Server::start().await,
        Server::start().await,
        Server::start().await,
    ];
    let proxy = Proxy::in_front_of(servers[0].addr()).await;
    // A round trip of several time-outs.
    proxy.replies(Flow::Delay(SECOND / 4));
    let urls = [proxy.url(), servers[1].url(), servers[2].url()];
    let redlock = support::builder()
        .masters(urls)
        .connect_timeout(5 * SECOND)
        .build()
        .unwrap();
    eventually("it is connected", 8 * SECOND, async || {
        redlock.masters().await.masters()[0].connected
    })
    .await;
    for lock in 0..LOCKS {
        let lock = redlock.lock(format!("a:{lock}")).ttl(TTL).await.unwrap();
        let _ = lock.release().await;
        tokio::time::sleep(SECOND / 20).await;
    }
    // The longest pause before a repetition is five seconds.
    eventually("nothing is repeated any more", 30 * SECOND, async || {
        let before = releases(&servers[0]).await;
        tokio::time::sleep(6 * SECOND).await;
        releases(&servers[0]).await == before
    })
    .await;
    assert!(releases(&servers[0]).await > 0, "it was asked for some");
    assert_no_keys(&servers[0]).await;
}

/// How many commands of locks the server has rejected.
async fn rejected(server: &Server) -> u64 {
    let mut sum = 0;
    for command in ["set", "eval", "evalsha"] {
        let field = format!("cmdstat_{command}");
        let stats = inspect::info(&server.url(), "commandstats", &field).await;
        sum += stats.map_or(0, |stats| {
            let calls = stats.split("rejected_calls=").nth(1).unwrap();
            calls.split(',').next().unwrap().parse::<u64>().unwrap()
        });
    }
    sum
}
