//! The arguments.

use std::time::Duration;

use crate::rule::Rule;

const USAGE: &str = "usage: chaos [OPTION …]
  --seconds S      for how long things are broken (10)
  --seed N         of what is chosen by chance (another one each time)
  --break RULE     switch a rule off and expect a violation within 60 s, or --seconds:
                   quorum, quarantine, drift, fresh-tokens or check
  --workers N      processes (4)
  --tasks N        of each (6)
  --resources N    that they want (8)
  --containers     on the masters of scripts/test-compose";

const NOT_BUILT_IN: &str =
    "this rule can be switched off in a build with RUSTFLAGS='--cfg redquorum_break' alone";

/// The name under which `cargo test` knows it.
const NAME: &str = "chaos";

pub struct Options {
    pub length: Duration,
    pub seed: u64,
    pub broken: Option<Rule>,
    pub workers: usize,
    pub tasks: usize,
    pub resources: usize,
    pub containers: bool,
}

/// What to do.
pub enum Command {
    Run(Options),
    /// `cargo test` asks for the names of the tests.
    List,
    /// `cargo test` was told to run other tests.
    Nothing,
    Usage(String),
}

impl Command {
    pub fn parse(args: &[String]) -> Self {
        if is_of_cargo_test(args) {
            return of_cargo_test(args);
        }
        match Options::parse(args) {
            Ok(options) => Self::Run(options),
            Err(usage) => Self::Usage(usage),
        }
    }
}

/// Whether these are the arguments of a test harness: no option of ours, but a filter perhaps.
fn is_of_cargo_test(args: &[String]) -> bool {
    let is_ours = |arg: &String| arg == "--help" || USAGE.contains(&format!("  {arg} "));
    !args.iter().any(is_ours)
}

/// As the harness of other tests would take them.
fn of_cargo_test(args: &[String]) -> Command {
    const WITH_VALUE: &[&str] = &["--test-threads", "--color", "--format", "--logfile", "-Z"];
    let (mut list, mut run, mut filters) = (false, true, Vec::new());
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--list" => list = true,
            "--ignored" => run = false,
            "--skip" => run &= !args.next().is_some_and(|skipped| NAME.contains(skipped)),
            arg if WITH_VALUE.contains(&arg) => drop(args.next()),
            arg if arg.starts_with('-') => {}
            filter => filters.push(filter),
        }
    }
    run &= filters.is_empty() || filters.iter().any(|filter| NAME.contains(filter));
    match (run, list) {
        (false, _) => Command::Nothing,
        (true, true) => Command::List,
        (true, false) => Command::Run(Options::default()),
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            length: Duration::from_secs(10),
            seed: crate::support::server::random() % 1_000_000,
            broken: None,
            workers: 4,
            tasks: 6,
            resources: 8,
            containers: false,
        }
    }
}

impl Options {
    /// The error is what to tell the user.
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut length = None;
        let mut args = args.iter().map(String::as_str);
        while let Some(arg) = args.next() {
            match arg {
                "--seconds" => length = Some(Duration::from_secs(number(args.next())?.max(1))),
                "--seed" => options.seed = number(args.next())?,
                "--break" => options.broken = Some(rule(args.next())?),
                "--workers" => options.workers = count(args.next())?,
                "--tasks" => options.tasks = count(args.next())?,
                "--resources" => options.resources = count(args.next())?,
                "--containers" => options.containers = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        let found_within = options.broken.map(|_| Duration::from_secs(60));
        if options.broken.is_some_and(Rule::is_built_in) && !cfg!(redquorum_break) {
            return Err(NOT_BUILT_IN.to_owned());
        }
        options.length = length.or(found_within).unwrap_or(options.length);
        Ok(options)
    }
}

fn rule(name: Option<&str>) -> Result<Rule, String> {
    Rule::ALL
        .into_iter()
        .find(|rule| Some(rule.name()) == name)
        .ok_or_else(|| USAGE.to_owned())
}

fn number(text: Option<&str>) -> Result<u64, String> {
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| USAGE.to_owned())
}

fn count(text: Option<&str>) -> Result<usize, String> {
    number(text).map(|count| count.clamp(1, 100) as usize)
}
