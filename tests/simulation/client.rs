//! A client on a host of its own: some tasks that take, keep and give back locks
//! by the library as it is, as the seed has it.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redquorum::simulation::Connector;
use redquorum::{
    ExtendError, Fault, Guard, HoldError, LeaseHandle, LockError, Redlock, ReleaseError,
    RoundReport, Wait,
};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};

use super::cancelled::Cancelled;
use super::dice::Dice;
use super::ledger::{Ledger, Relied, now};
use super::master::{Master, PORT};
use super::setting::Planted;
use super::world::World;

/// A section looks at its lease this often.
const STEP: Duration = Duration::from_millis(10);

/// By how much something may take longer than it was allowed to.
const SLACK: Duration = Duration::from_secs(1);

pub(crate) fn name(client: usize) -> String {
    format!("c{client}")
}

fn redlock(world: &World, client: usize) -> Redlock {
    let setting = &world.setting;
    let masters = 0..setting.masters;
    let urls = masters.map(|master| format!("redis://{}:{PORT}", Master::name(master)));
    let network: Arc<dyn Connector> = Arc::new(world.networks[client].clone());
    let mut builder = Redlock::builder()
        .simulated_masters(urls, &network)
        .ttl(setting.ttls[0])
        .max_ttl(setting.longest_ttl())
        .master_timeout(setting.master_timeout)
        .connect_timeout(setting.connect_timeout)
        .restart_quarantine(setting.planted != Planted::NoQuarantine);
    if setting.planted == Planted::NoDrift {
        builder = builder.drift_factor(0.0).drift_floor(Duration::ZERO);
    }
    builder.build().expect("the configuration is valid")
}

/// All that a client does; it ends when the run is over.
pub(crate) async fn run(world: Rc<World>, client: usize) -> turmoil::Result {
    let redlock = redlock(&world, client);
    let life = world.begins(client);
    let watching = spawn_local(watch(world.clone(), client));
    let workers: Vec<JoinHandle<()>> = (0..world.setting.workers)
        .map(|worker| Worker::new(&world, &redlock, (client, life), worker))
        .map(|worker| spawn_local(worker.run()))
        .collect();
    for worker in workers {
        worker.await?;
    }
    redlock.settled().await;
    let mut last = Worker::new(&world, &redlock, (client, life), world.setting.workers);
    last.take_each().await;
    last.reach_all().await;
    redlock.settled().await;
    world.done.set(world.done.get() + 1);
    while !world.over.get() {
        sleep(Duration::from_millis(1)).await;
    }
    watching.abort();
    Ok(())
}

/// Looks at the client's leases at every tick.
async fn watch(world: Rc<World>, client: usize) {
    loop {
        world.ledger.borrow_mut().look(client);
        sleep(Duration::from_millis(1)).await;
    }
}

/// What runs under a lock. It is stopped before the lock is lost (S11).
async fn section(ledger: Rc<RefCell<Ledger>>, client: usize, lease: LeaseHandle, length: Duration) {
    let relied = Relied::on(&ledger, client, lease.clone());
    let end = now() + length;
    while now() < end {
        sleep(STEP.min(end - now())).await;
        if !lease.is_valid() {
            let token = lease.token();
            ledger
                .borrow_mut()
                .breaks(format!("S11: the section of {token} goes on"));
        }
    }
    drop(relied);
}

/// One task of a client.
struct Worker {
    world: Rc<World>,
    redlock: Redlock,
    client: usize,
    number: usize,
    dice: Dice,
}

impl Worker {
    /// Each life of a client has its own chances.
    fn new(
        world: &Rc<World>,
        redlock: &Redlock,
        (client, life): (usize, u64),
        number: usize,
    ) -> Self {
        let mut dice = Dice::of(world.setting.seed ^ 0x636c_6965_6e74);
        for _ in 0..life * 100 + client as u64 * 10 + number as u64 {
            dice.split();
        }
        Self {
            world: world.clone(),
            redlock: redlock.clone(),
            client,
            number,
            dice: dice.split(),
        }
    }

    async fn run(mut self) {
        while now() < self.world.setting.chaos {
            let resource = format!("r{}", self.dice.index(self.world.setting.resources));
            let ttl = *self.dice.pick(&self.world.setting.ttls);
            match self.dice.below(10) {
                0..=3 => self.cancellable(resource, ttl, Self::lock).await,
                4 => self.cancellable(resource, ttl, Self::try_once).await,
                5 | 6 => self.cancellable(resource, ttl, Self::extend).await,
                7 | 8 => self.cancellable(resource, ttl, Self::hold).await,
                _ => self.look_at_masters().await,
            }
            let idle = *self.dice.pick(&[1, 10, 100]);
            sleep(self.dice.millis(0, idle)).await;
        }
    }

    /// Does something, or only the beginning of it.
    async fn cancellable<F>(&mut self, resource: String, ttl: Duration, what: F)
    where
        F: AsyncFnOnce(&mut Self, String, Duration),
    {
        let fate = self.dice.below(10);
        let polls = 1 + self.dice.below(30);
        let pause = self.dice.millis(0, 300);
        let doing = what(self, resource, ttl);
        let finished = match fate {
            0 | 1 => Cancelled::after(polls, doing).await.is_some(),
            2 => timeout(pause, doing).await.is_ok(),
            _ => {
                doing.await;
                true
            }
        };
        if !finished {
            self.world.saw("a future was dropped");
            self.tell(format_args!("dropped it"));
        }
    }

    async fn lock(&mut self, resource: String, ttl: Duration) {
        let wait = self.dice.millis(0, 3000);
        if let Some((relied, guard)) = self.take(&resource, ttl, Wait::For(wait)).await {
            let rest = self.dice.millis(0, 2 * ttl.as_millis().min(1000) as u64);
            if self.dice.chance(50) {
                // Gives it up when it is lost.
                if timeout(rest, guard.lost()).await.is_ok() {
                    self.world.saw("a loss was told");
                }
            } else {
                sleep(rest).await;
            }
            self.give_back(relied, guard).await;
        }
    }

    async fn try_once(&mut self, resource: String, ttl: Duration) {
        if let Some((relied, guard)) = self.take(&resource, ttl, Wait::No).await {
            sleep(self.dice.millis(0, 50)).await;
            self.give_back(relied, guard).await;
        }
    }

    async fn extend(&mut self, resource: String, ttl: Duration) {
        let wait = self.dice.millis(0, 3000);
        let Some((relied, guard)) = self.take(&resource, ttl, Wait::For(wait)).await else {
            return;
        };
        for _ in 0..self.dice.below(5) {
            sleep(self.dice.millis(0, ttl.as_millis().min(1000) as u64)).await;
            let ttl = *self.dice.pick(&self.world.setting.ttls);
            let limit = self.world.setting.master_timeout + SLACK;
            let extended = self.in_time("extend", limit, guard.extend(ttl)).await;
            self.tell(format_args!("extended {resource}: {}", outcome(&extended)));
            self.look();
            match extended {
                Ok(_) => self.world.saw("an extension was renewed"),
                Err(ExtendError::Lost { report, .. }) => {
                    self.world.saw("an extension found the lease lost");
                    self.see(&report);
                    break;
                }
                Err(ExtendError::Unknown { report, .. }) => {
                    self.world.saw("an extension was undecided");
                    self.see(&report);
                }
                Err(other) => self.breaks(format_args!("extend: {other}")),
            }
        }
        self.give_back(relied, guard).await;
    }

    async fn hold(&mut self, resource: String, ttl: Duration) {
        let wait = self.dice.millis(0, 3000);
        let length = self.dice.millis(0, 3 * ttl.as_millis().min(1500) as u64);
        let most = self.dice.millis(1, 3000);
        let mut request = self.redlock.lock(&resource).ttl(ttl).wait(wait);
        if self.dice.chance(30) {
            request = request.max_hold(most);
        }
        let (ledger, client) = (self.world.ledger.clone(), self.client);
        let holding = request.hold(|lease| section(ledger, client, lease, length));
        let limit = wait + length + self.world.setting.master_timeout * 2 + SLACK;
        let held = self.in_time("hold", limit, holding).await;
        self.tell(format_args!("held {resource}: {}", outcome(&held)));
        match held {
            Ok(()) => self.world.saw("a section ran to its end"),
            Err(HoldError::Lock(error)) => self.see_refusal(&error),
            Err(HoldError::Lost { .. }) => self.world.saw("a section was stopped"),
            Err(other) => self.breaks(format_args!("hold: {other}")),
        }
    }

    async fn look_at_masters(&mut self) {
        let limit = self.world.setting.connect_timeout + SLACK;
        let redlock = self.redlock.clone();
        let states = self.in_time("masters", limit, redlock.masters()).await;
        self.tell(format_args!("{} masters vote", states.voting()));
    }

    /// When there are no more faults: has each lock once.
    async fn take_each(&mut self) {
        let ttl = self.world.setting.ttls[0];
        let patience = self.world.setting.patience(true);
        for resource in 0..self.world.setting.resources {
            let resource = format!("r{resource}");
            match self.take(&resource, ttl, Wait::For(patience)).await {
                Some((relied, guard)) => {
                    drop(relied);
                    let released = guard.release().await;
                    self.tell(format_args!("released {resource}: {}", outcome(&released)));
                }
                None => self.breaks(format_args!("{resource} can't be had after all faults")),
            }
        }
    }

    /// When there are no more faults: every master is connected, and votes.
    async fn reach_all(&mut self) {
        let end = now() + self.world.setting.patience(true);
        loop {
            let states = self.redlock.masters().await;
            if states.voting() == self.world.setting.masters {
                return;
            }
            if now() > end {
                self.breaks(format_args!(
                    "not all masters vote after all faults: {states}"
                ));
                return;
            }
            sleep(SLACK / 10).await;
        }
    }

    async fn take(&mut self, resource: &str, ttl: Duration, wait: Wait) -> Option<(Relied, Guard)> {
        let limit = self.world.setting.master_timeout + SLACK;
        let limit = match wait {
            Wait::For(wait) => wait + limit,
            _ => limit,
        };
        let request = self.redlock.lock(resource).ttl(ttl).wait(wait);
        let taken = self.in_time("lock", limit, request.into_future()).await;
        match taken {
            Ok(guard) => {
                self.tell(format_args!("has {resource}: {}", guard.token()));
                let relied = Relied::on(&self.world.ledger, self.client, guard.lease());
                self.world.saw("a lock was taken");
                Some((relied, guard))
            }
            Err(error) => {
                self.tell(format_args!("has not {resource}: {error}"));
                self.see_refusal(&error);
                None
            }
        }
    }

    async fn give_back(&mut self, relied: Relied, guard: Guard) {
        drop(relied);
        if self.dice.chance(50) {
            self.tell(format_args!("drops {}", guard.token()));
            drop(guard);
            return;
        }
        let limit = self.world.setting.master_timeout + SLACK;
        let released = self.in_time("release", limit, guard.release()).await;
        self.tell(format_args!("released: {}", outcome(&released)));
        match released {
            Ok(_) => self.world.saw("a release was confirmed"),
            Err(ReleaseError::NotHeld { .. }) => self.world.saw("a release came too late"),
            Err(ReleaseError::Unconfirmed { .. }) => self.world.saw("a release was not confirmed"),
            Err(other) => self.breaks(format_args!("release: {other}")),
        }
    }

    /// Everything ends within its time.
    async fn in_time<T>(&self, what: &str, limit: Duration, doing: impl Future<Output = T>) -> T {
        let mut doing: Pin<Box<_>> = Box::pin(doing);
        let task = (self.client, self.number);
        self.world
            .under_way
            .borrow_mut()
            .insert(task, format!("{what} since {:?}", now()));
        let done = match timeout(limit, &mut doing).await {
            Ok(done) => done,
            Err(_) => {
                self.breaks(format_args!("{what} took longer than {limit:?}"));
                doing.await
            }
        };
        self.world.under_way.borrow_mut().remove(&task);
        done
    }

    fn see_refusal(&self, error: &LockError) {
        if let Some(report) = error.report() {
            self.see(report);
        }
        match error {
            LockError::WaitedTooLong { .. } => self.world.saw("a wait was over"),
            LockError::Taken { .. } => self.world.saw("a lock was refused"),
            LockError::NoQuorum { .. } => self.world.saw("there was no quorum"),
            LockError::ValidityUsedUp { .. } => self.world.saw("the validity was used up"),
            other => self.breaks(format_args!("lock: {other}")),
        }
    }

    fn see(&self, report: &RoundReport) {
        for master in report.masters() {
            self.world.saw(match &master.fault {
                None => continue,
                Some(Fault::TimedOut { .. }) => "a master did not answer in time",
                Some(Fault::Silent { .. }) => "a silent master was not asked",
                Some(Fault::Unreachable { .. }) => "a master was not reached",
                Some(Fault::Broken { .. }) => "a connection broke under a command",
                Some(Fault::Quarantined { .. }) => "the quarantine refused a vote",
                Some(other) => {
                    self.breaks(format_args!("a fault that can't be: {other}"));
                    continue;
                }
            });
        }
    }

    fn look(&self) {
        self.world.ledger.borrow_mut().look(self.client);
    }

    fn breaks(&self, promise: fmt::Arguments<'_>) {
        let (client, number) = (self.client, self.number);
        let mut ledger = self.world.ledger.borrow_mut();
        ledger.breaks(format!("client {client}, task {number}: {promise}"));
    }

    fn tell(&self, text: fmt::Arguments<'_>) {
        let (client, number) = (self.client, self.number);
        self.world
            .tell(now(), format_args!("c{client}.{number} {text}"));
    }
}

fn outcome<T, E: fmt::Display>(result: &Result<T, E>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(error) => error.to_string(),
    }
}
