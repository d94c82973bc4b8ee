//! What happened in a run, in order.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// How many of the last events are kept.
const KEPT: usize = 400;

/// All events as one number, and the last of them.
#[derive(Default)]
pub(crate) struct Journal {
    last: VecDeque<Event>,
    hasher: DefaultHasher,
    count: u64,
    /// Whether all of them are kept.
    whole: bool,
}

struct Event {
    at: Duration,
    what: What,
}

#[derive(Hash)]
pub(crate) enum What {
    Told(String),
    Executed {
        master: usize,
        client: i64,
        words: Vec<Vec<u8>>,
        reply: Vec<u8>,
    },
}

impl Journal {
    pub(crate) fn new(whole: bool) -> Self {
        Self {
            whole,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, at: Duration, what: What) {
        at.hash(&mut self.hasher);
        what.hash(&mut self.hasher);
        self.count += 1;
        if !self.whole && self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(Event { at, what });
    }

    /// A number for all that happened.
    pub(crate) fn fingerprint(&self) -> (u64, u64) {
        (self.count, self.hasher.finish())
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.last.iter().map(ToString::to_string)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3} ms  ", self.at.as_secs_f64() * 1e3)?;
        match &self.what {
            What::Told(text) => f.write_str(text),
            What::Executed {
                master,
                client,
                words,
                reply,
            } => {
                write!(f, "m{master} #{client}:")?;
                for word in words {
                    let line = word.split(|byte| *byte == b'\n').next().unwrap_or_default();
                    write!(f, " {}", String::from_utf8_lossy(line))?;
                }
                let reply = String::from_utf8_lossy(reply);
                let reply: Vec<&str> = reply.lines().take(2).collect();
                write!(f, " -> {}", reply.join(" "))
            }
        }
    }
}
