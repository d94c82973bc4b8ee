//! One master, and what can be done to it.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::support::compose;
use crate::support::proxy::{Flow, Proxy};
use crate::support::server::Server;

/// Keys expire this much earlier, as if the server's clock had gone ahead: by a hundredth of what is
/// left of them and a millisecond, which is less than the usual drift, a hundredth and 2 ms. It must
/// not come late: two of them in the life of one key are more than that.
const CLOCK_AHEAD: &str = "
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] >= tonumber(ARGV[1]) then return 0 end
for _, key in ipairs(redis.call('KEYS', '*')) do
    local left = redis.call('PTTL', key)
    if left > 0 then redis.call('PEXPIRE', key, math.max(1, left - math.floor(left / 100) - 1)) end
end
return 1";

/// How long the master may take for what needs no fault.
const PATIENCE: Duration = Duration::from_millis(500);

pub enum Master {
    /// A child process, behind a proxy.
    Process { server: Mutex<Server>, proxy: Proxy },
    /// A container of `docker-compose.yml`.
    Container { name: String, url: String },
}

/// What a client's connections to it suffer, until they are [mended](Master::mend).
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Delay(Duration),
    /// Replies alone are late.
    Lag(Duration),
    Limit(usize),
    BlackHole,
    Deaf,
    Refuse,
    Reset,
    HalfOpen,
}

impl Master {
    pub async fn process() -> Self {
        let server = Server::start().await;
        let proxy = Proxy::in_front_of(server.addr()).await;
        Self::Process {
            server: Mutex::new(server),
            proxy,
        }
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        match self {
            Self::Process { proxy, .. } => proxy.url(),
            Self::Container { url, .. } => url.clone(),
        }
    }

    pub fn is_container(&self) -> bool {
        matches!(self, Self::Container { .. })
    }

    /// Kills it, and starts it again without its memory after a while.
    pub async fn kill(&self, down: Duration) {
        match self {
            Self::Process { server, .. } => {
                let mut server = server.lock().await;
                server.kill();
                sleep(down).await;
                server.restart().await;
            }
            Self::Container { name, .. } => {
                let killed = docker(compose::kill, name).await;
                sleep(down).await;
                end(killed).await;
            }
        }
    }

    /// Stops it for a while.
    pub async fn freeze(&self, length: Duration) {
        match self {
            Self::Process { server, .. } => {
                let mut server = server.lock().await;
                server.stop();
                sleep(length).await;
                server.cont();
            }
            Self::Container { name, .. } => {
                let frozen = docker(compose::pause, name).await;
                sleep(length).await;
                end(frozen).await;
            }
        }
    }

    /// Cuts a container off its network for a while.
    pub async fn cut_off(&self, length: Duration) {
        if let Self::Container { name, .. } = self {
            let cut = docker(compose::cut, name).await;
            sleep(length).await;
            end(cut).await;
        }
    }

    /// Disturbs its connections for a while.
    pub async fn disturb(&self, cut: Cut, length: Duration) {
        let Self::Process { proxy, .. } = self else {
            return;
        };
        match cut {
            Cut::Delay(delay) => proxy.both(Flow::Delay(delay)),
            Cut::Lag(delay) => proxy.replies(Flow::Delay(delay)),
            Cut::Limit(rate) => proxy.both(Flow::Limit(rate)),
            Cut::BlackHole => proxy.both(Flow::BlackHole),
            Cut::Deaf => proxy.replies(Flow::BlackHole),
            Cut::Refuse => {
                proxy.reset();
                proxy.refuse().await;
            }
            Cut::Reset => proxy.reset(),
            Cut::HalfOpen => proxy.half_open(),
        }
        sleep(length).await;
        proxy.both(Flow::Pass);
        match cut {
            Cut::Refuse => proxy.accept().await,
            // Connections that have lost something stay silent. (So does one that ended at one side.)
            Cut::BlackHole | Cut::Deaf | Cut::HalfOpen => proxy.reset(),
            _ => {}
        }
    }

    /// Has it forget its scripts; says whether it did.
    pub async fn flush_scripts(&self) -> bool {
        self.ask(redis::cmd("SCRIPT").arg("FLUSH")).await
    }

    /// Has its clock go ahead; says whether it did.
    pub async fn advance_clock(&self) -> bool {
        let until = crate::clock::time_of_day() / 1_000 + PATIENCE.as_micros() as u64;
        self.ask(redis::cmd("EVAL").arg(CLOCK_AHEAD).arg(0).arg(until))
            .await
    }

    /// The URL of the server itself.
    pub async fn own_url(&self) -> String {
        match self {
            Self::Process { server, .. } => server.lock().await.url(),
            Self::Container { url, .. } => url.clone(),
        }
    }

    async fn ask(&self, command: &redis::Cmd) -> bool {
        let asked = async {
            let client = redis::Client::open(self.own_url().await).expect("a URL of Redis");
            let mut connection = client.get_multiplexed_async_connection().await?;
            command.query_async::<redis::Value>(&mut connection).await
        };
        matches!(
            timeout(PATIENCE, asked).await,
            Ok(Ok(redis::Value::Okay | redis::Value::Int(1)))
        )
    }
}

async fn docker(fault: fn(&str) -> compose::Fault, name: &str) -> compose::Fault {
    let name = name.to_owned();
    let made = spawn_blocking(move || fault(&name)).await;
    made.expect("Docker does it")
}

async fn end(fault: compose::Fault) {
    let ended = spawn_blocking(move || fault.end()).await;
    ended.expect("Docker does it");
}
