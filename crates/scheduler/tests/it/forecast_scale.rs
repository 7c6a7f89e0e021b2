//! A forecast looks at tapes and their combinations, not at files: ten thousand tapes take a fraction of a
//! second, however many files are wanted.

use std::time::Instant;

use base::{ByteCount, FileId, ShareId, Timestamp, Vid};
use scheduler::{
    Event, Expected, FORECAST_STEPS_MAX, Forecaster, Pace, Policy, Scheduler, TapeSummary, WantedFile,
};

const TAPES: u64 = 10_000;
/// A thousand a tape need a release build; the groups are the same.
const FILES_A_TAPE: u64 = if cfg!(debug_assertions) { 20 } else { 1_000 };
const DRIVES: u64 = 40;

fn vid(number: u64) -> Vid {
    Vid::new(&format!("T{number:05}")).unwrap()
}

#[test]
fn a_forecast_over_ten_thousand_tapes() {
    let mut scheduler = Scheduler::new(Policy::default());
    let mut forecaster = Forecaster::new(Pace::default());
    let now = Timestamp(1_000_000_000_000_000);
    let mut actions = Vec::new();
    for number in 0..TAPES {
        let summary = TapeSummary { readable: true, ..TapeSummary::default() };
        forecaster.step(&mut scheduler, now, Event::Tape(vid(number), summary), &mut actions);
    }
    let files = (0..TAPES * FILES_A_TAPE).map(|file| WantedFile {
        file: FileId(file + 1),
        bytes: ByteCount(2_000_000_000),
        since: now,
        priority: 5,
        share: ShareId(0),
        copies: vec![vid(file % TAPES)],
    });
    scheduler.load(now, files);
    for drive in 0..DRIVES {
        let up = Event::DriveUp(format!("drive{drive:02}"));
        forecaster.step(&mut scheduler, now, up, &mut actions);
    }
    let begin = Instant::now();
    let summary = forecaster.summary(&mut scheduler, now);
    let held = begin.elapsed();
    let outlook = summary.run();
    let ran = begin.elapsed() - held;
    let (steps, groups) = (outlook.steps(), outlook.groups());
    let forecast = forecaster.forecast(outlook);
    let whole = begin.elapsed();
    println!(
        "{} files, {TAPES} tapes, {groups} groups, {steps} steps: {held:?} with the scheduler held, {ran:?} \
         for the run, {whole:?} in all",
        TAPES * FILES_A_TAPE
    );
    assert_eq!(groups as u64, TAPES, "one group a tape");
    assert!(steps <= FORECAST_STEPS_MAX + 1_000, "{steps}");
    // The last of 250 tapes a drive takes longer than the horizon or not: it is told in either case.
    let told = (0..TAPES).filter_map(|number| forecast.of_tape(vid(number))).count();
    assert_eq!(told as u64, TAPES, "every tape is told of");
    let first = (0..TAPES).any(|number| matches!(forecast.of_tape(vid(number)), Some(Expected::Within(_))));
    assert!(first, "and some are read soon");
}
