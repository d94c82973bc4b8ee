//! Counters of fenced locks on real masters that come back with older ones than they had,
//! or that somebody else has written (S16).
#![cfg(feature = "testing")]

mod support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redquorum::core::helper_key;
use redquorum::{Fault, FencedGuard, LockError, MemoryMaster, Redlock, Wait};
use support::fleet::Fleet;
use support::inspect;
use support::server::Server;
use support::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);

/// The arguments of servers that write snapshots, as those do that nobody configured.
const SAVES: &[&str] = &["--save", "3600 1"];

/// With the quarantine, as a service has it.
fn redlock(urls: Vec<String>) -> Redlock {
    let builder = Redlock::builder().masters(urls).ttl(SECOND);
    builder.wait(Wait::Forever).build().unwrap()
}

async fn take(redlock: &Redlock) -> u64 {
    let lock: FencedGuard = redlock.lock("a").fenced().await.unwrap();
    let token = lock.fencing_token();
    lock.release().await.unwrap();
    token
}

async fn take_many(redlock: &Redlock) -> u64 {
    for _ in 0..20 {
        take(redlock).await;
    }
    take(redlock).await
}

fn count(counter: &[u8]) -> u64 {
    let text = std::str::from_utf8(counter).unwrap();
    text.split(':').next().unwrap().parse().unwrap()
}

async fn counts(fleet: &Fleet) -> Vec<u64> {
    let counters = fleet.get(helper_key(b"a", "fence")).await;
    counters.into_iter().flatten().map(|c| count(&c)).collect()
}

/// Takes the lock, and has all masters write what they have counted to their snapshots.
async fn take_and_save(redlock: &Redlock, fleet: &Fleet) -> Vec<u64> {
    let mut saved = Vec::new();
    while saved.len() < fleet.len() {
        take(redlock).await;
        redlock.settled().await;
        saved = counts(fleet).await;
    }
    for url in fleet.urls() {
        let () = inspect::ask(&url, &redis::cmd("SAVE")).await;
    }
    saved
}

async fn kill_and_restart(server: &mut Server) {
    server.kill();
    server.restart().await;
}

/// One of three forgets what it has counted since its snapshot, and the next quorum has
/// it and one that was stopped meanwhile.
#[tokio::test]
async fn s16_the_token_after_one_master_came_back_with_an_older_counter_is_larger() {
    let mut fleet = Fleet::start_with(3, SAVES).await;
    let redlock = redlock(fleet.urls());
    let saved = take_and_save(&redlock, &fleet).await;
    fleet[2].stop();
    let before = take_many(&redlock).await;
    kill_and_restart(&mut fleet[0]).await;
    fleet[1].stop();
    fleet[2].cont();
    assert_eq!(count(&fleet[0].get("{a}:fence").await.unwrap()), saved[0]);
    let next = take(&redlock).await;
    assert!(next > before, "{next} after {before}");
}

#[tokio::test]
async fn s16_the_token_after_all_masters_came_back_with_older_counters_is_larger() {
    let mut fleet = Fleet::start_with(3, SAVES).await;
    let redlock = redlock(fleet.urls());
    let mut saved = take_and_save(&redlock, &fleet).await;
    let mut before = take_many(&redlock).await;
    for _ in 0..2 {
        for master in fleet.iter_mut() {
            kill_and_restart(master).await;
        }
        assert_eq!(counts(&fleet).await, saved, "that of the snapshot");
        let next = take(&redlock).await;
        assert!(next > before, "{next} after {before}");
        saved = take_and_save(&redlock, &fleet).await;
        before = take_many(&redlock).await;
    }
}

/// A replica that lags behind its master is promoted, and is the master from then on.
#[tokio::test]
async fn s16_the_token_of_a_replica_that_was_promoted_is_larger() {
    let (mut master, replica) = (Server::start().await, Server::start().await);
    let client = redlock(vec![master.url()]);
    let copied = take(&client).await;
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(master.addr().port());
    let () = inspect::ask(&replica.url(), &follow).await;
    eventually("it has a copy", 10 * SECOND, async || {
        let counter = replica.get("{a}:fence").await;
        counter.is_some_and(|counter| count(&counter) == copied)
    })
    .await;
    let mut lead = redis::cmd("REPLICAOF");
    let () = inspect::ask(&replica.url(), lead.arg("NO").arg("ONE")).await;
    let before = take_many(&client).await;
    master.kill();
    let next = take(&redlock(vec![replica.url()])).await;
    assert!(next > before, "{next} after {before}");
}

fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_micros() as u64
}

async fn set_counter(server: &Server, resource: &str, counter: &str) {
    let mut set = redis::cmd("SET");
    set.arg(helper_key(resource.as_bytes(), "fence"))
        .arg(counter);
    let () = inspect::ask(&server.url(), set.arg("PX").arg(90_000)).await;
}

fn counter_fault(refused: &LockError) -> &Fault {
    let LockError::NoQuorum { report, .. } = refused else {
        panic!("not taken, but {refused}");
    };
    report.first_fault().unwrap()
}

#[tokio::test]
async fn a_counter_that_is_too_high_hurts_nothing_but_its_lock() {
    let server = Server::start().await;
    let redlock = support::builder().masters([server.url()]).build().unwrap();
    set_counter(&server, "a", "9007199254740992").await;
    let other = redlock.lock("b").fenced().await.unwrap();
    for _ in 0..3 {
        let refused = redlock.lock("a").fenced().try_once().await.unwrap_err();
        let fault = counter_fault(&refused);
        assert!(matches!(fault, Fault::Counter { .. }), "{fault}");
        assert!(fault.to_string().contains("not below 2^53"), "{fault}");
    }
    assert_eq!(server.get("a").await, None);
    let counter = server.get("{a}:fence").await.unwrap();
    assert_eq!(counter, b"9007199254740992");
    let left: u64 = inspect::ask(&server.url(), redis::cmd("PTTL").arg("{a}:fence")).await;
    assert!(left <= 90_000, "it has a new life");
    other.extend(SECOND).await.unwrap();
    other.release().await.unwrap();
    let states = redlock.masters().await;
    assert_eq!(states.masters()[0].last_error, None, "the connection broke");
}

#[tokio::test]
async fn a_counter_of_another_type_is_not_told_as_a_lock_that_is_taken() {
    let server = Server::start().await;
    let redlock = support::builder().masters([server.url()]).build().unwrap();
    let mut push = redis::cmd("RPUSH");
    let _: i64 = inspect::ask(&server.url(), push.arg("{a}:fence").arg("1")).await;
    let refused = redlock.lock("a").fenced().try_once().await.unwrap_err();
    let fault = counter_fault(&refused);
    assert!(matches!(fault, Fault::Counter { .. }), "{fault}");
    assert!(fault.to_string().contains("WRONGTYPE"), "{fault}");
    assert_eq!(server.get("a").await, None);
}

/// What comes of a counter, whatever the clock and the names of generations are.
#[derive(Debug, PartialEq)]
enum Counted {
    Exactly(u64),
    ByTheClock,
    NotAtAll,
}

async fn counted(redlock: &Redlock, from: u64) -> Counted {
    match redlock.lock("a").fenced().try_once().await {
        Ok(lock) => match lock.fencing_token() {
            token if (from..from + 60_000_000).contains(&token) => Counted::ByTheClock,
            token => Counted::Exactly(token),
        },
        Err(refused) => {
            let fault = counter_fault(&refused);
            assert!(matches!(fault, Fault::Counter { .. }), "{fault}");
            Counted::NotAtAll
        }
    }
}

#[tokio::test]
async fn in_process_masters_count_as_real_ones_do() {
    let server = Server::start().await;
    let builder = support::builder;
    let real = builder().masters([server.url()]).build().unwrap();
    let own = inspect::info(&server.url(), "replication", "master_replid").await;
    let own = own.unwrap();
    for (counter, expected) in [
        ("5:ME", Counted::Exactly(6)),
        ("5:you", Counted::ByTheClock),
        ("5:", Counted::ByTheClock),
        ("5", Counted::ByTheClock),
        ("5:ME:ME", Counted::ByTheClock),
        ("none", Counted::ByTheClock),
        (":ME", Counted::ByTheClock),
        ("", Counted::ByTheClock),
        (
            "9007199254740000:you",
            Counted::Exactly(9_007_199_254_740_001),
        ),
        ("9007199254740000", Counted::Exactly(9_007_199_254_740_001)),
        (
            "9007199254740990:ME",
            Counted::Exactly(9_007_199_254_740_991),
        ),
        ("9007199254740991:ME", Counted::NotAtAll),
        ("9007199254740991:you", Counted::NotAtAll),
        ("99999999999999999999999", Counted::NotAtAll),
    ] {
        let memory = MemoryMaster::new("memory");
        let in_process = builder().memory_masters([&memory]).build().unwrap();
        let from = micros();
        let key = helper_key(b"a", "fence");
        let (on_real, in_memory) = (counter.replace("ME", &own), counter.replace("ME", "0"));
        set_counter(&server, "a", &on_real).await;
        memory.set(&key, in_memory.clone(), None);
        assert_eq!(counted(&real, from).await, expected, "{counter}");
        let as_well = counted(&in_process, from).await;
        assert_eq!(as_well, expected, "{counter} in memory");
        let left = server.get("{a}:fence").await.unwrap();
        let left = String::from_utf8(left).unwrap();
        let left_in_memory = memory.get(&key).unwrap();
        if expected == Counted::NotAtAll {
            assert_eq!((left, left_in_memory), (on_real, in_memory));
        } else {
            assert!(left.ends_with(&format!(":{own}")), "{counter}: {left}");
            assert!(
                left_in_memory.ends_with(":0"),
                "{counter}: {left_in_memory}"
            );
        }
        real.settled().await;
        in_process.settled().await;
    }
}
