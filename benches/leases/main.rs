//! What many leases cost that are kept at the same time, on five real masters: CPU time of this
//! process, and bytes on its heap.
//!
//! `cargo bench -p redquorum-benches --bench leases`, or `make bench`; `--help` lists the options.
//! Figures are added to `target/bench/compare.json`, with no ratio: neither the floor nor rslock
//! keeps leases by itself. A row says so if a lease was lost. `tests/many_leases.rs` has the bars.
//!
//! | file | what it has |
//! |---|---|
//! | `options.rs` | the arguments |
//! | `usage.rs` | what this process uses |

mod options;
#[path = "../../tests/support/mod.rs"]
mod support;
mod usage;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use redquorum::{Guard, Redlock};
use redquorum_benches::figure::{Figure, Outcome, Row, Unit};
use redquorum_benches::record::Record;
use tokio::time::sleep;

use crate::options::Options;
use crate::support::fleet::Fleet;
use crate::support::wait::eventually;
use crate::usage::Usage;

const TTL: Duration = Duration::from_secs(10);

/// How long masters may take that share the cores with the load.
const PATIENT: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&args) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match measure_all(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the file of figures: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure_all(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut record = Record::resumed(&options.out)?;
    for count in &options.counts {
        let figures = measure(*count, options.length).await;
        figures.iter().for_each(|figure| println!("{figure}"));
        record.add(figures)?;
    }
    Ok(())
}

/// So many leases, kept for that long.
async fn measure(count: usize, length: Duration) -> Vec<Figure> {
    let fleet = Fleet::start(5).await;
    let builder = support::builder().masters(fleet.urls());
    let redlock = builder.master_timeout(PATIENT).build().expect("five");
    connect(&redlock).await;
    let mut leases = Vec::with_capacity(count);
    let before = Usage::now();
    for number in 0..count {
        leases.push(lease(&redlock, number).await);
    }
    let taken = Usage::now();
    sleep(length).await;
    let after = Usage::now();
    let lost = leases.iter().filter(|lease| !lease.is_valid()).count();
    let unless_lost = |value| match lost {
        0 => Ok(value),
        lost => Err(format!("{lost} of {count} leases were lost")),
    };
    let cpu = (after.cpu - taken.cpu).as_secs_f64() / length.as_secs_f64() * 100.0;
    let bytes = (after.heap - before.heap) as f64 / count as f64;
    [("CPU", "% of a core", cpu), ("heap", "bytes each", bytes)]
        .map(|(what, unit, value)| figure(count, what, unit, unless_lost(value)))
        .to_vec()
}

fn figure(count: usize, what: &str, unit: &'static str, outcome: Outcome) -> Figure {
    let row = Row::new(format!("{count} leases: {what}"), Unit::less(unit));
    row.figure("redquorum", &[outcome], None)
}

/// Waits until all masters take part.
async fn connect(redlock: &Redlock) {
    eventually("all masters grant", PATIENT * 5, async || {
        let lock = redlock.lock("connected").await.expect("nobody else asks");
        let released = lock.release().await.expect("it was held");
        released.removed == released.masters
    })
    .await;
}

async fn lease(redlock: &Redlock, number: usize) -> Guard {
    let request = redlock.lock(format!("lease:{number}")).ttl(TTL);
    let lease = request.auto_extend().await;
    lease.expect("nobody else asks")
}
