use std::time::Duration;

use proptest::prelude::*;
use redquorum::core::{
    ExtendRound, ExtendVerdict, Lease, LeaseLoss, Moment, Quorum, Tally, Vote,
    Vote::{Absent, No, Yes},
};

use crate::{
    Ask, asks, at_millis, nanos, nanos_at, quorums,
    round::{self, Count, Reply, Round},
    three_of_five,
};

/// A round, and the numbers that it was made of.
#[derive(Clone, Debug)]
struct Extend {
    ask: Ask,
    started: Moment,
    old: Moment,
    round: ExtendRound,
}

#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Renewed,
    Gone,
    Expired,
    Neither,
}

impl Extend {
    fn new(quorum: Quorum, ask: Ask, started: Moment, old: Moment) -> Self {
        let round = ExtendRound::new(quorum, ask.terms(), started, Lease::until(old));
        Self {
            ask,
            started,
            old,
            round,
        }
    }

    /// What a win is worth: started + TTL - drift.
    fn asked(&self) -> i128 {
        nanos_at(self.started) + nanos(self.ask.ttl) - nanos(self.ask.drift)
    }

    /// What may be relied on without a win.
    fn standing(&self) -> i128 {
        self.asked().min(nanos_at(self.old))
    }

    fn spare(&self) -> usize {
        self.tally().quorum().masters() - self.tally().quorum().needed()
    }
}

impl Round for Extend {
    type Verdict = ExtendVerdict;
    type Outcome = Outcome;

    fn vote(&mut self, master: usize, vote: Vote, now: Moment) -> ExtendVerdict {
        self.round.vote(master, vote, now)
    }

    fn close(&mut self, now: Moment) -> ExtendVerdict {
        self.round.close(now)
    }

    fn verdict(&self) -> ExtendVerdict {
        self.round.verdict()
    }

    fn tally(&self) -> Tally {
        *self.round.tally()
    }

    fn said(verdict: ExtendVerdict) -> Option<Outcome> {
        match verdict {
            ExtendVerdict::Pending => None,
            ExtendVerdict::Renewed(_) => Some(Outcome::Renewed),
            ExtendVerdict::Lost(LeaseLoss::Gone) => Some(Outcome::Gone),
            ExtendVerdict::Lost(LeaseLoss::Expired) => Some(Outcome::Expired),
            ExtendVerdict::Unknown => Some(Outcome::Neither),
        }
    }

    fn outcome(&self, votes: Count, now: Moment) -> Outcome {
        let in_time = self.asked() - nanos_at(now) > nanos(self.ask.min_validity);
        if self.standing() <= nanos_at(now) {
            Outcome::Expired
        } else if votes.no > self.spare() {
            Outcome::Gone
        } else if votes.yes >= self.tally().quorum().needed() && in_time {
            Outcome::Renewed
        } else {
            Outcome::Neither
        }
    }
}

/// Extensions of leases that end before, within or after what is asked for,
/// and of some that have ended already.
fn rounds() -> impl Strategy<Value = Extend> {
    let started = 0..1_000_000_000_000u64;
    (quorums(), asks(), started, 0..=1_500u128, any::<bool>()).prop_map(
        |(quorum, ask, started, thousandths, ended)| {
            let started = Duration::from_nanos(started);
            let left = Duration::from_nanos((ask.ttl.as_nanos() * thousandths / 1_000) as u64);
            let old = if ended && thousandths < 100 {
                started.saturating_sub(left)
            } else {
                started + left
            };
            let (started, old) = (Moment::from_origin(started), Moment::from_origin(old));
            Extend::new(quorum, ask, started, old)
        },
    )
}

fn moments(round: &Extend) -> Vec<Moment> {
    let ends = [round.ask.window(), round.ask.length(), round.ask.ttl];
    let [window, length, ttl] = ends.map(|end| round.started.after(end));
    round::moments(round.started, &[window, length, ttl, round.old])
}

fn replies_to(round: &Extend) -> impl Strategy<Value = Vec<Reply>> + use<> {
    round::replies(round.tally().quorum().masters(), moments(round))
}

fn rounds_with_replies() -> impl Strategy<Value = (Extend, Vec<Reply>)> {
    rounds().prop_flat_map(|round| {
        let replies = replies_to(&round);
        (Just(round), replies)
    })
}

/// A lease until 60 ms on three of five masters, extended at 50 ms by a TTL of
/// 100 ms, of which 10 ms are drift.
fn example() -> ExtendRound {
    let ask = Ask::millis(100, 10, 0);
    Extend::new(three_of_five(), ask, at_millis(50), at_millis(60)).round
}

#[test]
fn s09_the_third_match_of_five_renews_from_the_start_of_the_extension() {
    let mut round = example();
    round.vote(0, Yes, at_millis(51));
    round.vote(1, Absent, at_millis(51));
    round.vote(2, No, at_millis(52));
    round.vote(3, Yes, at_millis(53));
    assert_eq!(round.verdict(), ExtendVerdict::Pending);
    let renewed = ExtendVerdict::Renewed(Lease::until(at_millis(140)));
    assert_eq!(round.vote(4, Yes, at_millis(54)), renewed);
}

#[test]
fn s09_a_quorum_at_the_old_deadline_renews_nothing() {
    let mut round = example();
    round.vote(0, Yes, at_millis(51));
    round.vote(1, Yes, at_millis(51));
    let expired = ExtendVerdict::Lost(LeaseLoss::Expired);
    assert_eq!(round.vote(2, Yes, at_millis(60)), expired);
    assert_eq!(round.vote(3, Yes, at_millis(61)), expired);
}

#[test]
fn s10_the_third_master_of_five_without_the_token_is_the_loss() {
    let mut round = example();
    round.vote(0, No, at_millis(51));
    round.vote(1, No, at_millis(51));
    assert_eq!(round.verdict(), ExtendVerdict::Pending);
    let gone = ExtendVerdict::Lost(LeaseLoss::Gone);
    assert_eq!(round.vote(2, No, at_millis(51)), gone);
}

#[test]
fn s10_three_absent_masters_of_five_leave_the_old_deadline() {
    let mut round = example();
    for master in 0..3 {
        round.vote(master, Absent, at_millis(51));
    }
    assert_eq!(round.verdict(), ExtendVerdict::Unknown);
    assert_eq!(round.standing(), Lease::until(at_millis(60)));
}

#[test]
fn s10_an_extension_to_less_leaves_no_more_than_that() {
    let ask = Ask::millis(20, 5, 0);
    let mut round = Extend::new(three_of_five(), ask, at_millis(50), at_millis(90)).round;
    assert_eq!(round.close(at_millis(55)), ExtendVerdict::Unknown);
    assert_eq!(round.standing(), Lease::until(at_millis(65)));
}

/// One absent master, two matches and 5 ms left of 20 that must be exceeded:
/// the open two can neither renew the lease nor prove the loss.
#[test]
fn s10_what_came_too_late_to_renew_is_unknown_at_once() {
    let ask = Ask::millis(40, 10, 20);
    let mut round = Extend::new(three_of_five(), ask, at_millis(50), at_millis(90)).round;
    round.vote(0, Absent, at_millis(51));
    round.vote(1, Yes, at_millis(51));
    assert_eq!(round.verdict(), ExtendVerdict::Pending);
    assert_eq!(round.vote(2, Yes, at_millis(75)), ExtendVerdict::Unknown);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn s10_says_what_is_certain_as_soon_as_it_is((round, replies) in rounds_with_replies()) {
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
    fn counts_the_first_vote_of_every_master((round, replies) in rounds_with_replies()) {
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
    fn s09_a_renewal_has_a_quorum_before_the_old_deadline_and_runs_from_its_own_start(
        (mut round, replies) in rounds_with_replies()
    ) {
        for Reply { master, vote, now } in replies {
            if let ExtendVerdict::Renewed(lease) = round.vote(master, vote, now) {
                prop_assert!(round.tally().yes().len() >= round.tally().quorum().needed());
                prop_assert!(now < round.old);
                prop_assert_eq!(nanos_at(lease.deadline()), round.asked());
                prop_assert!(lease.validity(now) > round.ask.min_validity);
                break;
            }
        }
    }

    #[test]
    fn s10_a_lease_is_lost_when_too_few_can_match_or_its_time_is_up(
        (mut round, replies) in rounds_with_replies()
    ) {
        for Reply { master, vote, now } in replies {
            match round.vote(master, vote, now) {
                ExtendVerdict::Pending => continue,
                ExtendVerdict::Lost(LeaseLoss::Expired) => {
                    prop_assert!(nanos_at(now) >= round.standing());
                }
                ExtendVerdict::Lost(LeaseLoss::Gone) => {
                    prop_assert!(round.tally().no().len() > round.spare());
                }
                _ => {
                    prop_assert!(nanos_at(now) < round.standing());
                    prop_assert!(round.tally().no().len() <= round.spare());
                }
            }
            break;
        }
    }

    #[test]
    fn s10_without_a_quorum_the_deadline_never_moves_on(
        (mut round, replies) in rounds_with_replies()
    ) {
        let last = replies.last().map_or(round.started, |reply| reply.now);
        for Reply { master, vote, now } in replies {
            prop_assert_eq!(nanos_at(round.round.standing().deadline()), round.standing());
            round.vote(master, vote, now);
            if !matches!(round.verdict(), ExtendVerdict::Renewed(_)) {
                prop_assert!(round.round.standing().deadline() <= round.old);
            }
        }
        round.close(last);
        prop_assert_eq!(nanos_at(round.round.standing().deadline()), round.standing());
    }

    #[test]
    fn s09_an_expired_lease_is_never_extended((round, replies) in rounds_with_replies()) {
        let old = round.started;
        let quorum = round.tally().quorum();
        let mut round = Extend::new(quorum, round.ask, round.started, old);
        for Reply { master, vote, now } in replies {
            let expired = ExtendVerdict::Lost(LeaseLoss::Expired);
            prop_assert_eq!(round.vote(master, vote, now), expired);
            prop_assert!(!round.round.standing().is_valid(now));
        }
    }
}
