//! Figures as bars.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::figure::Figure;

/// A plot: its file, its title, and the rows that it shows.
const PLOTS: [(&str, &str, &[&str]); 6] = [
    (
        "cycle",
        "acquire + release, ms (less is better)",
        &["cycle", "cycle p99"],
    ),
    (
        "tasks",
        "cycles a second on distinct resources (more is better)",
        &["1 tasks", "8 tasks", "64 tasks", "512 tasks"],
    ),
    (
        "hung",
        "acquire + release with masters hung, ms (less is better)",
        &["0 hung", "1 hung", "2 hung"],
    ),
    (
        "masters",
        "acquire + release by the number of masters, ms",
        &[
            "1 masters",
            "3 masters",
            "5 masters",
            "7 masters",
            "9 masters",
        ],
    ),
    (
        "contended",
        "one busy lock: grants or changes of owner a second (more is better)",
        &[
            "16 tasks, section",
            "4 processes, section",
            "16 tasks, no section",
            "8 processes, no section",
        ],
    ),
    (
        "waits",
        "one busy lock: longest wait, ms (less is better)",
        &[
            "16 tasks, section: longest wait",
            "4 processes, section: longest wait",
            "16 tasks, no section: longest wait",
            "8 processes, no section: longest wait",
        ],
    ),
];

const COLOURS: [(&str, RGBColor); 5] = [
    ("floor", RGBColor(150, 150, 150)),
    ("redquorum", RGBColor(200, 40, 40)),
    ("fenced", RGBColor(230, 140, 60)),
    ("rslock", RGBColor(60, 110, 190)),
    ("distributed-lock-redis", RGBColor(80, 150, 90)),
];

/// How much higher than the highest bar the plot is, so that the legend has room.
const ROOM: f64 = 1.35;

/// Those whose rows were measured.
pub fn draw_all(figures: &[Figure], dir: &Path) -> Result<(), Box<dyn Error>> {
    for (file, title, benches) in PLOTS {
        let groups: Vec<(&str, Vec<&Figure>)> = benches
            .iter()
            .map(|bench| (*bench, of(figures, bench)))
            .filter(|(_, group)| !group.is_empty())
            .collect();
        if groups.iter().flat_map(|(_, group)| group).any(has_bar) {
            draw(&dir.join(format!("{file}.svg")), title, &groups)?;
        }
    }
    Ok(())
}

fn of<'a>(figures: &'a [Figure], bench: &str) -> Vec<&'a Figure> {
    let of_bench = figures.iter().filter(|figure| figure.bench == bench);
    of_bench.collect()
}

fn has_bar(figure: &&Figure) -> bool {
    figure.value.is_some()
}

/// Groups of bars; a subject that gave no figure has none.
fn draw(file: &Path, title: &str, groups: &[(&str, Vec<&Figure>)]) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, (720, 360)).into_drawing_area();
    root.fill(&WHITE)?;
    let values = groups.iter().flat_map(|(_, group)| group);
    let highest = values.filter_map(|figure| figure.value).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..highest * ROOM)?;
    let name = |at: &f64| match at.fract() {
        half if (half - 0.5).abs() < 0.01 => label(groups[*at as usize].0),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * groups.len() + 1)
        .x_label_formatter(&name)
        .draw()?;
    let on_top = TextStyle::from(("sans-serif", 9)).pos(Pos::new(HPos::Center, VPos::Bottom));
    for (subject, colour) in COLOURS {
        let bars: Vec<_> = bars(groups, subject).collect();
        chart.draw_series(bars.iter().map(|(left, right, value)| {
            let middle = (left + right) / 2.0;
            Text::new(short(*value), (middle, *value), on_top.clone())
        }))?;
        if !bars.is_empty() {
            let bars = bars.into_iter();
            chart
                .draw_series(bars.map(|(left, right, value)| {
                    Rectangle::new([(left, 0.0), (right, value)], colour.filled())
                }))?
                .label(subject)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
                });
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK.mix(0.3))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A row's name under its bars: the title says which of its figures they are.
fn label(bench: &str) -> String {
    bench.split(": ").next().unwrap_or(bench).to_owned()
}

/// Three digits, or as many as there are before the point.
fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Where a subject's bars are: left, right, height.
fn bars<'a>(
    groups: &'a [(&str, Vec<&Figure>)],
    subject: &'a str,
) -> impl Iterator<Item = (f64, f64, f64)> + 'a {
    groups
        .iter()
        .enumerate()
        .filter_map(move |(at, (_, group))| {
            let place = group.iter().position(|figure| figure.subject == subject)?;
            let width = 0.8 / group.len() as f64;
            let left = at as f64 + 0.1 + place as f64 * width;
            Some((left, left + width * 0.92, group[place].value?))
        })
}
