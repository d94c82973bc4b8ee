//! The protocol as it is: every promise holds in every state.

use super::event::Event::*;
use super::exploration::explore;
use super::promise::Promise;
use super::setting::{Mutation, Setting};

#[test]
fn s02_s05_s06_s08_a_second_round() {
    let setting = Setting {
        rounds: [2, 1],
        expects: &[
            GrantedA,
            GrantedB,
            RefusedEarly,
            RefusedTooLate,
            TimedOut,
            Abandoned,
            LateGrantReleased,
            LateGrantKept,
        ],
        ..Setting::new("2+1 rounds")
    };
    explore::<3>(setting).holds();
}

#[test]
fn s01_five_masters() {
    let setting = Setting {
        ttl: [1, 1],
        expects: &[GrantedA, GrantedB, RefusedEarly],
        ..Setting::new("1+1 rounds")
    };
    explore::<5>(setting).holds();
}

#[test]
fn s02_a_drift_of_what_clocks_jump() {
    let setting = Setting {
        jumps: 3,
        drift: 1,
        expects: &[GrantedA, GrantedB, ExpiredEarly],
        ..Setting::new("1+1 rounds, drift 1, 3 clocks jump")
    };
    explore::<3>(setting).holds();
}

#[test]
fn s04_s07_one_token_for_all_rounds_and_requests_in_order() {
    let setting = Setting {
        rounds: [2, 1],
        mutation: Some(Mutation::OneToken),
        expects: &[GrantedA, GrantedB, LateGrantReleased],
        ..Setting::new("2+1 rounds, one token, in order")
    };
    explore::<3>(setting).holds();
}

#[test]
fn s06_releases_are_told_as_they_were() {
    let setting = Setting {
        confirms: true,
        rounds: [1, 0],
        reconnects: 2,
        expects: &[
            GrantedA,
            Released,
            NotHeld,
            ReleaseUnconfirmed,
            ReleaseRepeated,
        ],
        ..Setting::new("1+0 rounds, confirmed, 2 connections lost")
    };
    explore::<3>(setting).holds();
}

#[test]
fn s07_a_lost_connection_that_is_killed() {
    let setting = Setting {
        reconnects: 1,
        ttl: [2, 1],
        expects: &[GrantedA, GrantedB, KilledTake, ReleaseRepeated],
        ..Setting::new("1+1 rounds, 1 connection lost and killed")
    };
    explore::<3>(setting).holds();
}

/// Where a lost connection can't be killed, what goes astray may leave a key
/// for its TTL; two holders it never makes.
#[test]
fn s07_a_lost_connection_that_goes_astray() {
    let setting = Setting {
        reconnects: 1,
        kills: false,
        ttl: [2, 1],
        promises: &[Promise::OneHolder, Promise::OnQuorum],
        expects: &[GrantedA, GrantedB, StrayExecuted, ReleaseRepeated],
        ..Setting::new("1+1 rounds, 1 connection lost and astray")
    };
    explore::<3>(setting).holds();
}

#[test]
fn s09_s10_an_owner_and_two_extensions() {
    let setting = Setting {
        rounds: [1, 0],
        extensions: [2, 0],
        crashes: 2,
        expects: &[
            GrantedA,
            LateGrantKept,
            Renewed,
            ExtensionGone,
            ExtensionExpired,
            ExtensionUnknown,
            Reseeded,
        ],
        ..Setting::new("1+0 rounds, 2 extensions, 2 crashes")
    };
    explore::<3>(setting).holds();
}

#[test]
fn s09_s13_an_extension_a_crash_and_a_rival() {
    let setting = Setting {
        extensions: [1, 0],
        crashes: 1,
        ttl: [1, 1],
        quarantine: 1,
        expects: &[GrantedA, GrantedB, Renewed, Reseeded, QuarantineRefused],
        ..Setting::new("1+1 rounds, 1 extension, 1 crash")
    };
    explore::<3>(setting).holds();
}

#[test]
fn s13_a_quarantine_of_the_longest_ttl() {
    let setting = Setting {
        crashes: 1,
        expects: &[GrantedA, GrantedB, QuarantineRefused],
        ..Setting::new("1+1 rounds, 1 crash")
    };
    explore::<3>(setting).holds();
}
