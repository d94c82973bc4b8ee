//! One attempt to take a lock: the algorithm of the Redlock page.

use std::task::Poll;

use crate::claim::Claim;
use crate::core::{AcquireRound, AcquireVerdict, FenceRound, Lease, Refusal, Terms};
use crate::error::LockError;
use crate::report::RoundReport;

/// Decides about a lock that all masters are asked for, as soon as a quorum has.
/// Unless it is won, whatever was or will be granted is released on all masters
/// (S6, S8): dropping the claim does that, here as when the caller drops the
/// future (S17). The round began when the claim was staked.
pub(crate) async fn settle(
    mut claim: Claim,
    resource: &[u8],
    terms: Terms,
) -> Result<(Claim, Lease), LockError> {
    let lease = match decide(&mut claim, terms).await {
        Ok(lease) => lease,
        Err(refusal) => return Err(claim.refused(refusal, None, resource, terms)),
    };
    match fence(&mut claim, terms, lease).await {
        Ok(lease) => {
            claim.is_won(lease);
            Ok((claim, lease))
        }
        Err((refusal, report)) => Err(claim.refused(refusal, Some(report), resource, terms)),
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
    let decided = masters.timers.within(limit, |context| {
        let _ = takes.poll_replies(context, |master, vote, now| {
            round.vote(master, vote, now);
        });
        read(round.verdict())
    });
    if let Some(decided) = decided.await {
        return decided;
    }
    takes.time_out(&masters);
    let now = masters.clock.now();
    if terms.lease_if_valid(started, now).is_none() {
        return Err(Refusal::TooLate);
    }
    outcome(round.close(now))
}

/// Makes sure that a quorum knows the fencing token, if there is to be one (S16):
/// at once where the counters of a quorum agree.
async fn fence(
    claim: &mut Claim,
    terms: Terms,
    lease: Lease,
) -> Result<Lease, (Refusal, RoundReport)> {
    let Some(life) = claim.counter_life() else {
        return Ok(lease);
    };
    let masters = claim.masters().clone();
    let (quorum, now) = (masters.settings.quorum, masters.clock.now());
    let (started, counts) = (claim.takes().started(), claim.takes().counts());
    let Some(mut round) = FenceRound::new(quorum, terms, started, &counts, now) else {
        return Err((Refusal::NoQuorum, claim.takes().report(&masters.all)));
    };
    claim.is_fenced(round.token());
    if let Poll::Ready(decided) = read(round.verdict()) {
        return decided.map_err(|refusal| (refusal, claim.takes().report(&masters.all)));
    }
    let mut raises = claim.raise(round.token(), life);
    for (master, vote) in raises.votes() {
        round.vote(master, vote, now);
    }
    let limit = masters.settings.master_timeout.min(lease.validity(now));
    let decided = masters.timers.within(limit, |context| {
        let _ = raises.poll_replies(context, |master, vote, now| {
            round.vote(master, vote, now);
        });
        read(round.verdict())
    });
    let decided = match decided.await {
        Some(decided) => decided,
        None => {
            raises.time_out(&masters);
            outcome(round.close(masters.clock.now()))
        }
    };
    let report = raises.report(&masters.all);
    claim.settle_apart(raises);
    decided.map_err(|refusal| (refusal, report))
}

fn read(verdict: AcquireVerdict) -> Poll<Result<Lease, Refusal>> {
    match verdict {
        AcquireVerdict::Pending => Poll::Pending,
        AcquireVerdict::Won(lease) => Poll::Ready(Ok(lease)),
        AcquireVerdict::Lost(refusal) => Poll::Ready(Err(refusal)),
    }
}

/// A round that is over and has decided nothing had too few votes.
fn outcome(verdict: AcquireVerdict) -> Result<Lease, Refusal> {
    match read(verdict) {
        Poll::Ready(decided) => decided,
        Poll::Pending => Err(Refusal::NoQuorum),
    }
}
