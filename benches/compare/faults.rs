//! Rows on masters that fail. Subjects are connected before.

use redquorum_benches::figure::{Figure, Row, Unit};
use redquorum_benches::turns::Turns;

use crate::options::Options;
use crate::sample::{Resources, Sample, time_of_a_cycle, time_to_an_error};
use crate::stage::Stage;
use crate::subject::{Kind, Subject};
use crate::support::server::Server;

const MS: Unit = Unit::less("ms");

pub(crate) async fn hung(options: &Options) -> Vec<Figure> {
    measure(options, "hung", Server::stop).await
}

pub(crate) async fn killed(options: &Options) -> Vec<Figure> {
    measure(options, "killed", Server::kill).await
}

async fn measure(options: &Options, what: &str, fail: fn(&mut Server)) -> Vec<Figure> {
    let mut figures = cycles(options, what, fail).await;
    figures.extend(errors(options, what, fail).await);
    figures
}

/// Healthy masters, those of which one failed, and those of which two failed, in turns.
/// Each are masters of their own: those that come back would be another matter.
async fn cycles(options: &Options, what: &str, fail: fn(&mut Server)) -> Vec<Figure> {
    let mut none = Stage::of(5, &Kind::LIBRARIES, false).await;
    let mut one = Stage::of(5, &Kind::LIBRARIES, false).await;
    let mut two = Stage::of(5, &Kind::LIBRARIES, false).await;
    let mut figures = Vec::new();
    // New resources, since one of the libraries leaves keys on masters that it didn't wait
    // for: with another master gone, it would be measured how long a key lives.
    let median = async |subject: &Subject| {
        let sample = Sample::on(Resources::New, subject, 1, options.turn).await?;
        sample.percentile(50)
    };
    for (stage, count) in [(&mut none, 0), (&mut one, 1), (&mut two, 2)] {
        stage.fail(count, fail);
        // What happens at once is another matter than what it costs from then on.
        let first = Turns::take(&stage.cast, 1, time_of_a_cycle).await;
        let row = Row::new(format!("{count} {what}: first"), MS);
        figures.extend(first.beside(Kind::Rslock.name(), &row));
        Turns::take(&stage.cast, 1, median).await;
    }
    // Some take seconds for a cycle.
    let turns = options.turns.min(5);
    let casts = [&none.cast, &one.cast, &two.cast];
    let [none, one, two] = Turns::alternate(casts, turns, median).await;
    let healthy = format!("0 {what}");
    figures.extend(none.beside(Kind::Rslock.name(), &Row::new(&healthy, MS)));
    for (turns, count) in [(&one, 1), (&two, 2)] {
        let row = Row::new(format!("{count} {what}"), MS);
        figures.extend(turns.beside_own(&none, &format!("own {healthy}"), &row));
    }
    figures
}

/// No quorum is left: how soon each says so, the first time and from then on.
async fn errors(options: &Options, what: &str, fail: fn(&mut Server)) -> Vec<Figure> {
    let mut stage = Stage::of(5, &Kind::ALL, false).await;
    stage.fail(3, fail);
    let base = Kind::Floor.name();
    let first = Turns::take(&stage.cast, 1, time_to_an_error).await;
    let first_row = Row::new(format!("3 {what}: first error"), MS);
    let errors = Turns::take(&stage.cast, options.turns.min(3), time_to_an_error).await;
    let row = Row::new(format!("3 {what}: error"), MS);
    let mut figures = first.beside(base, &first_row);
    figures.extend(errors.beside(base, &row));
    figures
}
