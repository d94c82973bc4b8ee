//! Configuration: what a coordinator is built from, and what is refused.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::clock::Clock;
use crate::core::{Drift, InvalidDrift, InvalidQuorum, Quarantine, Quorum};
use crate::master::{Admissions, InvalidUrl, Master, Notices, RedisClient, RedisSource, Timeouts};
use crate::masters::{Listeners, Masters};
use crate::redlock::Redlock;
use crate::settings::{InvalidRetry, InvalidTime, Retry, Settings, Wait};

/// The least time-out for one command.
const LEAST_TIMEOUT: Duration = Duration::from_millis(10);

/// Builds a [`Redlock`].
///
/// | option | default | bounds |
/// |---|---|---|
/// | masters | none | 1 to 64, each once |
/// | [`quorum`](Self::quorum) | the majority | more than half |
/// | [`drift_factor`](Self::drift_factor) | 0.01 | 0 to less than 1 |
/// | [`drift_floor`](Self::drift_floor) | 2 ms | |
/// | [`min_validity`](Self::min_validity) | 0 | |
/// | [`ttl`](Self::ttl) | 10 s | 1 ms to 2^62 ms, and more than its drift |
/// | [`max_ttl`](Self::max_ttl) | none | at least the default TTL |
/// | [`restart_quarantine`](Self::restart_quarantine) | on | |
/// | [`wait`](Self::wait) | up to 15 s | |
/// | [`retry`](Self::retry) | 5 ms doubling to 250 ms, any number of attempts | |
/// | [`max_hold`](Self::max_hold) | 1 hour | |
/// | [`master_timeout`](Self::master_timeout) | 50 ms | at least 10 ms |
/// | [`connect_timeout`](Self::connect_timeout) | 1 s | at least 10 ms |
/// | [`counter_life`](Self::counter_life) | 1 day | at least twice the TTL |
/// | [`key_prefix`](Self::key_prefix) | none | |
#[derive(Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    sources: Vec<Result<Source, ConfigError>>,
    quorum: Option<usize>,
    drift_factor: f64,
    drift_floor: Duration,
    min_validity: Duration,
    ttl: Duration,
    max_ttl: Option<Duration>,
    restart_quarantine: bool,
    wait: Wait,
    retry: Retry,
    max_hold: Duration,
    master_timeout: Duration,
    connect_timeout: Duration,
    key_prefix: Vec<u8>,
    counter_life: Duration,
}

/// A master that is yet to be built.
#[derive(Clone)]
enum Source {
    Redis(RedisSource),
    #[cfg(feature = "testing")]
    Memory(crate::master::MemoryMaster),
}

impl Redlock {
    /// Begins a configuration.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl Builder {
    fn new() -> Self {
        Self {
            sources: Vec::new(),
            quorum: None,
            drift_factor: 0.01,
            drift_floor: Duration::from_millis(2),
            min_validity: Duration::ZERO,
            ttl: Duration::from_secs(10),
            max_ttl: None,
            restart_quarantine: true,
            wait: Wait::For(Duration::from_secs(15)),
            retry: Retry::default(),
            max_hold: Duration::from_secs(3600),
            master_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            key_prefix: Vec::new(),
            counter_life: Duration::from_secs(24 * 60 * 60),
        }
    }

    fn source(mut self, source: Result<Source, ConfigError>) -> Self {
        self.sources.push(source);
        self
    }

    /// Adds masters by URL: `redis://[user][:password@]host[:port][/db]`, with
    /// TLS `rediss://…` (a `tls-…` feature of the crate), or
    /// `redis+unix:///path`. They must be independent: not replicas of each
    /// other, not the same server twice. The order doesn't matter.
    ///
    /// URLs that don't parse, and servers given twice, are reported by
    /// [`build`](Self::build).
    pub fn masters<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        urls.into_iter().fold(self, |builder, url| {
            let source = RedisSource::parse(url.as_ref());
            builder.source(source.map(Source::Redis).map_err(ConfigError::from))
        })
    }

    /// Adds masters by clients of the `redis` crate, for what a URL can't say
    /// (client certificates, say). Their TCP settings and protocol version are
    /// overridden: no delay, and RESP3 where the server has it. Nothing is sent
    /// through the client itself.
    pub fn redis_clients(self, clients: impl IntoIterator<Item = RedisClient>) -> Self {
        clients.into_iter().fold(self, |builder, client| {
            builder.source(Ok(Source::Redis(RedisSource::new(client))))
        })
    }

    /// Adds in-process masters. The lease is then measured by tokio's clock,
    /// like the expiry of their keys, so they can't be mixed with real ones.
    #[cfg(feature = "testing")]
    pub fn memory_masters<'a>(
        self,
        masters: impl IntoIterator<Item = &'a crate::MemoryMaster>,
    ) -> Self {
        masters.into_iter().fold(self, |builder, master| {
            builder.source(Ok(Source::Memory(master.clone())))
        })
    }

    /// Adds masters by URL that are reached over streams of the connector. The
    /// lease is then measured by tokio's clock.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn simulated_masters<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
        connector: &Arc<dyn crate::simulation::Connector>,
    ) -> Self {
        urls.into_iter().fold(self, |builder, url| {
            let source = RedisSource::parse(url.as_ref());
            let source = source.map(|source| Source::Redis(source.over(connector.clone())));
            builder.source(source.map_err(ConfigError::from))
        })
    }

    /// How many masters must grant a lock. The default is the majority, and
    /// less is refused: two quorums must share a master, or two owners can hold
    /// one lock. More than the majority survives the loss of memory by as many
    /// masters as it exceeds it, and tolerates as many fewer that are down.
    pub fn quorum(mut self, masters: usize) -> Self {
        self.quorum = Some(masters);
        self
    }

    /// The share of the TTL by which the clocks of masters and client may
    /// disagree while it runs.
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// What is added to the drift whatever the TTL, for the granularity of
    /// expiry.
    pub fn drift_floor(mut self, floor: Duration) -> Self {
        self.drift_floor = floor;
        self
    }

    /// A lock is only handed out if more than this is left of its validity.
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.min_validity = validity;
        self
    }

    /// The time to live of locks whose request doesn't say another. It should
    /// be several times the longest pause that is to be expected of the
    /// process, of the network and of a master.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest TTL that any client of these masters asks for, in requests and
    /// extensions; longer ones are refused. The
    /// [quarantine](Self::restart_quarantine) of a master that restarted lasts for
    /// this, instead of for the TTL of the request.
    ///
    /// Set it, to the same for all clients, as soon as they don't all use one TTL:
    /// a lock that lives for longer than the quarantine of another client is one
    /// that a master may forget, and that client takes.
    pub fn max_ttl(mut self, longest: Duration) -> Self {
        self.max_ttl = Some(longest);
        self
    }

    /// Whether a master that came up lately has no vote. The default is yes: it
    /// may have come up without the locks that it had granted, so that it is
    /// neither asked for a lock nor counted for an extension before it has been up
    /// for one TTL of the request, or [`max_ttl`](Self::max_ttl) if that is set
    /// (S13). Requests wait for that, within their [wait](Self::wait).
    ///
    /// Masters that prove that they keep everything need no quarantine:
    /// `appendonly yes` with `appendfsync always`. For all others, the age is what
    /// `INFO` says, less a second, or the time for which this client has been
    /// connected, if that is more.
    ///
    /// Without the quarantine, **two clients can hold one lock** for up to a TTL
    /// after a master has lost its memory, by a crash say, while a lock was held.
    /// Turn it off where masters have just been started and nobody holds locks
    /// there yet, as in tests, or where something else keeps a crashed master down
    /// for the longest TTL.
    pub fn restart_quarantine(mut self, on: bool) -> Self {
        self.restart_quarantine = on;
        self
    }

    /// How long requests wait that don't say otherwise.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = wait.into();
        self
    }

    /// How requests try again that don't say otherwise.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// For how long locks are extended automatically whose request doesn't say
    /// another time; see [`Request::max_hold`](crate::Request::max_hold).
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = longest;
        self
    }

    /// How long one round waits for a master: several times the round trip to
    /// the farthest. It never waits longer than the validity allows.
    pub fn master_timeout(mut self, timeout: Duration) -> Self {
        self.master_timeout = timeout;
        self
    }

    /// How long a connection may take, from the first packet to the first
    /// command. Connections are made in the background: no request waits for
    /// longer than the master time-out.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// What is put before each resource to make its key. The default, nothing,
    /// is what other Redlock libraries do, so that a fleet can mix them.
    pub fn key_prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.key_prefix = prefix.as_ref().to_vec();
        self
    }

    /// How long the counter of a [fenced](crate::Request::fenced) lock lives after
    /// its last use; the default is a day. It must be at least twice the TTL (or
    /// `max_ttl`); a counter that has gone goes on by its server's clock, and the
    /// order holds if the clocks of the servers agree better than this.
    pub fn counter_life(mut self, life: Duration) -> Self {
        self.counter_life = life;
        self
    }

    /// Checks the configuration. Does no I/O: that some or all masters are down
    /// is no reason to fail, and the first lock decides. Needs no runtime.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] says what is refused, and what would not be.
    pub fn build(self) -> Result<Redlock, ConfigError> {
        let drift = Drift::new(self.drift_factor, self.drift_floor)?;
        self.retry.backoff()?;
        check_timeout("master", self.master_timeout)?;
        check_timeout("connect", self.connect_timeout)?;
        let sources = self.sources.into_iter().collect::<Result<Vec<_>, _>>()?;
        check_distinct(&sources)?;
        let quorum = match self.quorum {
            Some(needed) => Quorum::new(sources.len(), needed)?,
            None => Quorum::majority(sources.len())?,
        };
        let settings = Settings {
            quorum,
            drift,
            min_validity: self.min_validity,
            ttl: self.ttl,
            max_ttl: self.max_ttl,
            wait: self.wait,
            retry: self.retry,
            max_hold: self.max_hold,
            master_timeout: self.master_timeout,
            key_prefix: self.key_prefix,
            counter_life: self.counter_life,
        };
        settings.terms(settings.ttl)?;
        let clock = clock_for(&sources)?;
        let admissions = Admissions {
            clock,
            quarantine: match (self.restart_quarantine, self.max_ttl) {
                (false, _) => Quarantine::OFF,
                (true, None) => Quarantine::of_one_ttl(),
                (true, Some(longest)) => Quarantine::of(longest),
            },
            voters: Arc::default(),
        };
        let timeouts = Timeouts {
            command: self.master_timeout,
            connect: self.connect_timeout,
        };
        let listeners = Listeners::default();
        let masters = sources
            .into_iter()
            .enumerate()
            .map(|(master, source)| {
                let listener = Arc::new(listeners.clone());
                source.open(timeouts, admissions.clone(), Notices { master, listener })
            })
            .collect();
        Ok(Redlock::new(Masters::new(
            masters, settings, clock, &listeners,
        )))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self
            .sources
            .iter()
            .map(|source| source.as_ref().map(Source::address))
            .collect();
        f.debug_struct("Builder")
            .field("masters", &addresses)
            .field("quorum", &self.quorum)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

impl Source {
    fn address(&self) -> Arc<str> {
        match self {
            Source::Redis(source) => source.address(),
            #[cfg(feature = "testing")]
            Source::Memory(master) => master.address().clone(),
        }
    }

    fn open(self, timeouts: Timeouts, admissions: Admissions, notices: Notices) -> Arc<dyn Master> {
        match self {
            Source::Redis(source) => source.open(timeouts, admissions, notices),
            #[cfg(feature = "testing")]
            Source::Memory(master) => Arc::new(master.admitted(&admissions)),
        }
    }
}

/// In-process and simulated masters expire their keys by tokio's clock, so that
/// leases must be measured by it too.
#[cfg(feature = "testing")]
fn clock_for(sources: &[Source]) -> Result<Clock, ConfigError> {
    let in_process = sources.iter().filter_map(|source| match source {
        Source::Memory(master) => Some(master.origin()),
        Source::Redis(source) => source.is_simulated().then(tokio::time::Instant::now),
    });
    let origins: Vec<_> = in_process.collect();
    match origins.first() {
        None => Ok(Clock::System),
        Some(origin) if origins.len() == sources.len() => Ok(Clock::Tokio(*origin)),
        Some(_) => Err(ConfigError::MixedMasters),
    }
}

#[cfg(not(feature = "testing"))]
fn clock_for(_sources: &[Source]) -> Result<Clock, ConfigError> {
    Ok(Clock::System)
}

fn check_timeout(of: &'static str, timeout: Duration) -> Result<(), ConfigError> {
    if timeout < LEAST_TIMEOUT {
        return Err(ConfigError::TimeoutTooShort {
            of,
            timeout,
            least: LEAST_TIMEOUT,
        });
    }
    Ok(())
}

fn check_distinct(sources: &[Source]) -> Result<(), ConfigError> {
    let mut seen = HashSet::new();
    for source in sources {
        let address = source.address();
        if !seen.insert(address.clone()) {
            return Err(ConfigError::DuplicateMaster { address });
        }
    }
    Ok(())
}

/// What [`Builder::build`] refuses.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A master's URL can't be used.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// A server was given twice: it would have two votes.
    #[error("the master {address} was given twice; each must be an independent server")]
    DuplicateMaster {
        /// Its address.
        address: Arc<str>,
    },
    /// In-process masters and real ones measure time by different clocks.
    #[error("in-process masters can't be mixed with real ones: they have another clock")]
    MixedMasters,
    /// There are no masters, too many, or the quorum is not safe.
    #[error(transparent)]
    Quorum(#[from] InvalidQuorum),
    /// The drift is not a share of the TTL.
    #[error(transparent)]
    Drift(#[from] InvalidDrift),
    /// The default TTL can't be used.
    #[error("the default TTL can't be used: {0}")]
    Ttl(#[from] InvalidTime),
    /// The pauses between attempts can't be used, or no attempt is allowed.
    #[error("the retry policy can't be used: {0}")]
    Retry(#[from] InvalidRetry),
    /// A time-out is so short that healthy masters would fail it.
    #[error("a {of} time-out of {timeout:?} is too short; the least is {least:?}")]
    TimeoutTooShort {
        /// Of what: a master's command, or a connection.
        of: &'static str,
        /// What was given.
        timeout: Duration,
        /// The least that is allowed.
        least: Duration,
    },
}
