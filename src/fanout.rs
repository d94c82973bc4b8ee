//! One command to all masters at once, and their replies as they come.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::clock::Clock;
use crate::core::{MasterSet, Moment, Vote};
use crate::master::{Answer, Command, Fault, Master, Pending, Reply, Sent};
use crate::masters::Masters;
use crate::report::{MasterReport, RoundReport};

/// A command that was sent to all masters.
pub(crate) struct Fanout {
    clock: Clock,
    started: Moment,
    slots: Vec<Slot>,
    /// Who is woken by the replies, before they are first polled for.
    listener: Option<Waker>,
}

enum Slot {
    Pending(Pending),
    /// The master's reply, and how long it took, once it was handed over. Whether the
    /// command may have reached the master is kept apart from the fault.
    Replied {
        reply: Reply,
        latency: Option<Duration>,
        asked: bool,
    },
    /// The master's reply is no longer wanted.
    Dropped,
    /// The command was not sent to this one, or not yet.
    Unsent,
}

impl Fanout {
    /// Sends the command to all masters, in their order. The time is read
    /// before the first of them (S2). If the replies are polled for by the
    /// listener, the first look at them costs nothing.
    pub(crate) fn send(
        masters: &[Arc<dyn Master>],
        command: &Arc<Command>,
        clock: Clock,
        listener: Option<&Waker>,
    ) -> Self {
        let waker = listener.unwrap_or(Waker::noop());
        let started = clock.now();
        let mut is_ready = false;
        let slots = masters.iter().map(|master| {
            let sent = master.send(command, waker);
            is_ready |= matches!(sent, Sent::Ready(_));
            Slot::of(sent)
        });
        let slots = slots.collect();
        Self {
            clock,
            started,
            slots,
            listener: listener.filter(|_| !is_ready).cloned(),
        }
    }

    /// Sends the command to some of the masters, in their order.
    pub(crate) fn send_to(
        some: MasterSet,
        masters: &[Arc<dyn Master>],
        command: &Arc<Command>,
        clock: Clock,
    ) -> Self {
        let mut fanout = Self {
            clock,
            started: clock.now(),
            slots: masters.iter().map(|_| Slot::Unsent).collect(),
            listener: None,
        };
        fanout.send_more(masters, command, |master| some.contains(master));
        fanout
    }

    /// Sends the command to those that it was not sent to.
    pub(crate) fn send_to_the_rest(&mut self, masters: &[Arc<dyn Master>], command: &Arc<Command>) {
        self.send_more(masters, command, |_| true);
    }

    fn send_more(
        &mut self,
        masters: &[Arc<dyn Master>],
        command: &Arc<Command>,
        wanted: impl Fn(usize) -> bool,
    ) {
        for (index, (slot, master)) in self.slots.iter_mut().zip(masters).enumerate() {
            if matches!(slot, Slot::Unsent) && wanted(index) {
                *slot = Slot::of(master.send(command, Waker::noop()));
            }
        }
    }

    /// Before the first command was sent.
    pub(crate) fn started(&self) -> Moment {
        self.started
    }

    /// The masters that were not asked: they have no vote.
    pub(crate) fn not_asked(&self) -> impl Iterator<Item = usize> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| matches!(slot, Slot::Replied { asked: false, .. }))
            .map(|(master, _)| master)
    }

    /// What was replied before, and those who were not asked: they have no vote.
    pub(crate) fn votes(&self) -> impl Iterator<Item = (usize, Vote)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(master, slot)| match slot {
            Slot::Replied { reply, .. } => Some((master, vote(reply))),
            _ => None,
        })
    }

    /// The counts of the masters that granted a fenced lock.
    pub(crate) fn counts(&self) -> Vec<(usize, u64)> {
        let slots = self.slots.iter().enumerate();
        let counts = slots.filter_map(|(master, slot)| match slot {
            Slot::Replied {
                reply: Ok(Answer::Counted(count)),
                ..
            } => Some((master, *count)),
            _ => None,
        });
        counts.collect()
    }

    /// Hands over each reply that has come, with the time at which it was
    /// processed. Ready when all have.
    pub(crate) fn poll_replies(
        &mut self,
        context: &mut Context<'_>,
        on_reply: impl FnMut(usize, Vote, Moment),
    ) -> Poll<()> {
        let listener = self.listener.take();
        let is_awaited = listener.is_some_and(|listener| listener.will_wake(context.waker()));
        if !is_awaited && self.collect(context) {
            self.hand_over(on_reply);
        }
        match self.is_complete() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Collects the replies that have come; says whether there are any.
    fn collect(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        for slot in &mut self.slots {
            if let Slot::Pending(pending) = slot
                && let Poll::Ready(reply) = pending.as_mut().poll(context)
            {
                *slot = Slot::Replied {
                    reply,
                    latency: None,
                    asked: true,
                };
                any = true;
            }
        }
        any
    }

    /// The time is read once for all of them, when the last has come.
    fn hand_over(&mut self, mut on_reply: impl FnMut(usize, Vote, Moment)) {
        let now = self.clock.now();
        for (master, slot) in self.slots.iter_mut().enumerate() {
            if let Slot::Replied { reply, latency, .. } = slot
                && latency.is_none()
            {
                *latency = Some(now.since(self.started));
                on_reply(master, vote(reply), now);
            }
        }
    }

    /// Counts the masters that have not replied as timed out. Those that had
    /// the whole time-out for it are told: a round may have less, if its
    /// validity ends before. Their replies are no longer wanted.
    pub(crate) fn time_out(&mut self, masters: &Masters) {
        let after = self.clock.now().since(self.started);
        let had_its_time = after >= masters.settings.master_timeout;
        for (slot, master) in self.slots.iter_mut().zip(&masters.all) {
            if let Slot::Pending(_) = slot {
                if had_its_time {
                    master.fell_silent();
                }
                *slot = Slot::Replied {
                    reply: Err(Fault::TimedOut { after }),
                    latency: Some(after),
                    asked: true,
                };
            }
        }
    }

    /// Waits for the replies that have not come, and counts those that don't in
    /// the master time-out as timed out.
    pub(crate) async fn settle(&mut self, masters: &Masters) {
        let limit = masters.settings.master_timeout;
        let all = masters
            .timers
            .within(limit, |context| self.poll_replies(context, |_, _, _| {}));
        if all.await.is_none() {
            self.time_out(masters);
        }
    }

    /// Drops the replies that have not come.
    pub(crate) fn drop_pending(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Pending(_) = slot {
                *slot = Slot::Dropped;
            }
        }
    }

    /// The replies that have not come, to be awaited elsewhere.
    pub(crate) fn take(&mut self) -> Fanout {
        Fanout {
            clock: self.clock,
            started: self.started,
            slots: mem::take(&mut self.slots),
            listener: self.listener.take(),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        !self
            .slots
            .iter()
            .any(|slot| matches!(slot, Slot::Pending(_)))
    }

    /// Whether one of these masters has still to reply.
    pub(crate) fn awaits_any_of(&self, masters: MasterSet) -> bool {
        let mut slots = self.slots.iter().enumerate();
        slots.any(|(master, slot)| matches!(slot, Slot::Pending(_)) && masters.contains(master))
    }

    /// The masters that did what they were asked, or may have, or may yet: not
    /// those that were not asked, or answered that they did not.
    pub(crate) fn may_have_agreed(&self) -> MasterSet {
        self.select(|slot| match slot {
            Slot::Pending(_) | Slot::Dropped => true,
            Slot::Unsent | Slot::Replied { asked: false, .. } => false,
            Slot::Replied { reply, .. } => match reply {
                Ok(answer) => *answer != Answer::No,
                Err(fault) => !fault.did_nothing(),
            },
        })
    }

    /// The masters that did what they were asked.
    pub(crate) fn agreed(&self) -> MasterSet {
        self.select(|slot| {
            matches!(
                slot,
                Slot::Replied {
                    reply: Ok(Answer::Yes | Answer::Counted(_)),
                    ..
                }
            )
        })
    }

    /// The masters that said no: their value is not the token.
    pub(crate) fn refused(&self) -> MasterSet {
        self.select(|slot| {
            matches!(
                slot,
                Slot::Replied {
                    reply: Ok(Answer::No),
                    ..
                }
            )
        })
    }

    /// The masters that have said neither yes nor no.
    pub(crate) fn unanswered(&self) -> MasterSet {
        self.select(|slot| !matches!(slot, Slot::Replied { reply: Ok(_), .. }))
    }

    pub(crate) fn report(&self, masters: &[Arc<dyn Master>]) -> RoundReport {
        let reports = masters
            .iter()
            .zip(&self.slots)
            .map(|(master, slot)| slot.report(master.address().clone()));
        RoundReport::new(reports.collect())
    }

    fn select(&self, wanted: impl Fn(&Slot) -> bool) -> MasterSet {
        let mut set = MasterSet::EMPTY;
        for (master, slot) in self.slots.iter().enumerate() {
            if wanted(slot) {
                set.insert(master);
            }
        }
        set
    }
}

impl Slot {
    fn of(sent: Sent) -> Self {
        match sent {
            Sent::Pending(pending) | Sent::Ready(pending) => Slot::Pending(pending),
            Sent::Not(fault) => Slot::Replied {
                reply: Err(fault),
                latency: Some(Duration::ZERO),
                asked: false,
            },
        }
    }

    fn report(&self, address: Arc<str>) -> MasterReport {
        match self {
            Slot::Replied {
                reply,
                latency,
                asked,
            } => MasterReport {
                address,
                vote: Some(vote(reply)),
                latency: latency.filter(|_| *asked),
                fault: reply.as_ref().err().cloned(),
            },
            Slot::Pending(_) | Slot::Dropped | Slot::Unsent => MasterReport {
                address,
                vote: None,
                latency: None,
                fault: None,
            },
        }
    }
}

fn vote(reply: &Reply) -> Vote {
    match reply {
        Ok(Answer::Yes | Answer::Counted(_)) => Vote::Yes,
        Ok(Answer::No) => Vote::No,
        Err(_) => Vote::Absent,
    }
}
