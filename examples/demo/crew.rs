//! The worker processes as their parent sees them: each is told its job on
//! standard input, reports on standard output, and stops when its input ends.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::AnyError;
use crate::figures::Figures;

/// The argument that makes this program a worker.
pub const WORKER: &str = "worker";

/// How long workers may take to stop: a wait for the lock, and a section.
const STOPPING: Duration = Duration::from_secs(10);

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    pub name: String,
    /// The URLs of the masters.
    pub masters: Vec<String>,
    /// The URL of the server with the counter.
    pub counter: String,
    /// Whether to take the lock.
    pub locked: bool,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// This came to the rest.
    Figures(Figures),
    /// It ends because of this.
    Failed(String),
}

/// The figures of all workers so far.
#[derive(Clone, Default)]
pub struct Tally(Arc<Mutex<Figures>>);

impl Tally {
    pub fn with<T>(&self, look: impl FnOnce(&mut Figures) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The workers. Dropping it kills them.
pub struct Crew {
    inputs: Vec<ChildStdin>,
    listeners: JoinSet<Result<(), AnyError>>,
    tally: Tally,
}

impl Crew {
    /// Starts a worker for each job.
    pub async fn start(jobs: &[Job]) -> Result<Self, AnyError> {
        let mut crew = Self {
            inputs: Vec::new(),
            listeners: JoinSet::new(),
            tally: Tally::default(),
        };
        for job in jobs {
            crew.hire(job).await?;
        }
        Ok(crew)
    }

    pub fn tally(&self) -> Tally {
        self.tally.clone()
    }

    /// Waits until a worker ends without having been told to.
    pub async fn early_end(&mut self) -> AnyError {
        match self.listeners.join_next().await {
            Some(Ok(Ok(()))) | None => "a worker ended before its time".into(),
            Some(Ok(Err(failure))) => failure,
            Some(Err(panic)) => panic.into(),
        }
    }

    /// Lets all workers finish what they do and end; gives their figures.
    pub async fn stop(mut self) -> Result<Figures, AnyError> {
        self.inputs.clear();
        let all = async {
            while let Some(ended) = self.listeners.join_next().await {
                ended??;
            }
            Ok::<_, AnyError>(())
        };
        timeout(STOPPING, all)
            .await
            .map_err(|_| format!("the workers did not stop within {STOPPING:?}"))??;
        Ok(self.tally.with(std::mem::take))
    }

    async fn hire(&mut self, job: &Job) -> Result<(), AnyError> {
        let mut child = spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker has no pipes".into());
        };
        let line = serde_json::to_string(job)? + "\n";
        input.write_all(line.as_bytes()).await?;
        self.inputs.push(input);
        self.listeners
            .spawn(listen(job.name.clone(), child, output, self.tally()));
        Ok(())
    }
}

/// In a process group of its own: Ctrl-C is for the parent.
fn spawn() -> Result<Child, AnyError> {
    let child = Command::new(std::env::current_exe()?)
        .arg(WORKER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}

/// Adds what the worker reports to the tally, until it ends.
async fn listen(
    name: String,
    mut child: Child,
    output: ChildStdout,
    tally: Tally,
) -> Result<(), AnyError> {
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Message::Figures(figures) => tally.with(|sum| sum.add(figures)),
            Message::Failed(why) => return Err(format!("{name}: {why}").into()),
        }
    }
    let status = child.wait().await?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{name} ended with {status}").into())
    }
}
