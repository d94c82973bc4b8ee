//! A real master, over one multiplexed connection. This folder is the only
//! place that names the redis crate.
//!
//! | file | what it has |
//! |---|---|
//! | `mod.rs` | the master as the rest sees it: sends on the connection that there is |
//! | `dispatch.rs` | commands on their way to the connection's queue |
//! | `link.rs` | what is known of the connection, shared with its keeper |
//! | `session.rs` | one connection: set up, killed, its scripts loaded |
//! | `keeper.rs` | the task that connects, notices loss and silence, and repeats owed releases |
//! | `wire.rs` | commands and answers as they go over the wire |
//! | `source.rs` | masters from URLs and from the caller's own clients |

mod dispatch;
mod keeper;
mod link;
mod session;
mod source;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use ::redis::Client;

use tokio::runtime::Handle;

use self::dispatch::dispatch;
use self::link::{Link, State};
use super::{Action, Command, Master, Notices, Owed, Sent};

pub use self::source::InvalidUrl;
pub(crate) use self::source::RedisSource;
pub(crate) use self::wire::Wire;
pub(crate) use ::redis::Client as RedisClient;

/// How a master is connected to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For one command.
    pub(crate) command: Duration,
    /// For a connection, from the first packet to its admission.
    pub(crate) connect: Duration,
}

pub(crate) struct RedisMaster {
    link: Arc<Link>,
}

impl RedisMaster {
    pub(crate) fn new(
        client: Client,
        address: Arc<str>,
        timeouts: Timeouts,
        notices: Notices,
    ) -> Self {
        Self {
            link: Arc::new(Link::new(client, address, timeouts, notices)),
        }
    }

    /// Makes sure that the keeper runs: on the first command, and again if the
    /// runtime that it ran on has ended.
    fn keep(&self) {
        if self.link.is_kept() {
            return;
        }
        if let Ok(runtime) = Handle::try_current()
            && let Some(kept) = Link::be_kept(&self.link)
        {
            runtime.spawn(keeper::keep(kept));
        }
    }

    /// What becomes of a command while the link is in this state.
    fn send_in(&self, state: &State, command: &Arc<Command>) -> Sent {
        let takes = matches!(command.action, Action::Take(_));
        match state {
            State::Up(session) => Sent::Pending(dispatch(&self.link, session, command)),
            // An extension could be overtaken by the next one of the same lock.
            State::Connecting if takes => Sent::Pending(self.link.defer(command)),
            out_of_reach => Sent::Not(out_of_reach.fault()),
        }
    }
}

impl Master for RedisMaster {
    fn address(&self) -> &Arc<str> {
        &self.link.address
    }

    fn send(&self, command: &Arc<Command>) -> Sent {
        self.keep();
        self.send_in(&self.link.state(), command)
    }

    fn send_blindly(&self, release: &Arc<Command>) {
        if let State::Silent { session, .. } = &*self.link.state() {
            wire::send_blindly(&session.connection, release);
        }
    }

    fn owe(&self, release: Owed) {
        self.link.owe(release);
    }

    fn tells(&self) -> Option<u64> {
        match &*self.link.state() {
            State::Up(session) => session.tells,
            _ => None,
        }
    }

    fn fell_silent(&self) {
        // Not one that is not connected: it has been asked nothing yet.
        if let State::Up(_) = *self.link.state() {
            self.link.silence.notify_one();
        }
    }
}

impl Drop for RedisMaster {
    fn drop(&mut self) {
        self.link.close();
    }
}
