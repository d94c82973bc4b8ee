//! The order of commands on one master (S7): a release is never overtaken by
//! the command that it takes back, on a new connection neither.

mod support;

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use redquorum::{LockError, Redlock};
use support::proxy::Proxy;
use support::server::Server;
use support::wait::{eventually, until};
use tokio::task::unconstrained;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(600);

/// One master behind a proxy, so that everything depends on it.
async fn one_behind_a_proxy(server: &Server) -> (Proxy, Redlock) {
    let proxy = Proxy::in_front_of(server.addr()).await;
    let redlock = behind(&proxy);
    redlock
        .lock("warm-up")
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    (proxy, redlock)
}

fn behind(proxy: &Proxy) -> Redlock {
    support::builder().masters([proxy.url()]).build().unwrap()
}

/// Whether the lock can be had again, and nothing of former attempts is left.
async fn comes_back(redlock: &Redlock, server: &Server) {
    eventually(
        "the lock can be had again",
        5 * SECOND,
        async || match redlock.lock("a").ttl(TTL).try_once().await {
            Ok(lock) => lock.release().await.is_ok(),
            Err(_) => false,
        },
    )
    .await;
    let free = until(SECOND, async || server.keys().await.is_empty());
    assert!(free.await, "left: {:?}", server.keys().await);
}

#[tokio::test]
async fn s07_a_delayed_set_of_a_broken_connection_is_killed_before_the_release() {
    let server = Server::start().await;
    let (proxy, redlock) = one_behind_a_proxy(&server).await;
    let kills = server.commandstats("client|kill").await;

    // The SET is under way when the client gives the connection up, and it is
    // still under way when the release has been executed on the next one.
    proxy.hold_requests_with("SET");
    let refused = redlock.lock("a").ttl(TTL).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    let kill = async || server.commandstats("client|kill").await > kills;
    eventually("the old connection is killed", 5 * SECOND, kill).await;
    eventually("all that is owed is repeated", SECOND, async || {
        server.commandstats("evalsha").await >= 2
    })
    .await;

    proxy.release_held();
    comes_back(&redlock, &server).await;
}

#[tokio::test]
async fn s07_where_it_may_not_be_killed_the_release_is_repeated_until_the_ttl_has_passed() {
    let server = Server::start().await;
    let admin = &server.url();
    let _: () = support::inspect::ask(
        admin,
        redis::cmd("ACL").arg(&[
            "SETUSER",
            "locks",
            "on",
            ">pw",
            "~*",
            "+@all",
            "-client|kill",
        ]),
    )
    .await;
    let proxy = Proxy::in_front_of(server.addr()).await;
    let url = proxy.url().replace("redis://", "redis://locks:pw@");
    let redlock = support::builder().masters([url]).build().unwrap();
    redlock
        .lock("warm-up")
        .await
        .unwrap()
        .release()
        .await
        .unwrap();

    proxy.hold_requests_with("SET");
    let refused = redlock.lock("a").ttl(TTL).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    eventually("there is a new connection", 5 * SECOND, async || {
        proxy.connections() >= 2
    })
    .await;
    eventually(
        "the owed release is executed on it",
        5 * SECOND,
        async || server.commandstats("evalsha").await >= 2,
    )
    .await;

    // Only now the SET of the old connection comes: after its release.
    proxy.release_held();
    let repeated = until(8 * SECOND, async || {
        server.commandstats("set").await >= 2 && server.keys().await.is_empty()
    });
    assert!(repeated.await, "left: {:?}", server.keys().await);
}

#[tokio::test]
async fn s07_no_connection_of_another_is_killed_when_the_numbers_begin_anew() {
    let mut server = Server::start().await;
    let (_proxy, redlock) = one_behind_a_proxy(&server).await;
    server.kill();
    server.restart().await;
    // Others take the numbers that our connections had.
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(server.connection().await);
    }
    comes_back(&redlock, &server).await;
    assert_eq!(server.commandstats("client|kill").await, 0);
    for other in &mut others {
        let _: () = redis::cmd("PING").query_async(other).await.unwrap();
    }
}

#[tokio::test]
async fn s07_a_reset_in_the_middle_of_a_lock_leaves_nothing() {
    let server = Server::start().await;
    let (proxy, redlock) = one_behind_a_proxy(&server).await;
    for word in ["SET", "EVALSHA"] {
        for _ in 0..5 {
            proxy.reset_at_reply_to(word);
            if let Ok(lock) = redlock.lock("a").ttl(TTL).try_once().await {
                let _ = lock.release().await;
            }
            comes_back(&redlock, &server).await;
        }
    }
    assert_eq!(proxy.replies_lost(), 10);
}

#[tokio::test]
async fn s07_garbage_is_a_broken_connection_and_no_vote() {
    let server = Server::start().await;
    let (proxy, redlock) = one_behind_a_proxy(&server).await;
    let garbage: [&[u8]; 6] = [
        b"?what\r\n",
        b"+OK",
        b"$5\r\nab\r\n",
        b":1\r\n:1\r\n",
        b"+MAYBE\r\n",
        b"*1\r\n+OK\r\n",
    ];
    for garbage in garbage {
        proxy.replace_reply_to("SET", garbage);
        let refused = redlock.lock("a").ttl(TTL).try_once().await.unwrap_err();
        assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
        comes_back(&redlock, &server).await;
    }
}

/// Uses up the task's budget of polls, so that tokio makes what it can wait.
fn use_up_the_budget(context: &mut Context<'_>) {
    while pin!(tokio::task::consume_budget()).poll(context).is_ready() {}
}

#[tokio::test]
async fn s06_s07_a_release_is_sent_before_the_next_set_by_a_task_without_budget_too() {
    let server = Server::start().await;
    let (_proxy, redlock) = one_behind_a_proxy(&server).await;
    for _ in 0..20 {
        let mut guard = Some(redlock.lock("a").ttl(TTL).try_once().await.unwrap());
        poll_fn(|context| {
            use_up_the_budget(context);
            guard.take();
            Poll::Ready(())
        })
        .await;
        // The task that hears the release out has not been polled yet.
        let next = unconstrained(redlock.lock("a").ttl(TTL).try_once()).await;
        next.unwrap().release().await.unwrap();
    }
}
