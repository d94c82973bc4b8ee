use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::Timeouts;
use super::admission::Register;
use super::connection::Route;
use super::session::{Origin, Session};
use crate::lock::lock;
use crate::master::{
    Action, Admissions, Command, Fault, Notices, Owed, OwedReleases, Pending, Reply,
};

/// What is known of the connection to one master. The keeper alone changes the
/// state; everybody reads it.
pub(super) struct Link {
    pub(super) route: Route,
    pub(super) address: Arc<str>,
    pub(super) timeouts: Timeouts,
    pub(super) register: Register,
    pub(super) owed: OwedReleases,
    pub(super) notices: Notices,
    /// A command went unanswered for the whole time-out.
    pub(super) silence: Notify,
    breakage: Notify,
    /// There is a new owed release. One permit has one taker: nobody but the
    /// keeper waits for this, and in one place at a time.
    pub(super) errand: Notify,
    /// The master was closed.
    closing: Notify,
    state: RwLock<State>,
    /// The state has changed.
    news: Notify,
    /// What waits for the first connection.
    deferred: Mutex<Vec<Deferred>>,
    kept: AtomicBool,
    closed: AtomicBool,
    /// How many sessions were begun, by all keepers: numbers are never used
    /// twice, not in another runtime either.
    sessions: AtomicU64,
    /// The origin of the last session that was ready for commands.
    last: Mutex<Option<Origin>>,
    /// The last session of which a command was found broken off.
    broken: AtomicU64,
    /// The longest TTL, in milliseconds, that a lock was asked for with on the
    /// current connection.
    longest_ttl: AtomicU64,
    /// Until when stray commands, those of a lost connection that could not be
    /// killed, may be applied or leave a key behind.
    strays_until: Mutex<Option<Instant>>,
    /// Why the last connection was lost, or could not be made.
    trouble: Mutex<Option<Arc<str>>>,
}

/// A command that waits for the first connection, and where its answer goes.
pub(super) struct Deferred {
    pub(super) command: Arc<Command>,
    pub(super) answer: oneshot::Sender<Reply>,
}

pub(super) enum State {
    /// The first connection is under way, or the first after its runtime ended.
    Connecting,
    /// Commands are answered.
    Up(Session),
    /// The connection stands, but commands on it are not answered.
    Silent { session: Session, since: Instant },
    /// There is no connection.
    Down { cause: Arc<str> },
}

impl State {
    /// Why a command is not sent in this state.
    pub(super) fn fault(&self) -> Fault {
        match self {
            State::Connecting => Fault::Unreachable {
                cause: "not connected yet".into(),
            },
            State::Up(_) => Fault::Unreachable {
                cause: "only just connected".into(),
            },
            State::Silent { since, .. } => Fault::Silent {
                since: since.elapsed(),
            },
            State::Down { cause } => Fault::Unreachable {
                cause: cause.clone(),
            },
        }
    }
}

impl Link {
    pub(super) fn new(
        route: Route,
        address: Arc<str>,
        timeouts: Timeouts,
        admissions: Admissions,
        notices: Notices,
    ) -> Self {
        Self {
            register: Register::new(admissions, notices.master, address.clone()),
            route,
            address,
            timeouts,
            owed: OwedReleases::default(),
            notices,
            silence: Notify::new(),
            breakage: Notify::new(),
            errand: Notify::new(),
            closing: Notify::new(),
            state: RwLock::new(State::Connecting),
            news: Notify::new(),
            deferred: Mutex::default(),
            kept: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
            last: Mutex::new(None),
            broken: AtomicU64::new(0),
            longest_ttl: AtomicU64::new(0),
            strays_until: Mutex::new(None),
            trouble: Mutex::new(None),
        }
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        let state = self.state.read();
        state.unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn set(&self, state: State) {
        self.change(|current| *current = state);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let state = self.state.write();
        change(&mut state.unwrap_or_else(|poisoned| poisoned.into_inner()));
        self.news.notify_waiters();
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }

    /// The hold of a new keeper; `None` if there is a keeper already.
    pub(super) fn be_kept(self: &Arc<Self>) -> Option<Kept> {
        if self.kept.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.set(State::Connecting);
        Some(Kept(self.clone()))
    }

    /// The number of the session to be opened, and the origin of the lost one.
    pub(super) fn next_session(&self) -> (u64, Option<Origin>) {
        let number = self.sessions.fetch_add(1, Ordering::AcqRel) + 1;
        (number, lock(&self.last).clone())
    }

    /// Remembers the session that is ready now, for when it is lost.
    pub(super) fn remember(&self, origin: &Origin) {
        *lock(&self.last) = Some(origin.clone());
    }

    /// A command of this session was found broken off.
    pub(super) fn found_broken(&self, session: u64) {
        self.broken.fetch_max(session, Ordering::AcqRel);
        self.breakage.notify_one();
    }

    /// Waits until a command of this session is found broken off.
    pub(super) async fn broken(&self, session: u64) {
        while self.broken.load(Ordering::Acquire) < session {
            self.breakage.notified().await;
        }
    }

    /// Waits until nobody uses the master any more. While something is owed to
    /// it, that is not enough, and whoever repeats it has to ask again.
    pub(super) async fn done(&self) {
        while !self.is_done() {
            self.closing.notified().await;
        }
    }

    /// Keeps a command for the connection that is under way. To be called while
    /// the state is borrowed and says so.
    pub(super) fn defer(&self, command: &Arc<Command>) -> Pending {
        let (answer, reply) = oneshot::channel();
        lock(&self.deferred).push(Deferred {
            command: command.clone(),
            answer,
        });
        Box::pin(async move {
            reply.await.unwrap_or_else(|_| {
                Err(Fault::Unreachable {
                    cause: "the runtime of the connection has ended".into(),
                })
            })
        })
    }

    /// There is a connection: hands over what has waited for it, and then lets
    /// others through. None can come between, since they would have to borrow
    /// the state.
    pub(super) fn come_up(&self, session: Session, mut send: impl FnMut(&Session, Deferred)) {
        self.change(|state| {
            for deferred in mem::take(&mut *lock(&self.deferred)) {
                send(&session, deferred);
            }
            *state = State::Up(session);
        });
    }

    /// There is no connection, for this reason.
    pub(super) fn go_down(&self, cause: Arc<str>) {
        *lock(&self.trouble) = Some(cause.clone());
        self.change(|state| {
            *state = State::Down { cause };
            for deferred in mem::take(&mut *lock(&self.deferred)) {
                // Nobody may wait for it any more.
                let _ = deferred.answer.send(Err(state.fault()));
            }
        });
    }

    /// Why the last connection was lost, or could not be made.
    pub(super) fn trouble(&self) -> Option<Arc<str>> {
        lock(&self.trouble).clone()
    }

    /// Waits until it is known whether there is a connection.
    pub(super) async fn decided(&self) {
        loop {
            let news = self.news.notified();
            if !matches!(*self.state(), State::Connecting) {
                return;
            }
            news.await;
        }
    }

    /// Remembers what the command may leave behind if its connection breaks.
    pub(super) fn note_sending(&self, command: &Command) {
        if let Some(ttl) = command.action.ttl() {
            self.longest_ttl
                .fetch_max(ttl.as_millis(), Ordering::Relaxed);
        }
        if command.action == Action::Release
            && let Some(until) = self.strays_until()
        {
            self.owe(Owed {
                key: command.key.clone(),
                token: command.token,
                until: Some(until),
            });
        }
    }

    /// There is a new connection. Unless the lost one is over, commands of it
    /// may still come, and what they leave behind lives for as long as the
    /// longest TTL among them.
    pub(super) fn found_lost(&self, is_over: bool) {
        let longest = Duration::from_millis(self.longest_ttl.swap(0, Ordering::Relaxed));
        if !is_over {
            let until = far_off(Instant::now(), longest);
            let mut strays = lock(&self.strays_until);
            *strays = (*strays).max(Some(until));
        }
    }

    pub(super) fn strays_until(&self) -> Option<Instant> {
        let mut strays = lock(&self.strays_until);
        *strays = strays.filter(|until| *until > Instant::now());
        *strays
    }

    pub(super) fn owe(&self, release: Owed) {
        self.owed.push(release);
        self.errand.notify_one();
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.closing.notify_one();
    }

    /// Whether nobody uses the master any more, and nothing is owed to it that
    /// has not expired by itself.
    pub(super) fn is_done(&self) -> bool {
        self.closed.load(Ordering::Acquire) && self.owed.are_expired()
    }
}

/// The keeper's hold on its link. Dropped when the keeper ends, be it because
/// its runtime did: then the next command starts another.
pub(super) struct Kept(Arc<Link>);

impl std::ops::Deref for Kept {
    type Target = Arc<Link>;

    fn deref(&self) -> &Arc<Link> {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.go_down("its runtime has ended".into());
        self.0.kept.store(false, Ordering::Release);
    }
}

/// This much later, or as good as never.
fn far_off(now: Instant, delay: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    now + delay.min(CENTURY)
}
