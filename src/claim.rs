//! A token that is, or may be, on the masters.

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use tokio::runtime::Handle;

use crate::core::{Refusal, Terms, Ttl};
use crate::error::LockError;
use crate::fanout::Fanout;
use crate::master::{Action, Command};
use crate::masters::Masters;
use crate::release::Release;
use crate::token::Token;

/// What one round has set, or may yet set, on the masters. Unless it is
/// released, dropping it releases it on all of them in the background (S6, S17).
pub(crate) struct Claim {
    masters: Arc<Masters>,
    runtime: Handle,
    key: Arc<[u8]>,
    token: Token,
    ttl: Mutex<Ttl>,
    takes: Mutex<Fanout>,
    released: bool,
}

impl Claim {
    /// Asks all masters for the key, with a fresh token (S4).
    pub(crate) fn stake(
        masters: &Arc<Masters>,
        runtime: &Handle,
        key: Arc<[u8]>,
        ttl: Ttl,
    ) -> Self {
        let token = Token::fresh();
        let command = Command::new(Action::Take(ttl), key.clone(), token);
        let takes = Fanout::send(&masters.all, &command, masters.clock);
        Self {
            masters: masters.clone(),
            runtime: runtime.clone(),
            key,
            token,
            ttl: Mutex::new(ttl),
            takes: Mutex::new(takes),
            released: false,
        }
    }

    pub(crate) fn masters(&self) -> &Arc<Masters> {
        &self.masters
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// The replies to the taking command.
    pub(crate) fn takes(&mut self) -> &mut Fanout {
        self.takes
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks all masters to extend the key.
    pub(crate) fn extend(&self, ttl: Ttl) -> Fanout {
        let mut longest = lock(&self.ttl);
        *longest = ttl.max(*longest);
        let command = Command::new(Action::Extend(ttl), self.key.clone(), self.token);
        Fanout::send(&self.masters.all, &command, self.masters.clock)
    }

    /// Asks all masters to delete the key. Replies to the taking command are
    /// dropped before: one that was not written yet is never sent then, and all
    /// others come before the release.
    pub(crate) fn release(&self) -> Release {
        let mut takes = lock(&self.takes);
        takes.drop_pending();
        let command = Command::new(Action::Release, self.key.clone(), self.token);
        Release::send(
            self.masters.clone(),
            self.runtime.clone(),
            command,
            *lock(&self.ttl),
            takes.may_have_agreed(),
        )
    }

    /// The same, by the owner: nothing is left to do when the claim is dropped.
    pub(crate) fn release_for_good(mut self) -> Release {
        self.released = true;
        self.release()
    }

    /// On how many masters the token was set, late grants included (S8).
    pub(crate) fn granted(&self) -> usize {
        let mut takes = lock(&self.takes);
        let _ = takes.poll_replies(&mut Context::from_waker(Waker::noop()), |_, _, _| {});
        takes.agreed().len()
    }

    /// Why the round was lost, with the evidence.
    pub(crate) fn refused(mut self, refusal: Refusal, resource: &[u8], terms: Terms) -> LockError {
        let masters = self.masters.clone();
        let takes = self.takes();
        let elapsed = masters.clock.now().since(takes.started());
        let report = takes.report(&masters.all);
        LockError::refused(
            refusal,
            resource,
            terms,
            masters.settings.quorum,
            elapsed,
            report,
        )
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.released {
            drop(self.release());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
