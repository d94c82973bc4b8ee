//! What holds for all three kinds of round: a verdict comes with the first
//! reply that makes it certain, never before, and never changes.

use std::{fmt::Debug, time::Duration};

use proptest::{prelude::*, test_runner::TestCaseError};
use redquorum::core::{MasterSet, Moment, Tally, Vote};

type Law = Result<(), TestCaseError>;

/// Votes, each with the master that gave it.
type Ballots = Vec<(usize, Vote)>;

const VOTES: [Vote; 3] = [Vote::Yes, Vote::No, Vote::Absent];

/// A round of any kind, with the outcome that it must come to, said in another
/// way than the library does.
pub(crate) trait Round: Clone {
    type Verdict: Copy + PartialEq + Debug;
    type Outcome: PartialEq + Debug;

    fn vote(&mut self, master: usize, vote: Vote, now: Moment) -> Self::Verdict;
    fn close(&mut self, now: Moment) -> Self::Verdict;
    fn verdict(&self) -> Self::Verdict;
    fn tally(&self) -> Tally;

    /// What a verdict says, or nothing if it says that nothing is certain.
    fn said(verdict: Self::Verdict) -> Option<Self::Outcome>;

    /// What it comes to when every master has voted, and it is `now`.
    fn outcome(&self, votes: Count, now: Moment) -> Self::Outcome;
}

/// One reply, processed at `now`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) master: usize,
    pub(crate) vote: Vote,
    pub(crate) now: Moment,
}

/// How many masters voted how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) yes: usize,
    pub(crate) no: usize,
    pub(crate) absent: usize,
}

/// The first vote of each master.
#[derive(Clone, Debug)]
struct Votes(Vec<Option<Vote>>);

impl Votes {
    fn none(masters: usize) -> Self {
        Self(vec![None; masters])
    }

    fn of(masters: usize, replies: &[Reply]) -> Self {
        let mut votes = Self::none(masters);
        replies.iter().for_each(|reply| votes.add(reply));
        votes
    }

    fn add(&mut self, reply: &Reply) {
        self.0[reply.master].get_or_insert(reply.vote);
    }

    fn open(&self) -> Vec<usize> {
        let masters = 0..self.0.len();
        masters.filter(|&master| self.0[master].is_none()).collect()
    }

    fn count(&self) -> Count {
        let said = |vote| self.0.iter().filter(|&&v| v == Some(vote)).count();
        Count {
            yes: said(Vote::Yes),
            no: said(Vote::No),
            absent: said(Vote::Absent),
        }
    }

    /// How all could vote in the end, if the open ones vote in any way.
    fn completions(&self) -> impl Iterator<Item = Count> {
        let (Count { yes, no, absent }, open) = (self.count(), self.open().len());
        (0..=open).flat_map(move |more_yes| {
            (0..=open - more_yes).map(move |more_no| Count {
                yes: yes + more_yes,
                no: no + more_no,
                absent: absent + open - more_yes - more_no,
            })
        })
    }

    /// What all completions come to, if that is one thing.
    fn certain<O: PartialEq>(&self, outcome: impl Fn(Count) -> O) -> Option<O> {
        let mut outcomes = self.completions().map(outcome);
        let first = outcomes.next();
        if outcomes.all(|other| Some(other) == first) {
            first
        } else {
            None
        }
    }
}

/// Replies of any masters in any order, some of them twice, at moments that are
/// picked from `moments` and don't decrease.
pub(crate) fn replies(masters: usize, moments: Vec<Moment>) -> impl Strategy<Value = Vec<Reply>> {
    let mixes = prop::sample::select(vec![[1, 1, 1], [6, 1, 1], [1, 6, 1], [1, 1, 6], [6, 6, 1]]);
    mixes.prop_flat_map(move |[yes, no, absent]| {
        let vote = prop_oneof![
            yes => Just(Vote::Yes),
            no => Just(Vote::No),
            absent => Just(Vote::Absent),
        ];
        let reply = (0..masters, vote, prop::sample::select(moments.clone()));
        prop::collection::vec(reply, 0..=3 * masters).prop_map(in_order_of_time)
    })
}

fn in_order_of_time(replies: Vec<(usize, Vote, Moment)>) -> Vec<Reply> {
    let mut moments: Vec<_> = replies.iter().map(|&(_, _, now)| now).collect();
    moments.sort();
    let replies = replies.into_iter().zip(moments);
    replies
        .map(|((master, vote, _), now)| Reply { master, vote, now })
        .collect()
}

/// `start` many times over, and the neighbourhood of every moment at which
/// something ends.
pub(crate) fn moments(start: Moment, ends: &[Moment]) -> Vec<Moment> {
    let nanosecond = Duration::from_nanos(1);
    let origin = Moment::default();
    let around = ends.iter().flat_map(|&end| {
        let before = Moment::from_origin(end.since(origin).saturating_sub(nanosecond));
        [before, end, end.after(nanosecond)]
    });
    let mut moments: Vec<_> = around.filter(|&moment| moment >= start).collect();
    moments.extend(vec![start; 3 * moments.len() + 1]);
    moments
}

/// The verdict is pending as long as the completions of the open votes differ,
/// says what they agree on with the first reply that makes them agree, and
/// stays.
pub(crate) fn says_what_is_certain_as_soon_as_it_is<R: Round>(
    mut round: R,
    replies: &[Reply],
) -> Law {
    prop_assert_eq!(R::said(round.verdict()), None);
    let mut votes = Votes::none(round.tally().quorum().masters());
    for reply in replies {
        let before = round.verdict();
        votes.add(reply);
        let verdict = round.vote(reply.master, reply.vote, reply.now);
        prop_assert_eq!(verdict, round.verdict());
        if R::said(before).is_some() {
            prop_assert_eq!(verdict, before);
        } else {
            let certain = votes.certain(|count| round.outcome(count, reply.now));
            prop_assert_eq!(R::said(verdict), certain, "{:?} after {:?}", votes, reply);
        }
    }
    Ok(())
}

/// Once given, a verdict outlasts every later reply, the end of the round and
/// the time.
pub(crate) fn never_changes_its_verdict<R: Round>(
    mut round: R,
    replies: &[Reply],
    later: &[Reply],
) -> Law {
    let last = replies.last().map_or(Moment::default(), |reply| reply.now);
    for reply in replies {
        round.vote(reply.master, reply.vote, reply.now);
    }
    let verdict = round.close(last);
    prop_assert!(R::said(verdict).is_some());
    for reply in later {
        prop_assert_eq!(round.vote(reply.master, reply.vote, reply.now), verdict);
        prop_assert_eq!(round.close(reply.now), verdict);
    }
    prop_assert_eq!(round.verdict(), verdict);
    Ok(())
}

/// The tally has the first vote of every master, those after the verdict too.
pub(crate) fn counts_the_first_vote_of_every_master<R: Round>(
    mut round: R,
    replies: &[Reply],
) -> Law {
    for reply in replies {
        round.vote(reply.master, reply.vote, reply.now);
    }
    let tally = round.tally();
    let votes = Votes::of(tally.quorum().masters(), replies);
    let sets = [tally.yes(), tally.no(), tally.absent()];
    for (vote, set) in VOTES.into_iter().zip(sets) {
        for (master, said) in votes.0.iter().enumerate() {
            prop_assert_eq!(set.contains(master), *said == Some(vote));
        }
    }
    for (master, said) in votes.0.iter().enumerate() {
        prop_assert_eq!(tally.has_voted(master), said.is_some());
    }
    let Count { yes, no, absent } = votes.count();
    prop_assert_eq!(sets.map(MasterSet::len), [yes, no, absent]);
    prop_assert_eq!(tally.open(), votes.open().len());
    Ok(())
}

/// A second vote of a master, whatever it says, leaves the round as it was.
pub(crate) fn ignores_second_votes<R: Round>(mut round: R, replies: &[Reply]) -> Law {
    for reply in replies {
        let verdict = round.vote(reply.master, reply.vote, reply.now);
        let tally = round.tally();
        for vote in VOTES {
            prop_assert_eq!(round.vote(reply.master, vote, reply.now), verdict);
            prop_assert_eq!(round.tally(), tally);
        }
    }
    Ok(())
}

/// The end of a round is the absence of all that are open, and decides it.
pub(crate) fn closes_by_counting_the_open_as_absent<R: Round>(
    mut round: R,
    replies: &[Reply],
    now: Moment,
) -> Law {
    for reply in replies {
        round.vote(reply.master, reply.vote, reply.now);
    }
    let mut closed = round.clone();
    let verdict = closed.close(now);
    prop_assert_eq!(closed.verdict(), verdict);
    prop_assert_eq!(closed.tally().open(), 0);
    for master in Votes::of(round.tally().quorum().masters(), replies).open() {
        round.vote(master, Vote::Absent, now);
    }
    prop_assert_eq!(closed.tally(), round.tally());
    prop_assert!(R::said(verdict).is_some());
    prop_assert_eq!(R::said(verdict), R::said(round.verdict()));
    Ok(())
}

/// Votes that decide nothing until the last of them come to the same in any
/// order.
pub(crate) fn comes_to_the_same_in_any_order<R: Round>(
    round: R,
    votes: &[(usize, Vote)],
    shuffled: &[(usize, Vote)],
    now: Moment,
) -> Law {
    let mut one = round.clone();
    let deciding = votes
        .iter()
        .position(|&(master, vote)| R::said(one.vote(master, vote, now)).is_some());
    let used = &votes[..deciding.map_or(votes.len(), |index| index + 1)];
    let mut same: Vec<_> = shuffled.to_vec();
    same.retain(|vote| used.contains(vote));

    let mut other = round;
    let early = same.split_last().is_some_and(|(_, prefix)| {
        let mut decided = prefix
            .iter()
            .map(|&(master, vote)| R::said(other.vote(master, vote, now)).is_some());
        decided.any(|decided| decided)
    });
    if !early {
        if let Some(&(master, vote)) = same.last() {
            other.vote(master, vote, now);
        }
        prop_assert_eq!(one.verdict(), other.verdict());
        prop_assert_eq!(one.tally(), other.tally());
    }
    Ok(())
}

/// One vote of each of some masters, and the same in another order.
pub(crate) fn votes_in_two_orders(masters: usize) -> impl Strategy<Value = (Ballots, Ballots)> {
    let vote = prop::sample::select(VOTES.to_vec());
    prop::collection::vec(vote, masters)
        .prop_map(|votes| votes.into_iter().enumerate().collect::<Ballots>())
        .prop_flat_map(|votes| {
            (
                Just(votes.clone()).prop_shuffle(),
                Just(votes).prop_shuffle(),
            )
        })
}
