//! What a worker and its parent say to each other, a line of JSON each time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::locker::Subject;

/// What a worker is told first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub subject: Subject,
    /// The URLs of the masters.
    pub masters: Vec<String>,
    /// The URL of the server that sections send a command to.
    pub plain: String,
    pub master_timeout: Duration,
    /// What is contended for.
    pub resource: String,
    pub part: Part,
}

/// What a worker is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Takes the lock as often as it can, in a number of tasks.
    Contender(Habit),
    /// Does one thing at a time, as it is told.
    Hand,
    /// A number of tasks that wait for the lock in vain.
    Waiters(usize),
}

/// How a contender takes the lock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Habit {
    pub tasks: usize,
    /// A blocking sleep while it has the lock, besides a command; or nothing.
    pub section: Option<Duration>,
    /// Between having had the lock and asking for it again.
    pub pause: Option<Duration>,
}

/// What a worker is told to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    /// To a contender: contend between these moments.
    Contend { from: u64, until: u64 },
    /// To a hand: take the lock. It says `Held`.
    Hold { ttl: Duration },
    /// To a hand: release the lock. It says `Released`.
    Release,
    /// To a hand: take and release a lock that nobody else wants. It says `Took`.
    Probe,
    /// To waiters: say `Cpu`.
    Measure,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// It is connected, and waits for orders.
    Ready,
    /// What came of `Contend`.
    Log(Log),
    /// It has the lock since this moment.
    Held { at: u64 },
    /// It began to release the lock at this moment, and has released it.
    Released { at: u64 },
    /// How long it took to take the lock, in nanoseconds.
    Took(u64),
    /// The CPU time that it has used so far, in nanoseconds.
    Cpu(u64),
}

/// What a contender did.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Log {
    pub tenures: Vec<Tenure>,
    /// When those tasks had asked that waited when all was over.
    pub unserved: Vec<u64>,
}

/// A task's having the lock once.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Tenure {
    pub task: usize,
    pub asked: u64,
    pub granted: u64,
    /// When it began to release.
    pub left: u64,
}
