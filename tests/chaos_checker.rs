//! Tests of the checker of `tests/chaos/`: what it takes for two holders, and what it doesn't.

#![allow(dead_code, unreachable_pub)]

#[path = "chaos/ledger.rs"]
mod ledger;
#[path = "chaos/protocol.rs"]
mod protocol;
#[path = "chaos/rule.rs"]
mod rule;

use std::time::Duration;

use ledger::{Conflict, Ledger};
use protocol::{Asked, End, Grant, Id};

const HORIZON: Duration = Duration::from_nanos(1_000);

const A: Id = Id { seat: 0, number: 0 };
const B: Id = Id { seat: 1, number: 1 };

fn grant(hold: u64, at: u64, until: u64) -> Grant {
    Grant {
        hold,
        resource: 0,
        token: String::new(),
        fence: None,
        asked: Asked { at, allowed: None },
        at,
        until,
        renews: false,
    }
}

fn is_overlap(conflict: Option<Conflict>) -> bool {
    matches!(conflict, Some(Conflict::Overlap(..)))
}

#[test]
fn two_leases_that_overlap_are_found_whoever_ends_first() {
    for (first, second) in [(A, B), (B, A)] {
        let mut ledger = Ledger::default();
        ledger.granted(A, &grant(0, 10, 100));
        ledger.granted(B, &grant(0, 99, 200));
        assert!(ledger.ended(first, 0, 300, End::Overslept).is_none());
        assert!(is_overlap(ledger.ended(second, 0, 300, End::Overslept)));
    }
}

#[test]
fn leases_that_follow_each_other_are_none() {
    let mut ledger = Ledger::default();
    ledger.granted(A, &grant(0, 10, 100));
    ledger.granted(B, &grant(0, 100, 200));
    assert!(ledger.ended(A, 0, 300, End::Overslept).is_none());
    assert!(ledger.ended(B, 0, 300, End::Overslept).is_none());
}

#[test]
fn two_tasks_of_one_worker_are_two() {
    let mut ledger = Ledger::default();
    ledger.granted(A, &grant(0, 10, 100));
    ledger.granted(A, &grant(1, 50, 150));
    assert!(ledger.ended(A, 0, 90, End::Released).is_none());
    assert!(is_overlap(ledger.ended(A, 1, 90, End::Released)));
}

#[test]
fn other_resources_are_others() {
    let mut ledger = Ledger::default();
    let other = Grant {
        resource: 1,
        ..grant(0, 10, 100)
    };
    ledger.granted(A, &grant(0, 10, 100));
    ledger.granted(B, &other);
    assert!(ledger.ended(A, 0, 90, End::Released).is_none());
    assert!(ledger.ended(B, 0, 90, End::Released).is_none());
}

#[test]
fn a_release_ends_a_tenure() {
    for (released, overlaps) in [(50, false), (51, true)] {
        let mut ledger = Ledger::default();
        ledger.granted(A, &grant(0, 10, 100));
        ledger.granted(B, &grant(0, 50, 150));
        assert!(ledger.ended(A, 0, released, End::Released).is_none());
        let conflict = ledger.ended(B, 0, 90, End::Dropped);
        assert_eq!(is_overlap(conflict), overlaps, "{released}");
    }
}

#[test]
fn a_lease_that_was_lost_ended_when_it_was_last_seen() {
    for (seen, overlaps) in [(60, false), (61, true)] {
        let mut ledger = Ledger::default();
        ledger.granted(A, &grant(0, 10, 100));
        ledger.granted(B, &grant(0, 60, 150));
        assert!(ledger.seen(A, 0, seen, 200).is_none());
        assert!(ledger.ended(A, 0, 90, End::Lost).is_none());
        let conflict = ledger.ended(B, 0, 90, End::Released);
        assert_eq!(is_overlap(conflict), overlaps, "{seen}");
    }
}

#[test]
fn an_extension_makes_a_tenure_longer_or_shorter() {
    for (until, overlaps) in [(150, true), (90, false)] {
        let mut ledger = Ledger::default();
        ledger.granted(A, &grant(0, 10, 100));
        assert!(ledger.seen(A, 0, 50, until).is_none());
        ledger.granted(B, &grant(0, 95, 200));
        assert!(ledger.ended(A, 0, 300, End::Overslept).is_none());
        let conflict = ledger.ended(B, 0, 300, End::Overslept);
        assert_eq!(is_overlap(conflict), overlaps, "{until}");
    }
}

#[test]
fn what_nobody_looked_at_is_not_taken_for_granted() {
    for (seen, overlaps) in [(130, false), (120, true)] {
        let mut ledger = Ledger::default();
        ledger.granted(A, &grant(0, 10, 100));
        assert!(ledger.seen(A, 0, seen, 200).is_none());
        assert!(ledger.ended(A, 0, 300, End::Overslept).is_none());
        ledger.granted(B, &grant(0, 100, 130));
        let conflict = ledger.ended(B, 0, 130, End::Released);
        assert_eq!(is_overlap(conflict), overlaps, "{seen}");
    }
}

#[test]
fn who_is_killed_has_the_lock_to_the_end_of_its_lease() {
    for (renews, overlaps) in [(false, true), (true, false)] {
        let mut ledger = Ledger::default();
        let killed = Grant {
            renews,
            ..grant(0, 10, 100)
        };
        ledger.granted(A, &killed);
        let (held, conflicts) = ledger.died(A);
        assert_eq!((held, conflicts.len()), (1, 0));
        ledger.granted(B, &grant(0, 99, 200));
        let conflict = ledger.ended(B, 0, 150, End::Released);
        assert_eq!(is_overlap(conflict), overlaps, "renews: {renews}");
    }
}

#[test]
fn fencing_tokens_must_increase_if_there_are_any() {
    for (fence, is_conflict) in [(Some(8), false), (Some(7), true), (None, false)] {
        let mut ledger = Ledger::default();
        let fenced = |fence, grant: Grant| Grant { fence, ..grant };
        ledger.granted(A, &fenced(Some(7), grant(0, 10, 100)));
        assert!(ledger.ended(A, 0, 20, End::Released).is_none());
        ledger.granted(B, &fenced(fence, grant(0, 30, 100)));
        let conflict = ledger.ended(B, 0, 40, End::Released);
        let found = matches!(conflict, Some(Conflict::FencesOutOfOrder(..)));
        assert_eq!(found, is_conflict, "{fence:?}");
    }
}

#[test]
fn what_is_long_over_is_forgotten() {
    let mut ledger = Ledger::default();
    for hold in 0..10_000 {
        let at = hold * 10;
        ledger.granted(A, &grant(hold, at, at + 5));
        assert!(ledger.ended(A, hold, at + 4, End::Released).is_none());
    }
    assert!(ledger.tenures().count() <= 102);
}
