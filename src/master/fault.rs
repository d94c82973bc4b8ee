use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// Why a master has no vote in a round.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// No answer came in the time-out. The command may have been applied, or
    /// may yet be.
    #[error("no answer within {after:?}")]
    TimedOut {
        /// How long the answer was awaited.
        after: Duration,
    },
    /// It was not asked, since it left an earlier command unanswered and has
    /// said nothing since.
    #[error("silent for {since:?}: not asked before it answers again")]
    Silent {
        /// For how long.
        since: Duration,
    },
    /// It was not asked: there is no connection to it.
    #[error("unreachable: {cause}")]
    Unreachable {
        /// What the last attempt to connect came to.
        cause: Arc<str>,
    },
    /// The connection broke before the answer came. The command may have been
    /// applied, or may yet be.
    #[error("the connection broke: {cause}")]
    Broken {
        /// What was seen of it.
        cause: Arc<str>,
    },
    /// It came up lately, and may have forgotten what it had granted (S13): it
    /// was not asked for a lock, or its yes to an extension did not count.
    #[error("it came up lately: no vote for another {}", in_millis(*remaining))]
    Quarantined {
        /// For how long it still has no vote on a lock with this TTL.
        remaining: Duration,
    },
    /// It was not asked: it is a replica of another server (S14).
    #[error("a replica: it has no vote")]
    Replica,
    /// It was not asked: it is the same server as another of the masters, which
    /// has its vote (S14).
    #[error("the same server as {other}, which has its vote")]
    SameServer {
        /// The other's address.
        other: Arc<str>,
    },
    /// It was not asked for a fenced lock: it doesn't say which generation of the
    /// server it is, so that nobody can tell whether its counter is older than it
    /// was (S16). Plain locks are as ever.
    #[error(
        "no fenced locks there: its INFO doesn't tell its generation, or isn't allowed (+info)"
    )]
    NoGeneration,
    /// The lock's counter can't count: it is at 2^53, or is no counter at all.
    /// Somebody else has written it. The server didn't give the lock, nor the counter
    /// a new life; the count may have gone up.
    #[error("the lock's counter can't count: {cause}")]
    Counter {
        /// The server's own words.
        cause: Arc<str>,
    },
    /// The server answered with an error, and did nothing.
    #[error("the server refused: {cause}")]
    Rejected {
        /// The server's own words.
        cause: Arc<str>,
    },
}

impl Fault {
    /// Whether the server has said that it did nothing to the lock.
    pub(crate) fn did_nothing(&self) -> bool {
        matches!(self, Fault::Rejected { .. } | Fault::Counter { .. })
    }
}

/// In whole milliseconds, and never none of them.
fn in_millis(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    match millis {
        0..10_000 => format!("{millis} ms"),
        _ => format!("{:.1} s", millis as f64 / 1e3),
    }
}
