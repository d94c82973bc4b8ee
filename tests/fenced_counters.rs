//! Counters of fenced locks on real masters that come back with older ones than they had,
//! or that somebody else has written (S16).
#![cfg(feature = "testing")]

mod support;

use std::collections::BTreeMap;
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

/// Takes the lock until the counters of all masters agree, and has them write these to
/// their snapshots.
async fn take_and_save(redlock: &Redlock, fleet: &Fleet) -> Vec<u64> {
    let mut saved = Vec::new();
    while saved.len() < fleet.len() || saved.iter().any(|count| *count != saved[0]) {
        take(redlock).await;
        redlock.settled().await;
        saved = fleet.counts("a").await;
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
    let back = inspect::count(&fleet[0].url(), "{a}:fence").await;
    assert_eq!(back, Some(saved[0]));
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
        assert_eq!(fleet.counts("a").await, saved, "that of the snapshot");
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
        inspect::count(&replica.url(), "{a}:fence").await == Some(copied)
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

/// The fields of a counter.
type Fields = BTreeMap<String, String>;

/// Fields as `generation=count,generation=count`.
fn fields(text: &str) -> Fields {
    let fields = text.split(',').map(|field| {
        let (generation, count) = field.split_once('=').unwrap();
        (generation.to_owned(), count.to_owned())
    });
    fields.collect()
}

async fn set_counter(server: &Server, resource: &str, fields: &Fields) {
    let counter = helper_key(resource.as_bytes(), "fence");
    let () = inspect::ask(&server.url(), redis::cmd("DEL").arg(&counter)).await;
    let mut set = redis::cmd("HSET");
    let () = inspect::ask(&server.url(), set.arg(&counter).arg(fields)).await;
    let mut expire = redis::cmd("PEXPIRE");
    let () = inspect::ask(&server.url(), expire.arg(&counter).arg(90_000)).await;
}

async fn counter(server: &Server) -> Fields {
    inspect::ask(&server.url(), redis::cmd("HGETALL").arg("{a}:fence")).await
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
    let too_high = fields("you=9007199254740992");
    set_counter(&server, "a", &too_high).await;
    let other = redlock.lock("b").fenced().await.unwrap();
    for _ in 0..3 {
        let refused = redlock.lock("a").fenced().try_once().await.unwrap_err();
        let fault = counter_fault(&refused);
        assert!(matches!(fault, Fault::Counter { .. }), "{fault}");
        assert!(fault.to_string().contains("not below 2^53"), "{fault}");
    }
    assert_eq!(server.get("a").await, None);
    let left = counter(&server).await;
    assert_eq!(left["you"], "9007199254740992");
    let left: u64 = inspect::ask(&server.url(), redis::cmd("PTTL").arg("{a}:fence")).await;
    assert!(left <= 90_000, "it has a new life");
    other.extend(SECOND).await.unwrap();
    other.release().await.unwrap();
    let states = redlock.masters().await;
    assert_eq!(states.masters()[0].last_error, None, "the connection broke");
}

/// Asked for with the counter that the command makes, what the fault of the lock says.
async fn fault_of(server: &Server, redlock: &Redlock, make: &mut redis::Cmd) -> String {
    server.wipe().await;
    let _: redis::Value = inspect::ask(&server.url(), make).await;
    let refused = redlock.lock("a").fenced().try_once().await.unwrap_err();
    let fault = counter_fault(&refused);
    assert!(matches!(fault, Fault::Counter { .. }), "{fault}");
    assert_eq!(server.get("a").await, None);
    fault.to_string()
}

#[tokio::test]
async fn a_counter_that_is_none_is_told_as_such_and_breaks_no_connection() {
    let server = Server::start().await;
    let redlock = support::builder().masters([server.url()]).build().unwrap();
    let own = inspect::info(&server.url(), "replication", "master_replid").await;
    let own = own.unwrap();
    let other = redlock.lock("b").try_once().await.unwrap();
    for (words, cause) in [
        (["SET", "5:", "PX", "90000"], "WRONGTYPE"),
        (["RPUSH", "1", "2", "3"], "WRONGTYPE"),
        (["HSET", &own, "none", ""], "not an integer"),
        (["HSET", &own, "9223372036854775807", ""], "overflow"),
        (["HSET", "you", "none", ""], "another generation"),
    ] {
        let mut make = redis::cmd(words[0]);
        make.arg("{a}:fence");
        make.arg(
            words[1..]
                .iter()
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>(),
        );
        let told = fault_of(&server, &redlock, &mut make).await;
        assert!(told.contains(cause), "{words:?}: {told}");
    }
    drop(other);
    let states = redlock.masters().await;
    assert_eq!(states.masters()[0].last_error, None, "the connection broke");
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
    for (before, expected) in [
        (
            "ME=1000000000000005",
            Counted::Exactly(1_000_000_000_000_006),
        ),
        (
            "ME=999999999999999",
            Counted::Exactly(1_000_000_000_000_000),
        ),
        ("ME=999999999999998", Counted::ByTheClock),
        ("ME=1", Counted::ByTheClock),
        ("ME=-5", Counted::ByTheClock),
        ("you=5", Counted::ByTheClock),
        ("you=-5", Counted::ByTheClock),
        ("you=005", Counted::ByTheClock),
        ("you=5,ME=1", Counted::ByTheClock),
        (
            "you=9007199254740000",
            Counted::Exactly(9_007_199_254_740_001),
        ),
        (
            "you=9007199254740000,ME=1,they=7",
            Counted::Exactly(9_007_199_254_740_001),
        ),
        (
            "ME=9007199254740990",
            Counted::Exactly(9_007_199_254_740_991),
        ),
        ("ME=9007199254740991", Counted::NotAtAll),
        ("ME=9223372036854775807", Counted::NotAtAll),
        ("ME=99999999999999999999999", Counted::NotAtAll),
        ("ME=none", Counted::NotAtAll),
        ("ME=005", Counted::NotAtAll),
        ("ME=+5", Counted::NotAtAll),
        ("ME=", Counted::NotAtAll),
        ("you=9007199254740991", Counted::NotAtAll),
        ("you=99999999999999999999999", Counted::NotAtAll),
        ("you=none", Counted::NotAtAll),
        ("you=", Counted::NotAtAll),
        ("you=-", Counted::NotAtAll),
        ("you=+5", Counted::NotAtAll),
        ("you=1.5", Counted::NotAtAll),
    ] {
        let memory = MemoryMaster::new("memory");
        let in_process = builder().memory_masters([&memory]).build().unwrap();
        let from = micros();
        let key = helper_key(b"a", "fence");
        set_counter(&server, "a", &fields(&before.replace("ME", &own))).await;
        memory.set_hash(&key, fields(&before.replace("ME", "0")), None);
        assert_eq!(counted(&real, from).await, expected, "{before}");
        let as_well = counted(&in_process, from).await;
        assert_eq!(as_well, expected, "{before} in memory");
        let left = counter(&server).await;
        let mut left_in_memory = memory.get_hash(&key).unwrap();
        if let Some(count) = left_in_memory.remove("0") {
            left_in_memory.insert(own.clone(), count);
        }
        match expected {
            Counted::ByTheClock => {
                let generations = (left.keys(), left_in_memory.keys());
                assert!(generations.0.eq(generations.1), "{before}: {left:?}");
                assert!(left.keys().eq([&own]), "{before}: {left:?}");
            }
            _ => assert_eq!(left, left_in_memory, "{before}"),
        }
        real.settled().await;
        in_process.settled().await;
    }
    let memory = MemoryMaster::new("memory");
    let in_process = builder().memory_masters([&memory]).build().unwrap();
    memory.set(helper_key(b"a", "fence"), "5", None);
    assert_eq!(counted(&in_process, micros()).await, Counted::NotAtAll);
}
