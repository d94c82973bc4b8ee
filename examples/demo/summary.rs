//! What came of it, and whether that is right.

use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Table, presets};

use crate::counter::Remains;
use crate::faults::History;
use crate::figures::Figures;
use crate::support::fleet::Fleet;

pub struct Summary {
    pub locked: bool,
    pub took: Duration,
    pub figures: Figures,
    pub counter: Remains,
    /// Which keys are left, if some are.
    pub settled: Result<(), String>,
    pub masters: Vec<Master>,
}

/// What is known of one master when all is over.
pub struct Master {
    address: String,
    events: Vec<String>,
    /// How often it was asked for the lock since its (last) start.
    asked: u64,
    keys_left: usize,
}

pub async fn of_masters(masters: &Fleet, history: &History) -> Vec<Master> {
    let mut all = Vec::with_capacity(masters.len());
    for (number, master) in masters.iter().enumerate() {
        let events = history.events().into_iter();
        all.push(Master {
            address: master.addr().to_string(),
            events: events
                .filter(|event| event.master == number)
                .map(|event| event.to_string())
                .collect(),
            asked: master.commandstats("set").await,
            keys_left: master.keys().await.len(),
        });
    }
    all
}

impl Summary {
    /// Prints it all; the exit code says whether it is right.
    pub fn show(&self) -> ExitCode {
        println!("{}\n{}", self.figures_table(), self.masters_table());
        let wrongs = self.wrongs();
        for wrong in &wrongs {
            println!("WRONG: {wrong}");
        }
        if wrongs.is_empty() {
            println!("No update lost, no overlap, no key left behind.");
            return ExitCode::SUCCESS;
        }
        if !self.locked {
            println!("That is what happens without the lock; with it, this must not be.");
        }
        ExitCode::FAILURE
    }

    /// Must be none.
    fn wrongs(&self) -> Vec<String> {
        let mut wrongs = Vec::new();
        if self.updates_lost() != 0 {
            wrongs.push(format!("{} updates were lost", self.updates_lost()));
        }
        if self.figures.overlaps != 0 {
            wrongs.push(format!("{} sections overlapped", self.figures.overlaps));
        }
        if self.counter.inside != 0 {
            wrongs.push(format!("{} workers are still inside", self.counter.inside));
        }
        if self.figures.sections == 0 {
            wrongs.push("nothing was done".to_owned());
        }
        if let Err(left) = &self.settled {
            wrongs.push(format!("keys are left: {left}"));
        }
        wrongs
    }

    fn updates_lost(&self) -> i128 {
        i128::from(self.figures.sections) - i128::from(self.counter.value)
    }

    fn figures_table(&self) -> Table {
        let title = if self.locked { "with" } else { "without" };
        let mut table = table([&format!("{title} the lock"), ""]);
        table.add_rows(self.outcome());
        if self.locked {
            table.add_rows(self.waits());
        }
        let errors = self.figures.errors.iter();
        table.add_rows(errors.map(|(what, count)| [format!("error: {what}"), count.to_string()]));
        table
    }

    fn outcome(&self) -> Vec<[String; 2]> {
        let Figures {
            sections,
            hand_overs,
            overlaps,
            ..
        } = &self.figures;
        let rate = *hand_overs as f64 / self.took.as_secs_f64();
        vec![
            ["sections done".to_owned(), sections.to_string()],
            [
                "updates lost (must be 0)".to_owned(),
                self.updates_lost().to_string(),
            ],
            ["overlaps (must be 0)".to_owned(), overlaps.to_string()],
            [
                "hand-overs between processes".to_owned(),
                format!("{rate:.0} a second"),
            ],
        ]
    }

    fn waits(&self) -> Vec<[String; 2]> {
        let shares = [("median", 0.5), ("99 of 100 under", 0.99), ("longest", 1.0)];
        let row = |(what, share)| {
            let wait = self.figures.wait(share).unwrap_or_default();
            [
                format!("wait for the lock: {what}"),
                format!("{:.1} ms", wait.as_secs_f64() * 1e3),
            ]
        };
        shares.map(row).to_vec()
    }

    fn masters_table(&self) -> Table {
        let mut table = table(["master", "what happened", "locks asked", "keys left"]);
        for (number, master) in self.masters.iter().enumerate() {
            table.add_row([
                format!("{} ({})", number + 1, master.address),
                master.events.join("\n"),
                master.asked.to_string(),
                master.keys_left.to_string(),
            ]);
        }
        table
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(header);
    table
}
