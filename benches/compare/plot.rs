//! Figures as bars.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use crate::figure::Figure;

/// A plot: its file, its title, and the rows that it shows.
const PLOTS: [(&str, &str, &[&str]); 4] = [
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
        &["healthy", "1 hung", "2 hung"],
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
];

const COLOURS: [(&str, RGBColor); 5] = [
    ("floor", RGBColor(150, 150, 150)),
    ("redquorum", RGBColor(200, 40, 40)),
    ("fenced", RGBColor(230, 140, 60)),
    ("rslock", RGBColor(60, 110, 190)),
    ("distributed-lock-redis", RGBColor(80, 150, 90)),
];

/// Those whose rows were measured.
pub(crate) fn draw_all(figures: &[Figure], dir: &Path) -> Result<(), Box<dyn Error>> {
    for (file, title, benches) in PLOTS {
        let groups: Vec<(&str, Vec<&Figure>)> = benches
            .iter()
            .map(|bench| (*bench, of(figures, bench)))
            .filter(|(_, group)| !group.is_empty())
            .collect();
        if !groups.is_empty() {
            draw(&dir.join(format!("{file}.svg")), title, &groups)?;
        }
    }
    Ok(())
}

fn of<'a>(figures: &'a [Figure], bench: &str) -> Vec<&'a Figure> {
    let of_bench = figures.iter().filter(|figure| figure.bench == bench);
    let mut seen = Vec::new();
    of_bench
        .filter(|figure| {
            let is_new = !seen.contains(&figure.subject);
            seen.push(figure.subject);
            is_new
        })
        .collect()
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
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..highest * 1.1)?;
    let name = |at: &f64| match at.fract() {
        half if (half - 0.5).abs() < 0.01 => groups[*at as usize].0.to_owned(),
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * groups.len() + 1)
        .x_label_formatter(&name)
        .draw()?;
    for (subject, colour) in COLOURS {
        let bars: Vec<_> = bars(groups, subject)
            .map(|(left, right, value)| {
                Rectangle::new([(left, 0.0), (right, value)], colour.filled())
            })
            .collect();
        if !bars.is_empty() {
            chart
                .draw_series(bars)?
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
