//! Rows on masters that fail. Subjects are connected before.

use crate::figure::Figure;
use crate::options::Options;
use crate::sample::{Resources, Sample, time_to_an_error};
use crate::stage::Stage;
use crate::subject::{Kind, Subject};
use crate::support::server::Server;
use crate::turns::Turns;

const MS: &str = "ms";

pub(crate) async fn hung(options: &Options) -> Vec<Figure> {
    measure(options, "hung", Server::stop).await
}

pub(crate) async fn killed(options: &Options) -> Vec<Figure> {
    measure(options, "killed", Server::kill).await
}

/// One master after the other fails, until no quorum is left. They stay so: those that
/// come back would be another matter.
async fn measure(options: &Options, what: &str, fail: fn(&mut Server)) -> Vec<Figure> {
    let mut stage = Stage::of(5, &Kind::LIBRARIES, false).await;
    // Some take seconds for a cycle.
    let turns = options.turns.min(5);
    // New, since one of them leaves keys on masters that it didn't wait for: with another
    // master gone, it would be measured how long a key lives.
    let median = async |subject: &Subject| {
        let sample = Sample::on(Resources::New, subject, 1, options.turn).await;
        sample.percentile(50)
    };
    let healthy = Turns::take(&stage.cast, turns, median).await;
    let mut figures = healthy.beside(Kind::Redquorum, "healthy", MS);
    for count in [1, 2] {
        fail(&mut stage.fleet[count - 1]);
        // What happens at once is another matter than what it costs from then on.
        Turns::take(&stage.cast, 1, median).await;
        let turns = Turns::take(&stage.cast, turns, median).await;
        figures.extend(turns.beside_own(&healthy, &format!("{count} {what}"), MS));
    }
    fail(&mut stage.fleet[2]);
    let error = async |subject: &Subject| time_to_an_error(subject).await;
    let errors = Turns::take(&stage.cast, 3, error).await;
    figures.extend(errors.beside(Kind::Redquorum, &format!("3 {what}: error"), MS));
    figures
}
