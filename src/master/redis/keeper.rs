//! The task that keeps the connection to one master: connects and reconnects
//! with jittered backoff, notices loss and silence, repeats owed releases.

use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;
use futures::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::dispatch::come_up;
use super::link::{Kept, Link, State};
use super::session::{self, News, Opened, Pushes, Session};
use super::wire;
use crate::chance;
use crate::core::Backoff;
use crate::master::{Action, Command, Fault, Owed, Reply, Taken};

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

/// How often a server that is no master is asked again what it is.
const SECOND_LOOK: Duration = Duration::from_secs(5);

/// A connection that stood for less than this counts as a failed attempt.
const STABLE: Duration = Duration::from_secs(1);

/// Keeps the link until nobody uses the master any more.
pub(super) async fn keep(link: Kept) {
    let mut failures = 0;
    loop {
        let began = Instant::now();
        let cause = match open(&link).await {
            Ok(Opened {
                session,
                pushes,
                lost_is_over,
            }) => {
                tracing::debug!(master = %link.address, "connected");
                link.found_lost(lost_is_over);
                link.remember(&session.origin);
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
            biased;
            () = link.done() => return,
            () = sleep(pause(failures)) => {}
        }
        failures = failures.saturating_add(1);
    }
}

async fn open(link: &Link) -> Result<Opened, String> {
    let (number, lost) = link.next_session();
    let opening = session::open(
        &link.route,
        link.timeouts,
        &link.register,
        number,
        lost.as_ref(),
    );
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
    (backoff.bound(failures) + backoff.delay(failures, chance::number())) / 2
}

/// Looks after a connection that stands; returns what ended it.
async fn attend(link: &Arc<Link>, session: Session, mut pushes: Pushes) -> &'static str {
    let limit = link.timeouts.command.max(REPEAT);
    repeat_owed(link, &session, link.owed.take(), limit).await;
    come_up(link, session.clone());
    link.notices.all_changed();
    let mut repeat = Repeat::begin();
    let no_master = session.standing.no_master.is_some();
    let second_look = Instant::now() + SECOND_LOOK;
    loop {
        if link.owed.is_empty() {
            repeat = Repeat::begin();
        }
        tokio::select! {
            biased;
            () = ended(link, &mut pushes) => return "the server closed the connection",
            () = link.broken(session.number) => return "the connection broke",
            () = link.done() => return "nobody uses it any more",
            () = sleep_until(second_look), if no_master => return "it is no master: asked again",
            () = link.silence.notified() => {
                tokio::select! {
                    biased;
                    () = ended(link, &mut pushes) => return "the server closed the connection",
                    answer = answers_again(link, &session) => if let Err(cause) = answer {
                        return cause;
                    },
                }
            }
            // Before the errands, however many there are.
            () = sleep_until(repeat.due), if !link.owed.is_empty() => {
                repeat_owed(link, &session, link.owed.take(), limit).await;
                repeat.put_off();
            }
            () = link.errand.notified() => {
                repeat_owed(link, &session, link.owed.take_fresh(), limit).await;
            }
        }
    }
}

/// When all that is owed is repeated on a connection that stands. However much
/// comes to be owed meanwhile, it is not sooner: what a server rejects again and
/// again would be sent again and again, all of it for each that is new.
struct Repeat {
    due: Instant,
    pause: Duration,
}

impl Repeat {
    fn begin() -> Self {
        Self {
            due: Instant::now() + REPEAT,
            pause: REPEAT,
        }
    }

    fn put_off(&mut self) {
        self.pause = (self.pause * 2).min(LONGEST_REPEAT);
        self.due = Instant::now() + self.pause;
    }
}

/// Passes on what the server tells, until the connection has ended.
async fn ended(link: &Link, pushes: &mut Pushes) {
    while let Some(push) = pushes.recv().await {
        match session::news(&push) {
            News::Ended => return,
            News::Changed => match session::changed_keys(&push) {
                Some(keys) => keys.for_each(|key| link.notices.changed(key)),
                None => link.notices.all_changed(),
            },
            News::Other => {}
        }
    }
    // The connection speaks RESP2: its end shows at the next command.
    std::future::pending().await
}

/// Waits until the silent connection answers; the error says why it doesn't.
async fn answers_again(link: &Arc<Link>, session: &Session) -> Result<(), &'static str> {
    let since = Instant::now();
    link.set(State::Silent {
        session: session.clone(),
        since,
    });
    let patience = link.timeouts.command.saturating_mul(PATIENCE);
    let patience = patience.max(LEAST_PATIENCE);
    let ping = cmd("PING");
    let answer = session::ask(session.connection.clone(), &ping);
    match timeout(patience, answer).await {
        Err(_) => return Err("it was silent for too long"),
        Ok(Err(error)) if !wire::is_answer(&error) => return Err("the connection broke"),
        Ok(_) => {}
    }
    tracing::debug!(master = %link.address, after = ?since.elapsed(), "it answers again");
    // It may be one that always takes longer than the time-out. Nothing else waits
    // for the connection now, so that what is owed has the time to be settled.
    repeat_owed(link, session, link.owed.take(), patience).await;
    come_up(link, session.clone());
    // What it said late, nobody heard.
    link.notices.all_changed();
    Ok(())
}

/// Sends these owed releases, and keeps those that have to be sent again: all of
/// them if it is dropped in the middle. Each is settled by its own reply, so
/// that many of them get done in several turns.
async fn repeat_owed(link: &Link, session: &Session, mut owed: Taken<'_>, limit: Duration) {
    if owed.list.is_empty() {
        return;
    }
    let releases = owed.list.iter().map(|owed| release(link, session, owed));
    let replies = join_all(releases.map(|reply| timeout(limit, reply))).await;
    let strays = link.strays_until().is_some();
    let now = Instant::now();
    let mut replies = replies.into_iter();
    owed.list.retain(|owed| match replies.next() {
        // While strays may come after it, no release is the last one.
        Some(Ok(Ok(_))) => strays && !owed.is_expired(now),
        Some(Ok(Err(Fault::Rejected { .. }))) => !owed.is_expired(now),
        _ => true,
    });
}

/// A connection of RESP2 tells its end to nobody but the next command, which may
/// be this one.
async fn release(link: &Link, session: &Session, owed: &Owed) -> Reply {
    let command = Command::new(Action::Release, owed.key.clone(), owed.token);
    let reply = wire::ask(&mut session.connection.clone(), &command).await;
    if matches!(reply, Err(Fault::Broken { .. })) {
        link.found_broken(session.number);
    }
    reply
}
