//! What all parts of a run share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use super::frame::Reply;
use super::journal::{Journal, What};
use super::ledger::{Ledger, now};
use super::network::Network;
use super::setting::Setting;
use super::sightings::Sightings;

/// Whoever was told of a change, and asks within this time, was woken by it.
const WOKEN: Duration = Duration::from_millis(20);

pub(crate) struct World {
    /// Of each client.
    pub(crate) networks: Vec<Network>,
    pub(crate) setting: Setting,
    pub(crate) journal: RefCell<Journal>,
    pub(crate) ledger: Rc<RefCell<Ledger>>,
    pub(crate) sightings: RefCell<Sightings>,
    /// Clients that have done everything.
    pub(crate) done: Cell<usize>,
    /// The run is over.
    pub(crate) over: Cell<bool>,
    /// What the clients are at, to tell of what does not end.
    pub(crate) under_way: RefCell<BTreeMap<(usize, usize), String>>,
    /// How often each client has begun.
    begun: RefCell<BTreeMap<usize, u64>>,
    traffic: RefCell<Traffic>,
}

/// What was seen of the commands.
struct Traffic {
    extended: BTreeSet<Vec<u8>>,
    last: BTreeMap<(usize, i64), Last>,
    told: BTreeMap<(usize, i64), Duration>,
}

/// The last command of a connection.
struct Last {
    at: Duration,
    key: Vec<u8>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Take,
    Released,
    Other,
}

impl World {
    pub(crate) fn new(setting: Setting, whole: bool) -> Rc<Self> {
        Rc::new(Self {
            networks: (0..setting.clients).map(|_| Network::default()).collect(),
            setting,
            journal: RefCell::new(Journal::new(whole)),
            ledger: Rc::default(),
            sightings: RefCell::default(),
            done: Cell::new(0),
            over: Cell::new(false),
            under_way: RefCell::default(),
            begun: RefCell::default(),
            traffic: RefCell::new(Traffic {
                extended: BTreeSet::new(),
                last: BTreeMap::new(),
                told: BTreeMap::new(),
            }),
        })
    }

    /// A client begins; says how often it had begun before.
    pub(crate) fn begins(&self, client: usize) -> u64 {
        let mut begun = self.begun.borrow_mut();
        let begun = begun.entry(client).or_default();
        *begun += 1;
        *begun - 1
    }

    /// A client's process ends.
    pub(crate) fn crashes(&self, client: usize) {
        self.networks[client].vanish();
        let mut under_way = self.under_way.borrow_mut();
        under_way.retain(|(of, _), _| *of != client);
    }

    /// Tells of something at a time.
    pub(crate) fn tell(&self, at: Duration, text: fmt::Arguments<'_>) {
        let what = What::Told(text.to_string());
        self.journal.borrow_mut().add(at, what);
    }

    pub(crate) fn saw(&self, what: &'static str) {
        self.sightings.borrow_mut().saw(what);
    }

    /// A master has sent a push to a connection.
    pub(crate) fn told(&self, master: usize, client: i64) {
        let told = &mut self.traffic.borrow_mut().told;
        told.insert((master, client), now());
    }

    /// A master has executed a command.
    pub(crate) fn executed(&self, master: usize, client: i64, words: Vec<Vec<u8>>, reply: &Reply) {
        let kind = self.observe(master, client, &words, reply);
        let key = key(&words).unwrap_or_default().to_vec();
        let last = Last {
            at: now(),
            key,
            kind,
        };
        self.traffic
            .borrow_mut()
            .last
            .insert((master, client), last);
        let reply = match reply {
            Reply::Text(_) | Reply::Map(_) => Vec::new(),
            other => other.encode(false),
        };
        let what = What::Executed {
            master,
            client,
            words,
            reply,
        };
        self.journal.borrow_mut().add(now(), what);
    }

    fn observe(&self, master: usize, client: i64, words: &[Vec<u8>], reply: &Reply) -> Kind {
        let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
        match &*words {
            [b"SET", key, token, ..] => {
                self.observe_take(master, client, key, token, reply);
                return Kind::Take;
            }
            [b"GET", key] if self.follows(master, client, key, Kind::Take) => {
                self.saw("the lead was asked first");
            }
            [b"EVALSHA" | b"EVAL", _, _, key, token, millis @ ..] => {
                if matches!(reply, Reply::Error(error) if error.starts_with("NOSCRIPT")) {
                    self.saw("a script was not known");
                    return Kind::Other;
                }
                // A release is given no time.
                if millis.is_empty() {
                    if self.ledger.borrow_mut().released(master, token) {
                        self.saw("a release was repeated");
                    }
                    return match reply {
                        Reply::Int(1) => Kind::Released,
                        _ => Kind::Other,
                    };
                }
                assert_eq!(millis.len(), 1, "an extension has its time");
                self.renewed(master, key, token);
                let extended = &mut self.traffic.borrow_mut().extended;
                extended.insert(token.to_vec());
            }
            [b"CLIENT", b"KILL", ..] => match reply {
                Reply::Int(1) => self.saw("a lost connection was killed"),
                Reply::Error(_) => self.saw("a lost connection could not be killed"),
                _ => {}
            },
            _ => {}
        }
        Kind::Other
    }

    fn observe_take(&self, master: usize, client: i64, key: &[u8], token: &[u8], reply: &Reply) {
        self.renewed(master, key, token);
        if self.traffic.borrow().extended.contains(token) {
            self.saw("a key was given back");
        }
        if *reply == Reply::Okay && self.follows(master, client, key, Kind::Released) {
            self.saw("a lock was handed on within a process");
        }
        let told = self.traffic.borrow_mut().told.remove(&(master, client));
        if told.is_some_and(|told| told + WOKEN > now()) {
            self.saw("a waiter was woken");
        }
    }

    /// Whether the connection's last command was of this kind, at this very time.
    fn follows(&self, master: usize, client: i64, key: &[u8], kind: Kind) -> bool {
        let traffic = self.traffic.borrow();
        let last = traffic.last.get(&(master, client));
        last.is_some_and(|last| last.at == now() && last.key == key && last.kind == kind)
    }

    /// Where connections can't be killed, what strays may come after a release.
    fn renewed(&self, master: usize, key: &[u8], token: &[u8]) {
        if !self.setting.no_kill {
            self.ledger.borrow_mut().renewed(master, key, token);
        }
    }
}

fn key(words: &[Vec<u8>]) -> Option<&[u8]> {
    let index = match &**words.first()? {
        b"SET" | b"GET" => 1,
        b"EVAL" | b"EVALSHA" => 3,
        _ => return None,
    };
    words.get(index).map(|key| &**key)
}
