//! The whole library, simulated: requests, guards, keepers, waiting and the real
//! redis crate, over a simulated network, on simulated masters that run the real
//! scripts, with faults; all of it from a seed. See `docs/testing.md`.

mod campaign;
mod cancelled;
mod client;
mod dice;
mod faithful;
mod frame;
mod journal;
mod ledger;
mod master;
mod nemesis;
mod network;
mod run;
mod script;
mod server;
mod setting;
mod sightings;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::time::Duration;

use campaign::Campaign;
use setting::Planted;

/// What the suite must come by: a run in which nothing goes wrong proves little.
const WANTED: [&str; 31] = [
    "a client crashed",
    "a connection broke under a command",
    "a future was dropped",
    "a key was given back",
    "a lock was handed on within a process",
    "a lock was refused",
    "a lock was taken",
    "a lost connection could not be killed",
    "a lost connection was killed",
    "a loss was told",
    "a master came up empty",
    "a master came up with all its keys",
    "a master came up without the last of its keys",
    "a master did not answer in time",
    "a master was not reached",
    "a release came too late",
    "a release was confirmed",
    "a release was not confirmed",
    "a release was repeated",
    "a script was not known",
    "a section ran to its end",
    "a section was stopped",
    "a silent master was not asked",
    "a wait was over",
    "a waiter was woken",
    "an extension found the lease lost",
    "an extension was renewed",
    "an extension was undecided",
    "the lead was asked first",
    "the quarantine refused a vote",
    "there was no quorum",
];

#[test]
fn all_promises_hold_whatever_fails() {
    let campaign = Campaign::for_a_while(Planted::Nothing, Duration::from_secs(60));
    println!("{}", campaign.summary());
    campaign.assert_sound();
    let missing = campaign.sightings.missing(&WANTED);
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..30 {
        let [first, second] = [(); 2].map(|()| run::run(seed, Planted::Nothing, true));
        let pairs = first.log.iter().zip(&second.log);
        for (before, after) in pairs {
            assert_eq!(before, after, "seed {seed}");
        }
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed}");
    }
}

/// Runs the seeds that the environment names; see `make simulate`.
#[test]
#[ignore = "takes as long as it is told to: make simulate"]
fn simulate() {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = number("SEED") {
        run::hear_of_panics();
        let outcome = run::run(seed, Planted::Nothing, true);
        println!("{}", outcome.log.join("\n"));
        println!(
            "seed {seed}: {}",
            outcome.broken.as_deref().unwrap_or("all is well")
        );
        assert!(outcome.broken.is_none());
        return;
    }
    let first = number("FROM").unwrap_or(0);
    let campaign = Campaign::on_all_cores(first, number("SEEDS").unwrap_or(1000));
    println!("{}", campaign.summary());
    campaign.assert_sound();
}

mod planted {
    //! Faults that are planted are found.

    use super::*;

    /// How many seeds it may take.
    const ENOUGH: u64 = 1000;

    fn is_found(planted: Planted, promise: &str) {
        let campaign = Campaign::run(0..ENOUGH, planted);
        let outcome = campaign.broken.first().expect("it is found");
        let broken = outcome.broken.as_deref().unwrap_or_default();
        println!("{planted:?}: seed {}: {broken}", outcome.seed);
        assert!(broken.contains(promise), "{broken}");
    }

    #[test]
    fn s02_no_allowance_for_drift() {
        is_found(Planted::NoDrift, "two holders");
    }

    #[test]
    fn s13_no_quarantine() {
        is_found(Planted::NoQuarantine, "two holders");
    }

    #[test]
    fn masters_that_take_no_notice_of_nx() {
        is_found(Planted::NoNx, "two holders");
    }
}
