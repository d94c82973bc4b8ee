//! The arguments.

use std::path::PathBuf;
use std::time::Duration;

use redquorum_benches::record;

pub(crate) const ROWS: [&str; 7] = [
    "cycle", "tasks", "fenced", "hung", "killed", "masters", "delay",
];

const USAGE: &str = "usage: compare [ROW …] [OPTION …]
  ROW           cycle, tasks, fenced, hung, killed, masters, delay; all if none is given
  --turns N     of each subject (11)
  --millis M    of a turn (300)
  --out DIR     where figures and plots go (target/bench)";

pub(crate) struct Options {
    pub(crate) rows: Vec<String>,
    pub(crate) turns: usize,
    pub(crate) turn: Duration,
    pub(crate) out: PathBuf,
}

impl Options {
    /// The error is what to tell the user.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            rows: Vec::new(),
            turns: 11,
            turn: Duration::from_millis(300),
            out: record::default_dir(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match &**arg {
                // Said by cargo.
                "--bench" => {}
                "--turns" => options.turns = number(args.next())?,
                "--millis" => {
                    let millis = number(args.next())?;
                    options.turn = Duration::from_millis(millis as u64);
                }
                "--out" => options.out = args.next().ok_or(USAGE)?.into(),
                row if ROWS.contains(&row) => options.rows.push(arg.clone()),
                _ => return Err(USAGE.to_owned()),
            }
        }
        if options.rows.is_empty() {
            options.rows = ROWS.map(str::to_owned).to_vec();
        }
        Ok(options)
    }
}

fn number(text: Option<&String>) -> Result<usize, String> {
    let number = text.and_then(|text| text.parse().ok());
    number
        .filter(|number| (1..=100_000).contains(number))
        .ok_or_else(|| USAGE.to_owned())
}
