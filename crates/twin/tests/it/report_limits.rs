//! What a site lacks is said in words: a newcomer read confident figures of a site that had run out of tapes.

use crate::support::*;
use report::outcome::Outcome;
use report::sentences;
use report::stats::{Summary, summary};
use scenario::model::Model;

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

#[test]
fn a_campaign_that_was_not_served_has_no_time() {
    let mut model = model(2, 1, TB);
    hold(&mut model, 10_000);
    campaign(&mut model, None);
    (model.span, model.until_done) = (secs(30), false);
    let mut done = model.clone();
    (done.name, done.span, done.until_done) = ("in time".to_owned(), hours(48), true);
    let (summary, said) = said(&[runs(&model), runs(&done)]);
    let words = "Campaign “campaign” was not completed when the run ended: 0 of 10,000 files were there with \
                 “small”.";
    assert!(said.contains(&words.to_owned()), "{said:?}");
    let rows = summary.rows(true, None);
    let row = |name: &str| rows.iter().find(|row| row[0] == format!("campaign campaign: {name}")).unwrap();
    assert_eq!(row("completed after")[1], "not completed: 0 of 10,000 files");
    assert!(row("completed after")[2].ends_with(" h"), "{rows:?}");
    assert_eq!(row("wait, 99 %")[1], "–");
}

#[test]
fn a_campaign_is_no_warm_up() {
    let mut model = model(4, 1, TB);
    hold(&mut model, 20_000);
    campaign(&mut model, None);
    ingest(&mut model, 500.0, hours(24 * 7));
    (model.span, model.until_done) = (hours(24 * 7), false);
    let outcomes = runs(&model);
    assert!(outcomes[0].is_warm_up_found && outcomes[0].warm_up == 0.0, "{}", outcomes[0].warm_up);
    let mut cut = model.clone();
    cut.warm_up = Some(hours(24));
    let said = said(&[runs(&cut)]).1;
    assert!(said.last().unwrap().contains(" leave out the first 24.0 h; "), "{said:?}");
}

#[test]
fn where_rates_are_those_of_the_demand_the_rest_is_compared() {
    let with = |drives: u32| {
        let mut model = model(drives, 1, TB);
        model.name = format!("{drives} drives");
        model.site.pool.capacity = base::ByteCount(100 * TB);
        hold(&mut model, 20_000);
        campaign(&mut model, Some(15_000));
        (model.span, model.until_done) = (hours(24 * 4), false);
        runs(&model)
    };
    let said = said(&[with(2), with(4)]).1;
    let begin = "4 drives, against “2 drives”: campaign “campaign” is done after ";
    assert!(said[0].starts_with(begin), "{said:?}");
    assert!(said[0].contains(" drives are in use ") && said[0].contains(" times)"), "{said:?}");
    assert!(said[0].contains("Both moved all that was asked for: "), "{said:?}");
}

/// Until 2026-11 such a file found every tape full, so that all scratch tapes were used up, without a word.
#[test]
fn files_that_no_cartridge_takes_are_refused_and_said_so() {
    let mut model = model(2, 2, TB);
    model.site.classes[0].sizes = scenario::model::SizeLaw::Table(vec![GB, GB, GB, 2 * TB]);
    ingest(&mut model, 400.0, hours(24));
    let outcomes = runs(&model);
    let outcome = &outcomes[0];
    assert_eq!(outcome.violation, None);
    assert!(outcome.is_drained && outcome.puts_too_large > 50, "{} refused", outcome.puts_too_large);
    assert_eq!((outcome.scratch_left, outcome.totals.tapes_mounted), (198, 2), "one tape for each copy");
    let said = said(&[outcomes]).1;
    assert!(said.iter().any(|one| one.contains("larger than an empty cartridge")), "{said:?}");
}

/// A pack is never larger than a cartridge, whatever was said of packs.
#[test]
fn a_pack_is_no_larger_than_a_cartridge() {
    let mut model = model(1, 1, 100 * GB);
    model.site.classes[0].large = base::ByteCount(TB);
    model.site.classes[0].pack = base::ByteCount(TB);
    ingest(&mut model, 4_000.0, hours(6));
    let outcomes = runs(&model);
    assert_eq!(outcomes[0].violation, None);
    assert!(outcomes[0].is_drained && outcomes[0].scratch_left > 180, "{} left", outcomes[0].scratch_left);
}
