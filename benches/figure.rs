//! Figures, and how they are formed from turns.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a subject gave in a turn, or why it gave nothing.
pub type Outcome = Result<f64, String>;

/// What figures are in, and what is worse.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    name: &'static str,
    worst: f64,
}

impl Unit {
    /// One in which less is better.
    pub const fn less(name: &'static str) -> Self {
        let worst = f64::INFINITY;
        Self { name, worst }
    }

    /// One in which more is better.
    pub const fn more(name: &'static str) -> Self {
        Self { name, worst: 0.0 }
    }

    /// A turn that gave nothing is as bad as can be.
    fn number(self, outcome: &Outcome) -> f64 {
        outcome.as_ref().copied().unwrap_or(self.worst)
    }

    /// The best first.
    fn sorted(self, numbers: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut numbers: Vec<f64> = numbers.filter(|number| !number.is_nan()).collect();
        numbers.sort_by(f64::total_cmp);
        if self.worst == 0.0 {
            numbers.reverse();
        }
        numbers
    }
}

/// What is measured in a row.
#[derive(Clone, Debug)]
pub struct Row {
    bench: String,
    unit: Unit,
    worst: bool,
}

impl Row {
    /// One whose figures are medians over the turns.
    pub fn new(bench: impl Into<String>, unit: Unit) -> Self {
        Self {
            bench: bench.into(),
            unit,
            worst: false,
        }
    }

    /// One whose figures are those of the worst turn. Ratios are medians nevertheless.
    pub fn of_the_worst_turn(self) -> Self {
        Self {
            worst: true,
            ..self
        }
    }

    /// A subject's figure, with its ratio to another in the same turns.
    pub fn figure(&self, subject: &str, outcomes: &[Outcome], base: Option<Base<'_>>) -> Figure {
        let number = |outcome| self.unit.number(outcome);
        let pairs = outcomes
            .iter()
            .zip(base.map_or(&[][..], |base| base.outcomes));
        let numbers = self.unit.sorted(outcomes.iter().map(number));
        // Neither number nor infinity, if both gave nothing.
        let ratios = pairs.map(|(outcome, base)| number(outcome) / number(base));
        let ratios = self.unit.sorted(ratios);
        let value = if self.worst {
            numbers.last().copied()
        } else {
            middle(&numbers)
        };
        let failures = || outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        Figure {
            bench: self.bench.clone(),
            subject: subject.to_owned(),
            value: value.filter(|value| *value != self.unit.worst),
            unit: self.unit.name.to_owned(),
            of: if self.worst { "worst turn" } else { "median" }.to_owned(),
            ratio: finite(middle(&ratios)).filter(|ratio| *ratio > 0.0),
            ratio_to: base.map(|base| base.name.to_owned()),
            least_ratio: finite(ratios.iter().copied().min_by(f64::total_cmp)),
            greatest_ratio: finite(ratios.iter().copied().max_by(f64::total_cmp)),
            turns: outcomes.len(),
            failed_turns: failures().count(),
            failure: failures().next().cloned(),
        }
    }
}

/// What ratios are to.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    /// As the figure says it.
    pub name: &'a str,
    /// In the same turns.
    pub outcomes: &'a [Outcome],
}

/// A subject's figure in a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// The row.
    pub bench: String,
    /// The subject.
    pub subject: String,
    /// None if so many turns gave nothing that there is none.
    pub value: Option<f64>,
    /// What the value is in.
    pub unit: String,
    /// Of which turn the value is: the median, or the worst.
    pub of: String,
    /// The median of the ratios within the turns. None if there is nothing to compare with, or
    /// so many turns of either gave nothing that there is none.
    pub ratio: Option<f64>,
    /// What the ratio is to; none for what the others of the row are compared with.
    pub ratio_to: Option<String>,
    /// None if it is not finite.
    pub least_ratio: Option<f64>,
    /// None if it is not finite.
    pub greatest_ratio: Option<f64>,
    /// How many turns there were.
    pub turns: usize,
    /// How many of them gave nothing. They count as worse than all others.
    pub failed_turns: usize,
    /// Why the first of these gave nothing.
    pub failure: Option<String>,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28} {:<23}", self.bench, self.subject)?;
        match self.value {
            Some(value) if value >= 1000.0 => write!(f, " {value:>9.0} {:<9}", self.unit)?,
            Some(value) => write!(f, " {value:>9.3} {:<9}", self.unit)?,
            None => write!(f, " {:>9} {:<9}", "none", "")?,
        }
        if let (Some(ratio), Some(to)) = (self.ratio, &self.ratio_to) {
            let bound =
                |bound: Option<f64>| bound.map_or("∞".to_owned(), |bound| format!("{bound:.2}"));
            let (least, greatest) = (bound(self.least_ratio), bound(self.greatest_ratio));
            write!(f, " {ratio:.3} × {to} ({least}–{greatest})")?;
        }
        if let Some(failure) = &self.failure {
            let (failed, turns) = (self.failed_turns, self.turns);
            write!(f, " [nothing in {failed} of {turns} turns: {failure}]")?;
        }
        Ok(())
    }
}

/// The worse of two in the middle.
fn middle(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

fn finite(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite())
}
