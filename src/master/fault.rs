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
    /// The server answered with an error, and did nothing.
    #[error("the server refused: {cause}")]
    Rejected {
        /// The server's own words.
        cause: Arc<str>,
    },
}
