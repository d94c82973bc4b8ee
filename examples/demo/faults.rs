//! What is done to the masters, and when.

use std::cell::RefCell;
use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::support::fleet::Fleet;
use crate::support::server::Server;

/// How long the workers work.
pub const LENGTH: Duration = Duration::from_secs(10);

/// Which master (from 0) suffers what, and when. Between the second and the
/// third, no more than a quorum is left.
const SCHEDULE: [(Duration, usize, Fault); 4] = [
    (Duration::from_millis(2_000), 1, Fault::Kill),
    (Duration::from_millis(4_000), 3, Fault::Stop),
    (Duration::from_millis(5_000), 1, Fault::Restart),
    (Duration::from_millis(6_500), 3, Fault::Continue),
];

#[derive(Clone, Copy)]
pub enum Fault {
    /// The process dies, and what it had in memory with it.
    Kill,
    /// The process starts again, without keys: for a TTL it has no vote.
    Restart,
    /// The process stands still: connections stay open, and nothing answers.
    Stop,
    /// The process goes on, with the commands that have piled up.
    Continue,
}

/// What happened to one master.
#[derive(Clone, Copy)]
pub struct Event {
    pub at: Duration,
    pub master: usize,
    pub fault: Fault,
}

/// What happened so far.
pub struct History {
    masters: usize,
    began: Instant,
    events: RefCell<Vec<Event>>,
}

/// Does what the schedule says, and returns when all is over.
pub async fn happen(masters: &mut Fleet, history: &History) {
    for (at, master, fault) in SCHEDULE {
        sleep_until(history.began + at).await;
        fault.befall(&mut masters[master]).await;
        history.record(master, fault);
    }
    sleep_until(history.began + LENGTH).await;
}

impl Fault {
    async fn befall(self, master: &mut Server) {
        match self {
            Fault::Kill => master.kill(),
            Fault::Restart => master.restart().await,
            Fault::Stop => master.stop(),
            Fault::Continue => master.cont(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Kill => "killed (SIGKILL)",
            Fault::Restart => "started again, without its keys",
            Fault::Stop => "stopped (SIGSTOP)",
            Fault::Continue => "goes on (SIGCONT)",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:4.1} s: {}", self.at.as_secs_f64(), self.fault)
    }
}

impl History {
    pub fn new(masters: usize) -> Self {
        Self {
            masters,
            began: Instant::now(),
            events: RefCell::default(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    /// In a word for each master.
    pub fn states(&self) -> Vec<&'static str> {
        let mut states = vec!["up"; self.masters];
        for event in self.events.borrow().iter() {
            states[event.master] = match event.fault {
                Fault::Kill => "DOWN",
                Fault::Stop => "STOPPED",
                Fault::Restart | Fault::Continue => "up",
            };
        }
        states
    }

    fn record(&self, master: usize, fault: Fault) {
        self.events.borrow_mut().push(Event {
            at: self.elapsed(),
            master,
            fault,
        });
    }
}
