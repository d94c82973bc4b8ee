//! A section that runs under a lock.
#![cfg(feature = "testing")]

mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use memory::*;
use redquorum::{HoldError, LeaseHandle, LockError, LossReason, MemoryMaster, Request};
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn request(masters: &[MemoryMaster]) -> Request {
    redlock(masters).lock(KEY).ttl(SECOND)
}

/// Says, when it is dropped, whether the lock was still on the masters.
struct Section {
    masters: Vec<MemoryMaster>,
    held_when_dropped: Arc<AtomicBool>,
}

impl Section {
    fn new(masters: &[MemoryMaster]) -> (Self, Arc<AtomicBool>) {
        let held_when_dropped = Arc::new(AtomicBool::new(false));
        let section = Self {
            masters: masters.to_vec(),
            held_when_dropped: held_when_dropped.clone(),
        };
        (section, held_when_dropped)
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        let held = self.masters.iter().all(|master| master.get(KEY).is_some());
        self.held_when_dropped.store(held, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn the_value_is_returned_and_the_lock_released() {
    let masters = masters::<3>();
    let value = request(&masters).hold(|lease| async move {
        sleep(10 * SECOND).await;
        assert!(lease.is_valid());
        lease.ensure(ms(100)).unwrap();
        7
    });
    assert_eq!(value.await.unwrap(), 7);
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn the_sections_own_error_is_returned_and_the_lock_released() {
    let masters = masters::<3>();
    let outcome = request(&masters).hold(|_| async { Err::<(), _>("no such order") });
    assert_eq!(outcome.await.unwrap(), Err("no such order"));
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn two_question_marks_give_the_locks_error_and_the_sections() {
    async fn run(masters: &[MemoryMaster]) -> Result<u8, Box<dyn std::error::Error + Send + Sync>> {
        let seven = request(masters).hold(|_| async { "7".parse::<u8>() });
        Ok(seven.await??)
    }
    let masters = masters::<3>();
    assert_eq!(run(&masters).await.unwrap(), 7);
    masters.iter().for_each(MemoryMaster::cut_off);
    let refused = timeout(60 * SECOND, run(&masters)).await.unwrap();
    assert!(refused.unwrap_err().to_string().contains("no quorum"));
}

#[tokio::test(start_paused = true)]
async fn without_the_lock_the_section_is_not_begun() {
    let masters = masters::<3>();
    take_elsewhere(&masters, None);
    let refused = request(&masters)
        .wait(ms(100))
        .hold(|_| -> std::future::Ready<()> { panic!("it was begun") });
    let refused = refused.await.unwrap_err();
    assert!(matches!(
        refused,
        HoldError::Lock(LockError::WaitedTooLong { .. })
    ));
    assert!(refused.into_value().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_panic_goes_on_and_the_lock_is_released() {
    let masters = masters::<3>();
    let section = request(&masters).hold(|_| async {
        sleep(5 * SECOND).await;
        panic!("a bug");
    });
    let panicked = std::panic::AssertUnwindSafe(section).catch_unwind().await;
    assert!(panicked.is_err());
    sleep(ms(1)).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s17_a_cancelled_section_is_dropped_and_then_the_lock_is_released() {
    let masters = masters::<3>();
    let (section, held) = Section::new(&masters);
    let running = request(&masters).hold(|_| async move {
        let _section = section;
        std::future::pending::<()>().await;
    });
    assert!(timeout(5 * SECOND, running).await.is_err());
    assert!(
        held.load(Ordering::SeqCst),
        "released before it was dropped"
    );
    sleep(ms(1)).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn s17_a_request_that_is_cancelled_at_any_time_leaves_nothing() {
    for after in 0..40 {
        let masters = masters::<3>();
        delay(&masters, &[5, 5, 5]);
        let section = request(&masters).hold(|_| sleep(ms(15)));
        let _ = timeout(ms(after), section).await;
        sleep(ms(100)).await;
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn s11_a_loss_drops_the_section_before_the_deadline() {
    let masters = masters::<3>();
    let (section, held) = Section::new(&masters);
    let began = Instant::now();
    let stall = masters.clone();
    let lost = request(&masters).hold(|_| async move {
        let _section = section;
        stall[..2].iter().for_each(MemoryMaster::stall);
        std::future::pending::<()>().await;
    });
    let lost = timeout(ms(10_000), lost).await.expect("it is dropped");
    let lost = lost.unwrap_err();
    assert_eq!(began.elapsed(), ms(983));
    assert!(held.load(Ordering::SeqCst), "its keys had expired");
    assert!(
        matches!(
            lost,
            HoldError::Lost {
                reason: LossReason::Expired,
                value: None
            }
        ),
        "{lost}"
    );
}

#[tokio::test(start_paused = true)]
async fn s11_a_lock_that_is_gone_drops_the_section_at_the_next_extension() {
    let masters = masters::<3>();
    let began = Instant::now();
    let wiped = masters.clone();
    let lost = request(&masters).hold(|_| async move {
        wiped[..2].iter().for_each(MemoryMaster::wipe);
        std::future::pending::<()>().await;
    });
    let lost = timeout(ms(10_000), lost).await.expect("it is dropped");
    let Err(HoldError::Lost { reason, value }) = lost else {
        panic!("it is lost");
    };
    assert!(matches!(reason, LossReason::Gone { .. }), "{reason}");
    assert!(value.is_none());
    assert!(began.elapsed() <= ms(335));
    sleep(ms(1)).await;
    assert_no_keys(&masters);
}

#[tokio::test(start_paused = true)]
async fn a_section_may_be_let_finish_and_its_value_comes_with_the_loss() {
    let masters = masters::<3>();
    let began = Instant::now();
    let wiped = masters.clone();
    let late = request(&masters).finish_on_loss().hold(|lease| async move {
        wiped[..2].iter().for_each(MemoryMaster::wipe);
        lease.lost().await;
        sleep(5 * SECOND).await;
        7
    });
    let late = late.await.unwrap_err();
    assert!(began.elapsed() > 5 * SECOND);
    assert!(matches!(
        late,
        HoldError::Lost {
            reason: LossReason::Gone { .. },
            value: Some(7)
        }
    ));
    assert_eq!(late.into_value(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_section_that_ends_after_a_loss_that_could_not_be_told_is_lost_too() {
    let masters = masters::<3>();
    // It does not come to an await, so that it can't be dropped.
    let late = request(&masters).hold(|_| tokio::time::advance(60 * SECOND).map(|()| 7));
    let late = late.await.unwrap_err();
    assert!(
        matches!(
            late,
            HoldError::Lost {
                reason: LossReason::Expired,
                ..
            }
        ),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_masters_had_lost_at_the_release_is_lost_with_its_value() {
    let masters = masters::<3>();
    let wiped = masters.clone();
    let late = request(&masters).hold(|_| async move {
        wiped.iter().for_each(MemoryMaster::wipe);
        7
    });
    let late = late.await.unwrap_err();
    assert!(late.to_string().contains("ended after its lock was lost"));
    assert_eq!(late.into_value(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_failing_release_hides_neither_value_nor_error() {
    for outcome in [Ok(7), Err("no such order")] {
        let masters = masters::<3>();
        let down = masters.clone();
        let section = request(&masters).hold(|_| async move {
            down.iter().for_each(MemoryMaster::cut_off);
            outcome
        });
        assert_eq!(section.await.unwrap(), outcome);
        masters.iter().for_each(MemoryMaster::restart);
        assert_no_keys(&masters);
    }
}

#[tokio::test(start_paused = true)]
async fn a_section_is_held_for_max_hold_at_most() {
    let masters = masters::<3>();
    let began = Instant::now();
    let stuck = request(&masters)
        .max_hold(5 * SECOND)
        .hold(|_| std::future::pending::<()>());
    let Err(HoldError::Lost { reason, .. }) = stuck.await else {
        panic!("it is stuck");
    };
    assert_eq!(reason, LossReason::MaxHold);
    assert!(began.elapsed() >= 5 * SECOND && began.elapsed() <= 6 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn s10_renewal_never_holds_up_the_section() {
    let masters = masters::<3>();
    masters[2].stall();
    let redlock = builder(&masters).master_timeout(ms(300)).build().unwrap();
    let request = redlock.lock(KEY).ttl(SECOND);
    delay(&masters[..2], &[100, 100]);
    let longest = request.hold(|_| async {
        let mut longest = Duration::ZERO;
        for _ in 0..5_000 {
            let looked = Instant::now();
            sleep(ms(1)).await;
            longest = longest.max(looked.elapsed());
        }
        longest
    });
    assert_eq!(longest.await.unwrap(), ms(1));
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_outlives_the_section_says_that_it_is_over() {
    let masters = masters::<3>();
    let request = request(&masters);
    let lease: LeaseHandle = request.hold(|lease| async { lease }).await.unwrap();
    assert!(!lease.is_valid());
    assert!(lease.ensure(Duration::ZERO).is_err());
    assert!(lease.lost_token().is_cancelled());
    assert_eq!(lease.lost().await, LossReason::Released);
    assert_eq!(lease.resource(), KEY.as_bytes());
}
