//! Fencing tokens of several processes, on real masters (S16). While it holds the lock,
//! each appends its token to one file: the order there is that of the owners.
#![allow(unreachable_pub)]

#[path = "../docs/samples/guarded_set.rs"]
mod guarded_set;
mod support;

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use redquorum::{Redlock, Wait};
use rustix::process::{Pid, Signal, kill_process};
use support::fleet::Fleet;
use support::server::Server;
use support::wait::eventually;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_millis(500);
const PROCESSES: usize = 4;
const MASTERS: &str = "REDQUORUM_TEST_MASTERS";
const TOKENS: &str = "REDQUORUM_TEST_TOKENS";
const COUNT: &str = "REDQUORUM_TEST_COUNT";
const RESOURCE: &str = "REDQUORUM_TEST_RESOURCE";

/// With the quarantine, as a service has it.
fn redlock(masters: &str, quarantine: bool) -> Redlock {
    let builder = Redlock::builder().masters(masters.split(','));
    let builder = builder.ttl(TTL).wait(Wait::Forever);
    builder.restart_quarantine(quarantine).build().unwrap()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Executes one of the "tests" below as a process of its own.
fn process(name: &str, variables: &[(&str, String)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    for (name, value) in variables {
        command.env(name, value);
    }
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    piped.spawn().unwrap()
}

/// Not a test: a process that takes the lock so often, or until its parent says that
/// it is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the tests of several processes"]
async fn owner_that_counts() {
    let (Some(masters), Some(tokens)) = (variable(MASTERS), variable(TOKENS)) else {
        return;
    };
    let count = variable(COUNT).map(|count| count.parse().unwrap());
    let redlock = redlock(&masters, count.is_none());
    let tokens = PathBuf::from(tokens);
    let mut file = OpenOptions::new().append(true).open(&tokens).unwrap();
    let mut done = 0;
    while count.is_none_or(|count: usize| done < count) && !is_over(&tokens) {
        let lock = redlock.lock("a").fenced().await.unwrap();
        let token = lock.fencing_token();
        file.write_all(format!("{token}\n").as_bytes()).unwrap();
        if !lock.is_valid() {
            // It may have been another's before it was written down.
            file.write_all(format!("not {token}\n").as_bytes()).unwrap();
        }
        // What was lost meanwhile can't be released.
        let _ = lock.release().await;
        done += 1;
    }
}

/// Where the parent says that it is over.
fn is_over(tokens: &Path) -> bool {
    tokens.with_extension("over").exists()
}

/// Several processes that write their tokens to one file.
struct Crew {
    dir: tempfile::TempDir,
    processes: Vec<Child>,
}

impl Crew {
    fn start(fleet: &Fleet, count: Option<usize>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tokens = dir.path().join("tokens");
        std::fs::write(&tokens, "").unwrap();
        let mut variables = vec![
            (MASTERS, fleet.urls().join(",")),
            (TOKENS, tokens.display().to_string()),
        ];
        variables.extend(count.map(|count| (COUNT, count.to_string())));
        let processes = (0..PROCESSES).map(|_| process("owner_that_counts", &variables));
        Self {
            processes: processes.collect(),
            dir,
        }
    }

    fn written(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("tokens")).unwrap()
    }

    /// Those that were written down while the lock was held.
    fn tokens(&self) -> Vec<u64> {
        let text = self.written();
        let late = late(&text);
        let in_time = |line: &&str| !line.starts_with("not ") && !late.contains(line);
        let tokens = text.lines().filter(in_time);
        tokens.map(|line| line.parse().unwrap()).collect()
    }

    /// Waits until there are this many more tokens.
    async fn goes_on(&self, more: usize) {
        let before = self.tokens().len();
        eventually("it goes on", 30 * SECOND, async || {
            self.tokens().len() >= before + more
        })
        .await;
    }

    fn over(&self) {
        std::fs::write(self.dir.path().join("tokens.over"), "").unwrap();
    }

    /// Waits for the processes' ends.
    fn end(&mut self) {
        for process in &mut self.processes {
            assert!(process.wait().unwrap().success());
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // One that has ended by itself can't be killed any more.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The tokens that were written down after their lease, by a process that was held up.
fn late(text: &str) -> HashSet<&str> {
    let lines = text.lines();
    lines.filter_map(|line| line.strip_prefix("not ")).collect()
}

fn assert_increasing(tokens: &[u64]) {
    for pair in tokens.windows(2) {
        assert!(pair[0] < pair[1], "{} before {}", pair[0], pair[1]);
    }
}

fn how_many() -> usize {
    variable("REDQUORUM_FENCED").map_or(2_000, |all| all.parse().unwrap())
}

#[tokio::test]
async fn s16_tokens_of_four_processes_increase() {
    let all = how_many();
    let fleet = Fleet::start(5).await;
    let began = Instant::now();
    let mut crew = Crew::start(&fleet, Some(all / PROCESSES));
    crew.end();
    let tokens = crew.tokens();
    println!(
        "{} fenced acquisitions in {:?}",
        tokens.len(),
        began.elapsed()
    );
    let late = late(&crew.written()).len();
    assert_eq!(tokens.len() + late, all / PROCESSES * PROCESSES);
    assert!(late * 10 < all, "{late} were late: nothing is shown");
    assert_increasing(&tokens);
}

/// How often tokens went on by the clocks of masters that had lost their counters: they
/// skip, in microseconds, all of the quarantine, which is a TTL.
fn skips(tokens: &[u64]) -> usize {
    let quarantine = TTL.as_micros() as u64;
    let skips = |pair: &&[u64]| pair[1].saturating_sub(pair[0]) >= quarantine;
    tokens.windows(2).filter(skips).count()
}

/// With the restart quarantine: masters that were killed have lost their counters,
/// every fourth time all five of them at once.
#[tokio::test]
async fn s16_tokens_of_four_processes_increase_while_masters_come_back_empty() {
    let mut fleet = Fleet::start(5).await;
    let mut crew = Crew::start(&fleet, None);
    crew.goes_on(100).await;
    let (mut turn, mut wiped) = (0, 0);
    while turn < 6 || crew.tokens().len() < how_many() / 4 {
        let some = [turn % 5, (turn + 2) % 5];
        for master in some {
            fleet[master].kill();
        }
        crew.goes_on(20).await;
        for master in some {
            fleet[master].restart().await;
        }
        crew.goes_on(20).await;
        turn += 1;
        if turn % 4 == 0 {
            fleet.iter_mut().for_each(Server::kill);
            for master in fleet.iter_mut() {
                master.restart().await;
            }
            crew.goes_on(20).await;
            wiped += 1;
        }
    }
    crew.over();
    crew.end();
    let tokens = crew.tokens();
    let all = tokens.len();
    let skips = skips(&tokens);
    println!("{all} fenced acquisitions, {turn} turns, {wiped} times all lost, {skips} skips");
    assert_increasing(&tokens);
    assert!(wiped > 0 && skips >= wiped, "no counter was lost");
}

/// Not a test: an owner that writes when its parent says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the test of a process that is stopped"]
async fn owner_that_writes() {
    let (Some(masters), Some(resource)) = (variable(MASTERS), variable(RESOURCE)) else {
        return;
    };
    let redlock = redlock(&masters, false);
    let lock = redlock.lock("a").auto_extend().fenced().await.unwrap();
    println!("\nheld");
    // Some work, in the middle of which it is stopped: then, without another look at
    // its lease, its write.
    let token = lock.fencing_token();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let client = redis::Client::open(resource).unwrap();
    let connection = client.get_multiplexed_async_connection().await;
    let written = guarded_set::set(&mut connection.unwrap(), "stock", "late", token).await;
    println!("\nwritten {}", written.unwrap());
}

fn lines(process: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(process.stdout.take().unwrap()).lines()
}

#[tokio::test]
async fn s16_the_write_of_a_process_that_was_stopped_past_its_lease_is_refused() {
    let fleet = Fleet::start(5).await;
    let resource = Server::start().await;
    let variables = [
        (MASTERS, fleet.urls().join(",")),
        (RESOURCE, resource.url()),
    ];
    let mut sleeper = process("owner_that_writes", &variables);
    let mut said = lines(&mut sleeper).map(Result::unwrap);
    assert!(said.any(|line| line == "held"));

    kill_process(Pid::from_child(&sleeper), Signal::STOP).unwrap();
    let next = redlock(&fleet.urls().join(","), false);
    let next = next.lock("a").fenced().await.unwrap();
    let mut connection = resource.connection().await;
    let mut write = async |value| {
        let written = guarded_set::set(&mut connection, "stock", value, next.fencing_token());
        written.await.unwrap()
    };
    assert!(write("mine").await);

    kill_process(Pid::from_child(&sleeper), Signal::CONT).unwrap();
    sleeper.stdin.take().unwrap().write_all(b"\n").unwrap();
    let outcome = said.find(|line| line.starts_with("written ")).unwrap();
    assert_eq!(outcome, "written false");
    assert!(sleeper.wait().unwrap().success());
    assert_eq!(resource.get("stock").await.unwrap(), b"mine");
    assert!(write("once more").await);
}
