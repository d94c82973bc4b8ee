//! Acquire and release on five real masters: redquorum beside the floor (the redis crate
//! alone) and beside other libraries. They take turns in one process, in an order that
//! rotates, so that the machine's noise hits them alike. Figures are medians over the
//! turns, and so are ratios, which are formed within a turn. A turn that gave nothing counts
//! as the worst; a subject that panics gave nothing, and the others go on.
//!
//! `make bench`. Single rows, quickly: `cargo bench -p redquorum-benches --bench compare --
//! cycle hung --turns 3`; `--help` lists the options. Waiting for a busy lock is
//! `--bench contention`.
//!
//! | row | what is measured |
//! |---|---|
//! | `cycle` | one task: acquire and release, median and 99th percentile |
//! | `tasks` | 1, 8, 64, 512 tasks, each on a resource of its own: cycles a second |
//! | `fenced` | with a fencing token, beside without |
//! | `hung`, `killed` | none, one, two of five masters stopped or killed, in turns: the first cycle, and the median; three: the time to the first error, and to later ones |
//! | `masters` | 1, 3, 5, 7, 9 masters |
//! | `delay` | 2 ms more on the way to one master, or to all |
//!
//! | file | what it has |
//! |---|---|
//! | `options.rs` | the arguments |
//! | `subject.rs` | what is compared |
//! | `stage.rs` | masters, and the subjects that are connected to them |
//! | `sample.rs` | what one turn of one subject gives |
//! | `rows.rs`, `faults.rs` | the rows |
//!
//! `benches/lib.rs` has what comes of turns: figures, as lines and in `target/bench/compare.json`,
//! and plots. This program begins the file anew; the others add to it.

mod faults;
#[path = "../floor.rs"]
mod floor;
mod options;
mod rows;
mod sample;
mod stage;
mod subject;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

use redquorum_benches::record::Record;

use crate::options::Options;

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
    let mut record = Record::anew(&options.out);
    for row in &options.rows {
        let figures = match &**row {
            "cycle" => rows::cycle(&options).await,
            "tasks" => rows::tasks(&options).await,
            "fenced" => rows::fenced(&options).await,
            "hung" => faults::hung(&options).await,
            "killed" => faults::killed(&options).await,
            "masters" => rows::masters(&options).await,
            _ => rows::delay(&options).await,
        };
        figures.iter().for_each(|figure| println!("{figure}"));
        if let Err(error) = record.add(figures) {
            eprintln!("the figures could not be written: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
