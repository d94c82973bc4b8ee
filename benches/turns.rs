//! Who is measured when, and what comes of it.

use crate::figure::{Base, Figure, Outcome, Row};
use crate::panics::caught;

/// Subjects by name, connected; or why one isn't.
pub type Cast<S> = Vec<(&'static str, Result<S, String>)>;

/// What each subject gave in each turn.
pub struct Turns(Vec<(&'static str, Vec<Outcome>)>);

impl Turns {
    /// Of what was measured already.
    pub fn of(outcomes: Vec<(&'static str, Vec<Outcome>)>) -> Self {
        Self(outcomes)
    }

    /// Each subject has its turn as often, in an order that rotates. One that panics gave
    /// nothing in that turn.
    pub async fn take<S>(
        cast: &Cast<S>,
        turns: usize,
        measure: impl AsyncFnMut(&S) -> Outcome,
    ) -> Self {
        let [all] = Self::alternate([cast], turns, measure).await;
        all
    }

    /// The same with several casts of the same subjects: each subject has its turns with all
    /// casts one right after the other, in an order that rotates, too.
    pub async fn alternate<S, const CASTS: usize>(
        casts: [&Cast<S>; CASTS],
        turns: usize,
        mut measure: impl AsyncFnMut(&S) -> Outcome,
    ) -> [Self; CASTS] {
        let mut all = casts.map(|cast| {
            let none = cast.iter().map(|(name, _)| (*name, Vec::new()));
            Self(none.collect())
        });
        for turn in 0..turns {
            for place in 0..casts[0].len() {
                let who = (turn + place) % casts[0].len();
                for place in 0..CASTS {
                    let stage = (turn + place) % CASTS;
                    let outcome = match &casts[stage][who].1 {
                        Ok(subject) => caught(measure(subject)).await.unwrap_or_else(Err),
                        Err(why) => Err(why.clone()),
                    };
                    all[stage].0[who].1.push(outcome);
                }
            }
        }
        all
    }

    /// A figure of each subject, with its ratio to this one's in the same turn.
    pub fn beside(&self, base: &str, row: &Row) -> Vec<Figure> {
        let of_base = self.of_subject(base).map(|outcomes| Base {
            name: base,
            outcomes,
        });
        let figure = |(name, own): &(&'static str, Vec<Outcome>)| {
            row.figure(name, own, of_base.filter(|_| *name != base))
        };
        self.0.iter().map(figure).collect()
    }

    /// A figure of each subject, with its ratio to its own in that turn of others, of which
    /// `name` says what they are.
    pub fn beside_own(&self, others: &Self, name: &str, row: &Row) -> Vec<Figure> {
        let figure = |(subject, own): &(&'static str, Vec<Outcome>)| {
            let outcomes = others.of_subject(subject);
            let base = outcomes.map(|outcomes| Base { name, outcomes });
            row.figure(subject, own, base)
        };
        self.0.iter().map(figure).collect()
    }

    fn of_subject(&self, name: &str) -> Option<&[Outcome]> {
        let found = self.0.iter().find(|(other, _)| *other == name);
        found.map(|(_, outcomes)| &**outcomes)
    }
}
