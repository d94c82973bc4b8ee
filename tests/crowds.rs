//! Tasks and processes that ask, give up at any time, move and hold, all at once, on
//! real servers.

mod support;

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use redquorum::{LockError, Retry};
use support::crowd::{busy, connected, connected_to, sets};
use support::fleet::Fleet;
use support::proxy::Flow;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(150);

/// Polls it once, by this task.
async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A request that is dropped after it has asked, releases what it was granted; another
/// task of the process that waits then has the lock.
#[tokio::test]
async fn a_request_that_is_given_up_keeps_no_task_of_its_process_waiting() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        let mut given_up = redlock.lock("a").into_future();
        assert!(poll_once(given_up.as_mut()).await.is_pending());
        sleep(ms(20)).await;
        let waiting = tokio::spawn(redlock.lock("a").into_future());
        sleep(ms(200)).await;
        assert!(!waiting.is_finished());
        let released = Instant::now();
        drop(given_up);
        let lock = timeout(5 * SECOND, waiting).await.expect("it is woken");
        longest = longest.max(released.elapsed());
        lock.unwrap().unwrap().release().await.unwrap();
    }
    assert!(longest < SOON, "had after {longest:?}");
}

/// With one attempt, a request makes it and says what came of it.
#[tokio::test]
async fn one_attempt_takes_no_longer_because_a_task_of_this_process_has_the_lock() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let held = redlock.lock("a").ttl(60 * SECOND).await.unwrap();
    let mut took = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let request = redlock.lock("a").retry(Retry::default().attempts(1));
        let refused = request.await.unwrap_err();
        assert!(matches!(refused, LockError::Taken { .. }), "{refused}");
        took.push(began.elapsed());
    }
    held.release().await.unwrap();
    assert!(took.iter().all(|took| *took < SOON), "{took:?}");
}

/// Of a lock that is free, the guard of an ended lease is no owner.
#[tokio::test]
async fn a_guard_that_outlives_its_lease_keeps_nobody_waiting() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let expired = redlock.lock("a").ttl(ms(100)).await.unwrap();
    sleep(ms(200)).await;
    fleet.assert_no_keys(SECOND).await;
    let mut took = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        let lock = redlock.lock("a").await.unwrap();
        took.push(began.elapsed());
        lock.release().await.unwrap();
    }
    drop(expired);
    took.sort();
    println!("{took:?}");
    assert!(took[10] < ms(5), "{took:?}");
}

/// A client that is not told of releases (another library, RESP2, an ACL without
/// tracking) asks about every 50 ms. A busy process gives way to it as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_polls_has_its_turn_beside_a_busy_process() {
    let fleet = Fleet::start(3).await;
    let (here, there) = (connected(&fleet).await, connected(&fleet).await);
    let over = Arc::default();
    let busy = busy(&here, 8, &over);
    let (mut asked, mut had) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < 8 * SECOND {
        asked += 1;
        if let Ok(lock) = there.lock("a").try_once().await {
            had += 1;
            lock.release().await.unwrap();
        }
        sleep(ms(20 + support::server::random() % 60)).await;
    }
    over.store(true, Ordering::Relaxed);
    let mut turns = 0;
    for task in busy {
        turns += task.await.unwrap();
    }
    println!("the poller asked {asked} times and had it {had} times, the busy process {turns}");
    assert!(had > 0, "had it {had} times of {asked}");
}

/// A process that is farther away from the masters has its turn too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_distant_process_has_its_turn_beside_a_busy_one() {
    let fleet = Fleet::start(3).await;
    let proxies = fleet.proxies().await;
    let here = connected(&fleet).await;
    let there = connected_to(proxies.iter().map(|proxy| proxy.url()).collect(), 3).await;
    for proxy in &proxies {
        proxy.both(Flow::Delay(ms(5)));
    }
    let over = Arc::default();
    let busy = busy(&here, 8, &over);
    let mut waits = Vec::new();
    let began = Instant::now();
    while began.elapsed() < 8 * SECOND {
        let asked = Instant::now();
        if let Ok(lock) = timeout(10 * SECOND, there.lock("a").into_future()).await {
            lock.unwrap().release().await.unwrap();
        }
        waits.push(asked.elapsed());
    }
    over.store(true, Ordering::Relaxed);
    let mut turns = 0;
    for task in busy {
        turns += task.await.unwrap();
    }
    waits.sort();
    println!("the distant process waited {waits:?}, the busy one had it {turns} times");
    assert!(waits[waits.len() / 2] < SECOND, "{waits:?}");
}

/// Polled first in one place and then in others, by other wakers: no reply is missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_and_releases_that_move_between_tasks_miss_no_reply() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let mut all = 0;
    for round in 0..300 {
        let key = format!("k{round}");
        let began = Instant::now();
        let mut moved = Box::pin(redlock.lock(&key).into_future());
        let lock = match round % 4 {
            0 => match poll_once(moved.as_mut()).await {
                Poll::Ready(lock) => lock,
                Poll::Pending => tokio::spawn(moved).await.unwrap(),
            },
            1 => {
                let mut all = FuturesUnordered::new();
                all.push(moved);
                match poll_once(std::pin::pin!(all.next())).await {
                    Poll::Ready(lock) => lock.unwrap(),
                    Poll::Pending => {
                        std::thread::sleep(ms(1));
                        all.next().await.unwrap()
                    }
                }
            }
            2 => {
                let mut all = FuturesUnordered::new();
                all.push(moved);
                let first = poll_once(std::pin::pin!(all.next())).await;
                match first {
                    Poll::Ready(lock) => lock.unwrap(),
                    Poll::Pending => tokio::spawn(async move { all.next().await.unwrap() })
                        .await
                        .unwrap(),
                }
            }
            _ => {
                let mut tick = Box::pin(sleep(ms(1)));
                loop {
                    tokio::select! {
                        biased;
                        lock = &mut moved => break lock,
                        () = &mut tick => {
                            // Left alone for a while, after it was woken.
                            std::thread::sleep(ms(1));
                            tick = Box::pin(sleep(ms(1)));
                        }
                    }
                }
            }
        }
        .unwrap();
        let mut release = Box::pin(lock.release());
        let released = match round % 2 {
            0 => match poll_once(release.as_mut()).await {
                Poll::Ready(released) => released,
                Poll::Pending => {
                    sleep(ms(1)).await;
                    tokio::spawn(release).await.unwrap()
                }
            },
            _ => {
                let (released, ()) = tokio::join!(release, async {
                    tokio::task::yield_now().await;
                });
                released
            }
        };
        all += usize::from(released.unwrap().removed == 3);
        assert!(began.elapsed() < SECOND, "{round}: {:?}", began.elapsed());
    }
    // An answer may come too late to be waited for, on a busy machine.
    assert!(all > 270, "{all} of 300 were heard of by all masters");
}

/// Tasks of two processes that ask, give up at any time, try once, hold and drop: one
/// has the lock at a time, and while anybody waits it is never free for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_beside_those_who_give_up_is_never_stuck() {
    let fleet = Fleet::start(3).await;
    let redlocks = [connected(&fleet).await, connected(&fleet).await];
    let over = Arc::new(AtomicBool::new(false));
    let owners = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let last = Arc::new(AtomicU64::new(0));
    let longest = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for number in 0..12 {
        let redlock = redlocks[usize::from(number % 3 == 0)].clone();
        let (over, owners, last, longest) =
            (over.clone(), owners.clone(), last.clone(), longest.clone());
        tasks.push(tokio::spawn(async move {
            let mut had = 0;
            while !over.load(Ordering::Relaxed) {
                let request = redlock.lock("a");
                let dice = support::server::random();
                let got = match (number, dice % 8) {
                    (0..4, _) => Some(request.await.unwrap()),
                    (_, 0..4) => {
                        let patience = Duration::from_micros(dice / 8 % 3000);
                        match timeout(patience, request.into_future()).await {
                            Ok(lock) => Some(lock.unwrap()),
                            Err(_) => None,
                        }
                    }
                    (_, 4..6) => request.try_once().await.ok(),
                    _ => request.wait(ms(dice / 8 % 30)).await.ok(),
                };
                let Some(lock) = got else {
                    sleep(ms(dice / 64 % 5)).await;
                    continue;
                };
                assert_eq!(owners.fetch_add(1, Ordering::AcqRel), 0, "two have it");
                let now = began.elapsed().as_micros() as u64;
                longest.fetch_max(now - last.load(Ordering::Relaxed), Ordering::Relaxed);
                had += 1;
                if dice % 16 < 8 {
                    sleep(Duration::from_micros(dice / 128 % 1500)).await;
                }
                last.store(began.elapsed().as_micros() as u64, Ordering::Relaxed);
                owners.fetch_sub(1, Ordering::AcqRel);
                match dice % 3 {
                    0 => drop(lock),
                    _ => drop(lock.release().await.unwrap()),
                }
            }
            had
        }));
    }
    sleep(10 * SECOND).await;
    over.store(true, Ordering::Relaxed);
    let mut had = Vec::new();
    for task in tasks {
        had.push(task.await.unwrap());
    }
    let longest = Duration::from_micros(longest.load(Ordering::Relaxed));
    println!("had {had:?}, free for {longest:?} at the longest");
    assert!(longest < SOON * 2, "{longest:?}");
}

/// The same of one process alone, with nobody else whose releases would wake it: one
/// waits, the others give up what they have asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_alone_beside_those_who_give_up_is_not_stuck() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for number in 0..2 {
        let (redlock, over) = (redlock.clone(), over.clone());
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let dice = support::server::random();
                if number == 0 {
                    let began = Instant::now();
                    let lock = redlock.lock("a").await.unwrap();
                    waits.push(began.elapsed());
                    lock.release().await.unwrap();
                } else {
                    let patience = Duration::from_micros(dice % 300);
                    let asking = redlock.lock("a").into_future();
                    let _ = tokio::time::timeout(patience, asking).await;
                }
                sleep(Duration::from_micros(dice / 512 % 2000)).await;
            }
            waits
        }));
    }
    sleep(5 * SECOND).await;
    over.store(true, Ordering::Relaxed);
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.unwrap());
    }
    waits.sort();
    let at = |share: usize| waits[waits.len() * share / 1000];
    println!(
        "{} waits: {:?}, {:?}, {:?}, {:?}",
        waits.len(),
        at(500),
        at(900),
        at(990),
        waits.last()
    );
    let last = *waits.last().unwrap();
    assert!(last < SOON * 2, "one waits {last:?}");
}

/// Given up as soon as the other has come: its release is right behind, so that the
/// lock is free before the other has even heard that it was not.
#[tokio::test]
async fn a_request_that_is_given_up_at_once_costs_the_next_no_pause() {
    let fleet = Fleet::start(3).await;
    let redlock = connected(&fleet).await;
    let mut took = Vec::new();
    for _ in 0..20 {
        let mut given_up = redlock.lock("a").into_future();
        assert!(poll_once(given_up.as_mut()).await.is_pending());
        let mut next = redlock.lock("a").into_future();
        assert!(poll_once(next.as_mut()).await.is_pending());
        let released = Instant::now();
        drop(given_up);
        let lock = next.await.unwrap();
        took.push(released.elapsed());
        lock.release().await.unwrap();
        // Nothing that was seen counts any more.
        sleep(ms(300)).await;
    }
    took.sort();
    println!("{took:?}");
    assert!(took[10] < ms(10), "{took:?}");
}

/// It has no need to ask masters for what this process knows, beyond one look.
#[tokio::test]
async fn a_lock_of_this_process_is_waited_for_without_asking_all() {
    let fleet = Fleet::start(5).await;
    let redlock = connected(&fleet).await;
    let lock = redlock.lock("a").await.unwrap();
    let before: u64 = sets(&fleet).await.iter().sum();
    for _ in 0..10 {
        assert!(
            timeout(ms(20), redlock.lock("a").into_future())
                .await
                .is_err()
        );
    }
    redlock.settled().await;
    let asked = sets(&fleet).await.iter().sum::<u64>() - before;
    // The lead alone, by each; all, where it takes long to answer.
    println!("{asked} times asked");
    assert!(asked < 30, "{asked} times asked");
    let next = tokio::spawn(redlock.lock("a").into_future());
    sleep(ms(20)).await;
    lock.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

/// Whoever asks at the same time as another of its process would split the votes.
#[tokio::test]
async fn of_the_tasks_of_a_process_one_asks_all_masters_at_a_time() {
    let fleet = Fleet::start(5).await;
    let proxies = fleet.proxies().await;
    let urls = proxies.iter().map(|proxy| proxy.url()).collect();
    let redlock = connected_to(urls, 5).await;
    for proxy in &proxies {
        proxy.both(Flow::Delay(ms(100)));
    }
    let before = sets(&fleet).await;
    let tasks: Vec<_> = (0..10)
        .map(|_| tokio::spawn(redlock.lock("a").into_future()))
        .collect();
    sleep(ms(150)).await;
    let asked: Vec<_> = std::iter::zip(sets(&fleet).await, before)
        .map(|(now, before)| now - before)
        .collect();
    // One of the others has asked too: the lead, and when that took long, all.
    assert!(asked.iter().all(|asked| *asked <= 2), "{asked:?}");
    for proxy in &proxies {
        proxy.both(Flow::Pass);
    }
    drop(
        tasks
            .into_iter()
            .map(|task| task.abort())
            .collect::<Vec<_>>(),
    );
}
