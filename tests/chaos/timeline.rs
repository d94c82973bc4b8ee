//! A picture of the last while: who had which lock, and what was broken meanwhile.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock;
use crate::fault::{Kind, Span, Victim};
use crate::history::History;
use crate::ledger::Tenure;
use crate::options::Options;
use crate::protocol::End;

/// How much of the end of the run is drawn.
const WINDOW: Duration = Duration::from_secs(30);

const WIDTH: f64 = 1_900.0;
const LEFT: f64 = 110.0;
const TOP: f64 = 64.0;
const GAP: f64 = 6.0;

/// The height of a bar of one worker's, in the lane of a resource.
const TENURE: f64 = 8.0;
/// The height of the lane of a master or a worker.
const LANE: f64 = 18.0;

const WORKERS: &[&str] = &[
    "#3366cc", "#dc8a00", "#109618", "#b82e8f", "#0099c6", "#8b6b2e", "#66aa00", "#6633cc",
];
const MASTERS: usize = 5;

/// Draws it into `target/chaos/timeline.svg`.
pub fn save(options: &Options, history: &History) {
    let path = path();
    let saved = std::fs::create_dir_all(path.parent().expect("a directory"))
        .and_then(|()| std::fs::write(&path, draw(options, history)));
    match saved {
        Ok(()) => println!("timeline:   {}", path.display()),
        Err(error) => println!("timeline:   not written: {error}"),
    }
}

/// This program is in `target/debug/deps`.
fn path() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let target = program.ancestors().nth(3).expect("a target directory");
    target.join("chaos/timeline.svg")
}

fn draw(options: &Options, history: &History) -> String {
    let mut picture = Picture::new(options, history);
    picture.stripes();
    picture.axis();
    for tenure in history.ledger.tenures() {
        picture.tenure(tenure);
    }
    for span in history.faults.spans() {
        picture.fault(&span);
    }
    for (resource, from, until) in history.violations.iter().filter_map(|v| v.place) {
        picture.violation(resource, from, until);
    }
    picture.lanes();
    picture.legend();
    picture.finish(options, history)
}

struct Picture {
    svg: String,
    workers: usize,
    resources: usize,
    began: u64,
    from: u64,
    until: u64,
}

impl Picture {
    fn new(options: &Options, history: &History) -> Self {
        let until = clock::now();
        let window = WINDOW.as_nanos() as u64;
        Self {
            svg: String::new(),
            workers: options.workers,
            resources: options.resources,
            began: history.began,
            from: history.began.max(until.saturating_sub(window)),
            until,
        }
    }

    fn tenure(&mut self, tenure: &Tenure) {
        let worker = tenure.worker.seat;
        let y = self.resource(tenure.resource) + worker as f64 * TENURE;
        let opacity = match tenure.how {
            Some(End::Released | End::Dropped) => 1.0,
            _ => 0.55,
        };
        let how = match tenure.how {
            Some(how) => format!("{how:?}"),
            None => "its owner was killed, or went on".to_owned(),
        };
        let title = format!(
            "resource {}, worker {worker}: {:.3} s to {:.3} s, {how}, {}",
            tenure.resource,
            self.seconds(tenure.from),
            self.seconds(tenure.until),
            tenure.token
        );
        let style = format!("fill='{}' opacity='{opacity}'", color(worker));
        self.bar(tenure.from, tenure.until, y, TENURE - 1.0, &style, &title);
    }

    fn fault(&mut self, span: &Span) {
        let y = match span.victim {
            Victim::Master(master) => self.master(master),
            Victim::Worker(worker) => self.worker(worker),
        };
        let until = span.until.unwrap_or(self.until);
        let name = span.kind.name();
        let style = format!("fill='{}'", span.kind.color());
        let title = format!(
            "{name}: {:.3} s to {:.3} s",
            self.seconds(span.from),
            self.seconds(until)
        );
        // What takes no time is drawn in half the height, over what may be on as well.
        let at_once = matches!(span.kind, Kind::ScriptFlush | Kind::Clock);
        let height = if at_once { LANE / 2.0 } else { LANE };
        self.bar(span.from, until, y, height - 1.0, &style, &title);
        let width = self.x(until) - self.x(span.from);
        if width > name.len() as f64 * 6.5 && span.from >= self.from {
            let dark = matches!(
                span.kind,
                Kind::Quarantine | Kind::Delay | Kind::Lag | Kind::Deaf
            );
            let ink = if dark { "black" } else { "white" };
            let x = self.x(span.from) + 3.0;
            self.text(x, y + 13.0, name, &format!("font-size='11' fill='{ink}'"));
        }
    }

    fn violation(&mut self, resource: usize, from: u64, until: u64) {
        let (y, height) = (self.resource(resource), self.workers as f64 * TENURE);
        let style = "fill='red' fill-opacity='0.35' stroke='red' stroke-width='2'";
        self.bar(
            from,
            until,
            y - 2.0,
            height + 3.0,
            style,
            "two had the lock",
        );
        let x = self.x(from);
        self.text(
            x + 4.0,
            y - 4.0,
            "two!",
            "font-size='12' font-weight='bold' fill='red'",
        );
    }

    /// Every other resource has another ground.
    fn stripes(&mut self) {
        let height = self.workers as f64 * TENURE + GAP;
        for resource in (0..self.resources).step_by(2) {
            let y = self.resource(resource) - GAP / 2.0;
            let style = "fill='#f4f6f9'";
            self.bar(self.from, self.until, y, height, style, "");
        }
    }

    fn axis(&mut self) {
        let bottom = self.worker(self.workers);
        let first = clock::between(self.began, self.from).as_secs();
        let last = clock::between(self.began, self.until).as_secs();
        for second in first..=last {
            let at = clock::after(self.began, Duration::from_secs(second));
            if at < self.from {
                continue;
            }
            let (x, strong) = (self.x(at), second % 5 == 0);
            let stroke = if strong { "#999" } else { "#ddd" };
            let _ = writeln!(
                self.svg,
                "<line x1='{x:.1}' y1='{TOP}' x2='{x:.1}' y2='{bottom:.1}' stroke='{stroke}'/>"
            );
            if strong || last - first <= 15 {
                let style = "font-size='12' text-anchor='middle'";
                self.text(x, TOP - 6.0, &format!("{second} s"), style);
            }
        }
    }

    fn lanes(&mut self) {
        let style = "font-size='12' text-anchor='end'";
        let middle = self.workers as f64 * TENURE / 2.0 + 4.0;
        for resource in 0..self.resources {
            let y = self.resource(resource) + middle;
            self.text(LEFT - 8.0, y, &format!("resource {resource}"), style);
        }
        for master in 0..MASTERS {
            let y = self.master(master) + 13.0;
            self.text(LEFT - 8.0, y, &format!("master {master}"), style);
        }
        for worker in 0..self.workers {
            let y = self.worker(worker) + 13.0;
            let style = format!("{style} fill='{}' font-weight='bold'", color(worker));
            self.text(LEFT - 8.0, y, &format!("worker {worker}"), &style);
        }
    }

    fn legend(&mut self) {
        let y = self.worker(self.workers) + 22.0;
        let mut x = LEFT;
        for kind in Kind::ALL {
            let (name, color) = (kind.name(), kind.color());
            let _ = writeln!(
                self.svg,
                "<rect x='{x:.1}' y='{:.1}' width='11' height='11' fill='{color}'/>",
                y - 10.0
            );
            self.text(x + 15.0, y, name, "font-size='12'");
            x += 40.0 + 7.0 * name.len() as f64;
        }
        let text = "Bars of resources: who had the lock, in the colour and the row of the worker; \
                    pale if the lease ran out or was lost, or its owner was killed. \
                    Point at a bar for its times.";
        self.text(LEFT, y + 22.0, text, "font-size='12' fill='#444'");
    }

    fn finish(self, options: &Options, history: &History) -> String {
        let height = self.worker(self.workers) + 58.0;
        let title = format!(
            "chaos, seed {}: the last {:.0} s of {:.0} s; violations: {}",
            options.seed,
            clock::between(self.from, self.until).as_secs_f64(),
            self.seconds(self.until),
            history.violations.len()
        );
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' \
             font-family='sans-serif'>\n<rect width='100%' height='100%' fill='white'/>\n\
             <text x='{LEFT}' y='26' font-size='17'>{title}</text>\n{}</svg>\n",
            self.svg
        )
    }

    fn bar(&mut self, from: u64, until: u64, y: f64, height: f64, style: &str, title: &str) {
        if until < self.from {
            return;
        }
        let x = self.x(from.max(self.from));
        let width = (self.x(until.min(self.until)) - x).max(1.5);
        let _ = writeln!(
            self.svg,
            "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}' {style}>\
             <title>{title}</title></rect>"
        );
    }

    fn text(&mut self, x: f64, y: f64, text: &str, style: &str) {
        let _ = writeln!(
            self.svg,
            "<text x='{x:.1}' y='{y:.1}' {style}>{text}</text>"
        );
    }

    fn seconds(&self, at: u64) -> f64 {
        clock::between(self.began, at).as_secs_f64()
    }

    fn x(&self, at: u64) -> f64 {
        let all = clock::between(self.from, self.until)
            .as_secs_f64()
            .max(0.001);
        LEFT + clock::between(self.from, at).as_secs_f64() / all * (WIDTH - LEFT - 20.0)
    }

    fn resource(&self, resource: usize) -> f64 {
        TOP + resource as f64 * (self.workers as f64 * TENURE + GAP)
    }

    fn master(&self, master: usize) -> f64 {
        self.resource(self.resources) + GAP + master as f64 * (LANE + 2.0)
    }

    fn worker(&self, worker: usize) -> f64 {
        self.master(MASTERS) + GAP + worker as f64 * (LANE + 2.0)
    }
}

fn color(worker: usize) -> &'static str {
    WORKERS[worker % WORKERS.len()]
}
