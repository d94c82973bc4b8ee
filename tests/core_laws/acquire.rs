use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{
    AcquireRound, AcquireVerdict, Moment, Quorum, Refusal, Tally, Vote,
    Vote::{Absent, No, Yes},
};

use crate::{
    Ask, asks, at_millis, nanos, nanos_at, quorums,
    round::{self, Count, Reply, Round},
    three_of_five,
};

/// A round, and the numbers that it was made of.
#[derive(Clone, Debug)]
struct Acquire {
    ask: Ask,
    started: Moment,
    round: AcquireRound,
}

#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Won,
    NotWinnable,
}

impl Acquire {
    fn new(quorum: Quorum, ask: Ask, started: Moment) -> Self {
        let round = AcquireRound::new(quorum, ask.terms(), started);
        Self {
            ask,
            started,
            round,
        }
    }

    /// TTL - drift - elapsed.
    fn validity(&self, now: Moment) -> i128 {
        let elapsed = nanos_at(now) - nanos_at(self.started);
        nanos(self.ask.ttl) - nanos(self.ask.drift) - elapsed
    }

    fn is_too_late(&self, now: Moment) -> bool {
        self.validity(now) <= nanos(self.ask.min_validity)
    }
}

impl Round for Acquire {
    type Verdict = AcquireVerdict;
    type Outcome = Outcome;

    fn vote(&mut self, master: usize, vote: Vote, now: Moment) -> AcquireVerdict {
        self.round.vote(master, vote, now)
    }

    fn close(&mut self, now: Moment) -> AcquireVerdict {
        self.round.close(now)
    }

    fn verdict(&self) -> AcquireVerdict {
        self.round.verdict()
    }

    fn tally(&self) -> Tally {
        *self.round.tally()
    }

    fn said(verdict: AcquireVerdict) -> Option<Outcome> {
        match verdict {
            AcquireVerdict::Pending => None,
            AcquireVerdict::Won(_) => Some(Outcome::Won),
            AcquireVerdict::Lost(_) => Some(Outcome::NotWinnable),
        }
    }

    fn outcome(&self, votes: Count, now: Moment) -> Outcome {
        if votes.yes >= self.tally().quorum().needed() && !self.is_too_late(now) {
            Outcome::Won
        } else {
            Outcome::NotWinnable
        }
    }
}

fn rounds() -> impl Strategy<Value = Acquire> {
    (quorums(), asks(), 0..1_000_000_000_000u64).prop_map(|(quorum, ask, started)| {
        let started = Moment::from_origin(Duration::from_nanos(started));
        Acquire::new(quorum, ask, started)
    })
}

fn moments(round: &Acquire) -> Vec<Moment> {
    let ends = [round.ask.window(), round.ask.length(), round.ask.ttl];
    round::moments(round.started, &ends.map(|end| round.started.after(end)))
}

fn replies_to(round: &Acquire) -> impl Strategy<Value = Vec<Reply>> + use<> {
    round::replies(round.tally().quorum().masters(), moments(round))
}

fn rounds_with_replies() -> impl Strategy<Value = (Acquire, Vec<Reply>)> {
    rounds().prop_flat_map(|round| {
        let replies = replies_to(&round);
        (Just(round), replies)
    })
}

/// Five masters, of which three decide; a TTL of 100 ms, of which 10 ms are
/// drift; begun at 0 ms.
fn example() -> AcquireRound {
    Acquire::new(three_of_five(), Ask::millis(100, 10, 0), at_millis(0)).round
}

#[test]
fn the_third_grant_of_five_wins() {
    let mut round = example();
    assert_eq!(round.vote(0, Yes, at_millis(1)), AcquireVerdict::Pending);
    assert_eq!(round.vote(3, No, at_millis(2)), AcquireVerdict::Pending);
    assert_eq!(round.vote(1, Yes, at_millis(3)), AcquireVerdict::Pending);
    let AcquireVerdict::Won(lease) = round.vote(4, Yes, at_millis(5)) else {
        panic!("{:?}", round.verdict());
    };
    assert_eq!(lease.deadline(), at_millis(90));
    assert_eq!(lease.validity(at_millis(5)), Duration::from_millis(85));
}

#[test]
fn the_third_refusal_of_five_loses_without_waiting_for_the_rest() {
    let mut round = example();
    round.vote(0, No, at_millis(1));
    round.vote(1, No, at_millis(1));
    let lost = AcquireVerdict::Lost(Refusal::Taken);
    assert_eq!(round.vote(2, No, at_millis(1)), lost);
}

#[test]
fn s05_two_absent_masters_of_five_cost_nothing() {
    let mut round = example();
    round.vote(0, Absent, at_millis(1));
    round.vote(1, Absent, at_millis(1));
    assert_eq!(round.verdict(), AcquireVerdict::Pending);
    for master in 2..5 {
        round.vote(master, Yes, at_millis(2));
    }
    assert!(matches!(round.verdict(), AcquireVerdict::Won(_)));
}

#[test]
fn three_absent_masters_of_five_leave_no_quorum() {
    let mut round = example();
    for master in 0..3 {
        round.vote(master, Absent, at_millis(1));
    }
    let lost = AcquireVerdict::Lost(Refusal::NoQuorum);
    assert_eq!(round.verdict(), lost);
}

#[test]
fn a_refusal_among_absent_masters_is_taken_while_a_quorum_could_be_reached() {
    let mut round = example();
    round.vote(0, Absent, at_millis(1));
    round.vote(1, Absent, at_millis(1));
    let lost = AcquireVerdict::Lost(Refusal::Taken);
    assert_eq!(round.vote(2, No, at_millis(1)), lost);
}

#[test]
fn a_round_that_ends_unanswered_had_no_quorum() {
    let mut round = example();
    round.vote(0, Yes, at_millis(1));
    round.vote(1, No, at_millis(1));
    let lost = AcquireVerdict::Lost(Refusal::NoQuorum);
    assert_eq!(round.close(at_millis(50)), lost);
}

#[test]
fn s02_a_quorum_of_grants_that_took_all_the_validity_is_too_late() {
    let mut round = example();
    round.vote(0, Yes, at_millis(1));
    round.vote(1, Yes, at_millis(2));
    let lost = AcquireVerdict::Lost(Refusal::TooLate);
    assert_eq!(round.vote(2, Yes, at_millis(90)), lost);
}

#[test]
fn s08_grants_after_a_refusal_are_counted_and_win_nothing() {
    let mut round = example();
    for master in 0..3 {
        round.vote(master, No, at_millis(1));
    }
    round.vote(3, Yes, at_millis(2));
    round.vote(4, Yes, at_millis(3));
    assert_eq!(round.verdict(), AcquireVerdict::Lost(Refusal::Taken));
    assert_eq!(round.tally().yes().len(), 2);
}

#[test]
fn a_second_vote_is_ignored_but_its_time_counts() {
    let mut round = example();
    round.vote(0, Yes, at_millis(1));
    assert_eq!(round.vote(0, No, at_millis(2)), AcquireVerdict::Pending);
    assert_eq!(
        (round.tally().yes().len(), round.tally().no().len()),
        (1, 0)
    );
    let lost = AcquireVerdict::Lost(Refusal::TooLate);
    assert_eq!(round.vote(0, Yes, at_millis(90)), lost);
}

#[test]
#[should_panic(expected = "there is no master 5")]
fn a_sixth_master_of_five_is_a_defect_of_the_caller() {
    example().vote(5, Yes, at_millis(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn says_what_is_certain_as_soon_as_it_is((round, replies) in rounds_with_replies()) {
        round::says_what_is_certain_as_soon_as_it_is(round, &replies)?;
    }

    #[test]
    fn never_changes_its_verdict(
        (round, replies, later) in rounds().prop_flat_map(|round| {
            let (replies, later) = (replies_to(&round), replies_to(&round));
            (Just(round), replies, later)
        })
    ) {
        round::never_changes_its_verdict(round, &replies, &later)?;
    }

    #[test]
    fn s08_counts_the_first_vote_of_every_master((round, replies) in rounds_with_replies()) {
        round::counts_the_first_vote_of_every_master(round, &replies)?;
    }

    #[test]
    fn ignores_second_votes((round, replies) in rounds_with_replies()) {
        round::ignores_second_votes(round, &replies)?;
    }

    #[test]
    fn s05_closes_by_counting_the_open_as_absent(
        (round, replies, late) in rounds_with_replies().prop_flat_map(|(round, replies)| {
            let late = prop::sample::select(moments(&round));
            (Just(round), Just(replies), late)
        })
    ) {
        let now = replies.last().map_or(late, |last| last.now.max(late));
        round::closes_by_counting_the_open_as_absent(round, &replies, now)?;
    }

    #[test]
    fn comes_to_the_same_in_any_order(
        (round, (votes, shuffled), now) in rounds().prop_flat_map(|round| {
            let votes = round::votes_in_two_orders(round.tally().quorum().masters());
            let now = prop::sample::select(moments(&round));
            (Just(round), votes, now)
        })
    ) {
        round::comes_to_the_same_in_any_order(round, &votes, &shuffled, now)?;
    }

    #[test]
    fn s02_a_win_has_a_quorum_and_exactly_the_validity_that_is_left(
        (mut round, replies) in rounds_with_replies()
    ) {
        for Reply { master, vote, now } in replies {
            if let AcquireVerdict::Won(lease) = round.vote(master, vote, now) {
                prop_assert!(round.tally().yes().len() >= round.tally().quorum().needed());
                prop_assert_eq!(nanos(lease.validity(now)), round.validity(now));
                prop_assert!(lease.validity(now) > round.ask.min_validity);
                let deadline = nanos_at(round.started) + nanos(round.ask.length());
                prop_assert_eq!(nanos_at(lease.deadline()), deadline);
                break;
            }
        }
    }

    #[test]
    fn a_refusal_names_its_cause((mut round, replies) in rounds_with_replies()) {
        let last = replies.last().map_or(round.started, |reply| reply.now);
        let deciding = replies.iter().find_map(|&Reply { master, vote, now }| {
            let verdict = round.vote(master, vote, now);
            Acquire::said(verdict).map(|_| (verdict, now))
        });
        let (verdict, now) = deciding.unwrap_or_else(|| (round.close(last), last));
        let AcquireVerdict::Lost(refusal) = verdict else { return Ok(()) };

        let tally = round.tally();
        let spare = tally.quorum().masters() - tally.quorum().needed();
        let (no, absent) = (tally.no().len(), tally.absent().len());
        prop_assert_eq!(refusal == Refusal::NoQuorum, absent > spare);
        prop_assert_eq!(refusal == Refusal::Taken, absent <= spare && no + absent > spare);
        prop_assert_eq!(refusal == Refusal::TooLate, no + absent <= spare);
        prop_assert!(refusal != Refusal::TooLate || round.is_too_late(now));
    }
}
