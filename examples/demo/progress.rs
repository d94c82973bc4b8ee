//! What is shown while the workers work: a bar on a terminal, else a line a
//! second.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{MissedTickBehavior, interval};

use crate::crew::Tally;
use crate::faults::{self, Event, History};

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// So many ticks make a second, over which hand-overs are counted.
const SECOND: usize = 10;

/// Shows how far the workers are, and what happens to the masters, for ever.
pub async fn show(tally: Tally, history: &History) {
    let bar = bar();
    let mut told = 0;
    let mut hand_overs = 0;
    let mut rate = 0;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    for tick in 1.. {
        ticks.tick().await;
        let events = history.events();
        for event in &events[told..] {
            say(&bar, &announcement(event));
        }
        told = events.len();
        let (sections, handed_over) = tally.with(|sum| (sum.sections, sum.hand_overs));
        let is_second = tick % SECOND == 0;
        if is_second {
            rate = handed_over - hand_overs;
            hand_overs = handed_over;
        }
        let status = format!(
            "{sections:>6} sections {rate:>4} hand-overs/s  {}",
            masters(history)
        );
        let elapsed = history.elapsed();
        bar.set_position(elapsed.as_millis() as u64);
        bar.set_message(status.clone());
        if bar.is_hidden() && is_second {
            eprintln!("{:4.1} s  {status}", elapsed.as_secs_f64());
        }
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed:>3} [{bar:20}] {msg}")
        .expect("a template")
        .progress_chars("=> ");
    ProgressBar::new(faults::LENGTH.as_millis() as u64).with_style(style)
}

/// A line that stays, above the bar if there is one.
fn say(bar: &ProgressBar, line: &str) {
    if bar.is_hidden() {
        eprintln!("{line}");
    } else {
        bar.println(line);
    }
}

fn announcement(event: &Event) -> String {
    let Event { at, master, fault } = event;
    format!("{:4.1} s: master {} {fault}", at.as_secs_f64(), master + 1)
}

fn masters(history: &History) -> String {
    let states = history.states();
    let states = states.iter().enumerate();
    let words = states.map(|(master, state)| format!("{}:{state}", master + 1));
    words.collect::<Vec<_>>().join(" ")
}
