//! Acquire and release on five real masters: redquorum beside the floor (the redis crate
//! alone) and beside other libraries. They take turns in one process, in an order that
//! rotates, so that the machine's noise hits them alike. Figures are medians over the
//! turns, and so are ratios, which are formed within a turn.
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
//! | `hung`, `killed` | one, two, three of five masters stopped or killed; beside the same subject's healthy median |
//! | `masters` | 1, 3, 5, 7, 9 masters |
//! | `delay` | 2 ms more on the way to one master, or to all |
//!
//! | file | what it has |
//! |---|---|
//! | `options.rs` | the arguments |
//! | `subject.rs` | what is compared |
//! | `stage.rs` | masters, and the subjects that are connected to them |
//! | `turns.rs` | who is measured when, and what comes of it |
//! | `sample.rs` | what one turn of one subject gives |
//! | `rows.rs`, `faults.rs` | the rows |
//! | `figure.rs` | figures: as lines, and as `target/bench/compare.json` |
//! | `plot.rs` | figures as bars |

mod faults;
mod figure;
#[path = "../floor.rs"]
mod floor;
mod options;
mod plot;
mod rows;
mod sample;
mod stage;
mod subject;
#[path = "../../tests/support/mod.rs"]
mod support;
mod turns;

use std::process::ExitCode;

use crate::figure::Figure;
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
    let mut figures = Vec::new();
    for row in &options.rows {
        let measured = match &**row {
            "cycle" => rows::cycle(&options).await,
            "tasks" => rows::tasks(&options).await,
            "fenced" => rows::fenced(&options).await,
            "hung" => faults::hung(&options).await,
            "killed" => faults::killed(&options).await,
            "masters" => rows::masters(&options).await,
            _ => rows::delay(&options).await,
        };
        measured.iter().for_each(|figure| println!("{figure}"));
        figures.extend(measured);
    }
    if let Err(error) = keep(&figures, &options) {
        eprintln!("the figures could not be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn keep(figures: &[Figure], options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(&options.out)?;
    let json = serde_json::to_string_pretty(figures)?;
    std::fs::write(options.out.join("compare.json"), json)?;
    plot::draw_all(figures, &options.out)
}
