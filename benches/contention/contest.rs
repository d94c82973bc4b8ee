//! Rows 1 to 4: how fast a lock changes hands, and who gets it.

use std::time::Duration;

use redquorum_benches::figure::{Figure, Outcome, Row, Unit};
use redquorum_benches::turns::Turns;

use crate::clock;
use crate::ledger::{Ledger, Turn};
use crate::locker::Subject;
use crate::options::Options;
use crate::protocol::{Habit, Log, Order, Part, Report};
use crate::stage::Stage;
use crate::table::{BASE, Bar, Line, Results, median, millis};

/// Between the order and the start, so that all start together.
const LEAD: Duration = Duration::from_millis(100);

const SECTION: Habit = Habit {
    tasks: 0,
    section: Some(Duration::from_millis(1)),
    pause: Some(Duration::from_millis(20)),
};
const NO_SECTION: Habit = Habit {
    tasks: 0,
    section: None,
    pause: None,
};

/// What is done in a row, and what must come of it.
struct Contest {
    number: u8,
    name: String,
    processes: usize,
    habit: Habit,
    unit: &'static str,
    rate: fn(&Turn) -> f64,
    least_ratio: f64,
    longest_wait: Option<Duration>,
    most_to_least: Option<f64>,
}

impl Contest {
    fn of_row(number: u8) -> Self {
        let (processes, tasks, habit) = match number {
            1 => (1, 16, SECTION),
            2 => (4, 4, SECTION),
            3 => (1, 16, NO_SECTION),
            4 => (8, 1, NO_SECTION),
            other => panic!("row {other} is no contest"),
        };
        let (unit, rate): (_, fn(&Turn) -> f64) = match habit.section {
            Some(_) => ("grants/s", |turn| turn.grants_per_second),
            None => ("changes/s", |turn| turn.changes_per_second),
        };
        let bars = [
            (2.2, Some(50), None),
            (1.8, Some(100), Some(1.3)),
            (30.0, None, None),
            (18.0, Some(120), Some(2.0)),
        ];
        let (least_ratio, longest_wait, most_to_least) = bars[usize::from(number) - 1];
        let who = match processes {
            1 => format!("{tasks} tasks"),
            _ => format!("{processes} processes"),
        };
        let what = match habit.section {
            Some(_) => "section",
            None => "no section",
        };
        Self {
            number,
            name: format!("{who}, {what}"),
            processes,
            habit: Habit { tasks, ..habit },
            unit,
            rate,
            least_ratio,
            longest_wait: longest_wait.map(Duration::from_millis),
            most_to_least,
        }
    }

    async fn turn(&self, subject: Subject, stage: &Stage, length: Duration) -> Turn {
        let part = Part::Contender(self.habit);
        let resource = stage.resource();
        let mut workers = stage.hire(self.processes, subject, &resource, part).await;
        let from = clock::now() + LEAD.as_nanos() as u64;
        let until = from + length.as_nanos() as u64;
        for worker in &mut workers {
            worker.order(Order::Contend { from, until }).await;
        }
        let mut logs: Vec<Log> = Vec::new();
        for worker in &mut workers {
            match worker.report().await {
                Report::Log(log) => logs.push(log),
                other => panic!("not a log: {other:?}"),
            }
        }
        for worker in workers {
            worker.dismiss().await;
        }
        let ledger = Ledger::new(logs, self.habit.tasks);
        ledger.assert_exclusive();
        ledger.turn(from, until)
    }

    fn line(&self, subject: Subject, turns: &[Turn], ratio: Option<f64>) -> Line {
        let rate = median(turns.iter().map(self.rate));
        let longest = turns.iter().map(|turn| turn.longest_wait).max();
        let longest = longest.unwrap_or_default();
        let most = turns.iter().map(|turn| turn.most_to_least);
        let most = most.fold(0.0, f64::max);
        let mut figures = format!(
            "{rate:>6.0} {:<9}  longest wait {:>8}  most:least {most:>5.2}",
            self.unit,
            millis(longest)
        );
        let mut bars = Vec::new();
        if let (Subject::Redquorum, Some(ratio)) = (subject, ratio) {
            figures += &format!("  {ratio:.1} × rslock");
            bars.push(Bar::at_least("× rslock", ratio, self.least_ratio));
        }
        if let Some(bar) = self.longest_wait {
            let (longest, bar) = (longest.as_secs_f64() * 1e3, bar.as_secs_f64() * 1e3);
            bars.push(Bar::at_most("ms", longest, bar));
        }
        if let Some(bar) = self.most_to_least {
            bars.push(Bar::at_most(": 1", most, bar));
        }
        Line::new(self.number, subject, figures, bars)
    }

    fn figures(&self, subjects: &[Subject], turns: &[Vec<Turn>]) -> Vec<Figure> {
        let beside = |row: Row, figure: &dyn Fn(&Turn) -> Outcome| {
            let of_subject = |(subject, turns): (&Subject, &Vec<Turn>)| {
                (subject.name(), turns.iter().map(figure).collect())
            };
            let outcomes = subjects.iter().zip(turns).map(of_subject);
            Turns::of(outcomes.collect()).beside(BASE.name(), &row)
        };
        let rates = Row::new(&self.name, Unit::more(self.unit));
        let worst = |what, unit| {
            let row = Row::new(format!("{}: {what}", self.name), Unit::less(unit));
            row.of_the_worst_turn()
        };
        let mut figures = beside(rates, &|turn| rate((self.rate)(turn)));
        figures.extend(beside(worst("longest wait", "ms"), &|turn| {
            Ok(turn.longest_wait.as_secs_f64() * 1e3)
        }));
        figures.extend(beside(worst("most to least", ": 1"), &most_to_least));
        figures
    }
}

/// Both subjects in turns; a line for each.
pub async fn hold(number: u8, stage: &Stage, options: &Options) -> Results {
    let contest = Contest::of_row(number);
    let mut turns = vec![Vec::new(); options.subjects.len()];
    for _ in 0..options.turns {
        for (subject, turns) in options.subjects.iter().zip(&mut turns) {
            turns.push(contest.turn(*subject, stage, options.turn).await);
        }
    }
    let ratio = ratio(&turns, contest.rate);
    let lines = options.subjects.iter().zip(&turns);
    let lines = lines.map(|(subject, turns)| contest.line(*subject, turns, ratio));
    Results {
        lines: lines.collect(),
        figures: contest.figures(&options.subjects, &turns),
    }
}

/// The median of what the second did for each by the first.
fn ratio(turns: &[Vec<Turn>], rate: fn(&Turn) -> f64) -> Option<f64> {
    let [first, second] = turns else { return None };
    let pairs = first.iter().zip(second);
    Some(median(pairs.map(|(a, b)| rate(b) / rate(a))))
}

/// A turn in which nothing was granted gave nothing.
fn rate(rate: f64) -> Outcome {
    match rate {
        0.0 => Err("the lock was never handed on".to_owned()),
        rate => Ok(rate),
    }
}

fn most_to_least(turn: &Turn) -> Outcome {
    match turn.most_to_least.is_finite() {
        true => Ok(turn.most_to_least),
        false => Err("one was never served".to_owned()),
    }
}
