//! The masters of `docker-compose.yml`, and what Docker can do to them.

use std::process::Command;

/// Names the containers of the masters, in the order of the masters of `REDQUORUM_TEST_MASTERS`.
const VARIABLE: &str = "REDQUORUM_TEST_COMPOSE";

/// The containers that `REDQUORUM_TEST_COMPOSE` names; panics if there are none.
pub fn masters() -> Vec<String> {
    let names = std::env::var(VARIABLE)
        .unwrap_or_else(|_| panic!("{VARIABLE} is not set: scripts/test-compose sets it"));
    names.split(',').map(str::to_owned).collect()
}

/// Freezes all processes of the container: its connections stay open, and nothing answers.
pub fn pause(container: &str) {
    docker(&["pause", container]);
}

/// Lets a frozen container go on.
pub fn unpause(container: &str) {
    docker(&["unpause", container]);
}

/// Cuts the container off its network.
pub fn cut(container: &str) {
    docker(&["network", "disconnect", &network(container), container]);
}

/// Connects a container that was cut off.
pub fn join(container: &str) {
    docker(&["network", "connect", &network(container), container]);
}

/// The network of the compose project that the container belongs to.
fn network(container: &str) -> String {
    let label = r#"{{index .Config.Labels "com.docker.compose.project"}}"#;
    let project = docker(&["inspect", "--format", label, container]);
    let filter = format!("label=com.docker.compose.project={project}");
    docker(&["network", "ls", "--quiet", "--filter", &filter])
}

/// Runs a command of Docker and gives what it printed; panics if it fails.
fn docker(args: &[&str]) -> String {
    let output = Command::new("docker")
        .args(args)
        .output()
        .expect("docker runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "docker {}: {error}",
        args.join(" ")
    );
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}
