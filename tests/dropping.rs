//! Dropping a request, a guard, an extension or a release at any time (S17).
#![cfg(feature = "testing")]

mod memory;

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use memory::*;
use redquorum::{Guard, MemoryMaster, Wait};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

/// How a master behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behaviour {
    Healthy,
    Slow,
    Stalled,
    CutOff,
    /// Cut off after it has executed the first command, before it answers.
    BreaksOff,
    LosesReplies,
    LosesRequests,
    /// Another client has the key, for a while.
    Taken,
    /// It answers with errors.
    Rejects,
}

use Behaviour::*;

const ALL: [Behaviour; 9] = [
    Healthy,
    Slow,
    Stalled,
    CutOff,
    BreaksOff,
    LosesReplies,
    LosesRequests,
    Taken,
    Rejects,
];

/// All ways for three masters to behave.
fn behaviours() -> impl Iterator<Item = [Behaviour; 3]> {
    let pairs = |a| ALL.into_iter().map(move |b| [a, b]);
    let triples = |[a, b]: [Behaviour; 2]| ALL.into_iter().map(move |c| [a, b, c]);
    ALL.into_iter().flat_map(pairs).flat_map(triples)
}

fn behave(masters: &[MemoryMaster], behaviours: [Behaviour; 3]) {
    for (master, behaviour) in masters.iter().zip(behaviours) {
        match behaviour {
            Healthy => {}
            Slow => master.delay(ms(3)),
            Stalled => master.stall(),
            CutOff => master.cut_off(),
            BreaksOff => {
                master.delay(ms(3));
                let master = master.clone();
                tokio::spawn(async move {
                    sleep(ms(5)).await;
                    master.cut_off();
                });
            }
            LosesReplies => master.lose_replies(2),
            LosesRequests => master.lose_requests(1),
            Taken => master.set(KEY, "other", Some(ms(100))),
            Rejects => master.reject(true),
        }
    }
}

/// Polls a future this often, as often as it wakes, and drops it right after
/// that or, if `late`, when it wakes again. `None` if it was dropped.
async fn poll_times<T>(times: usize, late: bool, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(move |context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == times && !late => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Nothing is left where masters can be reached, and nowhere once they can.
async fn assert_nothing_left(masters: &[MemoryMaster], behaviours: [Behaviour; 3], when: &str) {
    sleep(ms(200)).await;
    for (master, behaviour) in masters.iter().zip(behaviours) {
        if matches!(
            behaviour,
            Healthy | Slow | LosesReplies | LosesRequests | Taken
        ) {
            assert!(
                master.keys().is_empty(),
                "left on a master in reach, {behaviours:?}, {when}"
            );
        }
    }
    heal(masters).await;
    for master in masters {
        assert!(master.keys().is_empty(), "{behaviours:?}, {when}");
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_request_dropped_at_any_await_point_leaves_nothing() {
    let mut dropped = 0;
    for behaviours in behaviours() {
        for late in [false, true] {
            for times in 0..9 {
                let masters = masters::<3>();
                let redlock = redlock(&masters);
                behave(&masters, behaviours);
                let request = redlock.lock(KEY).ttl(ms(60_000)).wait(Wait::No);
                let outcome = poll_times(times, late, request.into_future()).await;
                dropped += usize::from(outcome.is_none());
                let finished = outcome.is_some();
                drop(outcome);
                let when = format!("polled {times} times, late: {late}");
                assert_nothing_left(&masters, behaviours, &when).await;
                if finished {
                    break;
                }
            }
        }
    }
    assert!(dropped > 1000, "{dropped}");
}

#[tokio::test(start_paused = true)]
async fn s17_a_request_dropped_at_any_time_leaves_nothing() {
    for behaviours in behaviours() {
        for after in [0, 1, 3, 4, 6, 7, 49, 50, 51] {
            let masters = masters::<3>();
            let redlock = redlock(&masters);
            behave(&masters, behaviours);
            let request = redlock.lock(KEY).ttl(ms(60_000)).wait(Wait::Forever);
            drop(timeout(ms(after), request.into_future()).await);
            let when = format!("after {after} ms");
            assert_nothing_left(&masters, behaviours, &when).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_request_dropped_while_it_waits_has_left_nothing_already() {
    let masters = masters::<3>();
    take_elsewhere(&masters[1..], None);
    let redlock = redlock(&masters);
    for after in 0..60 {
        let request = redlock.lock(KEY).wait(Wait::Forever).into_future();
        assert!(timeout(ms(after), request).await.is_err());
        assert_no_keys(&masters[..1]);
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_request_that_was_never_polled_sends_nothing() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    drop(redlock.lock(KEY));
    drop(redlock.lock(KEY).into_future());
    drop(redlock.lock(KEY).try_once());
    assert_eq!(executed(&masters), [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn s17_a_guard_dropped_at_any_time_leaves_nothing() {
    for behaviours in behaviours() {
        for after in [0, 5, 10] {
            let masters = masters::<3>();
            let lock = redlock(&masters).lock(KEY).ttl(ms(60_000)).await.unwrap();
            behave(&masters, behaviours);
            sleep(ms(after)).await;
            drop(lock);
            let when = format!("after {after} ms");
            assert_nothing_left(&masters, behaviours, &when).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_guard_dropped_while_late_grants_are_on_their_way_leaves_nothing() {
    for after in 0..25 {
        let masters = masters::<5>();
        delay(&masters, &[0, 0, 0, 5, 10]);
        let lock = redlock(&masters).lock(KEY).await.unwrap();
        sleep(ms(after)).await;
        drop(lock);
        sleep(ms(200)).await;
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s17_an_extension_dropped_at_any_await_point_and_then_the_guard_leave_nothing() {
    for behaviours in behaviours() {
        for times in 0..9 {
            let masters = masters::<3>();
            let lock = redlock(&masters).lock(KEY).ttl(ms(1000)).await.unwrap();
            behave(&masters, behaviours);
            let outcome = poll_times(times, false, lock.extend(ms(60_000))).await;
            let finished = outcome.is_some();
            drop(lock);
            let when = format!("polled {times} times");
            assert_nothing_left(&masters, behaviours, &when).await;
            if finished {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_release_dropped_at_any_await_point_goes_on() {
    for behaviours in behaviours() {
        for late in [false, true] {
            for times in 0..9 {
                let masters = masters::<3>();
                let lock = redlock(&masters).lock(KEY).ttl(ms(60_000)).await.unwrap();
                behave(&masters, behaviours);
                let finished = poll_times(times, late, lock.release()).await.is_some();
                let when = format!("polled {times} times, late: {late}");
                assert_nothing_left(&masters, behaviours, &when).await;
                if finished {
                    break;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s17_a_guard_dropped_by_a_panic_is_released() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    let task = tokio::spawn(async move {
        let _lock = lock;
        std::panic::resume_unwind(Box::new("the critical section failed"));
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s17_a_guard_dropped_by_a_plain_thread_is_released() {
    let masters = masters::<3>();
    let lock = redlock(&masters).lock(KEY).await.unwrap();
    std::thread::spawn(move || drop(lock)).join().unwrap();
    sleep(ms(100)).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s17_a_request_dropped_by_a_plain_thread_is_released() {
    let masters = masters::<3>();
    masters[1].stall();
    masters[2].stall();
    let mut request = redlock(&masters).lock(KEY).into_future();
    let first = request
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(first.is_pending());
    assert_eq!(masters[0].keys().len(), 1);
    std::thread::spawn(move || drop(request)).join().unwrap();
    heal(&masters).await;
    assert_no_keys(&masters);
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// A lock, the masters, and the runtime that they were made in.
fn held() -> (Runtime, [MemoryMaster; 3], Guard) {
    let runtime = runtime();
    let (masters, lock) = runtime.block_on(async {
        let masters = masters::<3>();
        let lock = redlock(&masters).lock(KEY).await.unwrap();
        (masters, lock)
    });
    (runtime, masters, lock)
}

#[test]
fn s17_a_guard_dropped_outside_of_its_runtime_is_released() {
    let (runtime, masters, lock) = held();
    masters[0].delay(ms(5));
    drop(lock);
    runtime.block_on(async {
        sleep(ms(100)).await;
        assert_no_keys(&masters);
    });
}

#[test]
fn s17_a_guard_dropped_after_its_runtime_has_ended_does_not_panic() {
    let healthy = |_: &MemoryMaster| {};
    let slow = |master: &MemoryMaster| master.delay(ms(5));
    let ways: [fn(&MemoryMaster); 4] = [healthy, slow, MemoryMaster::stall, MemoryMaster::cut_off];
    for way in ways {
        let (runtime, masters, lock) = held();
        masters.iter().for_each(way);
        drop(runtime);
        drop(lock);
    }
}

#[test]
fn s17_a_request_dropped_after_its_runtime_has_ended_does_not_panic() {
    for way in [MemoryMaster::stall, |master: &MemoryMaster| {
        master.delay(ms(5));
    }] {
        let runtime = runtime();
        let request = runtime.block_on(async {
            let masters = masters::<3>();
            masters.iter().for_each(way);
            let mut request = redlock(&masters).lock(KEY).into_future();
            let first = poll_times(1, false, request.as_mut()).await;
            assert!(first.is_none());
            vec![request]
        });
        drop(runtime);
        drop(request);
    }
}

#[test]
fn a_guard_can_be_asked_outside_of_its_runtime() {
    let runtime = runtime();
    let lock = runtime.block_on(async {
        let masters = masters::<3>();
        delay(&masters, &[0, 0, 1000]);
        let lock = redlock(&masters).lock(KEY).await.unwrap();
        sleep(ms(1000)).await;
        lock
    });
    assert_eq!(lock.granted(), 2, "the third grant is on its way back");
    assert!(lock.is_valid());
    assert!(lock.ensure(Duration::from_secs(8)).is_ok());
}

#[test]
fn s17_a_guard_of_one_runtime_can_be_released_in_another() {
    let (first, masters, lock) = held();
    let second = runtime();
    assert_eq!(second.block_on(lock.release()).unwrap().removed, 3);
    assert_no_keys(&masters);
    drop(first);
}

/// Its claim was sent with the release, and it never hears of it.
#[tokio::test(start_paused = true)]
async fn s17_a_waiter_dropped_after_the_lock_was_handed_to_it_leaves_nothing() {
    let masters = masters::<3>();
    let redlock = redlock(&masters);
    let lock = redlock.lock(KEY).await.unwrap();
    let mut waiting = redlock.lock(KEY).wait(Wait::Forever).into_future();
    assert!(timeout(ms(100), &mut waiting).await.is_err());
    let token = lock.token().to_owned();
    drop(lock);
    let next = masters[0].get(KEY).expect("it was handed on");
    assert_ne!(next, token);
    drop(waiting);
    sleep(ms(1)).await;
    assert_no_keys(&masters);
}
