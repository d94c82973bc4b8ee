//! Figures, the bars they must reach, and how both are shown.

use std::fmt;
use std::time::Duration;

use redquorum_benches::figure::{Figure, Row};
use redquorum_benches::turns::Turns;

use crate::locker::Subject;

/// What came of a row.
pub struct Results {
    /// For each subject.
    pub lines: Vec<Line>,
    pub figures: Vec<Figure>,
}

/// What is compared with: there is no floor for waiting.
pub const BASE: Subject = Subject::Rslock;

/// A figure of each subject from what was measured of it once.
pub fn beside_base(row: &Row, measured: impl Iterator<Item = (Subject, f64)>) -> Vec<Figure> {
    let turns = measured.map(|(subject, value)| (subject.name(), vec![Ok(value)]));
    Turns::of(turns.collect()).beside(BASE.name(), row)
}

/// What came of a row for one subject.
pub struct Line {
    row: u8,
    subject: Subject,
    figures: String,
    bars: Vec<Bar>,
}

impl Line {
    /// The bars are for redquorum alone.
    pub fn new(row: u8, subject: Subject, figures: String, mut bars: Vec<Bar>) -> Self {
        if subject == Subject::Rslock {
            bars.clear();
        }
        Self {
            row,
            subject,
            figures,
            bars,
        }
    }

    pub fn passed(&self) -> bool {
        self.bars.iter().all(|bar| bar.reached)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}  {:<9}  {}",
            self.row,
            self.subject.name(),
            self.figures
        )?;
        for bar in &self.bars {
            let verdict = if bar.reached { "pass" } else { "MISS" };
            write!(f, "  [{} {verdict}]", bar.text)?;
        }
        Ok(())
    }
}

/// One bar, and whether it was reached.
pub struct Bar {
    text: String,
    reached: bool,
}

impl Bar {
    pub fn at_most(unit: &str, figure: f64, bar: f64) -> Self {
        Self {
            text: format!("≤ {bar} {unit}"),
            reached: figure <= bar,
        }
    }

    pub fn at_least(unit: &str, figure: f64, bar: f64) -> Self {
        Self {
            text: format!("≥ {bar} {unit}"),
            reached: figure >= bar,
        }
    }
}

pub fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

pub fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}
