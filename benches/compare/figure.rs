//! Figures: as lines, and as JSON.

use std::fmt;

use serde::Serialize;

use crate::sample::LIMIT;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) bench: String,
    pub(crate) subject: &'static str,
    /// The median over the turns; none if no turn gave anything.
    pub(crate) value: Option<f64>,
    pub(crate) unit: &'static str,
    /// The median of the ratios within the turns, to what the row compares with.
    pub(crate) ratio: Option<f64>,
    pub(crate) least_ratio: Option<f64>,
    pub(crate) greatest_ratio: Option<f64>,
}

impl Figure {
    pub(crate) fn new(
        bench: &str,
        subject: &'static str,
        unit: &'static str,
        values: &[Option<f64>],
        base: Option<&[Option<f64>]>,
    ) -> Self {
        let pairs = values.iter().zip(base.unwrap_or_default());
        let ratios = || {
            pairs
                .clone()
                .filter_map(|(value, base)| Some((*value)? / (*base)?))
        };
        Self {
            bench: bench.to_owned(),
            subject,
            value: median(values.iter().copied().flatten()),
            unit,
            ratio: median(ratios()),
            least_ratio: ratios().min_by(f64::total_cmp),
            greatest_ratio: ratios().max_by(f64::total_cmp),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<22} {:<23}", self.bench, self.subject)?;
        match self.value {
            Some(value) if value >= 1000.0 => write!(f, " {value:>9.0} {:<9}", self.unit)?,
            Some(value) => write!(f, " {value:>9.3} {:<9}", self.unit)?,
            None => write!(f, " failed, or took {} s", LIMIT.as_secs())?,
        }
        if let (Some(ratio), Some(least), Some(greatest)) =
            (self.ratio, self.least_ratio, self.greatest_ratio)
        {
            write!(f, " {ratio:.3} ({least:.2}–{greatest:.2})")?;
        }
        Ok(())
    }
}

pub(crate) fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
