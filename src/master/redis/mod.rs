//! A real master, over one multiplexed connection. This folder is the only
//! place that names the redis crate.
//!
//! | file | what it has |
//! |---|---|
//! | `mod.rs` | the master as the rest sees it: sends on the connection that there is |
//! | `admission.rs` | what a server tells of itself before its first vote |
//! | `connection.rs` | the way to a master, and a connection over it |
//! | `dispatch.rs` | commands on their way to the connection's queue |
//! | `link.rs` | what is known of the connection, shared with its keeper |
//! | `session.rs` | one connection: set up, killed, its scripts loaded |
//! | `keeper.rs` | the task that connects, notices loss and silence, and repeats owed releases |
//! | `wire.rs` | commands and answers as they go over the wire |
//! | `script.rs` | the scripts as they are sent |
//! | `source.rs` | masters from URLs and from the caller's own clients |

mod admission;
mod connection;
mod dispatch;
mod keeper;
mod link;
mod script;
mod session;
mod source;
mod wire;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ::redis::cmd;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use self::connection::Route;
use self::link::{Link, State};
use self::session::Session;
use super::{Admissions, Command, Fault, Master, MasterState, Notices, Owed, Sent, listen};
use crate::core::Ttl;

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
        route: Route,
        address: Arc<str>,
        timeouts: Timeouts,
        admissions: Admissions,
        notices: Notices,
    ) -> Self {
        Self {
            link: Arc::new(Link::new(route, address, timeouts, admissions, notices)),
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

    async fn look_at(&self, ttl: Ttl) -> MasterState {
        let link = &self.link;
        if link.is_kept() {
            link.decided().await;
        }
        let session = match &*link.state() {
            State::Up(session) => Ok(session.clone()),
            other => Err((matches!(other, State::Silent { .. }), other.fault())),
        };
        let state = match session {
            Ok(session) => self.ping(session, ttl).await,
            Err((connected, fault)) => MasterState {
                connected,
                ..MasterState::unconnected(link.address.clone(), fault)
            },
        };
        MasterState {
            last_error: link.trouble(),
            ..state
        }
    }

    async fn ping(&self, session: Session, ttl: Ttl) -> MasterState {
        let register = &self.link.register;
        let standing = session.standing;
        let limit = self.link.timeouts.command;
        let asked = Instant::now();
        let answer = timeout(limit, session::ask(session.connection, &cmd("PING"))).await;
        let latency = asked.elapsed();
        let quarantined = || register.admission.quarantined(ttl, &standing.evidence);
        let no_vote = standing.no_master.clone().or_else(quarantined);
        let fault = match answer {
            Err(_) => {
                self.fell_silent();
                Some(Fault::TimedOut { after: latency })
            }
            Ok(Err(error)) if !wire::is_answer(&error) => {
                self.link.found_broken(session.number);
                Some(Fault::Broken {
                    cause: wire::describe(&error).into(),
                })
            }
            Ok(_) => no_vote,
        };
        MasterState {
            address: self.link.address.clone(),
            connected: !matches!(fault, Some(Fault::Broken { .. })),
            age: Some(standing.evidence.age.at(register.admission.clock.now())),
            latency: (!matches!(fault, Some(Fault::TimedOut { .. } | Fault::Broken { .. })))
                .then_some(latency),
            fault,
            last_error: None,
        }
    }

    /// What becomes of a command while the link is in this state.
    fn send_in(&self, state: &State, command: &Arc<Command>, waker: &Waker) -> Sent {
        let takes = command.action.takes();
        match state {
            State::Up(session) => dispatch::send(&self.link, session, command, waker),
            // An extension could be overtaken by the next one of the same lock.
            State::Connecting if takes => listen(self.link.defer(command), waker),
            out_of_reach => Sent::Not(out_of_reach.fault()),
        }
    }
}

impl Master for RedisMaster {
    fn address(&self) -> &Arc<str> {
        &self.link.address
    }

    fn send(&self, command: &Arc<Command>, waker: &Waker) -> Sent {
        self.keep();
        self.send_in(&self.link.state(), command, waker)
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
            State::Up(session) if session.standing.no_master.is_none() => session.tells,
            _ => None,
        }
    }

    fn is_barred(&self) -> bool {
        self.link.register.admission.is_barred()
    }

    fn state(&self, ttl: Ttl) -> Pin<Box<dyn Future<Output = MasterState> + Send + '_>> {
        self.keep();
        Box::pin(self.look_at(ttl))
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
