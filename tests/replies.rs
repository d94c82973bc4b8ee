//! The loss of one command's reply, at each position of acquire, extend and
//! release: no wrong verdict, and no key left (S5).

mod support;

use std::time::Duration;

use redquorum::{ExtendError, LockError, Redlock, ReleaseError};
use support::fleet::Fleet;
use support::proxy::Proxy;
use support::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(600);

struct Masters {
    fleet: Fleet,
    proxies: Vec<Proxy>,
    redlock: Redlock,
}

/// Masters behind proxies, of which a quorum is all: each reply decides.
async fn masters(count: usize, quorum: usize) -> Masters {
    let fleet = Fleet::start(count).await;
    let proxies = fleet.proxies().await;
    let urls = proxies.iter().map(Proxy::url);
    let builder = support::builder().masters(urls).quorum(quorum);
    let masters = Masters {
        redlock: builder.build().unwrap(),
        fleet,
        proxies,
    };
    masters.all_take_part().await;
    masters
}

impl Masters {
    async fn all_take_part(&self) {
        eventually("all masters take part", 5 * SECOND, async || {
            match self.redlock.lock("warm-up").try_once().await {
                Ok(lock) => lock
                    .release()
                    .await
                    .is_ok_and(|released| released.removed == released.masters),
                Err(_) => false,
            }
        })
        .await;
    }
}

#[tokio::test]
async fn s05_a_lost_reply_to_an_acquisition() {
    let masters = masters(3, 3).await;
    for proxy in &masters.proxies {
        proxy.lose_reply_to("SET");
        let refused = masters
            .redlock
            .lock("a")
            .ttl(TTL)
            .try_once()
            .await
            .unwrap_err();
        assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
        masters.fleet.assert_no_keys(5 * SECOND).await;
        masters.all_take_part().await;
    }
}

#[tokio::test]
async fn s05_s10_a_lost_reply_to_an_extension() {
    let masters = masters(3, 3).await;
    for proxy in &masters.proxies {
        let lock = masters.redlock.lock("a").ttl(TTL / 10).await.unwrap();
        proxy.lose_reply_to("EVAL");
        let undecided = lock.extend(TTL).await.unwrap_err();
        assert!(
            matches!(undecided, ExtendError::Unknown { .. }),
            "{undecided}"
        );
        assert!(lock.remaining() <= TTL / 10, "the deadline stands");
        eventually("another attempt succeeds", 5 * SECOND, async || {
            lock.extend(TTL).await.is_ok()
        })
        .await;
        assert!(lock.remaining() > TTL / 2);
        assert_eq!(lock.release().await.unwrap().removed, 3);
        masters.fleet.assert_no_keys(SECOND).await;
    }
}

#[tokio::test]
async fn s05_a_lost_reply_to_a_release() {
    let masters = masters(3, 3).await;
    for proxy in &masters.proxies {
        let lock = masters.redlock.lock("a").ttl(TTL).await.unwrap();
        proxy.lose_reply_to("EVALSHA");
        let unconfirmed = lock.release().await.unwrap_err();
        let told = matches!(unconfirmed, ReleaseError::Unconfirmed { .. });
        assert!(told, "all must be free for the next owner: {unconfirmed}");
        masters.fleet.assert_no_keys(5 * SECOND).await;
        masters.all_take_part().await;
    }
}

#[tokio::test]
async fn s05_s06_lost_replies_of_a_majority_to_a_release() {
    let masters = masters(3, 2).await;
    let lock = masters.redlock.lock("a").ttl(TTL).await.unwrap();
    masters.proxies[0].lose_reply_to("EVALSHA");
    masters.proxies[1].lose_reply_to("EVALSHA");
    let unconfirmed = lock.release().await.unwrap_err();
    let told = matches!(unconfirmed, ReleaseError::Unconfirmed { .. });
    assert!(told, "{unconfirmed}");
    masters.fleet.assert_no_keys(5 * SECOND).await;
    masters.all_take_part().await;
}

#[tokio::test]
async fn s05_a_lost_reply_of_a_minority_changes_nothing() {
    let masters = masters(3, 2).await;
    for proxy in &masters.proxies {
        for command in ["SET", "EVAL", "EVALSHA"] {
            proxy.lose_reply_to(command);
            let lock = masters.redlock.lock("a").ttl(TTL).try_once().await.unwrap();
            lock.extend(TTL).await.unwrap();
            lock.release().await.unwrap();
            masters.fleet.assert_no_keys(5 * SECOND).await;
            masters.all_take_part().await;
        }
    }
}
