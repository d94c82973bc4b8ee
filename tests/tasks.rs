//! What the tasks of one process know of each other keeps none of them waiting, and
//! rounds end in whichever runtime they run.
#![cfg(feature = "testing")]

mod memory;

use std::future::IntoFuture;
use std::time::Duration;

use futures::FutureExt;
use memory::*;
use redquorum::{LockError, Retry, Wait};
use tokio::time::{Instant, sleep};

/// Pauses that suit locks that are held for long, where masters don't tell.
fn patient() -> Retry {
    Retry::default().base(ms(10_000)).cap(ms(10_000))
}

/// The lease of a guard that is still around ended long ago: the lock is free, and
/// whoever asks for it has it at once.
#[tokio::test(start_paused = true)]
async fn a_guard_that_outlives_its_lease_keeps_nobody_of_its_process_waiting() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let expired = redlock.lock(KEY).ttl(ms(100)).await.unwrap();
        sleep(ms(200)).await;
        assert!(!expired.is_valid());
        assert_no_keys(&masters);
        let began = Instant::now();
        let request = redlock.lock(KEY).wait(Wait::Forever).retry(patient());
        let next = request.await.unwrap();
        longest = longest.max(began.elapsed());
        next.release().await.unwrap();
        drop(expired);
        redlock.settled().await;
    }
    assert!(
        longest < ms(10),
        "the lock was free, and had after {longest:?}"
    );
}

/// The same of a guard that is never dropped: for as long as the process lives.
#[tokio::test(start_paused = true)]
async fn a_guard_that_is_forgotten_keeps_nobody_waiting_after_its_lease() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    std::mem::forget(redlock.lock(KEY).ttl(ms(100)).await.unwrap());
    sleep(ms(3_600_000)).await;
    assert_no_keys(&masters);
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let began = Instant::now();
        let request = redlock.lock(KEY).wait(ms(5_000)).retry(patient());
        let next = request.await.unwrap();
        longest = longest.max(began.elapsed());
        next.release().await.unwrap();
    }
    assert!(
        longest < ms(10),
        "the lock was free, and had after {longest:?}"
    );
}

/// A pause is what is between two attempts, so one attempt has none.
#[tokio::test(start_paused = true)]
async fn one_attempt_takes_no_pause_though_a_task_of_this_process_has_the_lock() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let _held = redlock.lock(KEY).ttl(ms(3_600_000)).await.unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let began = Instant::now();
        let request = redlock.lock(KEY).wait(Wait::Forever);
        let refused = request.retry(patient().attempts(1)).await.unwrap_err();
        assert!(matches!(refused, LockError::Taken { .. }), "{refused}");
        longest = longest.max(began.elapsed());
    }
    assert!(longest < ms(10), "one attempt took {longest:?}");
}

/// In-process masters without delay answer at once: what a service's test could
/// rely on (`now_or_never`, `timeout` of zero, a biased `select!`).
#[tokio::test(start_paused = true)]
async fn what_is_answered_at_once_is_ready_at_the_first_look() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let lock = redlock.lock(KEY).into_future().now_or_never();
    assert!(lock.is_some(), "a free lock is had at once");
}

/// A timer that nobody waits for moves no paused clock.
#[tokio::test(start_paused = true)]
async fn paused_time_stands_still_while_nothing_waits_for_it() {
    let masters = masters::<3>();
    // Rounds have timers where answers take their time.
    delay(&masters, &[5; 3]);
    let redlock = redlock(&masters);
    redlock.lock(KEY).await.unwrap().release().await.unwrap();
    let began = Instant::now();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let other = std::thread::spawn(move || {
        std::thread::sleep(ms(30));
        sender.send(()).unwrap();
    });
    receiver.await.unwrap();
    other.join().unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Rounds end at their limit, in whichever runtime, whatever the others do.
#[test]
fn rounds_end_at_their_limit_in_all_runtimes_at_once() {
    let masters = masters::<3>();
    let redlock = builder(&masters).master_timeout(ms(30)).build().unwrap();
    let late = std::sync::atomic::AtomicUsize::new(0);
    let one = |number: u64| {
        for turn in 0..6 {
            let runtime = match number % 2 {
                0 => tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build(),
                _ => tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build(),
            };
            runtime.unwrap().block_on(async {
                let mut tasks = tokio::task::JoinSet::new();
                for task in 0..20_u64 {
                    let redlock = redlock.clone();
                    tasks.spawn(async move {
                        let mut longest = Duration::ZERO;
                        for round in 0..10_u64 {
                            let key = format!("{number} {turn} {task} {round}");
                            let began = std::time::Instant::now();
                            let request = redlock.lock(key);
                            if (task + round) % 3 == 0 {
                                let patience = ms(round);
                                let _ = tokio::time::timeout(patience, request.try_once()).await;
                            } else {
                                request.try_once().await.unwrap_err();
                                assert!(began.elapsed() >= ms(30));
                            }
                            longest = longest.max(began.elapsed());
                        }
                        longest
                    });
                }
                while let Some(longest) = tasks.join_next().await {
                    if longest.unwrap() > ms(200) {
                        late.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            });
        }
    };
    // All commands are on their way for longer than the time-out.
    delay(&masters, &[500; 3]);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let one = &one;
            scope.spawn(move || one(number));
        }
    });
    assert_eq!(late.into_inner(), 0, "rounds were late");
}
