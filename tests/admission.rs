//! A real master that came up lately, and may have forgotten its locks, has no
//! vote (S13). Exact timing: `quarantine.rs`.

mod admitted;
mod support;

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::time::Instant;

use admitted::*;
use redquorum::{Builder, ExtendError, Fault, Guard, LockError, Redlock, Vote};
use support::fleet::Fleet;
use support::inspect;
use support::proxy::Proxy;
use support::server::{DURABLE, Server};
use support::wait::{eventually, until_some};

/// How a master loses what it granted.
#[derive(Clone, Copy)]
enum Amnesia {
    /// It restarts without a key.
    Empty,
    /// It restarts with all but the last second of its append-only file.
    LostTail,
}

const EVERYSEC: &[&str] = &["--appendonly", "yes", "--appendfsync", "everysec"];

/// The append-only file that is written to.
fn newest_log(server: &Server) -> PathBuf {
    let files = fs::read_dir(server.dir().join("appendonlydir")).unwrap();
    let logs = files.map(|file| file.unwrap().path());
    let logs = logs.filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
    logs.max().expect("there is one")
}

/// Three masters. Two of them have granted the lock, and the second of these
/// forgets it; the third has not granted it, and doesn't hold it.
struct Forgotten {
    fleet: Fleet,
    holder: Guard,
    second: Redlock,
}

async fn forget(how: Amnesia, second: fn(Vec<String>) -> Builder) -> Forgotten {
    let args = match how {
        Amnesia::Empty => &[],
        Amnesia::LostTail => EVERYSEC,
    };
    let mut fleet = Fleet::start_with(3, args).await;
    grow_up(&fleet.urls()).await;
    let first = admitted(builder(fleet.urls())).await;
    let second = admitted(second(fleet.urls())).await;
    let set = |key: &str, millis: u64| {
        let mut set = redis::cmd("SET");
        set.arg(key).arg("other").arg("PX").arg(millis);
        set
    };
    let _: () = inspect::ask(&fleet[1].url(), &set("older", 60_000)).await;
    let kept = match how {
        Amnesia::Empty => 0,
        Amnesia::LostTail => fs::metadata(newest_log(&fleet[1])).unwrap().len(),
    };
    let _: () = inspect::ask(&fleet[2].url(), &set(RESOURCE, 60_000)).await;
    let holder = first.lock(RESOURCE).try_once().await.unwrap();
    let _: () = inspect::ask(&fleet[2].url(), redis::cmd("DEL").arg(RESOURCE)).await;

    fleet[1].kill();
    if let Amnesia::LostTail = how {
        let log = OpenOptions::new().write(true).open(newest_log(&fleet[1]));
        log.unwrap().set_len(kept).unwrap();
    }
    fleet[1].restart().await;
    assert_eq!(fleet[1].get(RESOURCE).await, None, "it has forgotten");
    let older = fleet[1].get("older").await.is_some();
    assert_eq!(older, matches!(how, Amnesia::LostTail));
    Forgotten {
        fleet,
        holder,
        second,
    }
}

impl Forgotten {
    /// Asks for the lock again and again, from now on; says whether the second got
    /// it while the first still had it.
    async fn are_there_two(&self) -> bool {
        let asking = until_some(10 * SECOND, async || {
            self.second.lock(RESOURCE).try_once().await.ok()
        });
        let lock = asking.await.expect("it gets the lock some time");
        self.holder.is_valid() && lock.is_valid()
    }
}

#[tokio::test]
async fn s13_a_master_that_restarts_empty_never_makes_two_holders() {
    let forgotten = forget(Amnesia::Empty, builder).await;
    assert!(!forgotten.are_there_two().await);
    drop(forgotten.fleet);
}

#[tokio::test]
async fn s13_without_the_quarantine_there_are_two_holders_at_once() {
    let forgotten = forget(Amnesia::Empty, without_quarantine).await;
    assert!(forgotten.are_there_two().await);
}

#[tokio::test]
async fn s13_a_master_that_lost_the_tail_of_its_file_is_quarantined_like_an_empty_one() {
    let forgotten = forget(Amnesia::LostTail, builder).await;
    assert!(!forgotten.are_there_two().await);
}

#[tokio::test]
async fn s13_without_the_quarantine_a_lost_tail_makes_two_holders() {
    let forgotten = forget(Amnesia::LostTail, without_quarantine).await;
    assert!(forgotten.are_there_two().await);
}

#[tokio::test]
async fn s13_masters_that_came_up_lately_are_waited_for_and_told_of() {
    let fleet = Fleet::start(3).await;
    let ttl = 3 * SECOND;
    let redlock = builder(fleet.urls()).ttl(ttl).build().unwrap();
    assert_eq!(redlock.masters().await.voting(), 0);
    let asked = Instant::now();
    let refused = redlock.lock(RESOURCE).try_once().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    let mut quarantines = Vec::new();
    for master in refused.report().unwrap().masters() {
        let Some(Fault::Quarantined { remaining }) = master.fault else {
            panic!("{refused}");
        };
        assert!(remaining <= ttl);
        quarantines.push(remaining);
    }
    quarantines.sort();

    let lock = redlock.lock(RESOURCE).wait(10 * SECOND).await.unwrap();
    let waited = asked.elapsed();
    assert!(waited >= quarantines[1], "{waited:?} of {quarantines:?}");
    assert!(
        waited < quarantines[1] + 2 * SECOND,
        "{waited:?} of {quarantines:?}"
    );
    lock.release().await.unwrap();
    for master in fleet.iter() {
        let attempts = master.commandstats("evalsha").await;
        assert!(attempts < 8, "{attempts}: it slept until it was over");
    }
}

/// It has no vote, so that it doesn't help that the lock is free there.
#[tokio::test]
async fn s13_a_lock_that_is_free_in_quarantine_wakes_nobody() {
    let taken = Server::start_with(DURABLE).await;
    let free = Server::start_with(DURABLE).await;
    let young = Server::start().await;
    let mut set = redis::cmd("SET");
    let set = set.arg(RESOURCE).arg("other").arg("PX").arg(60_000);
    let _: () = inspect::ask(&taken.url(), set).await;
    let urls = [taken.url(), free.url(), young.url()];
    let redlock = builder(urls).ttl(600 * SECOND).build().unwrap();
    assert_eq!(redlock.masters().await.voting(), 2);
    let refused = redlock.lock(RESOURCE).wait(SECOND).await.unwrap_err();
    let LockError::WaitedTooLong { last, attempts, .. } = refused else {
        panic!("{refused}");
    };
    assert!(matches!(*last, LockError::Taken { .. }), "{last}");
    assert!(attempts < 8, "{attempts}");
}

#[tokio::test]
async fn s13_a_restart_on_an_idle_connection_is_noticed_before_the_next_vote() {
    // The second kind has no RESP3, so that the loss shows at the next command.
    for args in [&[][..], &["--rename-command", "HELLO", ""]] {
        let mut fleet = Fleet::start_with(3, args).await;
        grow_up(&fleet.urls()).await;
        let redlock = admitted(builder(fleet.urls()).quorum(3)).await;
        drop(redlock.lock(RESOURCE).try_once().await.unwrap());
        redlock.settled().await;

        fleet[1].kill();
        let restarted = Instant::now();
        fleet[1].restart().await;
        let mut noticed = false;
        while let Some(report) = refusal(&redlock).await {
            let master = &report.masters()[1];
            assert_ne!(master.vote, Some(Vote::Yes), "{report}");
            noticed |= is_quarantined(master.fault.as_ref());
            assert!(restarted.elapsed() < 10 * SECOND, "{report}");
            redlock.settled().await;
        }
        assert!(noticed);
        assert!(restarted.elapsed() >= TTL, "{:?}", restarted.elapsed());
    }
}

#[tokio::test]
async fn s13_the_yes_of_a_master_that_was_given_the_key_back_does_not_extend() {
    let ttl = 4 * SECOND;
    for (quarantine, extends) in [(true, false), (false, true)] {
        let mut fleet = Fleet::start(3).await;
        grow_up(&fleet.urls()).await;
        let builder = builder(fleet.urls())
            .ttl(ttl)
            .restart_quarantine(quarantine);
        let redlock = admitted(builder).await;
        let lock = redlock.lock(RESOURCE).try_once().await.unwrap();
        eventually("all grant it", SECOND, async || lock.granted() == 3).await;
        fleet[1].restart().await;
        eventually("the key is given back", 5 * SECOND, async || {
            lock.extend(ttl).await.unwrap();
            fleet[1].get(RESOURCE).await == Some(lock.token().into())
        })
        .await;
        fleet[2].stop();
        let outcome = lock.extend(ttl).await;
        assert_eq!(outcome.is_ok(), extends, "{outcome:?}");
        if let Err(undecided) = outcome {
            let ExtendError::Unknown { report, .. } = &undecided else {
                panic!("{undecided}");
            };
            assert!(
                is_quarantined(report.masters()[1].fault.as_ref()),
                "{report}"
            );
        }
    }
}

#[tokio::test]
async fn s13_masters_that_sync_always_are_exempt_from_the_quarantine() {
    let mut fleet = Fleet::start_with(3, DURABLE).await;
    // They answer when their files are on the disk.
    let patient = builder(fleet.urls()).master_timeout(5 * SECOND);
    let redlock = admitted(patient.ttl(600 * SECOND).quorum(3)).await;
    let lock = redlock.lock(RESOURCE).try_once().await.unwrap();
    fleet[1].restart().await;
    assert_eq!(fleet[1].get(RESOURCE).await, Some(lock.token().into()));
    eventually("it counts for an extension", 5 * SECOND, async || {
        lock.extend(600 * SECOND).await.is_ok()
    })
    .await;
    lock.release().await.unwrap();
    drop(redlock.lock("another").try_once().await.unwrap());
}

#[tokio::test]
async fn s13_a_master_that_does_not_sync_always_is_not_exempt() {
    let rewrites = [DURABLE, &["--no-appendfsync-on-rewrite", "yes"]].concat();
    for args in [EVERYSEC, &["--appendfsync", "always"], &rewrites] {
        let server = Server::start_with(args).await;
        let redlock = builder([server.url()]).ttl(600 * SECOND).build().unwrap();
        let fault = state(&redlock, 0).await.fault;
        assert!(is_quarantined(fault.as_ref()), "{args:?}: {fault:?}");
    }
}

/// A user of the server, who may do all but what is denied.
async fn user_without(server: &Server, denied: &str) -> String {
    let mut acl = redis::cmd("ACL");
    acl.arg("SETUSER")
        .arg(&["limited", "on", ">password", "~*", "+@all", denied]);
    let _: () = inspect::ask(&server.url(), &acl).await;
    format!("redis://limited:password@{}", server.addr())
}

#[tokio::test]
async fn s13_a_master_that_may_not_say_how_it_syncs_is_not_exempt() {
    let server = Server::start_with(DURABLE).await;
    let url = user_without(&server, "-config|get").await;
    for (url, exempt) in [(url, false), (server.url(), true)] {
        let redlock = builder([url]).ttl(600 * SECOND).build().unwrap();
        let state = state(&redlock, 0).await;
        assert_eq!(state.votes(), exempt, "{state:?}");
    }
}

#[tokio::test]
async fn s13_where_info_is_forbidden_the_age_counts_from_the_connection() {
    let server = Server::start().await;
    let url = user_without(&server, "-info").await;
    grow_up(&[server.url()]).await;
    let informed = builder([server.url()]).build().unwrap();
    drop(informed.lock(RESOURCE).try_once().await.unwrap());
    informed.settled().await;

    let redlock = builder([url]).build().unwrap();
    let connected = Instant::now();
    assert_eq!(redlock.masters().await.voting(), 0);
    let report = refusal(&redlock).await.expect("it is too young");
    assert!(is_quarantined(report.first_fault()), "{report}");
    drop(redlock.lock(RESOURCE).wait(5 * SECOND).await.unwrap());
    assert!(connected.elapsed() >= TTL);
    assert!(connected.elapsed() < TTL + 2 * SECOND);
}

#[tokio::test]
async fn s13_a_new_connection_to_the_same_process_does_not_begin_anew() {
    let server = Server::start().await;
    let proxy = Proxy::in_front_of(server.addr()).await;
    let redlock = builder([proxy.url()]).ttl(600 * SECOND).build().unwrap();
    eventually("it has an age", 5 * SECOND, async || {
        state(&redlock, 0).await.age > Some(SECOND / 2)
    })
    .await;
    let before = state(&redlock, 0).await.age.unwrap();
    let connections = proxy.connections();
    proxy.reset();
    eventually("it is connected again", 5 * SECOND, async || {
        state(&redlock, 0).await.connected && proxy.connections() > connections
    })
    .await;
    assert!(state(&redlock, 0).await.age.unwrap() > before);
}

#[tokio::test]
async fn the_state_of_the_masters_is_known_from_the_start() {
    let mut fleet = Fleet::start(5).await;
    fleet[3].kill();
    fleet[4].stop();
    let redlock = without_quarantine(fleet.urls()).build().unwrap();
    let states = redlock.masters().await;
    for master in &states.masters()[..3] {
        assert!(master.votes() && master.connected, "{states}");
        assert!(master.latency < Some(SECOND), "{states}");
        assert!(
            master.age < Some(60 * SECOND) && master.age.is_some(),
            "{states}"
        );
        assert_eq!(master.last_error, None);
    }
    for (master, expected) in states.masters()[3..]
        .iter()
        .zip([&["refused"][..], &["within", "timed out"]])
    {
        assert!(!master.votes() && !master.connected, "{states}");
        assert_eq!(master.latency, None);
        let error = master.last_error.as_deref().unwrap();
        assert!(
            expected.iter().any(|words| error.contains(words)),
            "{error}"
        );
    }
    assert_eq!((states.voting(), states.needed()), (3, 3));
    assert!(states.has_quorum());
    assert_eq!(states.to_string().lines().count(), 7, "{states}");

    // One that stops while it is connected is found out by the question itself.
    fleet[0].stop();
    let fault = state(&redlock, 0).await.fault;
    assert!(matches!(fault, Some(Fault::TimedOut { .. })), "{fault:?}");
    eventually("it is known to be silent", SECOND, async || {
        matches!(state(&redlock, 0).await.fault, Some(Fault::Silent { .. }))
    })
    .await;
}
