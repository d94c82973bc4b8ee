//! An in-process master for tests: those of this library, and those of the
//! services that use it.

mod counter;
mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use self::server::{Entry, Given, Memory, Reach, Value};
use super::seat::Seat;
use super::{Action, Admissions, Command, Fault, Owed, OwedReleases, Reply, Sent, listen};

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

impl MemoryMaster {
    /// A healthy master without keys, by this name.
    pub fn new(name: impl Into<String>) -> Self {
        let now = Instant::now();
        Self {
            shared: Arc::new(Shared {
                address: name.into().into(),
                origin: now,
                owed: OwedReleases::default(),
                memory: Mutex::new(Memory::new(now)),
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

/// What a [`Seat`] passes on.
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
