//! The arguments.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redquorum_benches::record;

const USAGE: &str = "usage: leases [COUNT …] [OPTION …]
  COUNT         of leases; 1000 and 10000 if none is given
  --seconds S   for how long they are kept (30)
  --out DIR     where figures go (target/bench)";

pub(crate) struct Options {
    pub(crate) counts: Vec<usize>,
    pub(crate) length: Duration,
    pub(crate) out: PathBuf,
}

impl Options {
    /// The error is what to tell the user.
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self {
            counts: Vec::new(),
            length: Duration::from_secs(30),
            out: record::default_dir(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match &**arg {
                // Said by cargo.
                "--bench" => {}
                "--seconds" => options.length = Duration::from_secs(number(args.next())?),
                "--out" => options.out = args.next().ok_or(USAGE)?.into(),
                _ => options.counts.push(number(Some(arg))?),
            }
        }
        if options.counts.is_empty() {
            options.counts = vec![1_000, 10_000];
        }
        Ok(options)
    }
}

fn number<N: FromStr + PartialOrd + From<u16>>(text: Option<&String>) -> Result<N, String> {
    text.and_then(|text| text.parse().ok())
        .filter(|number| *number >= N::from(1))
        .ok_or_else(|| USAGE.to_owned())
}
