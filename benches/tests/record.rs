//! The file of figures.

use redquorum_benches::figure::{Figure, Row, Unit};
use redquorum_benches::record::Record;

fn figure(bench: &str, subject: &str, value: f64) -> Figure {
    Row::new(bench, Unit::less("ms")).figure(subject, &[Ok(value)], None)
}

#[test]
fn a_program_adds_to_the_figures_of_another_and_replaces_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = vec![figure("cycle", "floor", 1.0)];
    Record::anew(dir.path()).add(theirs.clone()).unwrap();
    for value in [2.0, 3.0] {
        let mut record = Record::resumed(dir.path()).unwrap();
        record.add(vec![figure("waits", "floor", value)]).unwrap();
    }
    let json = std::fs::read(dir.path().join("compare.json")).unwrap();
    let figures: Vec<Figure> = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        figures,
        [theirs, vec![figure("waits", "floor", 3.0)]].concat()
    );
}

#[test]
fn what_another_run_left_is_gone_from_a_new_record() {
    let dir = tempfile::tempdir().unwrap();
    Record::anew(dir.path())
        .add(vec![figure("old", "floor", 1.0)])
        .unwrap();
    let new = vec![figure("cycle", "floor", 1.0)];
    Record::anew(dir.path()).add(new.clone()).unwrap();
    let json = std::fs::read(dir.path().join("compare.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Vec<Figure>>(&json).unwrap(), new);
}
