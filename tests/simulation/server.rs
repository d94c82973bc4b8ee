//! What a Redis server does with commands, as far as this library uses it.
//! `faithful.rs` compares it with a real one.

use std::collections::{BTreeMap, BTreeSet};

use super::frame::{Reply, invalidation};
use super::script;
use super::store::{Entry, Store};

/// One server process after the other, at one address.
pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) options: Options,
    clients: BTreeMap<i64, Client>,
    /// Which clients have read which keys.
    readers: BTreeMap<Vec<u8>, BTreeSet<i64>>,
    scripts: BTreeMap<String, String>,
    next_client: i64,
    run_id: String,
    /// In milliseconds of its clock.
    started: u64,
    /// What it tells its clients by itself.
    pub(crate) pushes: Vec<(i64, Vec<u8>)>,
    /// The clients that were killed by others.
    pub(crate) killed: Vec<i64>,
}

/// What a server is like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// It syncs its append-only file always.
    pub(crate) durable: bool,
    /// It is older than RESP3.
    pub(crate) old: bool,
    /// Nobody may kill connections there.
    pub(crate) no_kill: bool,
    /// A planted fault: it takes no notice of `NX`.
    pub(crate) ignores_nx: bool,
}

#[derive(Default)]
struct Client {
    resp3: bool,
    tracking: bool,
    noloop: bool,
}

/// Who calls, and when.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) client: i64,
    /// In milliseconds of the server's clock.
    pub(crate) now: u64,
}

impl Server {
    pub(crate) fn new(options: Options, run_id: String, now: u64) -> Self {
        Self {
            store: Store::default(),
            options,
            clients: BTreeMap::new(),
            readers: BTreeMap::new(),
            scripts: BTreeMap::new(),
            next_client: 1,
            run_id,
            started: now,
            pushes: Vec::new(),
            killed: Vec::new(),
        }
    }

    /// Begins another process, with the keys that there are.
    pub(crate) fn restart(&mut self, run_id: String, now: u64) {
        *self = Self {
            store: std::mem::take(&mut self.store),
            ..Self::new(self.options, run_id, now)
        };
    }

    pub(crate) fn connect(&mut self) -> i64 {
        let id = self.next_client;
        self.next_client += 1;
        self.clients.insert(id, Client::default());
        id
    }

    pub(crate) fn disconnect(&mut self, client: i64) {
        self.clients.remove(&client);
    }

    pub(crate) fn speaks_resp3(&self, client: i64) -> bool {
        self.clients.get(&client).is_some_and(|client| client.resp3)
    }

    pub(crate) fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Removes what has expired, as a server does from time to time.
    pub(crate) fn expire(&mut self, now: u64) {
        for key in self.store.expire_all(now) {
            self.changed(&key, None);
        }
    }

    /// Executes a command of a client.
    pub(crate) fn execute(&mut self, call: Call, words: &[Vec<u8>]) -> Reply {
        let Some((name, args)) = words.split_first() else {
            return Reply::error("ERR empty command");
        };
        match (&*text(name).to_ascii_uppercase(), args) {
            ("EVAL", [source, count, rest @ ..]) => {
                let source = text(source);
                self.eval(call, &source, count, rest)
            }
            ("EVALSHA", [hash, count, rest @ ..]) => {
                match self.scripts.get(&text(hash).to_ascii_lowercase()).cloned() {
                    Some(source) => self.eval(call, &source, count, rest),
                    None => Reply::error("NOSCRIPT No matching script. Please use EVAL."),
                }
            }
            ("SCRIPT", [sub, args @ ..]) => self.script(&text(sub).to_ascii_uppercase(), args),
            ("CLIENT", [sub, args @ ..]) => {
                self.client(call, &text(sub).to_ascii_uppercase(), args)
            }
            ("HELLO", args) => self.hello(call, args),
            ("PING", []) => Reply::Simple("PONG"),
            ("INFO", _) => Reply::Text(self.info(call.now)),
            ("CONFIG", [sub, _]) if text(sub).eq_ignore_ascii_case("GET") => self.config(),
            _ => self.call(call, words),
        }
    }

    /// Executes a command that scripts can call too.
    pub(crate) fn call(&mut self, call: Call, words: &[Vec<u8>]) -> Reply {
        let Some((name, args)) = words.split_first() else {
            return Reply::error("ERR empty command");
        };
        match (&*text(name).to_ascii_uppercase(), args) {
            ("GET", [key]) => self.get(call, key),
            ("SET", [key, value, options @ ..]) => self.set(call, key, value, options),
            ("DEL", keys @ [_, ..]) => self.del(call, keys),
            ("PEXPIRE", [key, millis]) => self.pexpire(call, key, millis),
            ("PTTL", [key]) => self.pttl(call, key),
            ("GET" | "SET" | "DEL" | "PEXPIRE" | "PTTL" | "EVAL" | "EVALSHA", _) => {
                let name = text(name).to_ascii_lowercase();
                Reply::error(format!(
                    "ERR wrong number of arguments for '{name}' command"
                ))
            }
            _ => Reply::error(format!("ERR unknown command '{}'", text(name))),
        }
    }

    fn get(&mut self, call: Call, key: &[u8]) -> Reply {
        self.expire_key(key, call);
        self.is_read(key, call);
        match self.store.get(key, call.now) {
            Some(entry) => Reply::Bulk(entry.value.clone()),
            None => Reply::Nil,
        }
    }

    fn set(&mut self, call: Call, key: &[u8], value: &[u8], options: &[Vec<u8>]) -> Reply {
        // What it can't understand never gets as far as to look for the key.
        let options = match SetOptions::parse(options) {
            Ok(options) => options,
            Err(reply) => return reply,
        };
        self.expire_key(key, call);
        let taken = self.store.get(key, call.now).is_some();
        if options.if_absent && taken && !self.options.ignores_nx {
            return Reply::Nil;
        }
        let entry = Entry {
            value: value.to_vec(),
            expires: options.millis.map(|millis| call.now + millis),
        };
        self.store.set(key, entry, call.now);
        self.changed(key, Some(call.client));
        Reply::Okay
    }

    fn del(&mut self, call: Call, keys: &[Vec<u8>]) -> Reply {
        let mut removed = 0;
        for key in keys {
            self.expire_key(key, call);
            if self.store.remove(key, call.now) {
                self.changed(key, Some(call.client));
                removed += 1;
            }
        }
        Reply::Int(removed)
    }

    fn pexpire(&mut self, call: Call, key: &[u8], millis: &[u8]) -> Reply {
        let Some(millis) = number(millis) else {
            return not_a_number();
        };
        self.expire_key(key, call);
        let Some(entry) = self.store.get(key, call.now).cloned() else {
            return Reply::Int(0);
        };
        if millis <= 0 {
            self.store.remove(key, call.now);
        } else {
            let expires = Some(call.now + millis as u64);
            self.store.set(key, Entry { expires, ..entry }, call.now);
        }
        self.changed(key, Some(call.client));
        Reply::Int(1)
    }

    fn pttl(&mut self, call: Call, key: &[u8]) -> Reply {
        self.expire_key(key, call);
        self.is_read(key, call);
        Reply::Int(match self.store.get(key, call.now) {
            None => -2,
            Some(entry) => entry
                .expires
                .map_or(-1, |expires| (expires - call.now) as i64),
        })
    }

    /// A key that is over is removed when somebody asks for it, as if he had done it.
    fn expire_key(&mut self, key: &[u8], call: Call) {
        if self.store.expire(key, call.now) {
            self.changed(key, Some(call.client));
        }
    }

    fn is_read(&mut self, key: &[u8], call: Call) {
        let client = self.clients.get(&call.client);
        if client.is_some_and(|client| client.tracking) {
            let readers = self.readers.entry(key.to_vec()).or_default();
            readers.insert(call.client);
        }
    }

    /// Tells those who have read the key, but not the one who changed it.
    fn changed(&mut self, key: &[u8], by: Option<i64>) {
        for reader in self.readers.remove(key).unwrap_or_default() {
            let Some(client) = self.clients.get(&reader) else {
                continue;
            };
            let itself = by == Some(reader) && client.noloop;
            if client.tracking && client.resp3 && !itself {
                self.pushes.push((reader, invalidation(key)));
            }
        }
    }

    fn eval(&mut self, call: Call, source: &str, count: &[u8], rest: &[Vec<u8>]) -> Reply {
        let keys = match number(count) {
            Some(count) if count < 0 => {
                return Reply::error("ERR Number of keys can't be negative");
            }
            Some(count) if count as usize > rest.len() => {
                return Reply::error("ERR Number of keys can't be greater than number of args");
            }
            Some(count) => count as usize,
            None => return not_a_number(),
        };
        if let Err(broken) = script::check(source) {
            return broken;
        }
        self.scripts.insert(script::hash(source), source.to_owned());
        script::run(self, call, source, &rest[..keys], &rest[keys..])
    }

    fn script(&mut self, sub: &str, args: &[Vec<u8>]) -> Reply {
        match (sub, args) {
            ("LOAD", [source]) => {
                let source = text(source);
                if let Err(broken) = script::check(&source) {
                    return broken;
                }
                let hash = script::hash(&source);
                self.scripts.insert(hash.clone(), source);
                Reply::bulk(&hash)
            }
            ("FLUSH", _) => {
                self.flush_scripts();
                Reply::Okay
            }
            ("EXISTS", hashes) => {
                let exists = |hash: &Vec<u8>| i64::from(self.scripts.contains_key(&text(hash)));
                Reply::Array(hashes.iter().map(exists).map(Reply::Int).collect())
            }
            _ => Reply::error(format!("ERR unknown subcommand '{sub}'")),
        }
    }

    fn client(&mut self, call: Call, sub: &str, args: &[Vec<u8>]) -> Reply {
        let words: Vec<String> = args
            .iter()
            .map(|arg| text(arg).to_ascii_uppercase())
            .collect();
        match (sub, &*words) {
            ("ID", []) => Reply::Int(call.client),
            ("SETINFO", _) => Reply::error("ERR unknown subcommand 'SETINFO'"),
            ("TRACKING", [on, options @ ..]) if on == "ON" => {
                if let Some(client) = self.clients.get_mut(&call.client) {
                    client.tracking = true;
                    client.noloop = options.iter().any(|option| option == "NOLOOP");
                }
                Reply::Okay
            }
            ("KILL", [by, _]) if by == "ID" && self.options.no_kill => {
                Reply::error("NOPERM this user has no permissions to run the 'client|kill' command")
            }
            ("KILL", [by, id]) if by == "ID" => {
                let id = id.parse().unwrap_or_default();
                let there = self.clients.contains_key(&id);
                if there {
                    self.killed.push(id);
                }
                Reply::Int(there.into())
            }
            _ => Reply::error(format!("ERR unknown subcommand '{sub}'")),
        }
    }

    fn hello(&mut self, call: Call, args: &[Vec<u8>]) -> Reply {
        if self.options.old {
            return Reply::error("ERR unknown command 'HELLO'");
        }
        let proto = match args.first().map(|proto| number(proto)) {
            None => 2,
            Some(Some(proto @ (2 | 3))) => proto,
            Some(_) => return Reply::error("NOPROTO unsupported protocol version"),
        };
        if let Some(client) = self.clients.get_mut(&call.client) {
            client.resp3 = proto == 3;
        }
        Reply::Map(vec![
            ("server", Reply::bulk("redis")),
            ("version", Reply::bulk("7.0.15")),
            ("proto", Reply::Int(proto)),
            ("id", Reply::Int(call.client)),
            ("mode", Reply::bulk("standalone")),
            ("role", Reply::bulk("master")),
            ("modules", Reply::Array(Vec::new())),
        ])
    }

    fn info(&self, now: u64) -> String {
        // One that nobody follows has another of both with each process.
        let (run_id, replid) = (&self.run_id, &self.run_id);
        format!(
            "# Server\r\nredis_version:7.0.15\r\nrun_id:{run_id}\r\nuptime_in_seconds:{}\r\n\r\n\
             # Memory\r\nmaxmemory_policy:noeviction\r\n\r\n\
             # Persistence\r\naof_enabled:{}\r\n\r\n\
             # Replication\r\nrole:master\r\nmaster_replid:{replid}\r\n",
            // Both are whole seconds of its clock.
            now / 1000 - self.started / 1000,
            u8::from(self.options.durable),
        )
    }

    fn config(&self) -> Reply {
        let appendfsync = if self.options.durable {
            "always"
        } else {
            "everysec"
        };
        Reply::Map(vec![
            ("appendfsync", Reply::bulk(appendfsync)),
            ("no-appendfsync-on-rewrite", Reply::bulk("no")),
        ])
    }
}

#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    millis: Option<u64>,
}

impl SetOptions {
    fn parse(words: &[Vec<u8>]) -> Result<Self, Reply> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match &*text(word).to_ascii_uppercase() {
                "NX" => options.if_absent = true,
                "PX" => match words.next().map(|millis| number(millis)) {
                    Some(Some(millis)) if millis > 0 => options.millis = Some(millis as u64),
                    Some(Some(_)) => {
                        return Err(Reply::error("ERR invalid expire time in 'set' command"));
                    }
                    Some(None) => return Err(not_a_number()),
                    None => return Err(Reply::error("ERR syntax error")),
                },
                _ => return Err(Reply::error("ERR syntax error")),
            }
        }
        Ok(options)
    }
}

fn not_a_number() -> Reply {
    Reply::error("ERR value is not an integer or out of range")
}

fn number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}
