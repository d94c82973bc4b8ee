//! Who is measured when, and what comes of it.

use crate::figure::Figure;
use crate::subject::{Kind, Subject};

/// What a subject gave in each turn; `None` if nothing.
pub(crate) struct Turns(Vec<(Kind, Vec<Option<f64>>)>);

impl Turns {
    /// Each subject has its turn as often, in an order that rotates.
    pub(crate) async fn take(
        cast: &[(Kind, Subject)],
        turns: usize,
        mut measure: impl AsyncFnMut(&Subject) -> Option<f64>,
    ) -> Self {
        let mut all: Vec<_> = cast.iter().map(|(kind, _)| (*kind, Vec::new())).collect();
        for turn in 0..turns {
            for place in 0..cast.len() {
                let who = (turn + place) % cast.len();
                all[who].1.push(measure(&cast[who].1).await);
            }
        }
        Self(all)
    }

    /// A figure of each subject, with its ratio to this one's in the same turn.
    pub(crate) fn beside(&self, base: Kind, bench: &str, unit: &'static str) -> Vec<Figure> {
        let of_base = self.of(base);
        let figure = |(kind, values): &(Kind, Vec<Option<f64>>)| {
            let base = of_base.filter(|_| *kind != base);
            Figure::new(bench, kind.name(), unit, values, base)
        };
        self.0.iter().map(figure).collect()
    }

    /// A figure of each subject, with its ratio to its own in that turn of others.
    pub(crate) fn beside_own(&self, others: &Self, bench: &str, unit: &'static str) -> Vec<Figure> {
        let figure = |(kind, values): &(Kind, Vec<Option<f64>>)| {
            Figure::new(bench, kind.name(), unit, values, others.of(*kind))
        };
        self.0.iter().map(figure).collect()
    }

    fn of(&self, kind: Kind) -> Option<&[Option<f64>]> {
        let found = self.0.iter().find(|(other, _)| *other == kind);
        found.map(|(_, values)| &**values)
    }
}
