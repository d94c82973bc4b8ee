use proptest::prelude::*;
use redquorum::core::{
    Moment, Quorum, ReleaseRound, ReleaseVerdict, Tally, Vote,
    Vote::{Absent, No, Yes},
};

use crate::{
    quorums,
    round::{self, Count, Reply, Round},
    three_of_five,
};

/// A release knows no time.
impl Round for ReleaseRound {
    type Verdict = ReleaseVerdict;
    type Outcome = ReleaseVerdict;

    fn vote(&mut self, master: usize, vote: Vote, _: Moment) -> ReleaseVerdict {
        self.vote(master, vote)
    }

    fn close(&mut self, _: Moment) -> ReleaseVerdict {
        self.close()
    }

    fn verdict(&self) -> ReleaseVerdict {
        self.verdict()
    }

    fn tally(&self) -> Tally {
        *self.tally()
    }

    fn said(verdict: ReleaseVerdict) -> Option<ReleaseVerdict> {
        (verdict != ReleaseVerdict::Pending).then_some(verdict)
    }

    fn outcome(&self, votes: Count, _: Moment) -> ReleaseVerdict {
        let quorum = self.tally().quorum();
        let may_have_had_it = quorum.masters() - votes.no;
        let can_be_taken = votes.yes + votes.no;
        if may_have_had_it < quorum.needed() {
            ReleaseVerdict::NotHeld
        } else if can_be_taken >= quorum.needed() {
            ReleaseVerdict::Released
        } else {
            ReleaseVerdict::Unconfirmed
        }
    }
}

fn rounds_with_replies() -> impl Strategy<Value = (ReleaseRound, Vec<Reply>)> {
    quorums().prop_flat_map(|quorum| {
        let replies = round::replies(quorum.masters(), vec![Moment::default()]);
        (Just(ReleaseRound::new(quorum)), replies)
    })
}

fn release(quorum: Quorum, votes: &[Vote]) -> ReleaseVerdict {
    let mut round = ReleaseRound::new(quorum);
    for (master, &vote) in votes.iter().enumerate() {
        round.vote(master, vote);
    }
    round.verdict()
}

#[test]
fn three_removals_of_five_release_the_lock() {
    let quorum = three_of_five();
    assert_eq!(release(quorum, &[Yes, Yes]), ReleaseVerdict::Pending);
    assert_eq!(release(quorum, &[Yes, Yes, Yes]), ReleaseVerdict::Released);
}

#[test]
fn s08_a_master_that_had_not_granted_it_can_be_taken_as_well() {
    let votes = [Yes, No, Yes, Yes, No];
    assert_eq!(release(three_of_five(), &votes), ReleaseVerdict::Released);
}

#[test]
fn three_of_five_without_the_token_is_a_lock_that_was_not_held() {
    let quorum = three_of_five();
    assert_eq!(release(quorum, &[No, Yes, No]), ReleaseVerdict::Pending);
    let votes = [No, Yes, No, No];
    assert_eq!(release(quorum, &votes), ReleaseVerdict::NotHeld);
}

#[test]
fn three_absent_masters_of_five_confirm_nothing() {
    let votes = [Absent, Yes, Absent, Absent];
    let verdict = release(three_of_five(), &votes);
    assert_eq!(verdict, ReleaseVerdict::Unconfirmed);
}

/// Two of four are enough to lose a quorum of three, and too few to win one.
#[test]
fn two_removals_of_four_let_nobody_take_the_lock() {
    let quorum = Quorum::majority(4).unwrap();
    let votes = [Yes, Yes, Absent, Absent];
    assert_eq!(release(quorum, &votes), ReleaseVerdict::Unconfirmed);
    let votes = [Yes, Yes, Absent, Yes];
    assert_eq!(release(quorum, &votes), ReleaseVerdict::Released);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn says_what_is_certain_as_soon_as_it_is((round, replies) in rounds_with_replies()) {
        round::says_what_is_certain_as_soon_as_it_is(round, &replies)?;
    }

    #[test]
    fn never_changes_its_verdict(
        ((round, replies), later) in rounds_with_replies().prop_flat_map(|(round, replies)| {
            let later = round::replies(round.tally().quorum().masters(), vec![Moment::default()]);
            (Just((round, replies)), later)
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
    fn s05_closes_by_counting_the_open_as_absent((round, replies) in rounds_with_replies()) {
        round::closes_by_counting_the_open_as_absent(round, &replies, Moment::default())?;
    }

    #[test]
    fn comes_to_the_same_in_any_order(
        (round, (votes, shuffled)) in quorums().prop_flat_map(|quorum| {
            (Just(ReleaseRound::new(quorum)), round::votes_in_two_orders(quorum.masters()))
        })
    ) {
        round::comes_to_the_same_in_any_order(round, &votes, &shuffled, Moment::default())?;
    }
}
