//! Runs the checker on a setting, and says what it found.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

use super::event::Event;
use super::promise::Promise;
use super::protocol::{Action, Protocol};
use super::setting::Setting;
use super::world::World;

/// What an exploration came to.
pub(crate) struct Exploration<const N: usize> {
    setting: Setting,
    pub(crate) states: usize,
    depth: usize,
    time: Duration,
    broken: Option<(Promise, Path<World<N>, Action>)>,
    unseen: Vec<Event>,
}

/// Explores all states of the setting, breadth first, until none is left or one
/// breaks a promise. One thread, so that a counter-example is a shortest one.
pub(crate) fn explore<const N: usize>(setting: Setting) -> Exploration<N> {
    let began = Instant::now();
    let checker = Protocol::<N>::new(setting.clone())
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let time = began.elapsed();
    let mut found = checker.discoveries();
    let broken = Promise::ALL
        .into_iter()
        .filter_map(|promise| Some((promise, found.remove(promise.name())?)))
        .min_by_key(|(_, path)| path.clone().into_actions().len());
    let unseen = setting
        .expects
        .iter()
        .filter(|event| !found.contains_key(event.name()));
    Exploration {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        time,
        broken,
        unseen: unseen.copied().collect(),
        setting,
    }
}

impl<const N: usize> Exploration<N> {
    /// Asserts that nothing is broken, and that all was seen that should be.
    pub(crate) fn holds(&self) {
        self.print("holds");
        if let Some((promise, path)) = &self.broken {
            panic!("broken: {}\n{}", promise.name(), listed(path));
        }
        let unseen: Vec<_> = self.unseen.iter().map(|event| event.name()).collect();
        assert!(unseen.is_empty(), "never seen: {unseen:?}");
    }

    /// Asserts that this promise is broken, first after this many steps.
    pub(crate) fn breaks(&self, promise: Promise, steps: usize) {
        let Some((broken, path)) = &self.broken else {
            self.print("holds, and should not");
            panic!("{} shows no counter-example", self.setting.name);
        };
        let actions = path.clone().into_actions().len();
        self.print(&format!("{} is broken in {actions} steps", broken.name()));
        println!("{}", listed(path));
        assert_eq!((*broken, actions), (promise, steps));
    }

    fn print(&self, outcome: &str) {
        println!(
            "{:<44} {N} masters {:>9} states, depth {:>3}, {:>6.1} s: {outcome}",
            self.setting.name,
            self.states,
            self.depth,
            self.time.as_secs_f64(),
        );
    }
}

fn listed<const N: usize>(path: &Path<World<N>, Action>) -> String {
    let lines = path.clone().into_actions();
    let lines = lines.iter().enumerate();
    let lines = lines.map(|(index, action)| format!("    {:>2}. {action:?}", index + 1));
    lines.collect::<Vec<_>>().join("\n")
}
