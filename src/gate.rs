//! Where the tasks of this process wait for one resource: one of them contends
//! for it, the others queue behind it, first in, first out.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::core::{MasterSet, Quorum, Spread};
use crate::master::Listener;

/// The gates of all resources that somebody waits for: there is none for others.
#[derive(Default)]
pub(crate) struct Gates {
    open: Mutex<HashMap<Arc<[u8]>, Open>>,
    /// How many there are: where nobody waits, nothing else is looked at.
    count: AtomicUsize,
    rivalry: Rivalry,
}

/// A gate that is up, and for how many places. They are counted, since others
/// than the places hold on to a gate for a moment.
#[derive(Default)]
struct Open {
    gate: Arc<Gate>,
    places: usize,
}

/// The gate of one resource.
#[derive(Default)]
pub(crate) struct Gate {
    /// Held by the one that contends. tokio's mutex is fair.
    pub(crate) turn: tokio::sync::Mutex<Turn>,
    local: Mutex<Local>,
    freed: Mutex<MasterSet>,
    /// Something of the above has changed.
    news: Notify,
}

/// What a contender leaves to the next one.
#[derive(Default)]
pub(crate) struct Turn {
    /// Since when this process has had the lock without giving others a chance.
    pub(crate) run: Option<Instant>,
}

/// What this process knows of the lock by itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Local {
    /// Nothing.
    #[default]
    Unknown,
    /// A task of this process has it.
    Held,
    /// A task of this process has just released it.
    Freed,
}

/// A place at a gate. The gate is taken down with the last of them.
pub(crate) struct Place {
    gates: Arc<Gates>,
    key: Arc<[u8]>,
    gate: Arc<Gate>,
}

impl Gates {
    /// Whether others of this process wait for the resource.
    pub(crate) fn is_awaited(&self, key: &[u8]) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.lock().contains_key(key)
    }

    /// A place at the resource's gate.
    pub(crate) fn join(self: &Arc<Self>, key: &Arc<[u8]>) -> Place {
        let mut open = self.lock();
        let entry = open.entry(key.clone()).or_default();
        entry.places += 1;
        let gate = entry.gate.clone();
        self.count.store(open.len(), Ordering::Release);
        drop(open);
        Place {
            gates: self.clone(),
            key: key.clone(),
            gate,
        }
    }

    /// A task of this process has sent the release of the lock.
    pub(crate) fn released(&self, key: &[u8]) {
        self.rivalry.released(key);
        if let Some(gate) = self.find(key) {
            gate.set_local(Local::Freed);
        }
    }

    /// Other processes want the lock too.
    pub(crate) fn rival(&self, key: &[u8]) {
        self.rivalry.refused(key);
    }

    /// How eager this process is for the lock, when others hear of its release
    /// too. It outlives the gate: the next to wait meets the same others.
    pub(crate) fn spread(&self, key: &[u8]) -> Spread {
        Spread::halved(self.rivalry.place(key)[2].load(Ordering::Relaxed) as u32)
    }

    pub(crate) fn set_spread(&self, key: &[u8], spread: Spread) {
        let place = self.rivalry.place(key);
        place[2].store(u64::from(spread.halvings()), Ordering::Relaxed);
    }

    /// Whether other processes were seen to want the lock lately.
    pub(crate) fn has_rivals(&self, key: &[u8]) -> bool {
        self.rivalry.is_recent(key)
    }

    /// Whether this process has had the lock just now, and others want it: then
    /// it is their turn.
    pub(crate) fn owes_others_a_turn(&self, key: &[u8]) -> bool {
        self.rivalry.owes_a_turn(key)
    }

    fn find(&self, key: &[u8]) -> Option<Arc<Gate>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().get(key).map(|open| open.gate.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, Open>> {
        lock(&self.open)
    }
}

impl Listener for Gates {
    fn changed(&self, master: usize, key: &[u8]) {
        if let Some(gate) = self.find(key) {
            gate.is_freed_by(master);
        }
    }

    fn all_changed(&self, master: usize) {
        for open in self.lock().values() {
            open.gate.is_freed_by(master);
        }
    }
}

impl Gate {
    pub(crate) fn set_local(&self, local: Local) {
        *lock(&self.local) = local;
        self.news.notify_waiters();
    }

    pub(crate) fn local(&self) -> Local {
        *lock(&self.local)
    }

    /// Whether a task of this process has released the lock since the last call.
    pub(crate) fn take_freed_here(&self) -> bool {
        let mut local = lock(&self.local);
        let freed = *local == Local::Freed;
        if freed {
            *local = Local::Unknown;
        }
        freed
    }

    /// Begins to count the masters that tell of changes anew.
    pub(crate) fn forget_freed(&self) {
        mem::take(&mut *lock(&self.freed));
    }

    fn is_freed_by(&self, master: usize) {
        lock(&self.freed).insert(master);
        self.news.notify_waiters();
    }

    pub(crate) fn freed(&self) -> MasterSet {
        *lock(&self.freed)
    }

    /// Waits until what is asked for is there.
    async fn until(&self, mut there: impl FnMut() -> bool) {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if there() {
                return;
            }
            news.await;
        }
    }

    /// Waits until the key has gone or changed on a quorum of masters, with
    /// those that didn't have it in the first place.
    pub(crate) async fn until_freed(&self, quorum: Quorum, without: MasterSet) {
        self.until(|| quorum.is_met_by(without.union(self.freed()).len()))
            .await;
    }

    /// Waits until any master tells of a change.
    pub(crate) async fn until_changed(&self) {
        self.until(|| !self.freed().is_empty()).await;
    }

    /// Waits until a task of this process releases the lock.
    pub(crate) async fn until_freed_here(&self) {
        self.until(|| self.take_freed_here()).await;
    }
}

impl Place {
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.gates.lock();
        if let Some(entry) = open.get_mut(&self.key) {
            entry.places -= 1;
            if entry.places == 0 {
                open.remove(&self.key);
            }
        }
        self.gates.count.store(open.len(), Ordering::Release);
    }
}

/// For how long a refusal by another process counts.
const RIVALRY: Duration = Duration::from_millis(250);

/// How soon after a release asking again is too soon, if others want the lock.
const TOO_SOON: Duration = Duration::from_millis(3);

/// Which resources other processes want too, as far as was seen lately: a table
/// of fixed size, by the hash of the key. Where two keys share a place, one may
/// be taken for contended that is not; asking for it then takes a pause longer.
struct Rivalry {
    /// Whether any refusal was ever seen: until then, nothing is looked up.
    seen: AtomicBool,
    /// When a refusal by others was seen, when this process released the lock
    /// (both 0 if never), and how often its eagerness is halved.
    places: Vec<[AtomicU64; 3]>,
    origin: std::time::Instant,
    hasher: std::hash::RandomState,
}

impl Default for Rivalry {
    fn default() -> Self {
        Self {
            seen: AtomicBool::new(false),
            places: (0..256).map(|_| Default::default()).collect(),
            origin: std::time::Instant::now(),
            hasher: std::hash::RandomState::new(),
        }
    }
}

impl Rivalry {
    fn refused(&self, key: &[u8]) {
        self.seen.store(true, Ordering::Relaxed);
        self.place(key)[0].store(self.now(), Ordering::Relaxed);
    }

    fn released(&self, key: &[u8]) {
        if !self.seen.load(Ordering::Relaxed) {
            return;
        }
        let place = self.place(key);
        if place[0].load(Ordering::Relaxed) != 0 {
            place[1].store(self.now(), Ordering::Relaxed);
        }
    }

    fn owes_a_turn(&self, key: &[u8]) -> bool {
        if !self.seen.load(Ordering::Relaxed) {
            return false;
        }
        let released = self.place(key)[1].load(Ordering::Relaxed);
        released != 0
            && self.now().saturating_sub(released) < TOO_SOON.as_micros() as u64
            && self.is_recent(key)
    }

    fn is_recent(&self, key: &[u8]) -> bool {
        let refused = self.place(key)[0].load(Ordering::Relaxed);
        refused != 0 && self.now().saturating_sub(refused) < RIVALRY.as_micros() as u64
    }

    /// Microseconds, from 1.
    fn now(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64 + 1
    }

    fn place(&self, key: &[u8]) -> &[AtomicU64; 3] {
        use std::hash::BuildHasher;
        &self.places[self.hasher.hash_one(key) as usize % self.places.len()]
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gate_outlives_its_last_place() {
        let gates = Arc::new(Gates::default());
        let key: Arc<[u8]> = b"a".as_slice().into();
        let threads = 4;
        let left = AtomicUsize::new(0);
        let together = std::sync::Barrier::new(threads);
        let come_and_go = || {
            for _ in 0..5_000 {
                let place = gates.join(&key);
                together.wait();
                gates.released(&key);
                drop(place);
                together.wait();
                left.fetch_add(usize::from(gates.is_awaited(&key)), Ordering::Relaxed);
                together.wait();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(come_and_go);
            }
        });
        assert_eq!(left.into_inner(), 0, "gates were left");
    }
}
