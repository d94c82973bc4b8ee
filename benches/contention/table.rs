//! Figures, the bars they must reach, and how both are shown.

use std::fmt;
use std::time::Duration;

use crate::locker::Subject;

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
