//! The task that keeps the connection to one master: connects and reconnects
//! with jittered backoff, notices loss and silence, repeats owed releases.

use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use super::dispatch::come_up;
use super::link::{Kept, Link, State};
use super::session::{self, Opened, Origin, Pushes, Session};
use super::wire;
use crate::core::Backoff;
use crate::master::{Action, Command, Fault, Owed, Reply};

/// A silent connection is given up after this many command time-outs, at least
/// a second.
const PATIENCE: u32 = 20;
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// The first and the longest pause before an owed release is repeated on a
/// connection that stands.
const REPEAT: Duration = Duration::from_millis(100);
const LONGEST_REPEAT: Duration = Duration::from_secs(5);

/// The bounds of the pause between two attempts to connect. The longest is
/// short: a master that comes back should take part again within a second.
const RECONNECT: Duration = Duration::from_millis(20);
const LONGEST_RECONNECT: Duration = Duration::from_millis(500);

/// A connection that stood for less than this counts as a failed attempt.
const STABLE: Duration = Duration::from_secs(1);

/// Keeps the link until nobody uses the master any more.
pub(super) async fn keep(link: Kept) {
    let mut lost = None;
    let mut failures = 0;
    for number in 1.. {
        let began = Instant::now();
        let cause = match open(&link, number, lost.as_ref()).await {
            Ok(Opened {
                session,
                pushes,
                lost_is_over,
            }) => {
                tracing::debug!(master = %link.address, "connected");
                link.found_lost(lost_is_over);
                lost = Some(session.origin.clone());
                attend(&link, session, pushes).await.to_owned()
            }
            Err(cause) => cause,
        };
        tracing::debug!(master = %link.address, cause, "no connection");
        link.go_down(cause.into());
        if began.elapsed() >= STABLE {
            failures = 0;
        }
        tokio::select! {
            () = sleep(pause(failures)) => {}
            () = link.done() => return,
        }
        failures = failures.saturating_add(1);
    }
}

async fn open(link: &Link, number: u64, lost: Option<&Origin>) -> Result<Opened, String> {
    let opening = session::open(&link.client, link.timeouts, number, lost);
    match timeout(link.timeouts.connect, opening).await {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) => Err(wire::describe(&error)),
        Err(_) => Err(format!("no connection within {:?}", link.timeouts.connect)),
    }
}

/// Half of the bound, and a random share of the other half: many clients don't
/// come at once, and none comes at once again.
fn pause(failures: u32) -> Duration {
    let backoff = Backoff::new(RECONNECT, LONGEST_RECONNECT).expect("the bounds are in order");
    (backoff.bound(failures) + backoff.delay(failures, rand::random())) / 2
}

/// Looks after a connection that stands; returns what ended it.
async fn attend(link: &Arc<Link>, session: Session, mut pushes: Pushes) -> &'static str {
    let mut repeat = REPEAT;
    repeat_owed(link, &session).await;
    come_up(link, session.clone());
    loop {
        tokio::select! {
            () = ended(&mut pushes) => return "the server closed the connection",
            () = link.broken(session.number) => return "the connection broke",
            () = link.done() => return "nobody uses it any more",
            () = link.silence.notified() => {
                tokio::select! {
                    () = ended(&mut pushes) => return "the server closed the connection",
                    answers = answers_again(link, &session) => if !answers {
                        return "it was silent for too long";
                    },
                }
            }
            () = link.errand.notified() => {
                repeat = REPEAT;
                repeat_owed(link, &session).await;
            }
            () = sleep(repeat), if !link.owed.is_empty() => {
                repeat = (repeat * 2).min(LONGEST_REPEAT);
                repeat_owed(link, &session).await;
            }
        }
    }
}

/// Waits for the news that the connection has ended.
async fn ended(pushes: &mut Pushes) {
    while let Some(push) = pushes.recv().await {
        if session::is_disconnection(&push) {
            return;
        }
    }
    // The connection speaks RESP2: its end shows at the next command.
    std::future::pending().await
}

/// Waits until the silent connection answers, and says whether it did.
async fn answers_again(link: &Arc<Link>, session: &Session) -> bool {
    let since = Instant::now();
    link.set(State::Silent {
        session: session.clone(),
        since,
    });
    let patience = link.timeouts.command.saturating_mul(PATIENCE);
    let patience = patience.max(LEAST_PATIENCE);
    let ping = cmd("PING");
    let answer = session::ask(session.connection.clone(), &ping);
    if timeout(patience, answer).await.is_err() {
        return false;
    }
    tracing::debug!(master = %link.address, after = ?since.elapsed(), "it answers again");
    repeat_owed(link, session).await;
    come_up(link, session.clone());
    true
}

/// Sends every owed release, and keeps those that have to be sent again.
async fn repeat_owed(link: &Link, session: &Session) {
    let owed = link.owed.take();
    if owed.is_empty() {
        return;
    }
    let limit = link.timeouts.command.max(REPEAT);
    let releases = owed.iter().map(|owed| release(session, owed));
    let replies = timeout(limit, join_all(releases)).await.ok();
    let strays = link.strays_until().is_some();
    let now = Instant::now();
    let mut replies = replies.into_iter().flatten();
    link.owed.extend(owed.into_iter().filter(|owed| {
        match replies.next() {
            // While strays may come after it, no release is the last one.
            Some(Ok(_)) => strays && !owed.is_expired(now),
            Some(Err(Fault::Rejected { .. })) => !owed.is_expired(now),
            Some(Err(_)) | None => true,
        }
    }));
}

async fn release(session: &Session, owed: &Owed) -> Reply {
    let command = Command::new(Action::Release, owed.key.clone(), owed.token);
    wire::ask(&mut session.connection.clone(), &command).await
}
