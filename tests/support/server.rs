//! One real `redis-server` as a child process.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

use super::inspect;

/// The arguments under which a server loses nothing when it is killed, so that it needs no
/// quarantine after a start.
pub const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// How long a server may take to start.
const STARTUP: Duration = Duration::from_secs(10);

/// A real `redis-server` on a port of 127.0.0.1, which dies with this value, and with the process
/// that started it however that ends.
///
/// It keeps nothing on disk unless it is started with arguments that say so.
pub struct Server {
    port: u16,
    args: Vec<String>,
    dir: TempDir,
    process: Option<Process>,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with further arguments, such as [`DURABLE`], and waits until it answers.
    pub async fn start_with(args: &[&str]) -> Self {
        loop {
            let mut server = Self {
                port: free_port(),
                args: args.iter().map(ToString::to_string).collect(),
                dir: tempfile::Builder::new()
                    .prefix("redquorum-")
                    .tempdir()
                    .expect("a directory"),
                process: None,
            };
            if server.boot().await.is_ok() {
                return server;
            }
        }
    }

    /// The URL, with the password if the server was given one.
    pub fn url(&self) -> String {
        let password = self
            .args
            .iter()
            .skip_while(|arg| *arg != "--requirepass")
            .nth(1);
        let login = password
            .map(|password| format!(":{password}@"))
            .unwrap_or_default();
        format!("redis://{login}{}", self.addr())
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The id of the server's process.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").child.id()
    }

    /// The directory in which the server works and keeps its append-only file.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The last lines that the server wrote.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Stops the process (`SIGSTOP`): connections stay open and nothing answers. Back when it
    /// stands still.
    pub fn stop(&mut self) {
        self.process.as_mut().expect("the server runs").stop();
    }

    /// Lets a stopped process go on (`SIGCONT`).
    pub fn cont(&mut self) {
        self.process.as_mut().expect("the server runs").cont();
    }

    /// Kills the process (`SIGKILL`), stopped or not, and waits for its end.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the server again on its port, after killing it if it runs, and waits until it
    /// answers. It comes back empty unless it was started with arguments that make it keep data.
    pub async fn restart(&mut self) {
        self.kill();
        let start = Instant::now();
        while self.boot().await.is_err() {
            assert!(
                start.elapsed() < STARTUP,
                "port {} does not become free",
                self.port
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Deletes all keys (`FLUSHALL`).
    pub async fn wipe(&self) {
        inspect::ask::<()>(&self.url(), &redis::cmd("FLUSHALL")).await;
    }

    /// A client of the redis crate.
    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).expect("a URL of Redis")
    }

    /// A connection to look into the server.
    pub async fn connection(&self) -> MultiplexedConnection {
        inspect::connection(&self.url()).await
    }

    /// All keys, sorted.
    pub async fn keys(&self) -> Vec<Vec<u8>> {
        inspect::keys(&self.url()).await
    }

    /// The value at `key`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        inspect::get(&self.url(), key).await
    }

    /// How often `command` was called since the start (a subcommand is written `client|kill`).
    pub async fn commandstats(&self, command: &str) -> u64 {
        let field = format!("cmdstat_{command}");
        let stats = inspect::info(&self.url(), "commandstats", &field).await;
        stats.map_or(0, |stats| {
            let calls = stats
                .strip_prefix("calls=")
                .and_then(|rest| rest.split(',').next());
            calls
                .and_then(|calls| calls.parse().ok())
                .expect("calls=<number>,…")
        })
    }

    /// Starts the process and waits until it answers.
    async fn boot(&mut self) -> Result<(), PortTaken> {
        let log_start = self.log_len();
        self.process = Some(Process::spawn(self.command(), self.dir.path()));
        let start = Instant::now();
        while !self.answers().await {
            if self.process.as_mut().is_some_and(Process::has_ended) {
                self.process = None;
                return self.port_taken(log_start);
            }
            assert!(
                start.elapsed() < STARTUP,
                "no answer in time:\n{}",
                self.log_tail()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Says that the port was taken, if that is why the server ended; panics otherwise.
    fn port_taken(&self, log_start: u64) -> Result<(), PortTaken> {
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log[log_start as usize..]).into_owned();
        assert!(
            log.contains("Address already in use"),
            "redis-server ended:\n{log}"
        );
        Err(PortTaken)
    }

    /// Whether it is this very process that answers: another one may have taken the port.
    async fn answers(&self) -> bool {
        let Ok(mut connection) = inspect::connect(&self.client()).await else {
            return false;
        };
        let info = redis::cmd("INFO")
            .arg("server")
            .query_async::<String>(&mut connection)
            .await;
        info.is_ok_and(|info| {
            inspect::info_field(&info, "process_id") == Some(self.pid().to_string())
        }) && redis::cmd("PING")
            .query_async::<()>(&mut connection)
            .await
            .is_ok()
    }

    fn command(&self) -> Command {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path());
        let log: File = log.expect("a log file");
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log);
        command
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("redis.log")
    }

    fn log_len(&self) -> u64 {
        std::fs::metadata(self.log_path()).map_or(0, |log| log.len())
    }
}

/// The server ended because its port was taken.
struct PortTaken;

/// A free port below those that the system gives to outgoing connections.
///
/// A port from that range could be taken by any connection while its server is down; worse, a
/// client that keeps trying to reach it on the same host is sooner or later given that very port
/// for its own end, and talks to itself.
pub fn free_port() -> u16 {
    loop {
        let port = 20_000 + (random() % 12_000) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// A random number, without a further dependency.
pub fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// A running child, killed and reaped on drop.
struct Process {
    child: Child,
    stopped: bool,
    watcher: Watcher,
}

impl Process {
    fn spawn(mut command: Command, dir: &Path) -> Self {
        // A group of its own: Ctrl-C is for the program that uses the server.
        let child = command.process_group(0).spawn();
        let child = child.expect("redis-server starts (scripts/need redis-server installs it)");
        let watcher = Watcher::over(child.id(), dir);
        Self {
            child,
            stopped: false,
            watcher,
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child of this process")
            .is_some()
    }

    fn stop(&mut self) {
        if !self.stopped {
            self.signal(Signal::STOP, WaitOptions::UNTRACED);
            self.stopped = true;
        }
    }

    fn cont(&mut self) {
        if self.stopped {
            self.signal(Signal::CONT, WaitOptions::CONTINUED);
            self.stopped = false;
        }
    }

    /// Sends `signal` and waits until it has worked: sending alone only queues it.
    fn signal(&self, signal: Signal, worked: WaitOptions) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the process lives");
        waitpid(Some(pid), worked).expect("a child of this process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL ends a stopped process too.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.watcher.dismiss();
    }
}

/// A process that kills the server, and clears its directory, when this process has ended without
/// doing so: it was killed itself, or it kept the server in a static.
///
/// It sees that at the end of file on its standard input, whose other end only this process has.
/// (The parent-death signal of Linux would not do: it comes when the *thread* ends that started
/// the server, and tests have a thread each.)
struct Watcher(Child);

impl Watcher {
    const SCRIPT: &str =
        r#"trap '' HUP INT TERM; read -r _ || { kill -KILL "$1"; rm -rf -- "$2"; } 2>/dev/null"#;

    fn over(pid: u32, dir: &Path) -> Self {
        let child = Command::new("sh")
            .args(["-c", Self::SCRIPT, "redquorum-watcher", &pid.to_string()])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Self(child.expect("sh starts"))
    }

    fn dismiss(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"done\n");
        }
        let _ = self.0.wait();
    }
}
