//! A real master, over one multiplexed connection. This folder is the only
//! place that names the redis crate.
//!
//! | file | what it has |
//! |---|---|
//! | `mod.rs` | the master as the rest sees it: sends on the connection that there is |
//! | `link.rs` | what is known of the connection, shared with its keeper |
//! | `session.rs` | one connection: set up, killed, its scripts loaded |
//! | `keeper.rs` | the task that connects, notices loss and silence, and repeats owed releases |
//! | `wire.rs` | commands and answers as they go over the wire |
//! | `source.rs` | masters from URLs and from the caller's own clients |

mod keeper;
mod link;
mod session;
mod source;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use ::redis::Client;
use ::redis::aio::MultiplexedConnection;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::unconstrained;

use self::link::{Link, State};
use self::session::Session;
use super::{Action, Command, Fault, Master, Owed, Pending, Reply, Sent};

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
    pub(crate) fn new(client: Client, address: Arc<str>, timeouts: Timeouts) -> Self {
        Self {
            link: Arc::new(Link::new(client, address, timeouts)),
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
            State::Up(session) => self.dispatch(session, command),
            State::Connecting if takes => Sent::Pending(Box::pin(send_when_connected(
                self.link.clone(),
                command.clone(),
            ))),
            out_of_reach => Sent::Not(out_of_reach.fault()),
        }
    }

    /// Puts the command on the connection's queue: polling it once does that,
    /// whatever is left of the task's budget of polls. Without the budget, tokio
    /// would have it come back later, and later commands overtake it (S7).
    fn dispatch(&self, session: &Session, command: &Arc<Command>) -> Sent {
        self.link.note_sending(command);
        let mut pending: Pending = Box::pin(ask(
            self.link.clone(),
            session.number,
            session.connection.clone(),
            command.clone(),
        ));
        match unconstrained(&mut pending).now_or_never() {
            Some(reply) => Sent::Pending(Box::pin(std::future::ready(reply))),
            None => Sent::Pending(pending),
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

/// The first connection is under way: waits for what becomes of it. Only
/// commands that take wait here: dropping them before they were sent leaves
/// nothing behind, and their order among each other makes no difference. An
/// extension could be overtaken by the next one of the same lock.
async fn send_when_connected(link: Arc<Link>, command: Arc<Command>) -> Reply {
    let session = link.connected().await?;
    link.note_sending(&command);
    ask(link, session.number, session.connection, command).await
}

async fn ask(
    link: Arc<Link>,
    session: u64,
    mut connection: MultiplexedConnection,
    command: Arc<Command>,
) -> Reply {
    let reply = wire::ask(&mut connection, &command).await;
    if matches!(reply, Err(Fault::Broken { .. })) {
        link.found_broken(session);
    }
    reply
}
