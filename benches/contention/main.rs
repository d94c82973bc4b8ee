//! Waiting for a busy lock on five real masters, beside rslock.
//!
//! `cargo bench -p redquorum-benches --bench contention`, or `make bench`. Single rows, quickly:
//! `cargo bench -p redquorum-benches --bench contention -- 3 4 --seconds 2 --turns 3 --only redquorum`;
//! `--help` lists the options.
//!
//! | row | what contends | what counts |
//! |---|---|---|
//! | 1 | 16 tasks in one process; section of 1 ms, pause of 20 ms | grants a second |
//! | 2 | 4 processes of 4 tasks; the same section and pause | grants a second |
//! | 3 | 16 tasks in one process; no section, no pause | changes of owning task a second |
//! | 4 | 8 processes of 1 task; no section, no pause | changes of owning process a second |
//! | 5 | 1 000 tasks in one process wait while another holds | CPU time, commands to each master |
//! | 6 | one process waits for another's release | release to grant, beside a free acquire |
//! | 7 | one process waits for a killed one, whose TTL is 1 s | grant to grant |
//!
//! A section is one command to a sixth server and a *blocking* sleep of 1 ms
//! (tokio's timer would make 2 ms of it), on a runtime of two threads.
//!
//! In rows 1 to 4 both libraries have several turns, one after the other, so
//! that the machine's noise hits them alike. Rates, and the ratio of the two in
//! one round of turns, are medians over the turns. Waits and most : least served
//! are those of the worst turn; a wait that the end of a turn cuts off counts.
//! Served are processes or, if there is but one, its tasks. Where there is a section,
//! it is checked on the way that no two were inside at once. In rows 5 to 7 each library has one
//! turn.
//!
//! Figures are added to `target/bench/compare.json`, with ratios to rslock's, since nothing here is
//! a floor; `contended.svg` and `waits.svg` beside it show rows 1 to 4.
//!
//! | file | what it has |
//! |---|---|
//! | `options.rs` | the arguments |
//! | `stage.rs` | the servers, and jobs for the workers on them |
//! | `contest.rs`, `ledger.rs` | rows 1 to 4: turns; what the logs of one come to |
//! | `idleness.rs`, `wakeup.rs` | row 5; rows 6 and 7 |
//! | `table.rs` | figures, bars and how they are shown |
//! | `crew.rs`, `protocol.rs` | worker processes as their parent sees them; what is said |
//! | `worker.rs` | a worker process: this program, executed again |
//! | `contender.rs`, `hand.rs`, `waiters.rs` | what a worker can be |
//! | `locker.rs`, `clock.rs` | either library; clocks that processes share |

#![allow(unreachable_pub)]

mod clock;
mod contender;
mod contest;
mod crew;
mod hand;
mod idleness;
mod ledger;
mod locker;
mod options;
mod protocol;
mod stage;
#[path = "../../tests/support/mod.rs"]
mod support;
mod table;
mod waiters;
mod wakeup;
mod worker;

use std::process::ExitCode;

use redquorum_benches::record::Record;

use crate::options::Options;
use crate::stage::Stage;

/// The argument that makes this program a worker.
const WORKER: &str = "worker";

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == [WORKER] {
        worker::run().await;
        return ExitCode::SUCCESS;
    }
    match Options::parse(&args) {
        Ok(options) => compare(&options).await,
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}

async fn compare(options: &Options) -> ExitCode {
    let mut record = match Record::resumed(&options.out) {
        Ok(record) => record,
        Err(error) => return no_record(&*error),
    };
    let stage = Stage::set(options).await;
    let mut passed = true;
    for row in &options.rows {
        let results = match row {
            5 => idleness::measure(&stage, options).await,
            6 => wakeup::by_release(&stage, options).await,
            7 => wakeup::by_expiry(&stage, options).await,
            _ => contest::hold(*row, &stage, options).await,
        };
        for line in results.lines {
            println!("{line}");
            passed &= line.passed();
        }
        if let Err(error) = record.add(results.figures) {
            return no_record(&*error);
        }
    }
    ExitCode::from(u8::from(options.check && !passed))
}

fn no_record(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("the file of figures: {error}");
    ExitCode::FAILURE
}
