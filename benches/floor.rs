//! The floor: the same commands by the redis crate alone. Nothing that keeps
//! the order of the algorithm can be faster than this.

use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisResult, Script, Value};
use tokio::task::unconstrained;
use uuid::Uuid;

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const TTL_MILLIS: u64 = 10_000;

/// One connection to each master, and the script loaded.
#[derive(Clone)]
pub(crate) struct Floor {
    masters: Vec<MultiplexedConnection>,
    release: String,
}

impl Floor {
    /// Without a limit, a master that hangs is waited for.
    pub(crate) async fn connect(urls: &[String], limit: Option<Duration>) -> Self {
        let mut masters = Vec::new();
        let script = Script::new(RELEASE);
        for url in urls {
            let mut master = connect(url, limit).await;
            script
                .load_async(&mut master)
                .await
                .expect("the script loads");
            masters.push(master);
        }
        Self {
            masters,
            release: script.get_hash().to_owned(),
        }
    }

    /// SET to all at once, on after a quorum of grants; then the release script
    /// to all, awaited by all. No straggler is dropped. The error comes as soon as
    /// no quorum can grant; what was granted is left to its TTL.
    pub(crate) async fn cycle(&self, resource: &str) -> Result<(), String> {
        let token = Uuid::new_v4().simple().to_string();
        let mut set = Cmd::new();
        set.arg("SET").arg(resource).arg(&token);
        set.arg("NX").arg("PX").arg(TTL_MILLIS);
        let mut release = Cmd::new();
        release.arg("EVALSHA").arg(&self.release);
        release.arg(1).arg(resource).arg(&token);

        let mut takes = self.to_all(&set);
        let quorum = self.masters.len() / 2 + 1;
        let (mut grants, mut others) = (0, 0);
        while grants < quorum {
            match takes.next().await {
                Some(Ok(Value::Okay)) => grants += 1,
                _ => others += 1,
            }
            if others > self.masters.len() - quorum {
                return Err("no quorum of grants".to_owned());
            }
        }
        let mut releases = self.to_all(&release);
        while let Some(reply) = releases.next().await {
            if reply.map_err(|error| error.to_string())? != Value::Int(1) {
                return Err("a master had no key to release".to_owned());
            }
        }
        while takes.next().await.is_some() {}
        Ok(())
    }

    fn to_all(&self, command: &Cmd) -> FuturesUnordered<impl Future<Output = RedisResult<Value>>> {
        let ask = |master: &MultiplexedConnection| {
            let mut master = master.clone();
            // Without the budget of polls, which would let a release overtake
            // its SET when it is used up.
            unconstrained(async move { master.send_packed_command(command).await })
        };
        self.masters.iter().map(ask).collect()
    }
}

async fn connect(url: &str, limit: Option<Duration>) -> MultiplexedConnection {
    let info = url.into_connection_info().expect("a URL of a master");
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let client = Client::open(info.set_tcp_settings(tcp)).expect("a client");
    // In the default queue of 50, a release that finds it full can be overtaken
    // by the SET of another task, and overtake its own.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(limit)
        .set_pipeline_buffer_size(1 << 20);
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .expect("a healthy master")
}
