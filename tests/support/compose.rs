//! The masters of `docker-compose.yml`, and what Docker can do to them.
//!
//! The masters are reached through their published ports alone. There Docker's own proxy answers,
//! and it goes with the network (measured on Docker 20.10 on Linux): at a cut, present connections
//! are *closed* and new ones *refused*, both at once; when the container joins again, the same port
//! is there again. A frozen container is silent, and new connections to it are accepted.

use std::process::Command;

/// Names the containers of the masters, in the order of the masters of `REDQUORUM_TEST_MASTERS`.
const VARIABLE: &str = "REDQUORUM_TEST_COMPOSE";

/// The containers that `REDQUORUM_TEST_COMPOSE` names; panics if there are none.
pub fn containers() -> Vec<String> {
    let names = std::env::var(VARIABLE)
        .unwrap_or_else(|_| panic!("{VARIABLE} is not set: run scripts/test-compose"));
    names.split(',').map(str::to_owned).collect()
}

/// A fault that lasts until it is ended or dropped.
#[must_use = "the fault ends when this is dropped"]
pub struct Fault {
    undo: Vec<String>,
}

/// Freezes all processes of the container: its connections stay open, and nothing answers.
pub fn pause(container: &str) -> Fault {
    docker(&["pause", container]).unwrap();
    Fault::undone_by(&["unpause", container])
}

/// Kills the container (`SIGKILL`); it starts again without its memory.
pub fn kill(container: &str) -> Fault {
    docker(&["kill", container]).unwrap();
    Fault::undone_by(&["start", container])
}

/// Cuts the container off its network; see the module for what that looks like.
pub fn cut(container: &str) -> Fault {
    let network = inspect(
        container,
        "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}",
    );
    docker(&["network", "disconnect", &network, container]).unwrap();
    Fault::undone_by(&["network", "connect", &network, container])
}

impl Fault {
    /// Ends the fault; panics if that fails.
    pub fn end(mut self) {
        self.undo().unwrap();
    }

    fn undone_by(command: &[&str]) -> Self {
        Self {
            undo: command.iter().map(ToString::to_string).collect(),
        }
    }

    fn undo(&mut self) -> Result<String, String> {
        let command = std::mem::take(&mut self.undo);
        docker(&command.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        if !self.undo.is_empty() {
            // The test may be panicking already.
            let _ = self.undo();
        }
    }
}

fn inspect(container: &str, format: &str) -> String {
    docker(&["inspect", "--format", format, container]).unwrap()
}

/// Runs a command of Docker and gives what it printed.
fn docker(args: &[&str]) -> Result<String, String> {
    let output = Command::new("docker")
        .args(args)
        .output()
        .expect("docker runs");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!(
            "docker {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
