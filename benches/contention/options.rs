//! The arguments.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use redquorum_benches::record;

use crate::locker::Subject;

const USAGE: &str = "usage: contention [ROW …] [OPTION …]
  ROW                   1 to 7; all of them if none is given
  --only SUBJECT        redquorum or rslock; both in turns if not given
  --seconds S           of a turn of rows 1 to 4 (3)
  --turns N             of each subject in rows 1 to 4 (5)
  --idle-seconds S      of row 5 (10)
  --hand-overs N        of row 6 (200)
  --expiries N          of row 7 (5)
  --master-timeout MS   of redquorum; long, as masters share the cores with the load (5000)
  --out DIR             where figures and plots go (target/bench)
  --check               exit with 1 if a bar is missed";

pub struct Options {
    pub rows: Vec<u8>,
    pub subjects: Vec<Subject>,
    pub turn: Duration,
    pub turns: usize,
    pub idle: Duration,
    pub hand_overs: usize,
    pub expiries: usize,
    pub master_timeout: Duration,
    pub out: PathBuf,
    pub check: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            subjects: vec![Subject::Rslock, Subject::Redquorum],
            turn: Duration::from_secs(3),
            turns: 5,
            idle: Duration::from_secs(10),
            hand_overs: 200,
            expiries: 5,
            master_timeout: Duration::from_secs(5),
            out: record::default_dir(),
            check: false,
        }
    }
}

impl Options {
    /// The error is what to tell the user.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter().map(String::as_str);
        while let Some(arg) = args.next() {
            options.take(arg, &mut args)?;
        }
        if options.rows.is_empty() {
            options.rows = (1..=7).collect();
        }
        Ok(options)
    }

    fn take<'a>(
        &mut self,
        arg: &str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        match arg {
            // Said by cargo.
            "--bench" => {}
            "--check" => self.check = true,
            "--only" => self.subjects = vec![subject(rest.next())?],
            "--seconds" => self.turn = seconds(rest.next())?,
            "--turns" => self.turns = count(rest.next())?,
            "--idle-seconds" => self.idle = seconds(rest.next())?,
            "--hand-overs" => self.hand_overs = count(rest.next())?,
            "--expiries" => self.expiries = count(rest.next())?,
            "--master-timeout" => self.master_timeout = millis(rest.next())?,
            "--out" => self.out = rest.next().ok_or_else(usage)?.into(),
            row => self.rows.push(number(Some(row), 1..=7)?),
        }
        Ok(())
    }
}

fn subject(name: Option<&str>) -> Result<Subject, String> {
    Subject::ALL
        .into_iter()
        .find(|subject| Some(subject.name()) == name)
        .ok_or_else(usage)
}

fn seconds(number_of: Option<&str>) -> Result<Duration, String> {
    number(number_of, 0.1..=600.0).map(Duration::from_secs_f64)
}

fn millis(number_of: Option<&str>) -> Result<Duration, String> {
    number(number_of, 10..=60_000).map(Duration::from_millis)
}

fn count(number_of: Option<&str>) -> Result<usize, String> {
    number(number_of, 1..=100_000)
}

fn number<N: FromStr + PartialOrd>(
    text: Option<&str>,
    bounds: std::ops::RangeInclusive<N>,
) -> Result<N, String> {
    text.and_then(|text| text.parse().ok())
        .filter(|number| bounds.contains(number))
        .ok_or_else(usage)
}

fn usage() -> String {
    USAGE.to_owned()
}
