//! One attempt to take a lock: the algorithm of the Redlock page.

use std::sync::Arc;
use std::task::Poll;

use tokio::runtime::Handle;

use crate::claim::Claim;
use crate::core::{AcquireRound, AcquireVerdict, Lease, Refusal, Terms};
use crate::error::LockError;
use crate::fanout::within;
use crate::masters::Masters;

/// Asks all masters for the lock at once, and decides as soon as a quorum has.
/// Unless it is won, whatever was or will be granted is released on all masters
/// (S6, S8): dropping the claim does that, here as when the caller drops the
/// future (S17).
pub(crate) async fn take(
    masters: &Arc<Masters>,
    runtime: &Handle,
    resource: &Arc<[u8]>,
    terms: Terms,
) -> Result<(Claim, Lease), LockError> {
    let claim = Claim::stake(masters, runtime, masters.key(resource), terms.ttl());
    settle(claim, resource, terms).await
}

/// The same for a claim that was staked before: its round began then.
pub(crate) async fn settle(
    mut claim: Claim,
    resource: &[u8],
    terms: Terms,
) -> Result<(Claim, Lease), LockError> {
    match decide(&mut claim, terms).await {
        Ok(lease) => {
            claim.is_won();
            Ok((claim, lease))
        }
        Err(refusal) => Err(claim.refused(refusal, resource, terms)),
    }
}

async fn decide(claim: &mut Claim, terms: Terms) -> Result<Lease, Refusal> {
    let masters = claim.masters().clone();
    let takes = claim.takes();
    let started = takes.started();
    let mut round = AcquireRound::new(masters.settings.quorum, terms, started);
    let now = masters.clock.now();
    for (master, vote) in takes.votes() {
        round.vote(master, vote, now);
    }
    let limit = masters.settings.master_timeout.min(terms.window());
    let decided = within(limit, |context| {
        let _ = takes.poll_replies(context, |master, vote, now| {
            round.vote(master, vote, now);
        });
        verdict(&round)
    });
    if let Some(decided) = decided.await {
        return decided;
    }
    takes.time_out(&masters);
    let now = masters.clock.now();
    if terms.lease_if_valid(started, now).is_none() {
        return Err(Refusal::TooLate);
    }
    round.close(now);
    match verdict(&round) {
        Poll::Ready(decided) => decided,
        Poll::Pending => Err(Refusal::NoQuorum),
    }
}

fn verdict(round: &AcquireRound) -> Poll<Result<Lease, Refusal>> {
    match round.verdict() {
        AcquireVerdict::Pending => Poll::Pending,
        AcquireVerdict::Won(lease) => Poll::Ready(Ok(lease)),
        AcquireVerdict::Lost(refusal) => Poll::Ready(Err(refusal)),
    }
}
