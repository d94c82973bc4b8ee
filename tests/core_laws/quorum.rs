use proptest::prelude::*;
use redquorum::core::{InvalidQuorum, MasterSet, Quorum};

use crate::{quorums, three_of_five};

fn majorities(masters: usize, needed: usize) -> Vec<u32> {
    (0..1u32 << masters)
        .filter(|set| set.count_ones() as usize == needed)
        .collect()
}

#[test]
fn s01_exactly_more_than_half_and_at_most_all_is_accepted() {
    for masters in 1..=MasterSet::CAPACITY {
        for needed in 0..=masters + 2 {
            let safe = 2 * needed > masters && needed <= masters;
            let smallest = masters / 2 + 1;
            match Quorum::new(masters, needed) {
                Ok(quorum) => {
                    assert!(safe, "{needed} of {masters} was accepted");
                    assert_eq!((quorum.masters(), quorum.needed()), (masters, needed));
                }
                Err(refusal) => {
                    assert!(!safe, "{needed} of {masters} was refused");
                    let named = InvalidQuorum::OutOfRange {
                        needed,
                        masters,
                        smallest,
                    };
                    assert_eq!(refusal, named);
                    let safe_one = Quorum::new(masters, smallest).unwrap();
                    assert_eq!(Quorum::majority(masters), Ok(safe_one));
                    assert!(Quorum::new(masters, smallest - 1).is_err());
                }
            }
        }
    }
}

#[test]
fn s01_two_quorums_share_a_master() {
    for masters in 1..=9 {
        for needed in 0..=masters {
            let sets = majorities(masters, needed);
            let shared = sets.iter().all(|a| sets.iter().all(|b| a & b != 0));
            assert_eq!(
                Quorum::new(masters, needed).is_ok(),
                shared,
                "{needed} of {masters}"
            );
        }
    }
}

#[test]
fn s01_the_majority_of_1_to_9() {
    let needed = (1..=9).map(|masters| Quorum::majority(masters).unwrap().needed());
    assert_eq!(needed.collect::<Vec<_>>(), [1, 2, 2, 3, 3, 4, 4, 5, 5]);
}

#[test]
fn s01_half_of_four_is_refused_by_name() {
    assert_eq!(Quorum::majority(4).unwrap().needed(), 3);
    let refusal = Quorum::new(4, 2).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "a quorum of 2 of 4 masters is not more than half; the smallest that is safe is 3"
    );
}

#[test]
fn more_than_all_of_five_is_refused_by_name() {
    assert_eq!(
        Quorum::new(5, 6).unwrap_err().to_string(),
        "a quorum of 6 of 5 masters is more than there are; the smallest that is safe is 3"
    );
}

#[test]
fn no_master_and_too_many_are_refused() {
    assert_eq!(Quorum::majority(0), Err(InvalidQuorum::NoMasters));
    assert_eq!(Quorum::new(0, 0), Err(InvalidQuorum::NoMasters));
    for masters in [MasterSet::CAPACITY + 1, usize::MAX] {
        let too_many = InvalidQuorum::TooManyMasters { masters };
        assert_eq!(Quorum::majority(masters), Err(too_many));
        assert_eq!(Quorum::new(masters, masters), Err(too_many));
    }
}

#[test]
fn three_of_five_is_met_by_three_and_blocked_by_three() {
    let quorum = three_of_five();
    assert!(!quorum.is_met_by(2) && quorum.is_met_by(3));
    assert!(!quorum.is_blocked_by(2) && quorum.is_blocked_by(3));
}

#[test]
fn the_last_master_of_the_largest_set_counts() {
    let mut set = MasterSet::EMPTY;
    assert!(set.is_empty());
    for master in 0..MasterSet::CAPACITY {
        assert!(!set.contains(master));
        assert!(set.insert(master));
        assert!(set.contains(master) && !set.insert(master));
        assert_eq!(set.len(), master + 1);
    }
    assert!(!set.is_empty());
    assert!(!set.contains(MasterSet::CAPACITY));
}

proptest! {
    #[test]
    fn met_and_blocked_are_opposite_sides_of_one_count(quorum in quorums(), votes in 0..=9usize) {
        prop_assume!(votes <= quorum.masters());
        prop_assert_eq!(quorum.is_met_by(votes), votes >= quorum.needed());
        prop_assert_eq!(
            quorum.is_blocked_by(quorum.masters() - votes),
            !quorum.is_met_by(votes)
        );
    }

    #[test]
    fn any_two_numbers_are_answered(masters: usize, needed: usize) {
        let countable = (1..=MasterSet::CAPACITY).contains(&masters);
        let safe = needed > masters / 2 && needed <= masters;
        prop_assert_eq!(Quorum::majority(masters).is_ok(), countable);
        prop_assert_eq!(Quorum::new(masters, needed).is_ok(), countable && safe);
    }

    #[test]
    fn sets_are_joined_met_and_taken_from_one_another(a: [bool; 9], b: [bool; 9], first in 0..=MasterSet::CAPACITY) {
        let set = |members: [bool; 9]| {
            let mut set = MasterSet::EMPTY;
            for (master, member) in members.into_iter().enumerate() {
                if member {
                    set.insert(master);
                }
            }
            set
        };
        let (left, right) = (set(a), set(b));
        for master in 0..9 {
            let (l, r) = (a[master], b[master]);
            prop_assert_eq!(left.union(right).contains(master), l || r);
            prop_assert_eq!(left.intersection(right).contains(master), l && r);
            prop_assert_eq!(left.without(right).contains(master), l && !r);
        }
        let all = MasterSet::first(first);
        for master in 0..MasterSet::CAPACITY {
            prop_assert_eq!(all.contains(master), master < first);
        }
    }

    #[test]
    fn a_set_holds_what_was_put_into_it(
        masters in prop::collection::btree_set(0..MasterSet::CAPACITY, 0..20)
    ) {
        let mut set = MasterSet::default();
        for &master in &masters {
            prop_assert!(set.insert(master));
        }
        prop_assert_eq!(set.len(), masters.len());
        for master in 0..MasterSet::CAPACITY {
            prop_assert_eq!(set.contains(master), masters.contains(&master));
        }
    }
}
