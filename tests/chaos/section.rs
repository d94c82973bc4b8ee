//! What is done under a lock: a number on a server of its own is read, and written a while later.
//!
//! The server counts the writes, too: the difference to the number is how many updates were lost.
//! As no lock can stop a write that is late, the write carries the end of the lease, and the server
//! refuses it from then on.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redquorum::LeaseHandle;
use tokio::time::sleep;

use crate::clock;
use crate::protocol::{Report, Write};
use crate::worker::tell;

/// What must be left of the lease for a write.
const ENOUGH: Duration = Duration::from_millis(5);

const WRITE: &str = "
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] >= tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('INCR', KEYS[2])
return 1";

/// One section.
pub struct Section {
    pub resource: usize,
    pub plain: MultiplexedConnection,
    /// Between reading and writing.
    pub length: Duration,
    /// Whether anybody looks if the lease is over.
    pub checked: bool,
}

impl Section {
    pub async fn run(mut self, lease: &LeaseHandle) {
        let [number, _] = keys(self.resource);
        let read: Option<u64> = self.ask(redis::cmd("GET").arg(number)).await;
        sleep(self.length).await;
        let wrote = match lease.ensure(ENOUGH) {
            Err(_) if self.checked => Write::Withheld,
            _ => self.write(read.unwrap_or_default() + 1, lease).await,
        };
        tell(&Report::Wrote(wrote));
    }

    async fn write(&mut self, number: u64, lease: &LeaseHandle) -> Write {
        let now = clock::time_of_day();
        let left = match self.checked {
            true => lease.remaining(),
            false => Duration::MAX,
        };
        let deadline = clock::after(now, left) / 1_000;
        let mut write = redis::cmd("EVAL");
        write.arg(WRITE).arg(2).arg(&keys(self.resource));
        match self.ask(write.arg(number).arg(deadline)).await {
            1 => Write::Applied,
            _ => Write::TooLate,
        }
    }

    async fn ask<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> T {
        let answer = command.query_async(&mut self.plain).await;
        answer.expect("the plain server answers")
    }
}

/// The number, and how often it was written.
pub fn keys(resource: usize) -> [String; 2] {
    [format!("number:{resource}"), format!("writes:{resource}")]
}
