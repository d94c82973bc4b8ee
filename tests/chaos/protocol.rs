//! What a worker and its parent say to each other, a line of JSON each time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rule::Rule;

/// What a worker is told first. It works until its next line, ends its errands then, takes its leave
/// at the line after, and exits at the end of its input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub seed: u64,
    /// The URLs of the masters.
    pub masters: Vec<String>,
    /// The URL of the server that has what the locks protect.
    pub plain: String,
    pub max_ttl: Duration,
    pub tasks: usize,
    pub resources: usize,
    /// The rule that is switched off.
    pub broken: Option<Rule>,
}

/// A process: its seat, and its number among all that were ever started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub seat: usize,
    pub number: usize,
}

/// What a worker says. All moments are of the [clock](crate::clock) that processes share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// It is connected to the masters, and has begun.
    Ready,
    /// A task has a lock.
    Granted(Grant),
    /// At a moment the lock was known to be valid until another.
    Valid { hold: u64, at: u64, until: u64 },
    /// A task is about to give the lock up, or knows that it has lost it.
    Ended { hold: u64, at: u64, how: End },
    /// A request ended without the lock.
    Refused { asked: Asked, at: u64, why: Why },
    /// What became of a write to what the lock protects.
    Wrote(Write),
    /// Something in the worker panicked.
    Panicked { what: String },
    /// All tasks have ended.
    Done,
    /// All tasks have had a lock of their own, and given it up in another way each.
    Parted,
}

/// A request for a lock: when it was made, and for how long it may take.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Asked {
    pub at: u64,
    /// None if it waits for ever.
    pub allowed: Option<Duration>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Grant {
    /// Counted from 0 by each worker.
    pub hold: u64,
    pub resource: usize,
    pub token: String,
    pub fence: Option<u64>,
    pub asked: Asked,
    pub at: u64,
    /// Until when it is valid, by what the library said at that moment.
    pub until: u64,
    /// Whether the library may find it lost, and release it, before the task knows.
    pub renews: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum End {
    Released,
    Dropped,
    /// Its owner slept until its lease was over.
    Overslept,
    /// The library said so.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Why {
    Taken,
    NoQuorum,
    UsedUp,
    WaitedTooLong,
    /// Its future was dropped.
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    Applied,
    /// The owner saw that its lease was too short.
    Withheld,
    /// The lease was over when the write arrived.
    TooLate,
}
