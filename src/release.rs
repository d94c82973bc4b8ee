//! A release under way: sent to all masters, confirmed by them, and never
//! forgotten by those that have not.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::core::{MasterSet, ReleaseRound, ReleaseVerdict, Ttl, Vote};
use crate::fanout::Fanout;
use crate::master::{Command, Owed};
use crate::masters::Masters;
use crate::report::RoundReport;

/// The least time that stragglers have after the masters have decided, before
/// they are settled in the background.
const LEAST_GRACE: Duration = Duration::from_millis(5);

/// A release that was sent. Dropping it goes on with it in the background: what
/// the masters don't confirm in the time-out stays owed to them (S5, S6).
pub(crate) struct Release {
    runtime: Handle,
    confirmation: Confirmation,
}

/// What is still to be heard of a release. When it is dropped, be it because its
/// runtime ended, what was not confirmed is owed.
struct Confirmation {
    masters: Arc<Masters>,
    command: Arc<Command>,
    replies: Fanout,
    /// The longest that the token's keys live.
    ttl: Ttl,
    /// The masters that may have the token.
    holders: MasterSet,
}

impl Release {
    pub(crate) fn send(
        masters: Arc<Masters>,
        runtime: Handle,
        command: Arc<Command>,
        ttl: Ttl,
        holders: MasterSet,
        listener: Option<&Waker>,
    ) -> Self {
        let replies = Fanout::send(&masters.all, &command, masters.clock, listener);
        for silent in replies
            .not_asked()
            .filter(|master| holders.contains(*master))
        {
            masters.all[silent].send_blindly(&command);
        }
        Self {
            runtime,
            confirmation: Confirmation {
                masters,
                command,
                replies,
                ttl,
                holders,
            },
        }
    }

    /// Waits until the masters have decided, within the master time-out, and
    /// for as long again for the stragglers among those that may have the
    /// token.
    pub(crate) async fn confirm(&mut self) -> ReleaseVerdict {
        let Confirmation {
            masters,
            replies,
            holders,
            ..
        } = &mut self.confirmation;
        let mut round = ReleaseRound::new(masters.settings.quorum);
        for master in replies.not_asked() {
            round.vote(master, Vote::Absent);
        }
        let started = Instant::now();
        let limit = masters.settings.master_timeout;
        let decided = masters.timers.within(limit, |context| {
            let all = replies.poll_replies(context, |master, vote, _| {
                round.vote(master, vote);
            });
            match round.verdict() {
                ReleaseVerdict::Pending => all,
                _ => Poll::Ready(()),
            }
        });
        if decided.await.is_none() {
            replies.time_out(masters);
        } else if replies.awaits_any_of(*holders) {
            let taken = started.elapsed();
            let grace = taken.max(LEAST_GRACE).min(limit.saturating_sub(taken));
            masters
                .timers
                .within(grace, |context| {
                    let _ = replies.poll_replies(context, |_, _, _| {});
                    match replies.awaits_any_of(*holders) {
                        true => Poll::Pending,
                        false => Poll::Ready(()),
                    }
                })
                .await;
        }
        match round.verdict() {
            ReleaseVerdict::Pending => round.close(),
            decided => decided,
        }
    }

    /// On how many masters the token was removed, of how many.
    pub(crate) fn removed(&self) -> (usize, usize) {
        let Confirmation {
            masters, replies, ..
        } = &self.confirmation;
        (replies.agreed().len(), masters.all.len())
    }

    pub(crate) fn report(&self) -> RoundReport {
        let Confirmation {
            masters, replies, ..
        } = &self.confirmation;
        replies.report(&masters.all)
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let mut confirmation = self.confirmation.take();
        if !confirmation.replies.is_complete() {
            let unsettled = confirmation.masters.unsettled();
            self.runtime.spawn(async move {
                confirmation.replies.settle(&confirmation.masters).await;
                drop(confirmation);
                drop(unsettled);
            });
        }
    }
}

impl Confirmation {
    fn take(&mut self) -> Self {
        Self {
            masters: self.masters.clone(),
            command: self.command.clone(),
            replies: self.replies.take(),
            ttl: self.ttl,
            holders: self.holders,
        }
    }

    /// Leaves it to the masters that may have the token and have not confirmed
    /// that they don't.
    fn owe_the_rest(&self) {
        let unanswered = self.replies.unanswered();
        let until = Instant::now().checked_add(self.ttl.as_duration());
        for (index, master) in self.masters.all.iter().enumerate() {
            if unanswered.contains(index) && self.holders.contains(index) {
                master.owe(Owed {
                    key: self.command.key.clone(),
                    token: self.command.token,
                    until,
                });
            }
        }
    }
}

impl Drop for Confirmation {
    fn drop(&mut self) {
        self.owe_the_rest();
    }
}
