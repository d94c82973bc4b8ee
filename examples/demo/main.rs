//! The library at work: four processes share one lock on five masters, two of
//! which fail on the way.
//!
//! ```sh
//! cargo run --release --example demo                  # updates lost: 0
//! cargo run --release --example demo -- --unlocked    # the same without the lock
//! ```
//!
//! Each worker process adds one to a counter that lives on a sixth server, as
//! often as it can: it reads the counter, pauses, and writes it back. Where two
//! workers do so at once, an update is lost. So they take a lock, and the
//! demonstration fails (exits with 1) if an update was lost all the same, if two
//! workers were inside at once, if a worker failed, or if a key is left on a
//! master when all is over. `--unlocked` shows that it would be seen: it fails.
//!
//! To learn how to use the library, read `worker.rs`: it builds the coordinator,
//! waits for the lock, makes sure of the lease before it writes, releases, and
//! tells apart what can go wrong. The rest sets the stage:
//!
//! | file | what it has |
//! |---|---|
//! | `worker.rs` | a worker process: **the use of the library** |
//! | `counter.rs` | what the lock protects, and how an overlap is noticed |
//! | `crew.rs` | starts the workers, hears their figures, stops them |
//! | `figures.rs` | what workers report |
//! | `faults.rs` | what is done to the masters, and when |
//! | `progress.rs` | what is shown meanwhile |
//! | `summary.rs` | what came of it, and whether that is right |
//!
//! It needs `redis-server` on the path, and about sixteen seconds: masters have no
//! vote in the first.

#![allow(unreachable_pub)]

mod counter;
mod crew;
mod faults;
mod figures;
mod progress;
mod summary;
#[path = "../../tests/support/mod.rs"]
mod support;
mod worker;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use redquorum::Redlock;

use crate::counter::Counter;
use crate::crew::{Crew, Job};
use crate::faults::History;
use crate::summary::Summary;
use crate::support::fleet::Fleet;
use crate::support::server::Server;

const MASTERS: usize = 5;
const WORKERS: usize = 4;

/// How long keys may take to go when all workers have. Less than the TTL, so
/// that it is not the TTL that removes them.
const SETTLING: Duration = Duration::from_secs(1);

/// What ends a program by Ctrl-C, as shells see it.
const INTERRUPTED: u8 = 130;

type AnyError = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demonstrate(true).await,
        ["--unlocked"] => demonstrate(false).await,
        [crew::WORKER] => worker::run().await,
        _ => {
            eprintln!("usage: demo [--unlocked]");
            ExitCode::from(2)
        }
    }
}

async fn demonstrate(locked: bool) -> ExitCode {
    tokio::select! {
        outcome = play(locked) => match outcome {
            Ok(summary) => summary.show(),
            Err(error) => {
                eprintln!("The demonstration failed: {error}");
                ExitCode::FAILURE
            }
        },
        _ = tokio::signal::ctrl_c() => {
            eprintln!("Interrupted.");
            ExitCode::from(INTERRUPTED)
        }
    }
}

/// Sets the stage, lets the workers work while masters fail, and looks at what
/// is left. Servers and workers end with the values that stand for them.
async fn play(locked: bool) -> Result<Summary, AnyError> {
    let mut masters = Fleet::start(MASTERS).await;
    let server = Server::start().await;
    announce(locked);
    if locked {
        until_masters_vote(&masters).await?;
    }
    let began = Instant::now();
    let mut crew = Crew::start(&jobs(&masters, &server, locked)).await?;
    let history = History::new(MASTERS);
    tokio::select! {
        () = faults::happen(&mut masters, &history) => {}
        () = progress::show(crew.tally(), &history) => {}
        failure = crew.early_end() => return Err(failure),
    }
    let figures = crew.stop().await?;
    let took = began.elapsed();
    let settled = masters.wait_until_no_keys(SETTLING).await;
    Ok(Summary {
        locked,
        took,
        figures,
        counter: Counter::at(&server.url()).await?.look().await?,
        settled,
        masters: summary::of_masters(&masters, &history).await,
    })
}

/// Masters that have just come up have no vote for a TTL, since they may have
/// forgotten locks (S13). The workers' waits would tell of little else.
async fn until_masters_vote(masters: &Fleet) -> Result<(), AnyError> {
    // Servers count their uptime in whole seconds, the last of which counts for
    // nothing: 2 s more, and workers find them old enough at once.
    let ttl = worker::TTL + Duration::from_secs(2);
    let redlock = Redlock::builder().masters(masters.urls()).build()?;
    let first = redlock.lock("demo:first").ttl(ttl).wait(5 * ttl).await?;
    first.release().await?;
    Ok(())
}

fn announce(locked: bool) {
    let lock = if locked {
        format!("with a lock on {MASTERS} masters")
    } else {
        "WITHOUT the lock".to_owned()
    };
    eprintln!("{WORKERS} processes add to one counter, {lock}; two masters fail on the way.");
}

fn jobs(masters: &Fleet, server: &Server, locked: bool) -> Vec<Job> {
    let job = |number| Job {
        name: format!("worker {number}"),
        masters: masters.urls(),
        counter: server.url(),
        locked,
    };
    (1..=WORKERS).map(job).collect()
}
