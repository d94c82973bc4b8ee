//! The worker processes, as their parent sees them.

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use crate::WORKER;
use crate::dice::Dice;
use crate::protocol::{Id, Job, Report};
use crate::rule::Rule;

/// How long a process may take to do what needs no lock.
const PATIENCE: Duration = Duration::from_secs(20);

/// What comes from the workers.
#[derive(Debug)]
pub enum News {
    Said {
        worker: Id,
        report: Report,
    },
    /// It is killed now.
    Killed {
        worker: Id,
    },
    /// It has ended, and all that it has said was passed on.
    Gone {
        worker: Id,
    },
}

/// Workers on seats: who dies is replaced.
pub struct Crew {
    job: Job,
    seats: Vec<Mutex<Worker>>,
    hired: AtomicUsize,
    news: mpsc::Sender<News>,
}

/// Dropping it kills the process.
struct Worker {
    id: Id,
    child: Child,
    /// Closed to have it end.
    input: Option<ChildStdin>,
}

impl Crew {
    pub fn hire(job: Job, seats: usize, news: mpsc::Sender<News>) -> Self {
        let mut crew = Self {
            job,
            seats: Vec::new(),
            hired: AtomicUsize::new(0),
            news,
        };
        for seat in 0..seats {
            let worker = crew.worker(seat);
            crew.seats.push(Mutex::new(worker));
        }
        crew
    }

    pub async fn begin(&self) {
        for (seat, worker) in self.seats.iter().enumerate() {
            worker.lock().await.say(&self.job_of(seat)).await;
        }
    }

    pub fn seats(&self) -> usize {
        self.seats.len()
    }

    /// Stops a process (`SIGSTOP`).
    pub async fn stop(&self, seat: usize) {
        self.seats[seat].lock().await.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub async fn cont(&self, seat: usize) {
        self.seats[seat].lock().await.signal(Signal::CONT);
    }

    /// Kills a process (`SIGKILL`) and starts another in its place.
    pub async fn replace(&self, seat: usize) {
        let mut worker = self.seats[seat].lock().await;
        let killed = News::Killed { worker: worker.id };
        let _ = self.news.send(killed).await;
        worker.child.kill().await.expect("a child of this process");
        *worker = self.worker(seat);
        worker.say(&self.job_of(seat)).await;
    }

    /// Has all of them end what they are at, and begin nothing more; the second time, take their
    /// leave.
    pub async fn next(&self) {
        for seat in &self.seats {
            seat.lock().await.say(&"next").await;
        }
    }

    /// Lets the processes end; says which did not as they should.
    pub async fn dismiss(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (seat, worker) in self.seats.iter().enumerate() {
            let mut worker = worker.lock().await;
            drop(worker.input.take());
            match timeout(PATIENCE, worker.child.wait()).await {
                Ok(Ok(status)) if status.success() => {}
                Ok(status) => faults.push(format!("worker {seat} ended with {status:?}")),
                Err(_) => faults.push(format!("worker {seat} does not end")),
            }
        }
        faults
    }

    fn worker(&self, seat: usize) -> Worker {
        let number = self.hired.fetch_add(1, Ordering::Relaxed);
        let id = Id { seat, number };
        let (worker, output) = Worker::start(id, self.job.broken);
        tokio::spawn(pass_on(id, output, self.news.clone()));
        worker
    }

    /// Another seed for each process.
    fn job_of(&self, seat: usize) -> Job {
        let turn = self.hired.load(Ordering::Relaxed) * self.seats.len() + seat;
        let seed = Dice::new(self.job.seed.wrapping_add(turn as u64)).number();
        Job {
            seed,
            ..self.job.clone()
        }
    }
}

impl Worker {
    /// Starts this program again.
    fn start(id: Id, broken: Option<Rule>) -> (Self, ChildStdout) {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg(WORKER)
            .env("REDQUORUM_BREAK", broken.map_or("nothing", Rule::name))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .expect("a worker starts");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("a pipe");
        (Self { id, child, input }, output)
    }

    async fn say(&mut self, what: &impl serde::Serialize) {
        let line = serde_json::to_string(what).expect("it becomes JSON") + "\n";
        // Whether it has ended, its output tells.
        if let Some(input) = &mut self.input {
            let _ = input.write_all(line.as_bytes()).await;
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id as i32));
        // It may have ended by itself, which its output tells.
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Passes on what a worker says, until it has ended. Its last line may have been cut off.
async fn pass_on(worker: Id, output: ChildStdout, news: mpsc::Sender<News>) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while let Ok(1..) = output.read_line(&mut line).await {
        if line.ends_with('\n') {
            let report = serde_json::from_str(&line).expect("workers speak JSON");
            let _ = news.send(News::Said { worker, report }).await;
        }
        line.clear();
    }
    let _ = news.send(News::Gone { worker }).await;
}
