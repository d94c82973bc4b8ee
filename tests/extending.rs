//! Extensions of real locks, on masters that lose the script or answer late.

mod support;

use std::time::Duration;

use redquorum::Redlock;
use support::fleet::Fleet;
use support::inspect;
use support::proxy::{Flow, Proxy};
use support::server::Server;
use support::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);
const SHORT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(600);

/// Waits until each master has answered all that it was asked.
async fn all_have_answered(redlock: &Redlock) {
    for _ in 0..2 {
        eventually("all masters take part", 5 * SECOND, async || {
            let lock = redlock.lock("other").await.unwrap();
            lock.release()
                .await
                .is_ok_and(|released| released.removed == released.masters)
        })
        .await;
    }
}

async fn scripts_called(server: &Server) -> u64 {
    server.commandstats("evalsha").await + server.commandstats("eval").await
}

#[tokio::test]
async fn s09_an_extension_is_not_undone_by_the_one_before_on_a_master_that_lost_the_script() {
    let fleet = Fleet::start(3).await;
    let proxies = fleet.proxies().await;
    let redlock = support::builder()
        .masters(proxies.iter().map(Proxy::url))
        .master_timeout(SECOND)
        .build()
        .unwrap();
    all_have_answered(&redlock).await;
    let lock = redlock.lock("a").ttl(SHORT).await.unwrap();

    // The first extension finds no script on a master that answers late; by the
    // second, somebody has loaded it.
    let url = &fleet[0].url();
    let _: () = inspect::ask(url, redis::cmd("SCRIPT").arg("FLUSH")).await;
    proxies[0].replies(Flow::Delay(SECOND / 5));
    let called = scripts_called(&fleet[0]).await;
    lock.extend(SHORT).await.unwrap();
    eventually("the first extension was tried", SECOND, async || {
        scripts_called(&fleet[0]).await > called
    })
    .await;
    // As it is sent: without comments.
    let script = include_str!("../src/master/scripts/extend.lua").lines();
    let code = script.map(str::trim).filter(|line| !line.starts_with("--"));
    let script = code.collect::<Vec<_>>().join("\n");
    let _: () = inspect::ask(url, redis::cmd("SCRIPT").arg("LOAD").arg(script)).await;
    lock.extend(LONG).await.unwrap();
    proxies[0].replies(Flow::Pass);

    all_have_answered(&redlock).await;
    for (master, server) in fleet.iter().enumerate() {
        let left: u64 = inspect::ask(&server.url(), redis::cmd("PTTL").arg("a")).await;
        let left = Duration::from_millis(left);
        assert!(left > lock.remaining(), "{left:?} on master {master}");
    }
}
