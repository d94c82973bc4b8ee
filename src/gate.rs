//! Where the tasks of this process wait for one resource: one of them contends
//! for it, the others queue behind it, first in, first out.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::chance::KeyMap;
use crate::core::{MasterSet, Quorum};
use crate::lock::lock;
use crate::master::Listener;
use crate::rivalry::Rivalry;

/// How long the tasks of one process may hand the lock on among themselves
/// before other processes get a chance: where others were seen to want it, and
/// where none were.
const LONGEST_RUN: Duration = Duration::from_millis(10);
const LONGEST_RUN_ALONE: Duration = Duration::from_millis(60);

/// The gates of all resources that somebody waits for: there is none for others.
#[derive(Default)]
pub(crate) struct Gates {
    open: Mutex<KeyMap<Open>>,
    /// How many there are: where nobody waits, nothing else is looked at.
    count: AtomicUsize,
    pub(crate) rivalry: Rivalry,
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
    /// The masters that don't have the key, or told that it has changed.
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
#[derive(Default)]
struct Local {
    state: State,
    /// What is to follow the release of a task of this process.
    wish: Option<Wish>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Nothing.
    #[default]
    Unknown,
    /// A task of this process has it.
    Held,
    /// A task of this process has released it.
    Freed,
}

/// What the one that contends wants to be done as soon as a task of this process
/// has sent its release: it has no need to be woken for it first.
pub(crate) struct Wish {
    /// Since when this process has had the lock.
    pub(crate) run: Option<Instant>,
    pub(crate) follow: Box<dyn FnOnce() + Send>,
}

/// A wish that stands until this is dropped.
pub(crate) struct Wishing<'a>(&'a Gate);

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
            gate.hand_on(self.longest_run(key));
        }
    }

    /// A task of this process has sent the release of what it was or may be granted,
    /// and never had.
    pub(crate) fn given_up(&self, key: &[u8]) {
        if let Some(gate) = self.find(key) {
            gate.hand_on(self.longest_run(key));
        }
    }

    /// For how long this process may keep the lock to itself.
    pub(crate) fn longest_run(&self, key: &[u8]) -> Duration {
        match self.rivalry.has_rivals(key) {
            true => LONGEST_RUN,
            false => LONGEST_RUN_ALONE,
        }
    }

    fn find(&self, key: &[u8]) -> Option<Arc<Gate>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.lock().get(key).map(|open| open.gate.clone())
    }

    fn lock(&self) -> MutexGuard<'_, KeyMap<Open>> {
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
    /// A task of this process has taken the lock.
    pub(crate) fn is_held_here(&self) {
        self.local().state = State::Held;
    }

    /// A task of this process has the lock, if it is so: it may release it just now,
    /// and not have seen this gate.
    pub(crate) fn is_held_while(&self, is_held: impl Fn() -> bool) {
        if !is_held() {
            return;
        }
        let mut local = self.local();
        if local.state == State::Unknown {
            local.state = State::Held;
        }
        if !is_held() && local.state == State::Held {
            local.state = State::Freed;
            self.news.notify_waiters();
        }
    }

    pub(crate) fn knows_a_holder(&self) -> bool {
        matches!(self.local().state, State::Held)
    }

    /// Has something follow the release of a task of this process.
    pub(crate) fn wish(&self, wish: Wish) -> Wishing<'_> {
        self.local().wish = Some(wish);
        Wishing(self)
    }

    fn hand_on(&self, longest_run: Duration) {
        let mut local = self.local();
        local.state = State::Freed;
        if let Some(wish) = local.wish.take()
            && !is_over(wish.run, longest_run)
        {
            (wish.follow)();
        }
        drop(local);
        self.news.notify_waiters();
    }

    /// Begins to count anew the masters that tell of changes, or don't have the key.
    pub(crate) fn forget_freed(&self) {
        mem::take(&mut *lock(&self.freed));
    }

    /// This master has told of a change, or answered that it doesn't have the key.
    pub(crate) fn is_freed_by(&self, master: usize) {
        lock(&self.freed).insert(master);
        self.news.notify_waiters();
    }

    pub(crate) fn freed(&self) -> MasterSet {
        *lock(&self.freed)
    }

    /// Waits until what is asked for is there.
    async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if let Some(there) = look() {
                return there;
            }
            news.await;
        }
    }

    /// Waits until the key has gone or changed on a quorum of masters.
    pub(crate) async fn until_freed(&self, quorum: Quorum) {
        let met = || quorum.is_met_by(self.freed().len());
        self.until(|| met().then_some(())).await;
    }

    /// Waits until this master tells of a change.
    pub(crate) async fn until_changed_at(&self, master: usize) {
        self.until(|| self.freed().contains(master).then_some(()))
            .await;
    }

    /// Waits until a task of this process releases the lock, or has since the
    /// last call.
    pub(crate) async fn until_freed_here(&self) {
        self.until(|| self.take_freed_here()).await;
    }

    fn take_freed_here(&self) -> Option<()> {
        let mut local = self.local();
        if local.state != State::Freed {
            return None;
        }
        local.state = State::Unknown;
        Some(())
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        lock(&self.local)
    }
}

/// Whether a run that began then has lasted long enough.
pub(crate) fn is_over(run: Option<Instant>, longest: Duration) -> bool {
    run.is_some_and(|began| began.elapsed() > longest)
}

impl Drop for Wishing<'_> {
    fn drop(&mut self) {
        let wish = self.0.local().wish.take();
        drop(wish);
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

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

    #[tokio::test]
    async fn whoever_waits_for_a_quorum_hears_of_masters_that_are_connected_anew() {
        let gates = Arc::new(Gates::default());
        let place = gates.join(&b"a".as_slice().into());
        let mut freed = Box::pin(place.gate().until_freed(Quorum::majority(3).unwrap()));
        assert!((&mut freed).now_or_never().is_none());
        gates.all_changed(2);
        assert!((&mut freed).now_or_never().is_none());
        gates.all_changed(0);
        assert!(freed.now_or_never().is_some());
    }
}
