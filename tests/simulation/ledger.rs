//! Who holds what, and the promises.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::time::Duration;

use redquorum::LeaseHandle;

/// All leases that are relied on, of all clients, and what was broken first.
#[derive(Default)]
pub(crate) struct Ledger {
    holdings: BTreeMap<u64, Holding>,
    next: u64,
    tokens: BTreeSet<String>,
    /// On which masters each token was released, and for which key it was used.
    released: HashMap<Vec<u8>, BTreeSet<usize>>,
    keys: HashMap<Vec<u8>, Vec<u8>>,
    broken: Option<String>,
}

struct Holding {
    client: usize,
    resource: String,
    lease: LeaseHandle,
    /// As the client saw it last, in the time of the simulation.
    until: Duration,
}

/// A lease that is relied on, until this is dropped.
pub(crate) struct Relied {
    ledger: Rc<RefCell<Ledger>>,
    number: u64,
}

/// The time of the simulation, as the present host has it.
pub(crate) fn now() -> Duration {
    turmoil::sim_elapsed().expect("a host runs")
}

impl Relied {
    /// A client was granted a lock, and relies on it from now on.
    pub(crate) fn on(ledger: &Rc<RefCell<Ledger>>, client: usize, lease: LeaseHandle) -> Self {
        let mut all = ledger.borrow_mut();
        let number = all.next;
        all.next += 1;
        all.grant(number, client, lease);
        drop(all);
        Self {
            ledger: ledger.clone(),
            number,
        }
    }
}

impl Drop for Relied {
    fn drop(&mut self) {
        self.ledger.borrow_mut().holdings.remove(&self.number);
    }
}

impl Ledger {
    fn grant(&mut self, number: u64, client: usize, lease: LeaseHandle) {
        let resource = String::from_utf8_lossy(lease.resource()).into_owned();
        if !self.tokens.insert(lease.token().to_owned()) {
            self.breaks(format!("S4: the token {} was used twice", lease.token()));
        }
        let holding = Holding {
            client,
            resource,
            until: now() + lease.remaining(),
            lease,
        };
        self.holdings.insert(number, holding);
        self.check(now());
    }

    /// Sees how the leases of a client are: by its clock, so on its host.
    pub(crate) fn look(&mut self, client: usize) {
        let now = now();
        for holding in self.holdings.values_mut() {
            if holding.client == client {
                holding.until = now + holding.lease.remaining();
            }
        }
        self.check(now);
    }

    /// No two valid leases of one resource.
    fn check(&mut self, now: Duration) {
        let mut valid: BTreeMap<&str, (u64, &Holding)> = BTreeMap::new();
        let mut two = None;
        for (number, holding) in &self.holdings {
            if holding.until <= now {
                continue;
            }
            if let Some((_, other)) = valid.insert(&holding.resource, (*number, holding)) {
                two = Some(format!(
                    "two holders of {}: client {} with {} for {:?}, client {} with {} for {:?}",
                    holding.resource,
                    other.client,
                    other.lease.token(),
                    other.until - now,
                    holding.client,
                    holding.lease.token(),
                    holding.until - now,
                ));
            }
        }
        if let Some(two) = two {
            self.breaks(two);
        }
    }

    /// A master has executed the taking or extending of a token.
    pub(crate) fn renewed(&mut self, master: usize, key: &[u8], token: &[u8]) {
        let before = self.keys.insert(token.to_vec(), key.to_vec());
        if before.is_some_and(|before| before != key) {
            self.breaks(format!(
                "S4: the token {} was used for two keys",
                text(token)
            ));
        }
        if self
            .released
            .get(token)
            .is_some_and(|on| on.contains(&master))
        {
            let token = text(token);
            self.breaks(format!("S12: m{master} was sent {token} after its release"));
        }
    }

    /// A master has executed the release of a token; says whether it had before.
    pub(crate) fn released(&mut self, master: usize, token: &[u8]) -> bool {
        !self
            .released
            .entry(token.to_vec())
            .or_default()
            .insert(master)
    }

    pub(crate) fn breaks(&mut self, promise: impl Into<String>) {
        self.broken.get_or_insert_with(|| promise.into());
    }

    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }
}

fn text(token: &[u8]) -> String {
    String::from_utf8_lossy(token).into_owned()
}
