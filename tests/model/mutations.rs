//! Negative controls: each breaks the protocol in one way, and the model must
//! find what comes of it. Steps are those of a shortest counter-example.

use super::exploration::explore;
use super::promise::Promise;
use super::setting::{Mutation, Setting};

/// Only the promise that is to be broken is looked at, and nothing is expected
/// to be seen before.
fn broken(name: &'static str, promise: &'static [Promise]) -> Setting {
    Setting {
        promises: promise,
        expects: &[],
        ..Setting::new(name)
    }
}

#[test]
fn s01_half_of_the_masters_as_a_quorum() {
    let setting = Setting {
        mutation: Some(Mutation::HalfQuorum),
        ..broken("S1: half is a quorum", &[Promise::OneHolder])
    };
    explore::<4>(setting).breaks(Promise::OneHolder, 10);
}

#[test]
fn s02_a_lease_from_the_decision() {
    let setting = Setting {
        mutation: Some(Mutation::LeaseFromDecision),
        ..broken("S2: lease from the decision", &[Promise::OneHolder])
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 12);
}

#[test]
fn s02_no_drift_and_a_clock_that_jumps() {
    let setting = Setting {
        jumps: 1,
        ..broken("S2: drift 0, a clock jumps", &[Promise::OneHolder])
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 12);
}

#[test]
fn s04_s07_one_token_for_all_rounds_and_requests_out_of_order() {
    let setting = Setting {
        rounds: [2, 1],
        ttl: [1, 1],
        mutation: Some(Mutation::OneTokenUnordered),
        ..broken("S4, S7: one token, out of order", &[Promise::OneHolder])
    };
    explore::<2>(setting).breaks(Promise::OneHolder, 14);
}

#[test]
fn s06_a_release_to_those_that_granted() {
    let setting = Setting {
        mutation: Some(Mutation::ReleaseToGranted),
        ..broken("S6: released where granted", &[Promise::NoOrphan])
    };
    explore::<3>(setting).breaks(Promise::NoOrphan, 3);
}

#[test]
fn s07_a_release_that_overtakes() {
    let promise = &[Promise::NothingAfterRelease];
    let setting = Setting {
        mutation: Some(Mutation::Unordered),
        ..broken("S7: out of order", promise)
    };
    explore::<3>(setting).breaks(Promise::NothingAfterRelease, 4);
}

#[test]
fn s07_a_lost_connection_that_is_not_killed() {
    let setting = Setting {
        reconnects: 1,
        kills: false,
        ..broken("S7: lost connection not killed", &[Promise::NoOrphan])
    };
    explore::<3>(setting).breaks(Promise::NoOrphan, 5);
}

#[test]
fn s07_a_release_that_is_lost_with_its_connection() {
    let setting = Setting {
        reconnects: 1,
        mutation: Some(Mutation::ReleaseForgotten),
        ..broken("S7: lost release not repeated", &[Promise::NoOrphan])
    };
    explore::<3>(setting).breaks(Promise::NoOrphan, 4);
}

#[test]
fn s09_a_master_that_is_given_the_key_back_counts() {
    let setting = Setting {
        extensions: [1, 0],
        mutation: Some(Mutation::ReseedCounts),
        ..broken("S9: a re-seeded master counts", &[Promise::OneHolder])
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 18);
}

#[test]
fn s13_no_quarantine() {
    let setting = Setting {
        crashes: 1,
        quarantine: 0,
        ..broken("S13: no quarantine", &[Promise::OneHolder])
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 11);
}

#[test]
fn s13_a_quarantine_that_is_a_tick_too_short() {
    let setting = Setting {
        crashes: 1,
        quarantine: 1,
        ..broken("S13: quarantine a tick too short", &[Promise::OneHolder])
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 12);
}

#[test]
fn s13_a_quarantine_of_the_shorter_ttl() {
    let setting = Setting {
        crashes: 1,
        quarantine: 1,
        ttl: [2, 1],
        ..broken("S13: quarantine of the shorter TTL", &[Promise::OneHolder])
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 12);
}
