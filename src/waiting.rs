//! Waiting for a lock that other processes have, without polling: masters tell
//! when it goes.
//!
//! All processes hear of it at the same time. If all then asked all masters,
//! they would split the vote; so where several were seen to contend, each asks
//! one master first, the same for all (it knocks at the *lead*), and only the
//! one that the lead granted the lock asks the others. Whoever is refused has
//! asked to be told of the next change in the same breath.

use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use crate::chance;
use crate::claim::Claim;
use crate::core::{Backoff, MasterSet, Vote};
use crate::fanout::Fanout;
use crate::gate::{Gate, Wish, Wishing};
use crate::lock::lock;
use crate::master::{Action, Command};
use crate::masters::Masters;
use crate::token::Token;

/// For how long a lock that a task of this process holds is left alone, before
/// the masters are asked to tell when it goes.
const TRUST: Duration = Duration::from_millis(5);

/// How long the lead may take before the others are asked without its answer.
const LEAD_TIME: Duration = Duration::from_millis(10);

/// For how long the lead alone is watched: should it have a key that a quorum
/// does not have, those who wait are to hear of a release all the same.
const LEAD_WATCH: Duration = Duration::from_millis(25);

/// How long one that gives way lets others take the lock.
const POLITE: Duration = Duration::from_millis(1);

/// The bound of the pauses of one that finds the lock free each time it looks,
/// and is refused each time it asks: some masters have a key that nobody will
/// release, and others set none.
const LONGEST_VAIN: Duration = Duration::from_millis(250);

/// One that waits for the lock of other processes.
pub(crate) struct Waiter<'a> {
    pub(crate) masters: &'a Arc<Masters>,
    pub(crate) runtime: &'a Handle,
    pub(crate) key: &'a Arc<[u8]>,
    pub(crate) take: Action,
    pub(crate) gate: &'a Gate,
    /// How many openings it has missed.
    pub(crate) missed: u32,
    /// How often in a row it has found the lock free when it looked.
    pub(crate) vain: &'a mut u32,
    /// Whether there may be an attempt that asks the lead alone.
    pub(crate) may_miss: bool,
    /// Whether attempts are counted: then none is made in order to be told.
    pub(crate) sparing: bool,
}

/// How one that contends goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It asks the lead, and watches it.
    Knock,
    /// It watches the lead, which it has asked.
    Watch,
    /// It sees whether the lock is free: others contend for it.
    Enter,
    /// It lets others have the lock, who want it too: this process just had it.
    GiveWay,
    /// It looks at all masters, and watches them.
    Look,
    /// It rests: there is nothing to watch, since masters are in trouble.
    Rest,
}

/// What one that waits comes to.
pub(crate) enum Chance {
    /// A task of this process released the lock, and this claim followed.
    Claimed(Claim),
    /// The lead has granted this claim, or has not answered.
    Led {
        claim: Claim,
        /// It was the first that the lead was asked, and nobody else was seen to want
        /// the lock.
        at_once: bool,
    },
    /// The lock may be free.
    Free,
    /// It was free, but the lead has given it to another.
    Missed {
        /// Whether this one had asked for it.
        asked: bool,
    },
    /// It is free, and nobody else has asked for it while this process gave way.
    Unwanted,
    /// This process has had it for long enough.
    Due,
}

/// Where the claim is put that follows the release of a task of this process.
pub(crate) struct Successor<'a> {
    claim: Arc<Mutex<Option<Claim>>>,
    _wishing: Wishing<'a>,
}

impl<'a> Waiter<'a> {
    /// Has a claim follow the release of a task of this process, on the same
    /// connections and without a pause.
    pub(crate) fn succeed(&self, run: Option<Instant>) -> Successor<'a> {
        let claim: Arc<Mutex<Option<Claim>>> = Arc::default();
        let (slot, masters, runtime) = (claim.clone(), self.masters.clone(), self.runtime.clone());
        let (key, take) = (self.key.clone(), self.take);
        let follow = Box::new(move || {
            if Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()) {
                // The guard is dropped with its thread, which can't enter a runtime.
                return;
            }
            let _runtime = runtime.enter();
            *lock(&slot) = Some(Claim::stake(&masters, &runtime, key, take, None));
        });
        Successor {
            claim,
            _wishing: self.gate.wish(Wish { run, follow }),
        }
    }

    /// Waits until the lock may be had.
    pub(crate) async fn opening(&mut self, next: Next) -> Chance {
        let Some(lead) = self.masters.lead(self.key) else {
            return std::future::pending().await;
        };
        if self.gate.knows_a_holder() {
            self.masters.timers.sleep(TRUST).await;
        }
        match next {
            Next::Rest => std::future::pending().await,
            Next::Look => self.look_out(lead).await,
            Next::Enter => match self.is_free_at(lead).await {
                Some(true) => self.at_the_opening(lead).await,
                Some(false) | None => self.watch(lead).await,
            },
            Next::GiveWay => self.give_way(lead).await,
            Next::Watch => self.watch(lead).await,
            Next::Knock => self.knock_and_watch(lead).await,
        }
    }

    async fn knock_and_watch(&mut self, lead: usize) -> Chance {
        if self.sparing {
            return self.look_out(lead).await;
        }
        match self.knock(lead).await {
            Some((claim, at_once)) => Chance::Led { claim, at_once },
            None => self.watch(lead).await,
        }
    }

    /// Asks the lead for the lock and, if it refuses, to tell of the next
    /// change. Gives the claim that it granted, or has not answered; and whether
    /// that was the first one.
    async fn knock(&self, lead: usize) -> Option<(Claim, bool)> {
        let mut at_once = true;
        loop {
            self.gate.forget_freed();
            let key = self.key.clone();
            let mut claim = Claim::stake_at(lead, self.masters, self.runtime, key, self.take);
            let mut look = self.send_look(only(lead));
            let answered = self.masters.timers.within(LEAD_TIME, |context| {
                claim.takes().poll_replies(context, |_, _, _| {})
            });
            let refused = answered.await.is_some() && !claim.takes().refused().is_empty();
            if !refused {
                return Some((claim, at_once));
            }
            claim.withdraw();
            if self.is_free(&mut look).await != Some(true) {
                return None;
            }
            at_once = false;
        }
    }

    /// Waits until the lead tells of a change.
    async fn watch(&mut self, lead: usize) -> Chance {
        match timeout(LEAD_WATCH, self.gate.until_changed_at(lead)).await {
            Ok(()) => self.at_the_opening(lead).await,
            Err(_) => self.look_out(lead).await,
        }
    }

    /// The lead says that the lock is free: asks it in one of the next slots, if
    /// several are likely to ask.
    async fn at_the_opening(&self, lead: usize) -> Chance {
        let rivalry = &self.masters.gates.rivalry;
        if !self.may_miss || !rivalry.collides(self.key) {
            return Chance::Free;
        }
        let mut spread = rivalry.spread(self.key);
        let mut idle = 0;
        let chance = loop {
            if spread.asks(self.missed, chance::number()) {
                break match self.knock(lead).await {
                    Some((claim, _)) => Chance::Led {
                        claim,
                        at_once: false,
                    },
                    None => Chance::Missed { asked: true },
                };
            }
            match self.is_free_at(lead).await {
                Some(true) => spread.idle(idle),
                Some(false) => break Chance::Missed { asked: false },
                None => break Chance::Free,
            }
            idle += 1;
        };
        spread.taken();
        rivalry.set_spread(self.key, spread);
        if let Chance::Missed { .. } = chance {
            rivalry.collided(self.key);
        }
        chance
    }

    /// Waits until a quorum of masters say that the key is gone.
    async fn look_out(&mut self, lead: usize) -> Chance {
        let quorum = self.masters.settings.quorum;
        let timeout = self.masters.settings.master_timeout;
        self.gate.forget_freed();
        let mut looks = self.send_look(MasterSet::first(self.masters.all.len()));
        tokio::select! {
            biased;
            () = self.gate.until_freed(quorum) => {}
            () = self.hear(&mut looks, timeout, |master| self.gate.is_freed_by(master)) => {}
        }
        if quorum.is_met_by(looks.agreed().len()) {
            sleep(pause(*self.vain)).await;
            *self.vain = self.vain.saturating_add(1);
        } else {
            *self.vain = 0;
            self.gate.until_freed(quorum).await;
        }
        if self.gate.freed().contains(lead) {
            return self.at_the_opening(lead).await;
        }
        // There is none to say who goes first.
        sleep(pause(0)).await;
        Chance::Free
    }

    /// Lets others have the lock, if one wants it: it is told of the release,
    /// and asks while this one pauses.
    async fn give_way(&mut self, lead: usize) -> Chance {
        if self.is_free_at(lead).await != Some(true) {
            return self.watch(lead).await;
        }
        let rivalry = &self.masters.gates.rivalry;
        match timeout(POLITE, self.gate.until_changed_at(lead)).await {
            Err(_) if rivalry.collides(self.key) => self.at_the_opening(lead).await,
            Err(_) => Chance::Unwanted,
            Ok(()) => {
                rivalry.rival(self.key);
                self.knock_and_watch(lead).await
            }
        }
    }

    /// Whether this one does not have the key, if it answers; it tells when that
    /// changes.
    async fn is_free_at(&self, master: usize) -> Option<bool> {
        self.gate.forget_freed();
        self.is_free(&mut self.send_look(only(master))).await
    }

    fn send_look(&self, at: MasterSet) -> Fanout {
        let command = Command::new(Action::Look, self.key.clone(), Token::none());
        Fanout::send_to(at, &self.masters.all, &command, self.masters.clock)
    }

    async fn is_free(&self, look: &mut Fanout) -> Option<bool> {
        self.hear(look, LEAD_TIME, |_| {}).await;
        match (look.agreed().is_empty(), look.refused().is_empty()) {
            (false, _) => Some(true),
            (_, false) => Some(false),
            _ => None,
        }
    }

    /// Waits for all answers, and hands over each master that doesn't have the key
    /// as soon as it says so: nobody has to wait for one that hangs.
    async fn hear(&self, looks: &mut Fanout, limit: Duration, on_free: impl Fn(usize)) {
        let all = self.masters.timers.within(limit, |context| {
            looks.poll_replies(context, |master, vote, _| match vote {
                Vote::Yes => on_free(master),
                Vote::No | Vote::Absent => {}
            })
        });
        if all.await.is_none() {
            looks.time_out(self.masters);
        }
    }
}

/// A random share of what doubles each time.
fn pause(before: u32) -> Duration {
    let backoff = Backoff::new(POLITE, LONGEST_VAIN).expect("the bounds are in order");
    backoff.delay(before, chance::number())
}

impl Successor<'_> {
    pub(crate) fn take(&self) -> Option<Claim> {
        mem::take(&mut *lock(&self.claim))
    }
}

fn only(master: usize) -> MasterSet {
    let mut set = MasterSet::EMPTY;
    set.insert(master);
    set
}
