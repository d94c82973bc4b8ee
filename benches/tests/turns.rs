//! What comes of turns in which a subject gave nothing.

use redquorum_benches::figure::{Figure, Row, Unit};
use redquorum_benches::turns::{Cast, Turns};

fn time() -> Row {
    Row::new("time", Unit::less("ms"))
}

fn rate() -> Row {
    Row::new("rate", Unit::more("cycles/s"))
}

/// Beside a subject that gives 2 in each turn, what comes of one that gives these.
fn beside_two(row: &Row, given: &[Option<f64>]) -> Figure {
    let outcome = |given: &Option<f64>| given.ok_or_else(|| "nothing".to_owned());
    let turns = Turns::of(vec![
        ("two", vec![Ok(2.0); given.len()]),
        ("subject", given.iter().map(outcome).collect()),
    ]);
    turns.beside("two", row).remove(1)
}

#[test]
fn a_turn_that_gave_nothing_is_the_longest() {
    let figure = beside_two(&time(), &[Some(4.0), None, Some(6.0), None, Some(8.0)]);
    assert_eq!((figure.value, figure.ratio), (Some(8.0), Some(4.0)));
    assert_eq!((figure.turns, figure.failed_turns), (5, 2));
    assert_eq!(figure.failure.as_deref(), Some("nothing"));
    assert_eq!(figure.greatest_ratio, None);
}

#[test]
fn a_turn_that_gave_nothing_is_the_slowest() {
    let figure = beside_two(&rate(), &[Some(4.0), None, Some(6.0), None, Some(8.0)]);
    assert_eq!((figure.value, figure.ratio), (Some(4.0), Some(2.0)));
    assert_eq!(figure.least_ratio, Some(0.0));
}

#[test]
fn without_a_figure_in_most_turns_there_is_none() {
    for row in [time(), rate()] {
        let figure = beside_two(&row, &[Some(4.0), None, None]);
        assert_eq!((figure.value, figure.ratio), (None, None), "{figure}");
    }
}

#[test]
fn there_is_no_ratio_to_one_that_gave_nothing_in_most_turns() {
    for row in [time(), rate()] {
        let nothing = || Err("nothing".to_owned());
        let turns = Turns::of(vec![
            ("base", vec![nothing(), Ok(2.0), nothing()]),
            ("subject", vec![Ok(4.0); 3]),
        ]);
        let figure = turns.beside("base", &row).remove(1);
        assert_eq!((figure.value, figure.ratio), (Some(4.0), None), "{figure}");
    }
}

#[test]
fn of_two_in_the_middle_the_worse_counts() {
    let given = [Some(4.0), Some(8.0)];
    assert_eq!(beside_two(&time(), &given).value, Some(8.0));
    assert_eq!(beside_two(&rate(), &given).value, Some(4.0));
}

#[test]
fn the_worst_turn_is_the_longest() {
    let figure = beside_two(
        &time().of_the_worst_turn(),
        &[Some(4.0), Some(8.0), Some(6.0)],
    );
    assert_eq!((figure.value, figure.ratio), (Some(8.0), Some(3.0)));
}

#[tokio::test]
async fn a_subject_that_panics_ends_neither_its_turns_nor_those_of_others() {
    let cast: Cast<Vec<f64>> = vec![
        ("steady", Ok(vec![2.0])),
        ("panics", Ok(vec![])),
        ("unconnected", Err("no way there".to_owned())),
    ];
    let measure = async |gives: &Vec<f64>| Ok(*gives.first().expect("something to give"));
    let figures = Turns::take(&cast, 3, measure)
        .await
        .beside("steady", &time());
    let said: Vec<_> = figures
        .iter()
        .map(|figure| (figure.value, figure.failed_turns, figure.failure.as_deref()))
        .collect();
    assert_eq!(
        said,
        [
            (Some(2.0), 0, None),
            (None, 3, Some("panicked: something to give")),
            (None, 3, Some("no way there")),
        ]
    );
}
