//! What a site lacks is said in words: a newcomer read confident figures of a site that had run out of tapes.

mod support;

use support::*;
use twin::model::Model;
use twin::outcome::Outcome;
use twin::report::sentences;
use twin::stats::{Summary, summary};

fn runs(model: &Model) -> Vec<Outcome> {
    vec![twin::run(model, 1)]
}

fn said(variants: &[Vec<Outcome>]) -> (Summary, Vec<String>) {
    let summary = summary(variants);
    let shown: Vec<&Outcome> = variants.iter().map(|outcomes| &outcomes[0]).collect();
    let said = sentences(&summary, &shown);
    (summary, said)
}

#[test]
fn scratch_tapes_that_run_out_are_said_so() {
    let mut model = model(2, 1, TB);
    ingest(&mut model, 5_000.0, hours(48));
    (model.span, model.until_done) = (hours(72), false);
    let with = |scratch: u32| {
        let mut model = model.clone();
        model.site.libraries[0].scratch = scratch;
        runs(&model)
    };
    let enough = said(&[with(20)]).1;
    assert!(!enough.iter().any(|sentence| sentence.contains("ran out")), "{enough:?}");
    let (few, none) = (with(3), with(0));
    let since = few[0].no_tape_since.expect("three tapes of 1 TB are not enough for 10 TB");
    assert!((3_600.0..48.0 * 3_600.0).contains(&since), "{since}");
    let waits = few[0].no_tape_bytes as f64 / 1e12;
    assert!((6.0..8.0).contains(&waits), "{waits} TB");
    assert!(none[0].no_tape_bytes > few[0].no_tape_bytes && none[0].totals.tape_written == 0);
    for outcomes in [few, none] {
        let (summary, said) = said(&[outcomes]);
        let begin = "small: scratch tapes ran out after ";
        assert!(
            said.iter().any(|one| one.starts_with(begin) && one.contains(" TB still waited")),
            "{said:?}"
        );
        assert!(summary.variants[0].site("waiting for a scratch tape at the end").mean > 0.0);
    }
}

#[test]
fn recalls_that_wait_for_room_are_said_so() {
    let mut model = model(2, 1, TB);
    hold(&mut model, 10_000);
    campaign(&mut model, None);
    model.site.pool.capacity = base::ByteCount(3 * TB);
    (model.span, model.until_done) = (hours(12), false);
    let outcomes = runs(&model);
    assert!((6 * TB..10 * TB).contains(&outcomes[0].no_room_bytes), "{}", outcomes[0].no_room_bytes);
    let said = said(&[outcomes]).1;
    let lacks = |one: &String| one.starts_with("small: recalls of ") && one.contains("for room in the pool");
    assert!(said.iter().any(lacks), "{said:?}");
}
