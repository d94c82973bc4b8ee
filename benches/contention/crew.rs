//! A worker process as its parent sees it.

use std::process::Stdio;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::WORKER;
use crate::protocol::{Job, Order, Report};

/// Dropping it kills the process.
pub struct Worker {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts a process, which goes on by itself until it is ready.
    pub async fn hire(job: &Job) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .arg(WORKER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a worker starts");
        let input = child.stdin.take().expect("a pipe");
        let output = child.stdout.take().expect("a pipe");
        let mut worker = Self {
            child,
            input,
            output: BufReader::new(output).lines(),
        };
        worker.say(job).await;
        worker
    }

    /// Waits until it is ready for orders.
    pub async fn ready(&mut self) {
        let report = self.report().await;
        assert!(matches!(report, Report::Ready), "not ready: {report:?}");
    }

    pub async fn order(&mut self, order: Order) {
        self.say(&order).await;
    }

    pub async fn report(&mut self) -> Report {
        let line = self.output.next_line().await.expect("the pipe works");
        let line = line.expect("a worker says on standard error why it ends");
        serde_json::from_str(&line).expect("workers speak JSON")
    }

    /// Gives the order and waits for what comes of it.
    pub async fn ask(&mut self, order: Order) -> Report {
        self.order(order).await;
        self.report().await
    }

    /// Lets it end by itself.
    pub async fn dismiss(mut self) {
        drop(self.input);
        let status = self.child.wait().await.expect("a child of this process");
        assert!(status.success(), "a worker ended with {status}");
    }

    /// Kills it (`SIGKILL`), and waits for its end.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("a child of this process");
    }

    async fn say(&mut self, what: &impl Serialize) {
        let line = serde_json::to_string(what).expect("it becomes JSON") + "\n";
        let said = self.input.write_all(line.as_bytes()).await;
        said.expect("a worker says on standard error why it ends");
    }
}
