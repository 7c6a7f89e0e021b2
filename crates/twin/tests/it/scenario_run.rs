//! The small example runs, and two runs of it are one.

use scenario::parse;

#[test]
fn the_small_example_runs_and_repeats() {
    let small = include_str!("../../../../examples/twin/small.toml");
    let scenario = parse("small.toml", small, &|name| Err(name.to_owned())).unwrap();
    let model = scenario.variant("4 drives").unwrap();
    let mut told = Vec::new();
    let outcome = twin::world::run_watched(model, 1, None, &mut |now, events| told.push((now, events)));
    assert_eq!(outcome.violation, None);
    assert!(outcome.totals.files_read > 1_000 && outcome.totals.tape_written > 0, "{:?}", outcome.totals);
    assert_eq!(told.iter().map(|(_, events)| events).sum::<u64>(), outcome.events, "all events are told");
    assert!(told.is_sorted() && told.len() > 1);
    assert_eq!(twin::run(model, 1), outcome);
}
