//! The limits of rounds, by timers that are used again.
//!
//! A timer that is armed for a time before all others wakes the thread that waits
//! for timers, so that it waits less long: a system call. Two rounds a lock would
//! have two of them. Hardly any round comes to its limit, and the next round's is
//! later: so its timer stays armed when it is over, and the next moves it on. Until
//! it goes off, it knows the task that waited for it last, and wakes it in vain.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::Clock;
use crate::lock::lock;

/// So many timers of each kind are kept, and no more than were ever used at one
/// time.
const MOST_KEPT: usize = 1024;

/// Shorter limits than this have timers of their own: to move a timer back costs as
/// much as to arm one.
const SHORT: Duration = Duration::from_millis(20);

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The timers of one coordinator.
pub(crate) struct Timers(Mutex<Kept>);

/// The timers that no round has just now: all of one runtime, which is the one
/// that they go by.
struct Kept {
    /// So many of each kind at the most.
    most: usize,
    runtime: Option<Id>,
    short: Vec<Timer>,
    long: Vec<Timer>,
}

type Timer = Pin<Box<Sleep>>;

impl Timers {
    /// Where the time is tokio's, it may be paused, and then goes on to whatever
    /// timer is armed: none is kept there.
    pub(crate) fn of(clock: Clock) -> Self {
        let most = match clock {
            Clock::System => MOST_KEPT,
            #[cfg(feature = "testing")]
            Clock::Tokio(_) => 0,
        };
        Self(Mutex::new(Kept {
            most,
            runtime: None,
            short: Vec::new(),
            long: Vec::new(),
        }))
    }

    /// Waits for something within a limit. A process that was held up for longer
    /// than that finds both the limit reached and what it waits for there, unread:
    /// so before giving up, it lets the runtime read it.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let mut alarm = Alarm {
            timers: self,
            limit,
            armed: None,
        };
        let found = poll_fn(|context| match look(context) {
            Poll::Ready(found) => Poll::Ready(Some(found)),
            Poll::Pending => alarm.poll(context).map(|()| None),
        });
        if let Some(found) = found.await {
            return Some(found);
        }
        drop(alarm);
        yield_now().await;
        poll_fn(|context| match look(context) {
            Poll::Ready(found) => Poll::Ready(Some(found)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    /// Waits for as long as this.
    pub(crate) async fn sleep(&self, time: Duration) {
        let mut alarm = Alarm {
            timers: self,
            limit: time,
            armed: None,
        };
        poll_fn(|context| alarm.poll(context)).await;
    }

    /// A timer that goes off after this time.
    fn arm(&self, limit: Duration) -> Armed {
        let runtime = Handle::current().id();
        let now = Instant::now();
        // A limit beyond all time is none.
        let deadline = now.checked_add(limit).unwrap_or_else(|| now + CENTURY);
        // Timers are moved on and dropped while nothing is locked: both may wake.
        let (timer, over) = lock(&self.0).take(runtime, limit);
        drop(over);
        let timer = match timer {
            Some(mut timer) => {
                timer.as_mut().reset(deadline);
                timer
            }
            None => Box::pin(sleep_until(deadline)),
        };
        Armed { runtime, timer }
    }
}

impl Kept {
    /// A timer of this runtime that has not gone off, and those that are of no use any
    /// more: one that has gone off is not armed, be it because its runtime has ended.
    fn take(&mut self, runtime: Id, limit: Duration) -> (Option<Timer>, Vec<Timer>) {
        let mut over = Vec::new();
        if self.runtime.replace(runtime) != Some(runtime) {
            over.append(&mut self.short);
            over.append(&mut self.long);
        }
        let timers = self.of(limit);
        while let Some(timer) = timers.pop() {
            if !timer.is_elapsed() {
                return (Some(timer), over);
            }
            over.push(timer);
        }
        (None, over)
    }

    /// Keeps the timer, or gives it back.
    fn keep(&mut self, Armed { runtime, timer }: Armed, limit: Duration) -> Option<Timer> {
        let (is_of_this_runtime, most) = (self.runtime == Some(runtime), self.most);
        let timers = self.of(limit);
        if !is_of_this_runtime || timers.len() >= most {
            return Some(timer);
        }
        timers.push(timer);
        None
    }

    fn of(&mut self, limit: Duration) -> &mut Vec<Timer> {
        match limit < SHORT {
            true => &mut self.short,
            false => &mut self.long,
        }
    }
}

/// Goes off at its limit, which begins when it is first waited for.
struct Alarm<'a> {
    timers: &'a Timers,
    limit: Duration,
    armed: Option<Armed>,
}

struct Armed {
    runtime: Id,
    timer: Timer,
}

impl Alarm<'_> {
    /// Not held up by a task that has used up its budget of polls: it would never
    /// see its deadline.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { timers, limit, .. } = *self;
        let armed = self.armed.get_or_insert_with(|| timers.arm(limit));
        Pin::new(&mut unconstrained(armed.timer.as_mut())).poll(context)
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if let Some(armed) = self.armed.take() {
            let over = lock(&self.timers.0).keep(armed, self.limit);
            drop(over);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::runtime::Builder;
    use tokio::time::{sleep, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);

    async fn reach(timers: &Timers, limit: Duration) -> Duration {
        let began = Instant::now();
        let found = timers.within(limit, |_| Poll::<()>::Pending).await;
        assert_eq!(found, None);
        began.elapsed()
    }

    /// A round that is over after this time.
    async fn round(timers: &Timers, takes: Duration) {
        let mut over = Box::pin(sleep(takes));
        let found = timers.within(LIMIT, |context| over.as_mut().poll(context));
        assert_eq!(found.await, Some(()));
    }

    fn kept(timers: &Timers) -> (usize, usize) {
        let kept = lock(&timers.0);
        (kept.short.len(), kept.long.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_was_used_before_goes_off_at_the_new_limit() {
        let timers = Timers::of(Clock::System);
        for limit in [LIMIT, LIMIT / 2, 2 * LIMIT, LIMIT] {
            round(&timers, LIMIT / 5).await;
            assert_eq!(kept(&timers), (0, 1));
            assert_eq!(reach(&timers, limit).await, limit);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_one_after_the_other_have_one_timer() {
        let timers = Timers::of(Clock::System);
        for _ in 0..100 {
            round(&timers, LIMIT / 10).await;
        }
        assert_eq!(kept(&timers), (0, 1));
        let rounds = (0..7).map(|_| round(&timers, LIMIT / 10));
        futures::future::join_all(rounds).await;
        assert_eq!(kept(&timers), (0, 7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_went_off_while_it_was_kept_is_no_more_used() {
        let timers = Timers::of(Clock::System);
        round(&timers, LIMIT / 10).await;
        sleep(2 * LIMIT).await;
        assert_eq!(reach(&timers, LIMIT).await, LIMIT);
    }

    #[test]
    fn a_runtime_that_nobody_drives_holds_up_no_other() {
        let timers = Timers::of(Clock::System);
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        let (idle, driven) = (runtime(), runtime());
        idle.block_on(round(&timers, LIMIT / 10));
        driven.block_on(async {
            let limit = timeout(100 * LIMIT, reach(&timers, LIMIT)).await;
            limit.expect("its timer goes off in its own runtime");
        });
    }

    #[test]
    fn timers_outlive_their_runtime() {
        let timers = Timers::of(Clock::System);
        for _ in 0..3 {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(round(&timers, LIMIT / 10));
            runtime.block_on(async { assert!(timeout(LIMIT, pending::<()>()).await.is_err()) });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_beyond_all_time_is_none() {
        let timers = Timers::of(Clock::System);
        let never = timers.within(Duration::MAX, |_| Poll::<()>::Pending);
        assert!(timeout(1000 * LIMIT, never).await.is_err());
    }
}
