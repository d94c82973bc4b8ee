//! Rows on healthy masters.

use std::time::Duration;

use redquorum_benches::figure::{Figure, Outcome, Row, Unit};
use redquorum_benches::turns::Turns;

use crate::options::Options;
use crate::sample::{Resources, Sample};
use crate::stage::{Stage, cast};
use crate::subject::{Kind, Subject};
use crate::support::proxy::Flow;

const MS: Unit = Unit::less("ms");
const RATE: Unit = Unit::more("cycles/s");

/// The median of a turn of one task.
async fn median_of_a_turn(subject: &Subject, turn: Duration) -> Outcome {
    Sample::of(subject, 1, turn).await?.percentile(50)
}

pub(crate) async fn cycle(options: &Options) -> Vec<Figure> {
    let stage = Stage::of(5, &Kind::ALL, true).await;
    let turn = options.turn;
    let median = async |subject: &Subject| median_of_a_turn(subject, turn).await;
    let slow = async |subject: &Subject| Sample::of(subject, 1, turn).await?.percentile(99);
    let medians = Turns::take(&stage.cast, options.turns, median).await;
    let slowest = Turns::take(&stage.cast, options.turns, slow).await;
    let mut figures = medians.beside(Kind::Floor.name(), &Row::new("cycle", MS));
    figures.extend(slowest.beside(Kind::Floor.name(), &Row::new("cycle p99", MS)));
    figures
}

pub(crate) async fn tasks(options: &Options) -> Vec<Figure> {
    let stage = Stage::of(5, &Kind::ALL, true).await;
    let mut figures = Vec::new();
    for tasks in [1, 8, 64, 512] {
        let rate = async |subject: &Subject| Sample::of(subject, tasks, options.turn).await?.rate();
        let turns = Turns::take(&stage.cast, options.turns, rate).await;
        figures.extend(turns.beside(
            Kind::Floor.name(),
            &Row::new(format!("{tasks} tasks"), RATE),
        ));
    }
    let slow =
        async |subject: &Subject| Sample::of(subject, 512, options.turn).await?.percentile(99);
    let slowest = Turns::take(&stage.cast, options.turns, slow).await;
    figures.extend(slowest.beside(Kind::Floor.name(), &Row::new("512 tasks p99", MS)));
    figures
}

pub(crate) async fn fenced(options: &Options) -> Vec<Figure> {
    let stage = Stage::of(5, &[Kind::Redquorum, Kind::Fenced], true).await;
    let median = async |subject: &Subject| median_of_a_turn(subject, options.turn).await;
    let turns = Turns::take(&stage.cast, options.turns, median).await;
    let mut figures = turns.beside(Kind::Redquorum.name(), &Row::new("fenced cycle", MS));
    let rate = async |subject: &Subject| Sample::of(subject, 64, options.turn).await?.rate();
    let turns = Turns::take(&stage.cast, options.turns, rate).await;
    figures.extend(turns.beside(Kind::Redquorum.name(), &Row::new("fenced 64 tasks", RATE)));
    figures
}

/// How the cost grows with the masters.
pub(crate) async fn masters(options: &Options) -> Vec<Figure> {
    let mut figures = Vec::new();
    for masters in [1, 3, 5, 7, 9] {
        let stage = Stage::of(masters, &[Kind::Floor, Kind::Redquorum], true).await;
        let median = async |subject: &Subject| median_of_a_turn(subject, options.turn).await;
        let turns = Turns::take(&stage.cast, options.turns, median).await;
        figures.extend(turns.beside(
            Kind::Floor.name(),
            &Row::new(format!("{masters} masters"), MS),
        ));
    }
    figures
}

/// How much the way to one master, or to all, is longer.
const DELAY: Duration = Duration::from_millis(2);

pub(crate) async fn delay(options: &Options) -> Vec<Figure> {
    let stage = Stage::of(5, &[], true).await;
    let mut figures = Vec::new();
    for (delayed, bench) in [(1, "2 ms to one master"), (5, "2 ms to all masters")] {
        let proxies = stage.fleet.proxies().await;
        let urls: Vec<String> = proxies.iter().map(|proxy| proxy.url()).collect();
        let cast = cast(&Kind::ALL, &urls, true).await;
        for proxy in &proxies[..delayed] {
            proxy.requests(Flow::Delay(DELAY));
        }
        // New, as in the rows of faults.
        let median = async |subject: &Subject| {
            let sample = Sample::on(Resources::New, subject, 1, options.turn).await?;
            sample.percentile(50)
        };
        let turns = Turns::take(&cast, options.turns, median).await;
        figures.extend(turns.beside(Kind::Floor.name(), &Row::new(bench, MS)));
    }
    figures
}
