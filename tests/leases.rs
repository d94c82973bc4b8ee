//! Leases that are kept, and lost, on real masters.
//!
//! `REDQUORUM_RACES` is how often a release races an extension (3 000), and
//! `REDQUORUM_LEASES`, `REDQUORUM_LEASE_SECONDS` how many leases the ignored test
//! keeps for how long (10 000, 60).

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::stream::{StreamExt, iter};
use redquorum::{Builder, LockError, LossReason, Redlock, Wait};
use rustix::process::{Pid, Signal, kill_process};
use support::fleet::Fleet;
use support::machine::Watch;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn builder(fleet: &Fleet) -> Builder {
    support::builder().masters(fleet.urls())
}

/// A coordinator whose connections stand.
async fn connected(builder: Builder) -> Redlock {
    let redlock = builder.build().unwrap();
    let all = support::wait::until(5 * SECOND, async || {
        let lock = redlock.lock("warm-up").await.unwrap();
        lock.release()
            .await
            .is_ok_and(|released| released.removed == released.masters)
    });
    assert!(all.await, "all masters take part");
    redlock
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |number| number.parse().expect("a number"))
}

#[tokio::test]
async fn s11_with_three_of_five_hung_the_loss_is_told_at_the_deadline_and_before_the_next_owner() {
    let mut fleet = Fleet::start(5).await;
    let redlock = connected(builder(&fleet)).await;
    let other = connected(builder(&fleet)).await;
    for turn in 0..3 {
        let machine = Watch::begin();
        let request = redlock.lock("a").ttl(SECOND).auto_extend();
        let lock = request.await.unwrap();
        sleep(ms(500)).await;
        for master in 0..3 {
            fleet[master].stop();
        }
        // An extension that was under way is decided.
        sleep(ms(60)).await;
        let deadline = Instant::now() + lock.remaining();
        let next = tokio::spawn({
            let request = other.lock("a").wait(Wait::Forever);
            async move { (request.await, Instant::now()) }
        });
        let (reason, told) = {
            let lost = tokio::spawn({
                let lost = lock.lost();
                async move { (lost.await, Instant::now()) }
            });
            sleep(deadline - Instant::now()).await;
            for master in 0..3 {
                fleet[master].cont();
            }
            lost.await.unwrap()
        };
        assert_eq!(reason, LossReason::Expired);
        let (next, taken) = next.await.unwrap();
        println!(
            "three of five hung: told {:?} before the deadline or {:?} after it, next owner {:?}",
            deadline.saturating_duration_since(told),
            told.saturating_duration_since(deadline),
            taken.saturating_duration_since(deadline),
        );
        assert!(told >= deadline - ms(20), "turn {turn}: too early");
        let stall = machine.longest_stall();
        let late = told.saturating_duration_since(deadline);
        assert!(
            late <= ms(5).max(stall),
            "turn {turn}: {late:?} late; the machine was held up for {stall:?}"
        );
        assert!(
            told < taken,
            "turn {turn}: told after the next owner had it"
        );
        next.unwrap().release().await.unwrap();
        drop(lock);
        redlock.settled().await;
    }
    fleet.assert_no_keys(2 * SECOND).await;
}

#[tokio::test]
async fn s10_a_kept_lock_survives_a_stall_of_three_masters_that_is_shorter_than_what_is_left() {
    let mut fleet = Fleet::start(5).await;
    let redlock = connected(builder(&fleet)).await;
    let other = connected(builder(&fleet)).await;
    let request = redlock.lock("a").ttl(2 * SECOND).auto_extend();
    let lock = request.await.unwrap();
    for stall in [300, 800, 1_000] {
        for master in 0..3 {
            fleet[master].stop();
        }
        sleep(ms(stall)).await;
        for master in 0..3 {
            fleet[master].cont();
        }
        sleep(2 * SECOND).await;
        assert!(lock.is_valid(), "after a stall of {stall} ms");
        let refused = other.lock("a").try_once().await;
        assert!(matches!(refused, Err(LockError::Taken { .. })));
    }
    assert_eq!(lock.release().await.unwrap().removed, 5);
}

#[tokio::test]
async fn renewal_is_no_tight_loop_with_a_ttl_of_200_ms_and_keeps_the_lock() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(builder(&fleet)).await;
    for turn in 1.. {
        let machine = Watch::begin();
        let request = redlock.lock("a").ttl(ms(200)).auto_extend();
        let lock = request.await.unwrap();
        let before = extensions(&fleet).await;
        let began = Instant::now();
        sleep(3 * SECOND).await;
        let after = extensions(&fleet).await;
        let most = (10.0 * began.elapsed().as_secs_f64()) as u64;
        let counts: Vec<_> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        println!(
            "extensions with a TTL of 200 ms in {:?}: {counts:?}",
            began.elapsed()
        );
        assert!(counts.iter().all(|count| *count <= most), "{counts:?}");
        if lock.is_valid() {
            assert!(counts.iter().all(|count| *count >= 15), "{counts:?}");
            break;
        }
        // 84 ms are left when it is extended.
        let stall = machine.longest_stall();
        assert!(turn < 5 && stall > ms(30), "lost; held up for {stall:?}");
    }
}

/// How many scripts each master has run.
async fn extensions(fleet: &Fleet) -> Vec<u64> {
    let mut counts = Vec::new();
    for master in fleet.iter() {
        counts.push(master.commandstats("eval").await);
    }
    counts
}

/// A lock is extended to a long TTL in the background, and a master that lost
/// it is given it back, while it is released.
#[tokio::test]
async fn s10_s12_a_release_that_races_an_extension_leaves_nothing() {
    const AT_A_TIME: usize = 32;
    let races = number("REDQUORUM_RACES", 3_000);
    let fleet = Fleet::start(5).await;
    let redlock = connected(builder(&fleet).master_timeout(5 * SECOND)).await;
    let forgets = fleet[0].connection().await;
    let began = Instant::now();
    let extensions: u64 = iter(0..races)
        .map(|race| {
            let request = redlock.lock(format!("race:{race}")).ttl(600 * SECOND);
            let mut forgets = forgets.clone();
            async move {
                let lock = request.auto_extend().await.unwrap();
                let delete = redis::cmd("DEL").arg(lock.resource()).to_owned();
                delete.query_async::<()>(&mut forgets).await.unwrap();
                // The keeper finds it too short, and extends it at once.
                lock.extend(10 * SECOND).await.unwrap();
                let until = Instant::now() + ms(20).mul_f64(rand::random());
                while Instant::now() < until {
                    tokio::task::yield_now().await;
                }
                let extended = lock.remaining() > 10 * SECOND;
                lock.release().await.unwrap();
                u64::from(extended)
            }
        })
        .buffer_unordered(AT_A_TIME)
        .fold(0, async |sum, extended| sum + extended)
        .await;
    println!(
        "{races} races in {:?}: the extension was over at the release in {extensions}",
        began.elapsed()
    );
    redlock.settled().await;
    fleet.assert_no_keys(5 * SECOND).await;
}

/// The longest gap between two polls of a section that takes a second, less the
/// time for which the machine had other things to do than to run this thread.
async fn longest_gap() -> Duration {
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    while began.elapsed() < SECOND {
        let (looked, delayed) = (Instant::now(), delay_by_the_machine());
        sleep(ms(1)).await;
        let gap = looked.elapsed();
        longest = longest.max(gap.saturating_sub(delay_by_the_machine() - delayed));
    }
    longest
}

/// For how long this thread has waited for a processor while it was ready to run.
fn delay_by_the_machine() -> Duration {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = schedule
        .split(' ')
        .nth(1)
        .and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(waited.unwrap_or_default())
}

#[tokio::test]
async fn s10_renewal_never_holds_up_the_section_while_a_master_hangs() {
    let mut fleet = Fleet::start(5).await;
    let redlock = connected(builder(&fleet)).await;
    fleet[4].stop();
    let request = redlock.lock("a").ttl(SECOND);
    let gap = request.hold(|_| longest_gap()).await.unwrap();
    fleet[4].cont();
    println!("longest gap between two polls while one master hangs: {gap:?}");
    assert!(gap <= ms(5), "{gap:?}");
}

/// Not a test: the process that the next test stops.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test of a process that is stopped"]
async fn owner_that_is_stopped() {
    let Ok(urls) = std::env::var("REDQUORUM_TEST_OWNER") else {
        return;
    };
    let redlock = connected(support::builder().masters(urls.split(','))).await;
    let request = redlock.lock("a").ttl(SECOND).auto_extend();
    let lock = request.await.unwrap();
    let lost = lock.lost_token();
    println!("\nheld");
    let stopped = tokio::task::spawn_blocking(move || {
        let mut looked = Instant::now();
        while looked.elapsed() < SECOND / 2 {
            looked = Instant::now();
            std::thread::sleep(ms(1));
        }
        let continued = Instant::now();
        let valid = lock.is_valid();
        while !lost.is_cancelled() && continued.elapsed() < 5 * SECOND {
            std::thread::sleep(ms(1) / 10);
        }
        (lock, valid, continued.elapsed())
    });
    let (lock, valid, told) = stopped.await.unwrap();
    let reason = lock.lost().await;
    let released = lock.release().await.is_ok();
    println!("\nvalid {valid} {} {released} {reason}", told.as_micros());
}

#[tokio::test]
async fn s11_a_process_that_was_stopped_past_its_ttl_is_told_at_once_and_harms_nobody() {
    let fleet = Fleet::start(5).await;
    let other = connected(builder(&fleet)).await;
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "owner_that_is_stopped",
            "--ignored",
            "--nocapture",
        ])
        .env("REDQUORUM_TEST_OWNER", fleet.urls().join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(lines.any(|line| line == "held"));
    // It is kept for longer than its TTL.
    sleep(2 * SECOND).await;
    let refused = other.lock("a").try_once().await;
    assert!(matches!(refused, Err(LockError::Taken { .. })));

    kill_process(Pid::from_child(&owner), Signal::STOP).unwrap();
    let next = other.lock("a").ttl(60 * SECOND).wait(3 * SECOND).await;
    let next = next.unwrap();
    let before = fleet.get("a").await;
    kill_process(Pid::from_child(&owner), Signal::CONT).unwrap();

    let line = lines.find(|line| line.starts_with("valid ")).unwrap();
    assert!(owner.wait().unwrap().success());
    println!("stopped past its TTL: {line}");
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(words[1], "false", "at the first look");
    let told = Duration::from_micros(words[2].parse().unwrap());
    assert!(told <= ms(20), "told after {told:?}");
    assert_eq!(words[3], "false", "it was not held any more");
    let token = Some(next.token().as_bytes().to_vec());
    let after = fleet.get("a").await;
    let has = |value: &&Option<Vec<u8>>| **value == token;
    assert!(before.iter().filter(has).count() >= 3, "{before:?}");
    for (before, after) in before.iter().zip(&after) {
        assert!(
            before.is_none() || before == after,
            "the successor's is gone"
        );
    }
    next.release().await.unwrap();
}
