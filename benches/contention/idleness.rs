//! Row 5: what waiting costs while nothing happens.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redquorum_benches::figure::{Row, Unit};
use tokio::time::{Instant, sleep};

use crate::crew::Worker;
use crate::locker::Subject;
use crate::options::Options;
use crate::protocol::{Order, Part, Report};
use crate::stage::Stage;
use crate::support::inspect;
use crate::table::{Bar, Line, Results, beside_base};
use crate::worker::TTL;

const WAITERS: usize = 1_000;

/// What waiting costs.
struct Cost {
    percent_of_a_core: f64,
    /// To the busiest master.
    commands_per_second: f64,
}

pub async fn measure(stage: &Stage, options: &Options) -> Results {
    let mut costs = Vec::new();
    for subject in &options.subjects {
        costs.push((*subject, measure_one(*subject, stage, options.idle).await));
    }
    let cpu = Row::new(format!("{WAITERS} waiters: CPU"), Unit::less("% of a core"));
    let commands = Row::new(
        format!("{WAITERS} waiters: commands to the busiest master"),
        Unit::less("commands/s"),
    );
    let each = |cost: fn(&Cost) -> f64| costs.iter().map(move |(who, of)| (*who, cost(of)));
    let mut figures = beside_base(&cpu, each(|cost| cost.percent_of_a_core));
    figures.extend(beside_base(
        &commands,
        each(|cost| cost.commands_per_second),
    ));
    Results {
        lines: costs.iter().map(|(who, cost)| line(*who, cost)).collect(),
        figures,
    }
}

async fn measure_one(subject: Subject, stage: &Stage, length: Duration) -> Cost {
    let resource = stage.resource();
    let mut holder = stage.hire(1, subject, &resource, Part::Hand).await;
    holder[0].ask(Order::Hold { ttl: TTL }).await;
    let part = Part::Waiters(WAITERS);
    let mut waiters = stage.hire(1, subject, &resource, part).await;

    let mut masters = Vec::new();
    for master in stage.masters.iter() {
        masters.push(master.connection().await);
    }
    let began = Instant::now();
    let commands_before = commands(&mut masters).await;
    let cpu_before = cpu(&mut waiters[0]).await;
    sleep(length).await;
    let cpu = cpu(&mut waiters[0]).await - cpu_before;
    let commands = commands(&mut masters).await;
    let took = began.elapsed().as_secs_f64();

    // The look before is among the commands.
    let more = commands.iter().zip(commands_before);
    let most = more.map(|(after, before)| after - before - 1).max();
    Cost {
        percent_of_a_core: cpu as f64 / 1e7 / took,
        commands_per_second: most.unwrap_or_default() as f64 / took,
    }
}

fn line(subject: Subject, cost: &Cost) -> Line {
    let (percent, commands) = (cost.percent_of_a_core, cost.commands_per_second);
    let figures =
        format!("{percent:.2} % of a core, {commands:.1} commands/s to the busiest master");
    let bars = vec![
        Bar::at_most("%", percent, 1.0),
        Bar::at_most("commands/s", commands, 20.0),
    ];
    Line::new(5, subject, figures, bars)
}

async fn cpu(worker: &mut Worker) -> u64 {
    match worker.ask(Order::Measure).await {
        Report::Cpu(nanos) => nanos,
        other => panic!("not CPU time: {other:?}"),
    }
}

/// How many commands each master has processed so far.
async fn commands(masters: &mut [MultiplexedConnection]) -> Vec<u64> {
    let mut counts = Vec::new();
    for master in masters {
        let stats: String = redis::cmd("INFO")
            .arg("stats")
            .query_async(master)
            .await
            .expect("masters answer");
        let count = inspect::info_field(&stats, "total_commands_processed");
        counts.push(count.and_then(|count| count.parse().ok()).expect("a count"));
    }
    counts
}
