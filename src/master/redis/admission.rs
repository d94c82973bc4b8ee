//! What a server tells of itself on each connection, before its first vote on it
//! (S13, S14).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisResult, Value, cmd, from_redis_value};

use super::session::{allowed, ask};
use crate::core::{Age, Evidence, Moment};
use crate::master::{Admission, Admissions, Fault};

/// What is known of the server behind one address, over all connections to it.
pub(super) struct Register {
    pub(super) admission: Admission,
    admissions: Admissions,
    master: usize,
    address: Arc<str>,
    known: Mutex<Option<Known>>,
    warned: AtomicBool,
}

/// What one connection found.
#[derive(Clone)]
pub(super) struct Standing {
    /// The process of the server: changes at every restart.
    pub(super) run_id: Option<Arc<str>>,
    pub(super) evidence: Evidence,
    /// Why it has no vote, however old it is.
    pub(super) no_master: Option<Fault>,
}

/// What earlier connections found of a process.
#[derive(Clone)]
struct Known {
    run_id: Arc<str>,
    age: Age,
    /// It was a replica once. If it is none any more, it may lack what its master
    /// had granted, as if it had come up when it was last seen as one.
    was_replica: bool,
}

/// What `INFO` says. An ACL may forbid it, and proxies know other fields.
#[derive(Debug, Default, PartialEq)]
struct Info {
    run_id: Option<Arc<str>>,
    uptime: Option<Duration>,
    is_replica: bool,
    appends: bool,
    eviction: Option<String>,
}

impl Register {
    pub(super) fn new(admissions: Admissions, master: usize, address: Arc<str>) -> Self {
        Self {
            admission: Admission::new(&admissions),
            admissions,
            master,
            address,
            known: Mutex::default(),
            warned: AtomicBool::new(false),
        }
    }

    /// Asks the server what it is.
    pub(super) async fn admit(&self, connection: MultiplexedConnection) -> RedisResult<Standing> {
        let info = allowed(ask(connection.clone(), &cmd("INFO")).await)?;
        // The answer's time: the uptime in it is older.
        let answered = self.admissions.clock.now();
        let info = info.and_then(|info| from_redis_value::<String>(info).ok());
        let info = Info::parse(&info.unwrap_or_default());
        let keeps_all = info.appends && syncs_always(connection).await?;
        self.warn_of_eviction(&info);
        Ok(self.enter(info, keeps_all, answered))
    }

    fn enter(&self, info: Info, keeps_all: bool, answered: Moment) -> Standing {
        let claimed = match &info.run_id {
            Some(run_id) => {
                let voters = &self.admissions.voters;
                voters.claim(run_id, self.master, &self.address)
            }
            None => Ok(()),
        };
        let no_master = match claimed {
            _ if info.is_replica => Some(Fault::Replica),
            Ok(()) => None,
            Err(other) => Some(Fault::SameServer { other }),
        };
        Standing {
            evidence: Evidence {
                age: self.remember(&info, answered),
                keeps_all,
            },
            run_id: info.run_id,
            no_master,
        }
    }

    /// The age of the process, of which earlier connections may have seen more.
    fn remember(&self, info: &Info, answered: Moment) -> Age {
        let mut known = self
            .known
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = known
            .take()
            .filter(|known| Some(&known.run_id) == info.run_id.as_ref());
        if before.is_none() {
            self.admission.begin_anew();
        }
        let was_replica = info.is_replica || before.as_ref().is_some_and(|known| known.was_replica);
        let age = match (info.uptime, before.map(|known| known.age)) {
            _ if info.is_replica => Age::since(answered),
            (_, Some(before)) if was_replica => before,
            (None, None) => Age::since(answered),
            (None, Some(before)) => before,
            (Some(uptime), None) => Age::reported(uptime, answered),
            (Some(uptime), Some(before)) => Age::reported(uptime, answered).or_older(before),
        };
        *known = info.run_id.clone().map(|run_id| Known {
            run_id,
            age,
            was_replica,
        });
        age
    }

    fn warn_of_eviction(&self, info: &Info) {
        if let Some(policy) = &info.eviction
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                master = %self.address,
                policy,
                "its maxmemory-policy can evict locks: set it to noeviction"
            );
        }
    }
}

impl Info {
    fn parse(text: &str) -> Self {
        let fields: HashMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.trim_end().split_once(':'))
            .collect();
        let uptime = fields.get("uptime_in_seconds");
        let policy = fields.get("maxmemory_policy");
        Self {
            run_id: fields.get("run_id").map(|id| (*id).into()),
            uptime: uptime.and_then(|text| text.parse().ok().map(Duration::from_secs)),
            is_replica: fields.get("role") == Some(&"slave"),
            appends: fields.get("aof_enabled") == Some(&"1"),
            eviction: policy
                .filter(|policy| policy.starts_with("volatile-") || policy.starts_with("allkeys-"))
                .map(|policy| (*policy).to_owned()),
        }
    }
}

/// Whether the append-only file is on disk before a command is answered, while it
/// is rewritten too. A server that doesn't say so is taken for one that loses
/// something.
async fn syncs_always(connection: MultiplexedConnection) -> RedisResult<bool> {
    let mut config = cmd("CONFIG");
    // One pattern for both settings: before version 7 there is room for one.
    config.arg("GET").arg("*appendfsync*");
    Ok(allowed(ask(connection, &config).await)?.is_some_and(says_always))
}

fn says_always(config: Value) -> bool {
    let Ok(settings) = from_redis_value::<HashMap<String, String>>(config) else {
        return false;
    };
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|set| set == value);
    is("appendfsync", "always") && is("no-appendfsync-on-rewrite", "no")
}
