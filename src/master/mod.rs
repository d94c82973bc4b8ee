//! One master: what can be asked of it, and the two kinds there are.
//!
//! A master owns the order of its commands (S7): [`Master::send`] puts the
//! command on the master's one ordered queue before it returns, so that the
//! order of the calls is the order of execution. Whether the answer is then
//! awaited or dropped makes no difference to what has been written, but a
//! command that was queued and not yet written is not sent once its answer is
//! dropped. So the answer of a command that takes may be dropped, if a release
//! is sent after it; the answer of a release may not, unless the release is
//! [owed](Master::owe) first.

mod admission;
mod command;
mod fault;
#[cfg(feature = "testing")]
mod memory;
mod owed;
mod redis;
#[cfg(feature = "testing")]
mod seat;
mod state;

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::task::unconstrained;

use crate::core::Ttl;

pub(crate) use self::admission::{Admission, Admissions};
pub use self::redis::InvalidUrl;
pub(crate) use self::redis::{RedisClient, RedisSource, Timeouts};
pub(crate) use command::{Action, Ask, Command};
pub use fault::Fault;
#[cfg(feature = "testing")]
pub use memory::MemoryMaster;
pub(crate) use owed::{Owed, OwedReleases, Taken};
pub use state::{MasterState, MasterStates};

/// The script that deletes a lock if it still has the owner's token.
pub(crate) const RELEASE: &str = include_str!("scripts/release.lua");
/// The script that takes a fenced lock.
pub(crate) const TAKE_FENCED: &str = include_str!("scripts/take_fenced.lua");
/// The script that raises the count of a fenced lock.
pub(crate) const RAISE: &str = include_str!("scripts/raise.lua");
/// The script that extends a lock if it still has the owner's token.
pub(crate) const EXTEND: &str = include_str!("scripts/extend.lua");

/// One of the N independent masters.
pub(crate) trait Master: Send + Sync {
    /// Its name in reports: never with a password.
    fn address(&self) -> &Arc<str>;

    /// Asks for something, in order. The waker is woken when there is an answer that
    /// was not there at once, unless it is polled for with another by then. Must be
    /// called in a tokio runtime for anything but a release.
    fn send(&self, command: &Arc<Command>, waker: &Waker) -> Sent;

    /// Sends a release to a master that is [silent](Fault::Silent), behind all that
    /// it was sent before, without waiting for an answer. Does nothing to others.
    fn send_blindly(&self, release: &Arc<Command>);

    /// A release that was not confirmed: it is repeated as soon as the master
    /// can be reached, before any command that takes.
    fn owe(&self, release: Owed);

    /// A number for the server, the same to all its clients, if it tells of
    /// changes of the keys that were [looked](Action::Look) at.
    fn tells(&self) -> Option<u64>;

    /// Whether it was lately not asked for a lock, since it came up too lately
    /// (S13), and still would not be: nobody should take that lock for free there.
    fn is_barred(&self) -> bool;

    /// How it is just now, and whether it has a vote on a lock with this TTL. Must
    /// be polled in a tokio runtime.
    fn state(&self, ttl: Ttl) -> Pin<Box<dyn Future<Output = MasterState> + Send + '_>>;

    /// A command went unanswered for the whole time-out. Until the master
    /// answers again, it is not asked for locks.
    fn fell_silent(&self);
}

/// Who hears what masters tell.
pub(crate) trait Listener: Send + Sync {
    /// A key that was looked at has been set, deleted, or has expired. It is
    /// told once: to hear of the next change, look again.
    fn changed(&self, master: usize, key: &[u8]);

    /// Anything may have changed, and nothing will be told of what was looked
    /// at before.
    fn all_changed(&self, master: usize);
}

/// What one master tells of.
#[derive(Clone)]
pub(crate) struct Notices {
    pub(crate) master: usize,
    pub(crate) listener: Arc<dyn Listener>,
}

impl Notices {
    pub(crate) fn changed(&self, key: &[u8]) {
        self.listener.changed(self.master, key);
    }

    pub(crate) fn all_changed(&self) {
        self.listener.all_changed(self.master);
    }
}

/// What a master said to one command.
pub(crate) type Reply = Result<Answer, Fault>;

/// A reply on its way.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Polls a reply for the first time, for this waker, whatever is left of the task's
/// budget of polls.
pub(crate) fn listen(mut pending: Pending, waker: &Waker) -> Sent {
    let polled = Pin::new(&mut unconstrained(&mut pending)).poll(&mut Context::from_waker(waker));
    match polled {
        Poll::Pending => Sent::Pending(pending),
        Poll::Ready(reply) => Sent::Ready(Box::pin(ready(reply))),
    }
}

/// What a master can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It did what it was asked.
    Yes,
    /// It did, and this is the count of the fenced lock.
    Counted(u64),
    /// The lock's value was not what the command needs it to be.
    No,
}

/// What became of a command that was to be sent.
pub(crate) enum Sent {
    /// It is on the queue, or will be as soon as there is a connection.
    Pending(Pending),
    /// The same, and the answer is there.
    Ready(Pending),
    /// It was not sent.
    Not(Fault),
}
