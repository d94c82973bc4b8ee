//! More of everything, by command:
//! `cargo test --release --test model deep -- --ignored --nocapture --test-threads=1`.

use super::event::Event::*;
use super::exploration::explore;
use super::promise::Promise;
use super::setting::{Mutation, Setting};

#[test]
#[ignore = "deep"]
fn s02_s06_two_rounds_each() {
    let setting = Setting {
        rounds: [2, 2],
        expects: &[GrantedA, GrantedB, LateGrantReleased, LateGrantKept],
        ..Setting::new("2+2 rounds")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s02_a_longer_ttl() {
    let setting = Setting {
        rounds: [2, 1],
        ttl: [4, 3],
        expects: &[GrantedA, GrantedB, RefusedTooLate],
        ..Setting::new("2+1 rounds")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s01_five_masters_two_rounds() {
    let setting = Setting {
        rounds: [2, 1],
        expects: &[GrantedA, GrantedB, RefusedEarly],
        ..Setting::new("2+1 rounds")
    };
    explore::<5>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s01_four_masters() {
    let setting = Setting {
        rounds: [2, 1],
        ..Setting::new("2+1 rounds")
    };
    explore::<4>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s02_drift_crash_and_extension() {
    let setting = Setting {
        extensions: [1, 0],
        jumps: 3,
        drift: 1,
        crashes: 1,
        expects: &[GrantedA, GrantedB, ExpiredEarly, Renewed, Reseeded],
        ..Setting::new("1+1 rounds, 1 extension, 1 crash, 3 jumps")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s07_two_connections_lost() {
    let setting = Setting {
        rounds: [2, 1],
        reconnects: 2,
        ttl: [2, 1],
        expects: &[GrantedA, GrantedB, KilledTake, ReleaseRepeated],
        ..Setting::new("2+1 rounds, 2 connections lost")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s07_two_connections_astray() {
    let setting = Setting {
        rounds: [2, 1],
        reconnects: 2,
        kills: false,
        ttl: [2, 1],
        promises: &[Promise::OneHolder, Promise::OnQuorum],
        expects: &[GrantedA, GrantedB, StrayExecuted],
        ..Setting::new("2+1 rounds, 2 connections astray")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s09_s13_extensions_of_both() {
    let setting = Setting {
        extensions: [1, 1],
        crashes: 1,
        expects: &[GrantedA, GrantedB, Renewed, Reseeded, QuarantineRefused],
        ..Setting::new("1+1 rounds, 1+1 extensions, 1 crash")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s09_s13_two_crashes() {
    let setting = Setting {
        extensions: [1, 0],
        crashes: 2,
        expects: &[GrantedA, GrantedB, Renewed, Reseeded, QuarantineRefused],
        ..Setting::new("1+1 rounds, 1 extension, 2 crashes")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s13_three_crashes() {
    let setting = Setting {
        crashes: 3,
        expects: &[GrantedA, GrantedB, QuarantineRefused],
        ..Setting::new("1+1 rounds, 3 crashes")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s06_releases_are_told_as_they_were() {
    let setting = Setting {
        confirms: true,
        reconnects: 1,
        expects: &[GrantedA, GrantedB, Released, NotHeld, ReleaseUnconfirmed],
        ..Setting::new("1+1 rounds, confirmed, 1 connection lost")
    };
    explore::<3>(setting).holds();
}

#[test]
#[ignore = "deep"]
fn s04_s07_one_token_for_all_rounds_and_requests_out_of_order() {
    let setting = Setting {
        rounds: [2, 1],
        ttl: [1, 1],
        mutation: Some(Mutation::OneTokenUnordered),
        promises: &[Promise::OneHolder],
        expects: &[],
        ..Setting::new("S4, S7: one token, out of order")
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 13);
}

/// Found by this model: B is granted a master which then forgets it, and is given
/// A's key back. If it counted for A at once, A could do with one master less,
/// which B takes when A's key there has expired.
#[test]
#[ignore = "deep"]
fn s09_s13_a_master_in_quarantine_has_a_vote_in_extensions() {
    let setting = Setting {
        extensions: [2, 0],
        crashes: 1,
        mutation: Some(Mutation::YoungExtends),
        promises: &[Promise::OneHolder],
        expects: &[],
        ..Setting::new("S9, S13: extensions without quarantine")
    };
    explore::<3>(setting).breaks(Promise::OneHolder, 28);
}

#[test]
#[ignore = "deep"]
fn s09_s13_two_extensions() {
    let setting = Setting {
        extensions: [2, 0],
        crashes: 1,
        expects: &[GrantedA, GrantedB, Renewed, Reseeded, QuarantineRefused],
        ..Setting::new("1+1 rounds, 2 extensions, 1 crash")
    };
    explore::<3>(setting).holds();
}
