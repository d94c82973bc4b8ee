//! The run of one seed.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::client;
use super::journal::Journal;
use super::master::Master;
use super::nemesis::Nemesis;
use super::server::Options;
use super::setting::{Planted, Setting};
use super::sightings::Sightings;
use super::world::World;

thread_local! {
    /// What a task of the library has panicked with.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What became of a run.
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) broken: Option<String>,
    pub(crate) sightings: Sightings,
    pub(crate) fingerprint: (u64, u64),
    pub(crate) simulated: Duration,
    pub(crate) log: Vec<String>,
}

/// Runs a seed; keeps the whole log, or the end of it if something is broken.
pub(crate) fn run(seed: u64, planted: Planted, whole: bool) -> Outcome {
    redquorum::simulation::seed(Some(seed));
    PANIC.set(None);
    let world = World::new(Setting::of(seed, planted), whole);
    let mut run = Run::new(&world);
    let broken = run.until_over().err();
    let simulated = run.sim.elapsed();
    drop(run);
    redquorum::simulation::seed(None);
    let journal = std::mem::take(&mut *world.journal.borrow_mut());
    Outcome {
        seed,
        fingerprint: journal.fingerprint(),
        log: match whole || broken.is_some() {
            true => lines(&world.setting, &journal),
            false => Vec::new(),
        },
        broken,
        sightings: world.sightings.take(),
        simulated,
    }
}

fn lines(setting: &Setting, journal: &Journal) -> Vec<String> {
    let mut lines = vec![format!("{setting:#?}")];
    lines.extend(journal.lines());
    lines
}

struct Run {
    world: Rc<World>,
    sim: turmoil::Sim<'static>,
    masters: Vec<Rc<Master>>,
    nemesis: Nemesis,
}

impl Run {
    fn new(world: &Rc<World>) -> Self {
        let setting = &world.setting;
        let mut sim = turmoil::Builder::new()
            .rng_seed(setting.seed)
            .simulation_duration(Duration::from_secs(3600))
            .tick_duration(Duration::from_millis(1))
            .min_message_latency(setting.latency.0)
            .max_message_latency(setting.latency.1)
            .tcp_capacity(1024)
            .build();
        let masters: Vec<_> = (0..setting.masters)
            .map(|index| Master::new(index, setting.skews[index], options(setting, index), world))
            .collect();
        for master in &masters {
            let master = master.clone();
            sim.host(Master::name(master.index), move || master.clone().run());
        }
        for index in 0..setting.clients {
            let world = world.clone();
            sim.host(client::name(index), move || {
                client::run(world.clone(), index)
            });
        }
        Self {
            nemesis: Nemesis::new(world, &masters),
            world: world.clone(),
            sim,
            masters,
        }
    }

    fn until_over(&mut self) -> Result<(), String> {
        while self.sim.elapsed() < self.world.setting.chaos {
            self.nemesis.act(&mut self.sim);
            self.step()?;
        }
        self.nemesis.end_all(&mut self.sim);
        let setting = &self.world.setting;
        // The tasks of the time of faults end first; their longest wait is 3 s.
        let patience = setting.patience(self.nemesis.memory_was_lost) + Duration::from_secs(12);
        self.within(patience, "not all had every lock", |run| {
            run.world.done.get() == run.world.setting.clients
        })?;
        let remains = self.world.setting.remains(self.nemesis.memory_was_lost);
        let remains = remains + Duration::from_secs(6);
        self.within(remains, "keys are left", |run| run.keys().is_empty())?;
        self.world.over.set(true);
        Ok(())
    }

    /// After this time something must be so.
    fn within(
        &mut self,
        limit: Duration,
        otherwise: &str,
        so: impl Fn(&Self) -> bool,
    ) -> Result<(), String> {
        let end = self.sim.elapsed() + limit;
        while !so(self) {
            if self.sim.elapsed() >= end {
                let under_way = self.world.under_way.borrow();
                let keys = self.keys();
                return Err(format!(
                    "{otherwise} after {limit:?}: under way {under_way:?}, keys {keys:?}"
                ));
            }
            self.step()?;
        }
        Ok(())
    }

    fn keys(&self) -> Vec<String> {
        let keys = |master: &Rc<Master>| {
            let keys = master.keys(self.sim.elapsed()).into_iter();
            keys.map(|key| format!("m{}: {key}", master.index))
                .collect::<Vec<_>>()
        };
        self.masters.iter().flat_map(keys).collect()
    }

    fn step(&mut self) -> Result<(), String> {
        self.sim.step().map_err(|error| error.to_string())?;
        if let Some(panic) = PANIC.take() {
            return Err(format!("a task panicked: {panic}"));
        }
        match self.world.ledger.borrow().broken() {
            Some(broken) => Err(broken.to_owned()),
            None => Ok(()),
        }
    }
}

fn options(setting: &Setting, master: usize) -> Options {
    Options {
        durable: setting.durable[master],
        old: setting.old,
        no_kill: setting.no_kill,
        ignores_nx: setting.planted == Planted::NoNx,
    }
}

/// From now on, panics of any task end its run.
pub(crate) fn hear_of_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANIC.set(Some(panic.to_string()));
        usual(panic);
    }));
}
