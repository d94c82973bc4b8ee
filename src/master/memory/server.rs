//! What runs in an in-process master: it takes commands in their order, executes
//! them as a server would, and has keys that expire.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::counter::{self, Fields};
use crate::core::Ttl;
use crate::master::{Action, Answer, Command, Fault, Reply};

/// What it has, what it is sent, and in which trouble it is.
pub(super) struct Memory {
    /// When it was made, and what its clock said then.
    made: (Instant, Duration),
    /// The highest count that it has ever known. Its clock is ahead of that, as any
    /// clock is where counting takes its time.
    highest: u64,
    /// How often it was killed.
    pub(super) kills: usize,
    pub(super) keys: HashMap<Vec<u8>, Entry>,
    /// What is on its disk.
    pub(super) saved: HashMap<Vec<u8>, Entry>,
    /// Commands that were sent and are not executed yet, in order.
    inbox: VecDeque<Letter>,
    /// Answers that are never given: dropped when the connection is.
    lost: Vec<oneshot::Sender<Given>>,
    pub(super) reach: Reach,
    /// Nothing is executed before this.
    pub(super) resumed: Instant,
    /// When it came up, if it did after it was killed.
    pub(super) came_up: Option<Instant>,
    pub(super) killed: bool,
    /// Since when it has been known to leave commands unanswered.
    pub(super) silent: Option<Instant>,
    pub(super) delay: Duration,
    pub(super) requests_to_lose: usize,
    pub(super) replies_to_lose: usize,
    pub(super) rejects: bool,
    pub(super) executed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Healthy,
    Stalled,
    CutOff,
}

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) expires: Option<Instant>,
}

#[derive(Clone)]
pub(super) enum Value {
    Text(String),
    Hash(Fields),
}

impl Entry {
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Hash(_) => None,
        }
    }
}

struct Letter {
    arrives: Instant,
    command: Arc<Command>,
    answer: oneshot::Sender<Given>,
}

/// A reply, and when it was given.
pub(super) type Given = (Reply, Instant);

/// What a counter that is no hash is called.
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Whether there must be no such key.
fn wants_it_free(action: Action) -> bool {
    action.takes() || matches!(action, Action::GiveBack(_) | Action::Look)
}

impl Memory {
    /// A healthy one, which comes up now.
    pub(super) fn new(now: Instant) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            made: (now, since_1970.unwrap_or_default()),
            highest: 0,
            kills: 0,
            keys: HashMap::new(),
            saved: HashMap::new(),
            inbox: VecDeque::new(),
            lost: Vec::new(),
            reach: Reach::Healthy,
            resumed: now,
            came_up: None,
            killed: false,
            silent: None,
            delay: Duration::ZERO,
            requests_to_lose: 0,
            replies_to_lose: 0,
            rejects: false,
            executed: 0,
        }
    }

    /// Executes what has arrived, each command at the time of its arrival.
    pub(super) fn catch_up(&mut self, now: Instant) {
        while self.reach == Reach::Healthy
            && self
                .inbox
                .front()
                .is_some_and(|letter| letter.arrives <= now)
            && let Some(letter) = self.inbox.pop_front()
        {
            let executed = letter.arrives.max(self.resumed);
            let answer = self.reply(&letter.command, executed);
            if self.replies_to_lose > 0 {
                self.replies_to_lose -= 1;
                self.lost.push(letter.answer);
            } else {
                // Nobody may wait for it any more.
                let _ = letter.answer.send((answer, executed));
            }
        }
    }

    fn reply(&mut self, command: &Command, now: Instant) -> Reply {
        if self.rejects {
            return Err(Fault::Rejected {
                cause: "ERR it rejects everything".into(),
            });
        }
        self.execute(command, now)
    }

    pub(super) fn execute(&mut self, command: &Command, now: Instant) -> Reply {
        self.executed += 1;
        let held = self.live(&command.key, now);
        match command.action {
            action if held.is_some() && wants_it_free(action) => {
                return Ok(Answer::No);
            }
            Action::Look => return Ok(Answer::Yes),
            Action::TakeFenced(ask) => {
                let count = self.count(&command.counter(), ask.life, now)?;
                self.set(&command.key, command.token.to_string(), ask.ttl, now);
                return Ok(Answer::Counted(count));
            }
            Action::Take(ttl) | Action::GiveBack(ttl) => {
                self.set(&command.key, command.token.to_string(), ttl, now);
            }
            _ if held.and_then(Entry::text) != Some(command.token.as_str()) => {
                return Ok(Answer::No);
            }
            Action::Extend(ttl) => {
                if let Some(entry) = self.keys.get_mut(&*command.key) {
                    entry.expires = now.checked_add(ttl.as_duration());
                }
            }
            Action::Check => {}
            Action::Raise { count, life } => {
                return self.raise(&command.counter(), count, life, now);
            }
            Action::Release => {
                self.keys.remove(&*command.key);
            }
        }
        Ok(Answer::Yes)
    }

    fn set(&mut self, key: &[u8], value: String, ttl: Ttl, now: Instant) {
        let entry = Entry {
            value: Value::Text(value),
            expires: now.checked_add(ttl.as_duration()),
        };
        self.keys.insert(key.to_vec(), entry);
    }

    /// Counts one more, as `take_fenced.lua` does.
    fn count(&mut self, counter: &[u8], life: Ttl, now: Instant) -> Result<u64, Fault> {
        let (generation, micros) = (self.generation(), self.micros(now));
        let counted = match &mut self.counter(counter, now).value {
            Value::Hash(fields) => counter::count(fields, &generation, micros),
            Value::Text(_) => Err(WRONG_TYPE.to_owned()),
        };
        let count = counted.map_err(|cause| Fault::Counter {
            cause: cause.into(),
        })?;
        self.has_counted(counter, count, life, now);
        Ok(count)
    }

    /// Raises a counter, as `raise.lua` does.
    fn raise(&mut self, counter: &[u8], count: u64, life: Ttl, now: Instant) -> Reply {
        let generation = self.generation();
        let raised = match &mut self.counter(counter, now).value {
            Value::Hash(fields) => counter::raise(fields, &generation, count),
            Value::Text(_) => {
                return Err(Fault::Counter {
                    cause: WRONG_TYPE.into(),
                });
            }
        };
        if !raised {
            return Ok(Answer::No);
        }
        self.has_counted(counter, count, life, now);
        Ok(Answer::Yes)
    }

    /// A counter; one without fields if there is none: either script writes one then.
    fn counter(&mut self, counter: &[u8], now: Instant) -> &mut Entry {
        if self.live(counter, now).is_none() {
            self.keys.remove(counter);
        }
        let none = || Entry {
            value: Value::Hash(Fields::new()),
            expires: None,
        };
        self.keys.entry(counter.to_vec()).or_insert_with(none)
    }

    /// The counter has this count, and lives for this time from now.
    fn has_counted(&mut self, counter: &[u8], count: u64, life: Ttl, now: Instant) {
        self.highest = count.max(self.highest);
        self.counter(counter, now).expires = now.checked_add(life.as_duration());
    }

    /// What a real one has in its INFO.
    fn generation(&self) -> String {
        self.kills.to_string()
    }

    /// The server's clock, in microseconds since 1970.
    fn micros(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.made.0);
        let micros = (self.made.1 + since).as_micros() as u64;
        micros.max(self.highest + 1)
    }

    pub(super) fn live(&self, key: &[u8], now: Instant) -> Option<&Entry> {
        self.keys
            .get(key)
            .filter(|entry| entry.expires.is_none_or(|expires| expires > now))
    }

    pub(super) fn break_connection(&mut self) {
        self.reach = Reach::CutOff;
        self.inbox.clear();
        self.lost.clear();
    }

    /// Puts the command on its way; says when it arrives.
    pub(super) fn post(&mut self, command: &Arc<Command>) -> (oneshot::Receiver<Given>, Instant) {
        let (answer, reply) = oneshot::channel();
        let arrives = Instant::now() + self.delay;
        if self.requests_to_lose > 0 {
            self.requests_to_lose -= 1;
            self.lost.push(answer);
        } else {
            self.inbox.push_back(Letter {
                arrives,
                command: command.clone(),
                answer,
            });
        }
        (reply, arrives)
    }

    /// Why a command is not sent, if it is not.
    pub(super) fn refusal(&self) -> Option<Fault> {
        match (self.reach, self.silent) {
            (Reach::CutOff, _) => Some(Fault::Unreachable {
                cause: "cut off".into(),
            }),
            (_, Some(since)) => Some(Fault::Silent {
                since: since.elapsed(),
            }),
            _ => None,
        }
    }
}
