//! An in-process master for tests: those of this library, and those of the
//! services that use it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::counter::{self, Fields};
use super::seat::Seat;
use super::{Action, Admissions, Answer, Command, Fault, Owed, OwedReleases, Reply, Sent, listen};
use crate::core::Ttl;

/// A master in the memory of this process, whose keys expire by tokio's clock,
/// so that a test with paused time is exact and takes no time. It can be made
/// to fail in the ways that real ones do.
///
/// A new one counts as one that has been up for ever. After [`kill`](Self::kill)
/// and [`restart`](Self::restart) it is young, and has no vote before the
/// [quarantine](crate::Builder::restart_quarantine) is over. It comes back empty,
/// or with what it had when it was last [saved](Self::save).
///
/// Clones are the same master: keep one, and give the other to the builder.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redquorum::{MemoryMaster, Redlock};
///
/// let masters: Vec<_> = (1..=5).map(|n| MemoryMaster::new(format!("m{n}"))).collect();
/// let redlock = Redlock::builder().memory_masters(&masters).build()?;
///
/// masters[0].kill();
/// masters[1].stall();
/// let lock = redlock.lock("stock:7").await?;
/// assert_eq!(masters[2].get("stock:7").as_deref(), Some(lock.token()));
/// lock.release().await?;
/// assert_eq!(masters[2].get("stock:7"), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryMaster {
    shared: Arc<Shared>,
}

struct Shared {
    address: Arc<str>,
    origin: Instant,
    memory: Mutex<Memory>,
    owed: OwedReleases,
}

struct Memory {
    /// When it was made, and what its clock said then.
    made: (Instant, Duration),
    /// The highest count that it has ever known. Its clock is ahead of that, as any
    /// clock is where counting takes its time.
    highest: u64,
    /// How often it was killed.
    kills: usize,
    keys: HashMap<Vec<u8>, Entry>,
    /// What is on its disk.
    saved: HashMap<Vec<u8>, Entry>,
    /// Commands that were sent and are not executed yet, in order.
    inbox: VecDeque<Letter>,
    /// Answers that are never given: dropped when the connection is.
    lost: Vec<oneshot::Sender<Given>>,
    reach: Reach,
    /// Nothing is executed before this.
    resumed: Instant,
    /// When it came up, if it did after it was killed.
    came_up: Option<Instant>,
    killed: bool,
    /// Since when it has been known to leave commands unanswered.
    silent: Option<Instant>,
    delay: Duration,
    requests_to_lose: usize,
    replies_to_lose: usize,
    rejects: bool,
    executed: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Healthy,
    Stalled,
    CutOff,
}

#[derive(Clone)]
struct Entry {
    value: Value,
    expires: Option<Instant>,
}

#[derive(Clone)]
enum Value {
    Text(String),
    Hash(Fields),
}

impl Entry {
    fn text(&self) -> Option<&str> {
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
type Given = (Reply, Instant);

impl MemoryMaster {
    /// A healthy master without keys, by this name.
    pub fn new(name: impl Into<String>) -> Self {
        let now = Instant::now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let since_1970 = since_1970.unwrap_or_default();
        Self {
            shared: Arc::new(Shared {
                address: name.into().into(),
                origin: now,
                owed: OwedReleases::default(),
                memory: Mutex::new(Memory {
                    made: (now, since_1970),
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
                }),
            }),
        }
    }

    /// Ends the server: connections break, and its memory is lost, but for what was
    /// [saved](Self::save).
    pub fn kill(&self) {
        let mut memory = self.memory();
        memory.break_connection();
        memory.killed = true;
        memory.kills += 1;
        memory.keys = memory.saved.clone();
    }

    /// Writes what it has to its disk, as `SAVE` does: after each
    /// [`kill`](Self::kill) it comes back with that, however old it is by then.
    pub fn save(&self) {
        let mut memory = self.memory();
        memory.saved = memory.keys.clone();
    }

    /// Cuts it off the network: connections break, and it keeps its memory.
    pub fn cut_off(&self) {
        self.memory().break_connection();
    }

    /// Lets it be reached again, after [`kill`](Self::kill) or
    /// [`cut_off`](Self::cut_off).
    pub fn restart(&self) {
        self.resume();
    }

    /// Stops the server: it takes commands, and executes and answers none until
    /// [`resume`](Self::resume). Keys expire all the same.
    pub fn stall(&self) {
        self.memory().reach = Reach::Stalled;
    }

    /// Lets the server go on: what was sent is executed now, in order.
    pub fn resume(&self) {
        {
            let mut memory = self.memory();
            memory.reach = Reach::Healthy;
            memory.resumed = Instant::now();
            memory.silent = None;
            if std::mem::take(&mut memory.killed) {
                memory.came_up = Some(Instant::now());
            }
        }
        self.repay();
    }

    /// Deletes all keys, as `FLUSHALL` does.
    pub fn wipe(&self) {
        self.memory().keys.clear();
    }

    /// Delays each command and each answer by this much.
    pub fn delay(&self, each_way: Duration) {
        self.memory().delay = each_way;
    }

    /// Loses the next commands on their way: they are not executed, and not
    /// answered.
    pub fn lose_requests(&self, count: usize) {
        self.memory().requests_to_lose = count;
    }

    /// Loses the answers to the next commands: they are executed, and not
    /// answered.
    pub fn lose_replies(&self, count: usize) {
        self.memory().replies_to_lose = count;
    }

    /// Answers each command with an error, and does nothing, as a server that is
    /// out of memory does; until it is called with `false`.
    pub fn reject(&self, rejects: bool) {
        self.memory().rejects = rejects;
        self.repay();
    }

    /// The text of a key, if there is one. The counters of fenced locks are
    /// [hashes](Self::get_hash).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<String> {
        let memory = self.memory();
        let entry = memory.live(key.as_ref(), Instant::now())?;
        entry.text().map(str::to_owned)
    }

    /// The fields of a key that is a hash, if there is one.
    pub fn get_hash(&self, key: impl AsRef<[u8]>) -> Option<BTreeMap<String, String>> {
        let memory = self.memory();
        let entry = memory.live(key.as_ref(), Instant::now())?;
        match &entry.value {
            Value::Hash(fields) => Some(fields.clone()),
            Value::Text(_) => None,
        }
    }

    /// How long a key has to live; `None` if there is none, or it lives for
    /// ever.
    pub fn expires_in(&self, key: impl AsRef<[u8]>) -> Option<Duration> {
        let now = Instant::now();
        let memory = self.memory();
        let expires = memory.live(key.as_ref(), now)?.expires?;
        Some(expires - now)
    }

    /// Sets a key, as another client could.
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl Into<String>, ttl: Option<Duration>) {
        self.set_entry(key.as_ref(), Value::Text(value.into()), ttl);
    }

    /// Sets a key to a hash with these fields, as another client could.
    pub fn set_hash(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
        ttl: Option<Duration>,
    ) {
        let fields = fields.into_iter();
        let fields = fields.map(|(field, value)| (field.into(), value.into()));
        self.set_entry(key.as_ref(), Value::Hash(fields.collect()), ttl);
    }

    fn set_entry(&self, key: &[u8], value: Value, ttl: Option<Duration>) {
        let entry = Entry {
            value,
            expires: ttl.map(|ttl| Instant::now() + ttl),
        };
        self.memory().keys.insert(key.to_vec(), entry);
    }

    /// Deletes a key, as an operator could.
    pub fn delete(&self, key: impl AsRef<[u8]>) {
        self.memory().keys.remove(key.as_ref());
    }

    /// The keys that it has.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let now = Instant::now();
        let memory = self.memory();
        let live = |key: &&Vec<u8>| memory.live(key, now).is_some();
        memory.keys.keys().filter(live).cloned().collect()
    }

    /// How many commands it has executed.
    pub fn executed(&self) -> usize {
        self.memory().executed
    }

    /// It, as one coordinator sees it.
    pub(crate) fn admitted(self, admissions: &Admissions) -> Seat {
        Seat::new(self, admissions)
    }

    pub(crate) fn origin(&self) -> Instant {
        self.shared.origin
    }

    /// Its memory, after all that has arrived by now.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        let memory = self.shared.memory.lock();
        let mut memory = memory.unwrap_or_else(|poisoned| poisoned.into_inner());
        memory.catch_up(Instant::now());
        memory
    }

    /// Executes what is owed, if it can be reached.
    fn repay(&self) {
        let now = Instant::now();
        let mut memory = self.memory();
        if memory.reach == Reach::Healthy && !memory.rejects {
            for owed in self.shared.owed.take().list.drain(..) {
                let release = Command::new(Action::Release, owed.key, owed.token);
                // Whatever it says, the key is not there any more.
                let _ = memory.execute(&release, now);
            }
        }
    }
}

/// What a counter that is no hash is called.
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Whether there must be no such key.
fn wants_it_free(action: Action) -> bool {
    action.takes() || matches!(action, Action::GiveBack(_) | Action::Look)
}

impl Memory {
    /// Executes what has arrived, each command at the time of its arrival.
    fn catch_up(&mut self, now: Instant) {
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

    fn execute(&mut self, command: &Command, now: Instant) -> Reply {
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

    fn live(&self, key: &[u8], now: Instant) -> Option<&Entry> {
        self.keys
            .get(key)
            .filter(|entry| entry.expires.is_none_or(|expires| expires > now))
    }

    fn break_connection(&mut self) {
        self.reach = Reach::CutOff;
        self.inbox.clear();
        self.lost.clear();
    }

    /// Puts the command on its way; says when it arrives.
    fn post(&mut self, command: &Arc<Command>) -> (oneshot::Receiver<Given>, Instant) {
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
    fn refusal(&self) -> Option<Fault> {
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

/// What a [`Seat`](super::seat::Seat) passes on.
impl MemoryMaster {
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.shared.address
    }

    pub(super) fn send(&self, command: &Arc<Command>, waker: &Waker) -> Sent {
        let mut memory = self.memory();
        if let Some(fault) = memory.refusal() {
            return Sent::Not(fault);
        }
        let (reply, arrives) = memory.post(command);
        let delay = memory.delay;
        memory.catch_up(Instant::now());
        drop(memory);
        let answer = Box::pin(answered(self.clone(), arrives, reply, delay));
        match Handle::try_current() {
            Ok(_) => listen(answer, waker),
            // Nobody can wait for it there.
            Err(_) => Sent::Pending(answer),
        }
    }

    pub(super) fn send_blindly(&self, release: &Arc<Command>) {
        let mut memory = self.memory();
        if let Some(Fault::Silent { .. }) = memory.refusal() {
            memory.post(release);
        }
    }

    pub(super) fn owe(&self, release: Owed) {
        self.shared.owed.push(release);
        self.repay();
    }

    pub(super) fn fell_silent(&self) {
        let mut memory = self.memory();
        if memory.reach == Reach::Stalled {
            memory.silent.get_or_insert_with(Instant::now);
        }
    }

    /// Why it is not asked, if it is not.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.memory().refusal()
    }

    /// How long it takes to answer.
    pub(super) fn round_trip(&self) -> Duration {
        self.memory().delay * 2
    }

    /// For how long it has been up since it lost its memory, if it did.
    pub(super) fn up_for(&self) -> Option<Duration> {
        self.memory().came_up.map(|came_up| came_up.elapsed())
    }
}

/// Waits for the arrival of the command, its execution, and the way back.
async fn answered(
    master: MemoryMaster,
    arrives: Instant,
    reply: oneshot::Receiver<Given>,
    delay: Duration,
) -> Reply {
    if !delay.is_zero() {
        sleep_until(arrives).await;
        drop(master.memory());
    }
    let (answer, given) = reply.await.map_err(|_| Fault::Broken {
        cause: "the connection was closed".into(),
    })?;
    let back = given + delay;
    if back > Instant::now() {
        sleep_until(back).await;
    }
    answer
}

impl fmt::Debug for MemoryMaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryMaster")
            .field("address", &self.shared.address)
            .finish_non_exhaustive()
    }
}
