//! What the tasks of a worker do with locks: everything that the library offers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redquorum::{LeaseHandle, LockError, Redlock, Request, Wait};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::PREFIX;
use crate::clock;
use crate::dice::Dice;
use crate::hold::Hold;
use crate::owned::Owned;
use crate::protocol::{Asked, End, Report, Why};
use crate::rule::Rule;
use crate::section::Section;
use crate::worker::tell;

/// One task.
pub struct Errands {
    pub dice: Dice,
    pub redlock: Redlock,
    pub plain: MultiplexedConnection,
    pub holds: Arc<AtomicU64>,
    pub resources: usize,
    pub max_ttl: Duration,
    pub broken: Option<Rule>,
}

/// What a task does with one lock.
#[derive(Clone, Copy)]
enum Errand {
    /// Waits for it, works and releases it.
    Work,
    /// Tries once.
    Try,
    /// Extends it by hand, to longer and shorter.
    Extend,
    /// Runs a section under it that is extended automatically.
    Hold,
    /// Has it extended automatically, and drops the guard.
    Keep,
    /// Drops the guard in the midst of it.
    Drop,
    /// Gives up waiting at any time.
    Cancel,
    /// Sleeps until the lease is over.
    Oversleep,
}

const USUAL: &[(Errand, usize)] = &[
    (Errand::Work, 40),
    (Errand::Try, 30),
    (Errand::Extend, 10),
    (Errand::Hold, 3),
    (Errand::Keep, 3),
    (Errand::Drop, 8),
    (Errand::Cancel, 12),
    (Errand::Oversleep, 2),
];

/// For rules that only a lease shows that is used to its end.
const SLEEPY: &[(Errand, usize)] = &[
    (Errand::Try, 80),
    (Errand::Work, 8),
    (Errand::Oversleep, 12),
];

impl Errands {
    /// Goes on errands until the next line of the parent's.
    pub async fn run(mut self, lines: watch::Receiver<usize>) -> Self {
        let errands = match self.broken {
            Some(Rule::Drift | Rule::Quarantine) => SLEEPY,
            _ => USUAL,
        };
        while *lines.borrow() == 0 {
            let errand = self.dice.weighted(errands);
            let resource = self.dice.below(self.resources);
            self.go(errand, resource).await;
            sleep(self.dice.millis(0..20)).await;
        }
        self
    }

    /// Has a lock of its own that would live for long, and gives it up: nothing of it may be left.
    pub async fn part(self, number: usize) {
        let own = format!("{PREFIX}part:{}:{number}", std::process::id());
        let request = self.redlock.lock(own).ttl(self.max_ttl);
        match number % 4 {
            0 => drop(request.await),
            1 => drop(timeout(Duration::ZERO, request.into_future()).await),
            2 => drop(request.hold(async |lease| lease.is_valid()).await),
            _ => {
                let guard = request.auto_extend().await;
                let _ = guard.expect("nobody else wants it").release().await;
            }
        }
    }

    async fn go(&mut self, errand: Errand, resource: usize) {
        match errand {
            Errand::Work => self.work(resource).await,
            Errand::Try => self.try_once(resource).await,
            Errand::Extend => self.extend(resource).await,
            Errand::Hold => self.hold(resource).await,
            Errand::Keep => self.keep(resource).await,
            Errand::Drop => self.drop(resource).await,
            Errand::Cancel => self.cancel(resource).await,
            Errand::Oversleep => self.oversleep(resource).await,
        }
    }

    async fn work(&mut self, resource: usize) {
        let wait = self.wait();
        let request = self.request(resource).wait(wait);
        if let Some((guard, hold)) = self.take(resource, request, wait, false).await {
            self.section(resource).run(&guard.lease()).await;
            hold.end(End::Released);
            guard.release().await;
        }
    }

    async fn try_once(&mut self, resource: usize) {
        let request = self.request(resource);
        let taken = self.take(resource, request, Wait::No, false).await;
        if let Some((guard, hold)) = taken {
            self.section(resource).run(&guard.lease()).await;
            hold.end(End::Released);
            guard.release().await;
        }
    }

    async fn extend(&mut self, resource: usize) {
        let wait = self.wait();
        let request = self.request(resource);
        let Some((guard, hold)) = self.take(resource, request, wait, true).await else {
            return;
        };
        for _ in 0..self.dice.below(4) {
            self.section(resource).run(&guard.lease()).await;
            let ttl = self.ttl();
            let extended = guard.extend(ttl).await;
            if extended.is_err() && !guard.is_valid() {
                return hold.end(End::Lost);
            }
            hold.look(|| guard.remaining());
        }
        hold.end(End::Released);
        guard.release().await;
    }

    async fn hold(&mut self, resource: usize) {
        let wait = self.wait();
        let (asked, section) = (ask(wait), self.section(resource));
        let (holds, length) = (self.holds.clone(), self.dice.millis(50..1_200));
        let request = self.request(resource).wait(wait);
        let section = |lease: LeaseHandle| async move {
            let owner = (lease.token().to_owned(), lease.fencing_token());
            let left = || lease.remaining();
            let Some(hold) = Hold::begin(&holds, resource, owner, asked, true, left) else {
                return;
            };
            section.run(&lease).await;
            hold.keep(&lease, length).await;
            hold.end(End::Released);
        };
        let held = match self.dice.below(2) {
            0 => request.hold(section).await,
            _ => request.fenced().hold(section).await,
        };
        if let Err(redquorum::HoldError::Lock(refused)) = held {
            tell_refusal(asked, &refused);
        }
    }

    async fn keep(&mut self, resource: usize) {
        let wait = self.wait();
        let request = self.request(resource).auto_extend();
        let Some((guard, hold)) = self.take(resource, request, wait, true).await else {
            return;
        };
        let lease = guard.lease();
        self.section(resource).run(&lease).await;
        let length = self.dice.millis(50..1_500);
        tokio::select! {
            () = hold.keep(&lease, length) => hold.end(End::Dropped),
            _ = guard.lost() => hold.end(End::Lost),
        }
    }

    async fn drop(&mut self, resource: usize) {
        let wait = self.wait();
        let request = self.request(resource);
        if let Some((guard, hold)) = self.take(resource, request, wait, false).await {
            sleep(self.dice.millis(0..10)).await;
            hold.end(End::Dropped);
            drop(guard);
        }
    }

    async fn cancel(&mut self, resource: usize) {
        let patience = self.dice.millis(0..30);
        let wait = self.wait();
        let asked = ask(wait);
        let request = self.request(resource);
        match timeout(patience, self.take(resource, request, wait, false)).await {
            Ok(Some((guard, hold))) => {
                hold.end(End::Released);
                guard.release().await;
            }
            Ok(None) => {}
            Err(_) => tell(&Report::Refused {
                asked,
                at: clock::now(),
                why: Why::Cancelled,
            }),
        }
    }

    async fn oversleep(&mut self, resource: usize) {
        let wait = self.wait();
        let request = self.request(resource);
        if let Some((guard, hold)) = self.take(resource, request, wait, false).await {
            self.section(resource).run(&guard.lease()).await;
            hold.look(|| guard.remaining());
            sleep(guard.remaining()).await;
            sleep(self.dice.millis(0..300)).await;
            hold.end(End::Overslept);
            drop(guard);
        }
    }

    async fn take(
        &mut self,
        resource: usize,
        request: Request,
        wait: Wait,
        renews: bool,
    ) -> Option<(Owned, Hold)> {
        let asked = ask(wait);
        let fenced = self.dice.below(2) == 0;
        match Owned::ask(request.wait(wait), fenced).await {
            Ok(guard) => {
                let owner = (guard.token().to_owned(), guard.fence());
                let left = || guard.remaining();
                let hold = Hold::begin(&self.holds, resource, owner, asked, renews, left)?;
                Some((guard, hold))
            }
            Err(refused) => {
                tell_refusal(asked, &refused);
                None
            }
        }
    }

    fn request(&mut self, resource: usize) -> Request {
        let ttl = self.ttl();
        self.redlock.lock(format!("{PREFIX}{resource}")).ttl(ttl)
    }

    fn ttl(&mut self) -> Duration {
        match self.broken {
            Some(Rule::Drift) => self.max_ttl,
            _ => self.max_ttl / self.dice.pick(&[1, 1, 2, 4]),
        }
    }

    fn wait(&mut self) -> Wait {
        match self.dice.below(8) {
            0 => Wait::Forever,
            _ => Wait::For(self.dice.millis(100..4_000)),
        }
    }

    fn section(&mut self, resource: usize) -> Section {
        // How many of 20 are long.
        let long = match self.broken {
            Some(Rule::Check) => 10,
            _ => 1,
        };
        Section {
            resource,
            plain: self.plain.clone(),
            length: match self.dice.below(20) < long {
                true => self.dice.millis(50..400),
                false => self.dice.millis(0..8),
            },
            checked: self.broken != Some(Rule::Check),
        }
    }
}

fn ask(wait: Wait) -> Asked {
    let allowed = match wait {
        Wait::No => Some(Duration::ZERO),
        Wait::For(wait) => Some(wait),
        Wait::Forever => None,
    };
    Asked {
        at: clock::now(),
        allowed,
    }
}

fn tell_refusal(asked: Asked, refused: &LockError) {
    let why = match refused {
        LockError::Taken { .. } => Why::Taken,
        LockError::NoQuorum { .. } => Why::NoQuorum,
        LockError::ValidityUsedUp { .. } => Why::UsedUp,
        LockError::WaitedTooLong { .. } => Why::WaitedTooLong,
        other => panic!("no attempt may come to this: {other}"),
    };
    let at = clock::now();
    tell(&Report::Refused { asked, at, why });
}
