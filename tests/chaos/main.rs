//! Real masters are broken while worker processes use the library, and a checker looks whether two
//! ever had one lock at once.
//!
//! `cargo test` runs it for 10 s. `make chaos SECONDS=30`, or
//! `cargo test --test chaos -- --seconds 30`, runs it for as long as one likes; `--break RULE`
//! switches a rule of the library off and expects that it is found out; `--help` lists the options.
//!
//! | file | what it has |
//! |---|---|
//! | `options.rs` | the arguments |
//! | `run.rs` | one run, from the start of the masters to the last key |
//! | `nemesis.rs`, `master.rs`, `fault.rs` | what is broken when; how; the record of it |
//! | `crew.rs`, `protocol.rs` | worker processes as their parent sees them; what is said |
//! | `worker.rs`, `errand.rs` | a worker process: this program, executed again; what its tasks do |
//! | `owned.rs`, `hold.rs`, `section.rs` | a lock that a task has, fenced or not; how it is told; what is done under it |
//! | `history.rs`, `ledger.rs` | what happened; who had which lock when: the checker |
//! | `summary.rs`, `timeline.rs` | what is printed; what is drawn |
//! | `rule.rs` | the rules that can be switched off |
//! | `clock.rs`, `dice.rs` | a clock that processes share; choices by a seed |

#![allow(unreachable_pub)]

mod clock;
mod crew;
mod dice;
mod errand;
mod fault;
mod history;
mod hold;
mod ledger;
mod master;
mod nemesis;
mod options;
mod owned;
mod protocol;
mod rule;
mod run;
mod section;
mod summary;
#[path = "../support/mod.rs"]
mod support;
mod timeline;
mod worker;

use std::process::ExitCode;
use std::time::Duration;

use crate::history::Kind;
use crate::options::{Command, Options};

/// The argument that makes this program a worker.
const WORKER: &str = "worker";

/// What the names of all locks begin with.
const PREFIX: &str = "chaos:";

/// How far back the checker remembers: longer than any worker is stopped, or a lock is held.
const HORIZON: Duration = Duration::from_secs(60);

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == [WORKER] {
        worker::run().await;
        return ExitCode::SUCCESS;
    }
    match Command::parse(&args) {
        Command::Run(options) => chaos(&options).await,
        Command::List => {
            println!("chaos: test");
            ExitCode::SUCCESS
        }
        Command::Nothing => ExitCode::SUCCESS,
        Command::Usage(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}

async fn chaos(options: &Options) -> ExitCode {
    summary::announce(options);
    let outcome = run::run(options).await;
    summary::print(options, &outcome);
    timeline::save(options, &outcome.history);
    let violations = &outcome.history.violations;
    let passed = match options.broken {
        None => violations.is_empty(),
        Some(_) => violations.iter().any(|found| found.kind != Kind::Other),
    };
    ExitCode::from(u8::from(!passed))
}
