//! Commands on their way to the connection's queue.

use std::sync::Arc;
use std::task::Waker;

use super::connection::Connection;
use super::link::Link;
use super::session::Session;
use super::wire;
use crate::master::{Command, Fault, Reply, Sent, listen};

/// Sends the command, unless the master has no vote on it (S13, S14).
pub(super) fn send(
    link: &Arc<Link>,
    session: &Session,
    command: &Arc<Command>,
    waker: &Waker,
) -> Sent {
    let standing = &session.standing;
    if let Some(fault) = &standing.no_master {
        return Sent::Not(fault.clone());
    }
    let admission = &link.register.admission;
    let rule = || admission.rule(command.action, &standing.evidence);
    if !command.action.counts() {
        return rule().apply(|| dispatch(link, session, command, waker));
    }
    match &standing.generation {
        Some(generation) => rule().apply(|| {
            let command = command.of_generation(generation);
            dispatch(link, session, &command, waker)
        }),
        None => Sent::Not(Fault::NoGeneration),
    }
}

/// Puts the command on the connection's queue: polling it once does that,
/// whatever is left of the task's budget of polls. Without the budget, tokio
/// would have it come back later, and later commands overtake it (S7).
fn dispatch(link: &Arc<Link>, session: &Session, command: &Arc<Command>, waker: &Waker) -> Sent {
    link.note_sending(command);
    let asking = ask(
        link.clone(),
        session.number,
        session.connection.clone(),
        command.clone(),
    );
    listen(Box::pin(asking), waker)
}

/// The first connection stands: what has waited for it is sent, in order and
/// before any other command, whether or not somebody polls for the answer. What
/// nobody waits for any more is not sent: its release may have gone before.
pub(super) fn come_up(link: &Arc<Link>, session: Session) {
    link.come_up(session, |session, deferred| {
        if !deferred.answer.is_closed() {
            // Whether its answer is still wanted is its receiver's affair.
            match send(link, session, &deferred.command, Waker::noop()) {
                Sent::Not(fault) => drop(deferred.answer.send(Err(fault))),
                Sent::Pending(pending) | Sent::Ready(pending) => {
                    tokio::spawn(async move { deferred.answer.send(pending.await) });
                }
            }
        }
    });
}

async fn ask(
    link: Arc<Link>,
    session: u64,
    mut connection: Connection,
    command: Arc<Command>,
) -> Reply {
    let reply = wire::ask(&mut connection, &command).await;
    if matches!(reply, Err(Fault::Broken { .. })) || is_by_a_replica(&reply) {
        link.found_broken(session);
    }
    reply
}

/// A master has become a replica since it was admitted: on the next connection it
/// is known as one, and as young when it is a master again (S13, S14).
fn is_by_a_replica(reply: &Reply) -> bool {
    matches!(reply, Err(Fault::Rejected { cause }) if cause.contains("READONLY"))
}
