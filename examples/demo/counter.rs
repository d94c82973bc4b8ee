//! What the lock protects: a counter on a server of its own that can only be
//! read and written, and two witnesses that know nothing of the lock.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, cmd, pipe};

/// The longest that one command may take: what a lease must still have when
/// it is sent.
pub const COMMAND: Duration = Duration::from_secs(1);

const VALUE: &str = "counter";
/// How many workers are inside.
const INSIDE: &str = "inside";
/// Who came in last.
const OWNER: &str = "owner";

/// A connection to the counter.
pub struct Counter {
    connection: MultiplexedConnection,
}

/// What a worker found when it came in.
pub struct Entry {
    /// Whether it was alone.
    pub alone: bool,
    /// Whether the last one inside was another.
    pub handed_over: bool,
}

/// What is left when all workers have gone.
pub struct Remains {
    /// The sum of all updates that were not lost.
    pub value: u64,
    /// How many workers did not leave.
    pub inside: i64,
}

impl Counter {
    pub async fn at(url: &str) -> RedisResult<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(COMMAND));
        let connection = Client::open(url)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Self { connection })
    }

    /// To be called first in a section.
    pub async fn enter(&mut self, name: &str) -> RedisResult<Entry> {
        let (inside, last): (i64, Option<String>) = pipe()
            .atomic()
            .incr(INSIDE, 1)
            .cmd("GETSET")
            .arg(OWNER)
            .arg(name)
            .query_async(&mut self.connection)
            .await?;
        Ok(Entry {
            alone: inside == 1,
            handed_over: last.is_some_and(|last| last != name),
        })
    }

    pub async fn read(&mut self) -> RedisResult<u64> {
        let value: Option<u64> = cmd("GET")
            .arg(VALUE)
            .query_async(&mut self.connection)
            .await?;
        Ok(value.unwrap_or(0))
    }

    pub async fn write(&mut self, value: u64) -> RedisResult<()> {
        cmd("SET")
            .arg(VALUE)
            .arg(value)
            .query_async(&mut self.connection)
            .await
    }

    /// To be called last in a section; says whether nobody else came in.
    pub async fn leave(&mut self, name: &str) -> RedisResult<bool> {
        let (owner, _inside): (String, i64) = pipe()
            .atomic()
            .get(OWNER)
            .decr(INSIDE, 1)
            .query_async(&mut self.connection)
            .await?;
        Ok(owner == name)
    }

    pub async fn look(&mut self) -> RedisResult<Remains> {
        let (value, inside): (Option<u64>, Option<i64>) = pipe()
            .get(VALUE)
            .get(INSIDE)
            .query_async(&mut self.connection)
            .await?;
        Ok(Remains {
            value: value.unwrap_or(0),
            inside: inside.unwrap_or(0),
        })
    }
}
