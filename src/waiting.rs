//! Waiting for a lock that others have: the one contender of this process is
//! woken when it may be free, and asks then, and from time to time anyway.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::core::{MasterSet, Spread, Vote};
use crate::fanout::{Fanout, within};
use crate::gate::{Gate, Local, Turn};
use crate::master::{Action, Command};
use crate::masters::Masters;
use crate::token::Token;

/// For how long a lock that a task of this process holds is left alone, before
/// the masters are asked to tell when it goes.
const TRUST: Duration = Duration::from_millis(5);

/// How long the tasks of one process may hand the lock on among themselves
/// before other processes get a chance: where others were seen to want it, and
/// where none were.
const LONGEST_RUN: Duration = Duration::from_millis(10);
const LONGEST_RUN_ALONE: Duration = Duration::from_millis(60);

/// Waits until the lock may be had: a task of this process has released it, a
/// quorum of masters say that it is gone, or the fallback is over.
pub(crate) async fn chance(
    masters: &Arc<Masters>,
    key: &Arc<[u8]>,
    gate: &Gate,
    turn: &mut Turn,
    spread: Spread,
    fallback: Duration,
) {
    tokio::select! {
        biased;
        () = gate.until_freed_here() => {}
        () = opening(masters, key, gate, spread) => {
            // Masters don't tell of what this process did itself.
            masters.gates.rival(key);
            turn.run = None;
            return;
        }
        () = sleep(fallback) => {
            turn.run = None;
            return;
        }
    }
    let began = *turn.run.get_or_insert_with(Instant::now);
    let longest = match masters.gates.has_rivals(key) {
        true => LONGEST_RUN,
        false => LONGEST_RUN_ALONE,
    };
    if began.elapsed() > longest {
        turn.run = None;
        give_way(masters, key, gate, fallback).await;
    }
}

/// Lets other processes have the lock, if one wants it: it is told of the
/// release, and asks while this one pauses.
pub(crate) async fn give_way(
    masters: &Arc<Masters>,
    key: &Arc<[u8]>,
    gate: &Gate,
    fallback: Duration,
) {
    let mut eager = Spread::default();
    eager.collided();
    let politely = async {
        gate.forget_freed();
        let free = look(masters, key).await;
        let untaken = async {
            sleep(Spread::LONGEST_PAUSE).await;
        };
        let taken = tokio::select! {
            () = untaken => false,
            () = gate.until_changed() => true,
        };
        let quorum = masters.settings.quorum;
        if taken || !quorum.is_met_by(free.len()) {
            opening(masters, key, gate, eager).await;
        }
    };
    tokio::select! {
        () = politely => {}
        // Masters don't tell of what this process did itself.
        () = gate.until_freed_here() => {}
        () = sleep(fallback) => {}
    }
}

/// Waits until a quorum of masters say that the key is gone, and, unless this
/// one goes at once, until a pause is over in which nobody else has taken it.
async fn opening(masters: &Arc<Masters>, key: &Arc<[u8]>, gate: &Gate, spread: Spread) {
    if gate.local() == Local::Held {
        sleep(TRUST).await;
    }
    if !masters.tell() {
        return std::future::pending().await;
    }
    let quorum = masters.settings.quorum;
    loop {
        gate.forget_freed();
        let free = look(masters, key).await;
        if !quorum.is_met_by(free.union(gate.freed()).len()) {
            gate.until_freed(quorum, free).await;
            match spread.pause(rand::random()) {
                None => return,
                Some(_) => continue,
            }
        }
        let Some(pause) = spread.pause(rand::random()) else {
            return;
        };
        tokio::select! {
            () = sleep(pause) => return,
            () = gate.until_changed() => {}
        }
    }
}

/// Which masters don't have the key; those that have it tell when it changes.
async fn look(masters: &Arc<Masters>, key: &Arc<[u8]>) -> MasterSet {
    let command = Command::new(Action::Look, key.clone(), Token::none());
    let mut replies = Fanout::send(&masters.all, &command, masters.clock);
    let mut free = MasterSet::EMPTY;
    let all = within(masters.settings.master_timeout, |context| {
        replies.poll_replies(context, |master, vote, _| {
            if vote == Vote::Yes {
                free.insert(master);
            }
        })
    });
    if all.await.is_none() {
        replies.time_out(masters);
    }
    free
}
