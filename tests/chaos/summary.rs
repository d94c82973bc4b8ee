//! What is printed.

use std::fmt::Display;
use std::time::Duration;

use crate::history::Kind;
use crate::options::Options;
use crate::protocol::Write;
use crate::run::{MAX_TTL, Outcome};

pub fn announce(options: &Options) {
    println!(
        "chaos for {:?}, seed {}: {} workers of {} tasks, {} resources, TTLs up to {MAX_TTL:?}{}",
        options.length,
        options.seed,
        options.workers,
        options.tasks,
        options.resources,
        match options.broken {
            Some(rule) => format!("; without the rule {}", rule.name()),
            None => String::new(),
        }
    );
}

pub fn print(options: &Options, outcome: &Outcome) {
    let (history, counts) = (&outcome.history, &outcome.history.counts);
    let faults = history.faults.counts();
    line(
        "faults",
        list(faults.iter().map(|(kind, count)| (kind.name(), count))),
    );
    line("grants", rates(outcome));
    line(
        "ends",
        list(counts.ends.iter().map(|(end, n)| (format!("{end:?}"), n))),
    );
    line(
        "refusals",
        list(
            counts
                .refusals
                .iter()
                .map(|(why, n)| (format!("{why:?}"), n)),
        ),
    );
    line(
        "writes",
        format!(
            "{} applied, {} withheld, {} too late; lost updates: {}",
            counts.written(Write::Applied),
            counts.written(Write::Withheld),
            counts.written(Write::TooLate),
            outcome.lost_updates,
        ),
    );
    line(
        "killed",
        format!(
            "workers held {} locks when they were killed",
            counts.held_by_the_killed
        ),
    );
    line("waits", format!("the longest {:.2?}", counts.longest_wait));
    if let Some(recovery) = outcome.recovery {
        line(
            "recovery",
            format!("every lock granted anew {recovery:.2?} after the last fault"),
        );
    }
    verdict(options, outcome);
}

fn verdict(options: &Options, outcome: &Outcome) {
    let history = &outcome.history;
    for violation in history.violations.iter().take(5) {
        line("violation", &violation.what);
    }
    line("violations", history.violations.len());
    let Some(rule) = options.broken else { return };
    let mut violations = history.violations.iter();
    match violations.find(|violation| violation.kind != Kind::Other) {
        Some(first) => {
            let after = Duration::from_nanos(first.at.saturating_sub(history.began));
            line(
                "found",
                format!("{} is missed after {after:.1?}", rule.name()),
            );
        }
        None => line("found", format!("nobody misses {}", rule.name())),
    }
}

fn rates(outcome: &Outcome) -> String {
    let counts = &outcome.history.counts;
    let with = counts.grants_with_faults;
    let without = outcome.grants_in_length.saturating_sub(with);
    format!(
        "{}; {:.0}/s with faults ({:.1?}), {:.0}/s without ({:.1?})",
        counts.grants,
        rate(with, outcome.faulted),
        outcome.faulted,
        rate(without, outcome.length.saturating_sub(outcome.faulted)),
        outcome.length.saturating_sub(outcome.faulted),
    )
}

fn rate(count: usize, length: Duration) -> f64 {
    count as f64 / length.as_secs_f64().max(0.001)
}

fn list<N: Display, C: Display>(items: impl Iterator<Item = (N, C)>) -> String {
    let items: Vec<String> = items
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    items.join(", ")
}

fn line(name: &str, what: impl Display) {
    println!("{:<12}{what}", format!("{name}:"));
}
