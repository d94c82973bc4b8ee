//! What a server tells of itself on each connection, before its first vote on it
//! (S13, S14).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{RedisResult, Value, cmd, from_redis_value};

use super::connection::Connection;
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
    said: AtomicBool,
}

/// What one connection found.
#[derive(Clone)]
pub(super) struct Standing {
    /// The process of the server: changes at every restart.
    pub(super) run_id: Option<Arc<str>>,
    /// What the process calls what it has: changes at every restart of a master,
    /// and when a replica is promoted, so that an older state has another (S16).
    pub(super) generation: Option<Arc<str>>,
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
    replid: Option<Arc<str>>,
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
            said: AtomicBool::new(false),
        }
    }

    /// Asks the server what it is.
    pub(super) async fn admit(&self, connection: Connection) -> RedisResult<Standing> {
        let info = allowed(ask(connection.clone(), &cmd("INFO")).await)?;
        // The answer's time: the uptime in it is older.
        let answered = self.admissions.clock.now();
        let info = info.and_then(|info| from_redis_value::<String>(info).ok());
        let info = Info::parse(&info.unwrap_or_default());
        let keeps_all = info.appends && syncs_always(connection).await?;
        self.warn_of_eviction(&info);
        Ok(self.enter(info, keeps_all, answered))
    }

    /// Once a master.
    pub(super) fn say_it_does_not_tell(&self) {
        if !self.said.swap(true, Ordering::Relaxed) {
            tracing::info!(
                master = %self.address,
                "it does not tell of released locks: waiting for it by backoff alone"
            );
        }
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
            generation: info.replid.or_else(|| info.run_id.clone()),
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
        let id = |name| fields.get(name).filter(|id| !id.is_empty());
        Self {
            run_id: id("run_id").map(|id| (*id).into()),
            replid: id("master_replid").map(|id| (*id).into()),
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
async fn syncs_always(connection: Connection) -> RedisResult<bool> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::core::Quarantine;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:b1\r\n\
        uptime_in_seconds:70\r\nuptime_in_days:0\r\n\r\n# Memory\r\nmaxmemory_policy:";

    #[test]
    fn info_is_read_as_far_as_it_goes() {
        let master = Info {
            run_id: Some("b1".into()),
            uptime: Some(Duration::from_secs(70)),
            ..Info::default()
        };
        let read = Info::parse(&format!(
            "{INFO}noeviction\r\nrole:master\r\naof_enabled:0\r\n"
        ));
        assert_eq!(read, master);
        let with_replid = Info {
            replid: Some("c2".into()),
            ..master
        };
        let read = Info::parse(&format!("{INFO}noeviction\r\nmaster_replid:c2\r\n"));
        assert_eq!(read, with_replid);
        for policy in ["volatile-lru", "volatile-ttl", "allkeys-random"] {
            let read = Info::parse(&format!(
                "{INFO}{policy}\r\nrole:slave\r\naof_enabled:1\r\n"
            ));
            let replica = Info {
                is_replica: true,
                appends: true,
                eviction: Some(policy.to_owned()),
                ..Info::parse(&format!("{INFO}noeviction"))
            };
            assert_eq!(read, replica);
        }
        for strange in [
            "",
            "\r\n",
            "+OK",
            "run_id",
            "run_id:",
            "uptime_in_seconds:soon\r\n",
        ] {
            assert_eq!(Info::parse(strange), Info::default());
        }
    }

    fn register() -> Register {
        let admissions = Admissions {
            clock: Clock::System,
            quarantine: Quarantine::of_one_ttl(),
            voters: Arc::default(),
        };
        Register::new(admissions, 0, "a".into())
    }

    fn at(secs: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(secs))
    }

    fn info(run_id: &str, uptime: Option<u64>, is_replica: bool) -> Info {
        Info {
            run_id: Some(run_id.into()),
            uptime: uptime.map(Duration::from_secs),
            is_replica,
            ..Info::default()
        }
    }

    /// The ages, in seconds and at once, that these answers give.
    fn ages<const N: usize>(answers: [(u64, Info); N]) -> [u64; N] {
        let register = register();
        answers.map(|(answered, info)| {
            let standing = register.enter(info, false, at(answered));
            standing.evidence.age.at(at(answered)).as_secs()
        })
    }

    #[test]
    fn s16_the_generation_is_that_of_the_data_or_else_of_the_process() {
        let generation = |replid: Option<&str>, run_id: Option<&str>| {
            let told = Info {
                run_id: run_id.map(Into::into),
                replid: replid.map(Into::into),
                ..Info::default()
            };
            let standing = register().enter(told, false, at(100));
            standing.generation.as_deref().map(str::to_owned)
        };
        assert_eq!(generation(Some("c"), Some("a")), Some("c".into()));
        assert_eq!(generation(None, Some("a")), Some("a".into()));
        assert_eq!(generation(None, None), None);
    }

    #[test]
    fn s13_a_process_is_as_old_as_any_connection_to_it_has_seen() {
        let told = |uptime| info("a", Some(uptime), false);
        assert_eq!(ages([(100, told(7)), (110, told(17))]), [6, 16]);
        // The server's clock was set back.
        assert_eq!(ages([(100, told(7)), (110, told(0))]), [6, 16]);
        let silent = || info("a", None, false);
        assert_eq!(ages([(100, silent()), (110, silent())]), [0, 10]);
        assert_eq!(ages([(100, told(7)), (110, silent())]), [6, 16]);
    }

    #[test]
    fn s13_another_process_is_young() {
        let first = info("a", Some(1000), false);
        let again = info("b", Some(1), false);
        assert_eq!(ages([(100, first), (101, again)]), [999, 0]);
        let unknown = || Info::default();
        assert_eq!(ages([(100, unknown()), (110, unknown())]), [0, 0]);
    }

    #[test]
    fn s13_a_replica_that_becomes_a_master_counts_from_when_it_was_one() {
        let replica = |uptime| (uptime, info("a", Some(uptime), true));
        let master = |uptime| (uptime, info("a", Some(uptime), false));
        let seen = [replica(100), replica(200), master(210), master(220)];
        assert_eq!(ages(seen), [0, 0, 10, 20]);
    }

    #[test]
    fn s13_the_file_is_synced_always_if_nothing_says_otherwise() {
        let settings = |pairs: &[(&str, &str)]| {
            let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            let pairs = pairs.iter().map(|(name, set)| (text(name), text(set)));
            says_always(Value::Map(pairs.collect()))
        };
        let on_rewrite = "no-appendfsync-on-rewrite";
        assert!(settings(&[(on_rewrite, "no"), ("appendfsync", "always")]));
        assert!(!settings(&[(on_rewrite, "yes"), ("appendfsync", "always")]));
        assert!(!settings(&[
            (on_rewrite, "no"),
            ("appendfsync", "everysec")
        ]));
        assert!(!settings(&[("appendfsync", "always")]));
        assert!(!settings(&[]));
        assert!(!says_always(Value::Nil));
    }
}
