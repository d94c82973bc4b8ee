use proptest::prelude::*;
use redquorum::core::{
    AcquireVerdict, FenceRound, Moment, Quorum, Refusal, Terms,
    Vote::{Absent, No, Yes},
};

use crate::{Ask, asks, at_millis, quorums, three_of_five};

/// What becomes of one master in one acquisition.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It can't be reached.
    Away,
    /// It grants the lock, and its answer is lost.
    Unheard,
    /// It grants the lock, and can't be reached any more.
    Granted,
    /// It grants the lock, and raises its counter.
    Raised,
    /// It raises its counter, and the answer is lost.
    RaisedUnheard,
}

use Fate::*;

fn fates(masters: usize) -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        2 => Just(Away),
        1 => Just(Unheard),
        1 => Just(Granted),
        6 => Just(Raised),
        1 => Just(RaisedUnheard),
    ];
    prop::collection::vec(fate, masters)
}

fn histories() -> impl Strategy<Value = (Quorum, Vec<Vec<Fate>>)> {
    quorums().prop_flat_map(|quorum| {
        let acquisitions = prop::collection::vec(fates(quorum.masters()), 1..30);
        (Just(quorum), acquisitions)
    })
}

fn terms() -> Terms {
    Ask::millis(10_000, 0, 0).terms()
}

fn begin(quorum: Quorum, counts: &[(usize, u64)]) -> Option<FenceRound> {
    let start = Moment::default();
    FenceRound::new(quorum, terms(), start, counts, start)
}

/// One acquisition on masters that keep their memory: the token, if it is fenced.
fn acquire(quorum: Quorum, counters: &mut [u64], fates: &[Fate]) -> Option<u64> {
    let mut counts = Vec::new();
    for (master, (counter, fate)) in counters.iter_mut().zip(fates).enumerate() {
        if !matches!(fate, Away) {
            *counter += 1;
        }
        if matches!(fate, Granted | Raised | RaisedUnheard) {
            counts.push((master, *counter));
        }
    }
    if !quorum.is_met_by(counts.len()) {
        return None;
    }
    let mut round = begin(quorum, &counts)?;
    for (master, (counter, fate)) in counters.iter_mut().zip(fates).enumerate() {
        if round.verdict() == AcquireVerdict::Pending && matches!(fate, Raised | RaisedUnheard) {
            *counter = round.token().max(*counter);
            if matches!(fate, Raised) {
                round.vote(master, Yes, Moment::default());
            }
        }
    }
    match round.close(Moment::default()) {
        AcquireVerdict::Won(_) => Some(round.token()),
        _ => None,
    }
}

proptest! {
    // A long history takes long to shrink.
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    /// Whatever is down or lost, as long as masters keep their counters.
    #[test]
    fn s16_tokens_increase_with_each_acquisition((quorum, acquisitions) in histories()) {
        let mut counters = vec![0; quorum.masters()];
        let mut last = 0;
        for fates in acquisitions {
            if let Some(token) = acquire(quorum, &mut counters, &fates) {
                prop_assert!(token > last, "{token} after {last}");
                last = token;
            }
        }
    }

    #[test]
    fn s16_the_token_is_the_highest_count(counts in prop::collection::vec(1..100u64, 5)) {
        let counts: Vec<_> = counts.into_iter().enumerate().collect();
        let highest = counts.iter().map(|(_, count)| *count).max();
        let round = begin(three_of_five(), &counts);
        prop_assert_eq!(round.map(|round| round.token()), highest);
    }

    /// No second round is needed if and only if a quorum has the same, highest count.
    #[test]
    fn s16_one_round_is_enough_where_a_quorum_agrees(
        quorum in quorums(),
        behind in prop::collection::vec(0..3u64, 9),
    ) {
        let counts: Vec<_> = behind[..quorum.masters()]
            .iter()
            .enumerate()
            .map(|(master, behind)| (master, 100 - behind))
            .collect();
        let highest = counts.iter().map(|(_, count)| *count).max();
        let agree = counts.iter().filter(|(_, count)| Some(*count) == highest).count();
        let round = begin(quorum, &counts).unwrap();
        let won = matches!(round.verdict(), AcquireVerdict::Won(_));
        prop_assert_eq!(won, quorum.is_met_by(agree));
    }

    /// The lease is that of the first round: it runs from its start (S2).
    #[test]
    fn s02_s16_the_lease_runs_from_the_start_of_the_acquisition(
        ask in asks(),
        start in 0..1_000u64,
        later in 0..20_000u64,
    ) {
        let (started, now) = (at_millis(start), at_millis(start + later));
        let counts = [(0, 7), (1, 6), (2, 6)];
        let mut round =
            FenceRound::new(three_of_five(), ask.terms(), started, &counts, started).unwrap();
        round.vote(1, Yes, now);
        let verdict = round.vote(2, Yes, now);
        let expected = match ask.terms().lease_if_valid(started, now) {
            Some(lease) => AcquireVerdict::Won(lease),
            None => AcquireVerdict::Lost(Refusal::TooLate),
        };
        prop_assert_eq!(verdict, expected);
    }
}

#[test]
fn s16_without_a_count_there_is_no_token() {
    assert_eq!(begin(three_of_five(), &[]), None);
}

#[test]
fn s16_masters_that_lost_the_lock_or_are_silent_can_make_the_token_impossible() {
    let counts = [(0, 7), (1, 6), (2, 6)];
    let start = Moment::default();
    let mut round = begin(three_of_five(), &counts).unwrap();
    assert_eq!(round.vote(1, No, start), AcquireVerdict::Pending);
    assert_eq!(round.vote(2, Absent, start), AcquireVerdict::Pending);
    let lost = AcquireVerdict::Lost(Refusal::Taken);
    assert_eq!(round.vote(3, No, start), lost);
    assert_eq!(round.vote(4, Yes, start), lost, "it stays so");
    let mut round = begin(three_of_five(), &counts).unwrap();
    let lost = AcquireVerdict::Lost(Refusal::NoQuorum);
    assert_eq!(round.close(start), lost);
}
