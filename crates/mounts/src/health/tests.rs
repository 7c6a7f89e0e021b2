//! Verdicts on matrices of drives and tapes that are made up.

use base::{ByteCount, Timestamp, Vid};
use journal::{CounterRecord, ErrorRecord, MountKind};

use super::*;

const DRIVES: u64 = 4;
const TAPES: u64 = 12;

fn vid(number: u64) -> Vid {
    Vid::new(&format!("KT{number:04}")).unwrap()
}

fn drive(number: u64) -> String {
    format!("d{number}")
}

/// A mount of 10 GB with so many corrected and uncorrected errors.
fn mount(at: i64, of: u64, tape: u64, corrected: u64, uncorrected: u64) -> MountSample {
    let told = |corrected, uncorrected| ErrorRecord {
        corrected: Some(corrected),
        retries: None,
        uncorrected: Some(uncorrected),
    };
    let counted = CounterRecord {
        writing: told(corrected, uncorrected),
        reading: told(0, 0),
        ..CounterRecord::default()
    };
    MountSample {
        drive: drive(of),
        vid: vid(tape),
        ended: Timestamp(at),
        kind: MountKind::Migrate,
        product: None,
        counted: Some(counted),
        bytes: ByteCount(10_000_000_000),
        write_rate: Some(300e6),
        order: None,
        alerts: Vec::new(),
        failed: None,
    }
}

/// Every tape in every drive twice, each mount as it is made.
fn matrix(make: impl Fn(i64, u64, u64) -> MountSample) -> Vec<MountSample> {
    let mut all = Vec::new();
    for round in 0..2 {
        for of in 0..DRIVES {
            for tape in 0..TAPES {
                all.push(make(all.len() as i64 + round, of, tape));
            }
        }
    }
    all
}

fn report(samples: &[MountSample]) -> HealthReport {
    HealthReport::of(&samples.iter().collect::<Vec<_>>(), &HealthRules::default())
}

/// All that are not well.
fn unwell(report: &HealthReport) -> Vec<(String, Verdict)> {
    let drives = report.drives.iter().map(|(name, it)| (name.clone(), it.verdict));
    let tapes = report.tapes.iter().map(|(vid, it)| (vid.to_string(), it.verdict));
    drives.chain(tapes).filter(|(_, verdict)| *verdict != Verdict::Well).collect()
}

fn named(names: &[&str], verdict: Verdict) -> Vec<(String, Verdict)> {
    names.iter().map(|name| ((*name).to_owned(), verdict)).collect()
}

/// What drives correct all the time differs by a few from mount to mount.
fn noise(at: i64) -> u64 {
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59
}

#[test]
fn noise_speaks_against_nobody() {
    let all = report(&matrix(|at, of, tape| mount(at, of, tape, 20 + noise(at), 0)));
    assert_eq!(unwell(&all), []);
    assert_eq!(all.drives["d0"].reason, VerdictReason::DoesWell { partner: Partner::Tape, with: TAPES });
    assert_eq!(all.pairs.len() as u64, DRIVES * TAPES);
    assert!(all.pairs.iter().all(|pair| pair.mounts == 2 && pair.bytes.0 == 20_000_000_000));
}

#[test]
fn a_planted_bad_drive_is_found_and_its_tapes_are_well() {
    let all =
        report(&matrix(|at, of, tape| mount(at, of, tape, if of == 2 { 900 } else { 20 } + noise(at), 0)));
    assert_eq!(unwell(&all), named(&["d2"], Verdict::Bad));
    let VerdictReason::DoesBadly(badly) = &all.drives["d2"].reason else { panic!("{all:?}") };
    assert_eq!((badly.with, badly.of, badly.well_elsewhere), (TAPES, TAPES, TAPES));
    let text = all.drives["d2"].reason.to_string();
    let begin = "does badly with 12 of 12 tapes, of which 12 do well in other drives (KT";
    assert!(text.starts_with(begin) && text.contains("corrected errors a GB, where "), "{text}");
}

#[test]
fn a_planted_bad_tape_is_found_and_its_drives_are_well() {
    let all = report(&matrix(|at, of, tape| mount(at, of, tape, 20 + noise(at), u64::from(tape == 5))));
    assert_eq!(unwell(&all), named(&["KT0005"], Verdict::Bad));
    let text = all.tapes[&vid(5)].reason.to_string();
    assert_eq!(
        text,
        "does badly with 4 of 4 drives, of which 4 do well with other tapes (d0: 2 errors that could not be \
         corrected)"
    );
}

#[test]
fn a_bad_drive_and_a_bad_tape_are_told_apart() {
    let all = report(&matrix(|at, of, tape| {
        let errors = u64::from(of == 1) + u64::from(tape == 7);
        mount(at, of, tape, 20 + noise(at), errors)
    }));
    assert_eq!(unwell(&all), named(&["d1", "KT0007"], Verdict::Bad));
    // The bad tape is no evidence against the bad drive, nor the other way round.
    let VerdictReason::DoesBadly(Badly { well_elsewhere, badly_elsewhere, .. }) = all.drives["d1"].reason
    else {
        panic!("{all:?}")
    };
    assert_eq!((well_elsewhere, badly_elsewhere), (TAPES - 1, 1));
}

#[test]
fn a_drive_that_writes_slowly_is_bad() {
    let all = report(&matrix(|at, of, tape| {
        let rate = if of == 3 { 120e6 } else { 290e6 + noise(at) as f64 * 1e6 };
        MountSample { write_rate: Some(rate), ..mount(at, of, tape, 20, 0) }
    }));
    assert_eq!(unwell(&all), named(&["d3"], Verdict::Bad));
    assert!(all.drives["d3"].reason.to_string().contains("written with 120"), "{:?}", all.drives["d3"]);
}

#[test]
fn one_error_is_doubtful_for_the_tape_and_nothing_for_the_drive() {
    let samples = matrix(|at, of, tape| mount(at, of, tape, 20, u64::from(of == 0 && tape == 3)));
    assert_eq!(unwell(&report(&samples)), named(&["KT0003"], Verdict::Doubtful));
    // In the one drive that there is: nobody knows whose fault it is.
    let one: Vec<MountSample> = samples.into_iter().filter(|sample| sample.drive == "d0").collect();
    assert_eq!(unwell(&report(&one)), named(&["KT0003"], Verdict::Doubtful));
}

#[test]
fn the_one_drive_of_a_site_that_does_badly_with_all_is_doubtful() {
    let samples = matrix(|at, of, tape| mount(at, of, tape, 20, 1));
    let one: Vec<MountSample> = samples.into_iter().filter(|sample| sample.drive == "d0").collect();
    let all = report(&one);
    assert_eq!(all.drives["d0"].verdict, Verdict::Doubtful);
    assert!(all.tapes.values().all(|it| it.verdict != Verdict::Bad), "{:?}", all.tapes);
}

#[test]
fn flags_of_the_drive_and_of_the_tape_speak_for_themselves_until_they_are_old() {
    let flagged = |count: usize, flag: u8| {
        let mut samples = matrix(|at, of, tape| mount(at, of, tape, 20, 0));
        samples.sort_by_key(|sample| (sample.vid == vid(0) && sample.drive == "d0", sample.ended));
        let at = samples.len() as i64;
        samples.iter_mut().zip(0..at).for_each(|(sample, at)| sample.ended = Timestamp(at));
        samples.last_mut().unwrap().alerts = vec![library::TapeAlert(flag)];
        for more in 0..count {
            samples.push(mount(at + more as i64, 0, 0, 20, 0));
        }
        unwell(&report(&samples))
    };
    for after in [0, 4] {
        assert_eq!(flagged(after, 30), named(&["d0"], Verdict::Bad));
        assert_eq!(flagged(after, 7), named(&["KT0000"], Verdict::Bad));
    }
    assert_eq!((flagged(5, 30), flagged(5, 7)), (Vec::new(), Vec::new()));
    // The others are about cleaning, or about what drive and tape do together.
    assert_eq!(flagged(0, 20), []);
    assert_eq!(flagged(0, 3), named(&["KT0000"], Verdict::Doubtful));
}

/// A drive raises its flag at each load until it was cleaned.
#[test]
fn a_drive_that_asks_for_cleaning_does_so_in_its_newest_mount() {
    let asks = |flag| MountSample { alerts: vec![library::TapeAlert(flag)], ..mount(0, 0, 0, 20, 0) };
    let clean = |at| mount(at, 0, 1, 20, 0);
    assert_eq!(report(&[asks(20)]).cleaning["d0"], library::TapeAlert::CLEAN_NOW);
    assert_eq!(report(&[mount(-1, 1, 0, 0, 0), asks(22)]).cleaning.len(), 1);
    assert!(report(&[asks(21), clean(1)]).cleaning.is_empty());
    assert!(report(&[asks(3)]).cleaning.is_empty());
}

#[test]
fn little_is_not_enough_and_nothing_told_is_nothing_known() {
    let few = [mount(0, 0, 0, 20, 0), mount(1, 0, 1, 20, 0)];
    let all = report(&few);
    assert_eq!(unwell(&all), named(&["d0"], Verdict::TooFewMounts));
    assert_eq!(all.drives["d0"].reason.to_string(), "not enough mounts yet: 2 tapes measured, 3 needed");
    let small = matrix(|at, of, tape| MountSample { bytes: ByteCount(1_000), ..mount(at, of, tape, 0, 0) });
    assert!(report(&small).tapes.values().all(|it| it.verdict == Verdict::TooFewMounts));
    let mute = matrix(|at, of, tape| MountSample { counted: None, ..mount(at, of, tape, 0, 0) });
    assert!(report(&mute).drives.values().all(|it| it.verdict == Verdict::TooFewMounts));
    assert_eq!(report(&[]), HealthReport::default());
}

/// A drive that was mended is well after some mounts, and one that gets worse is not hidden by its good past.
#[test]
fn the_newest_mounts_count() {
    let rounds = |bad: std::ops::Range<usize>| {
        let mut samples = Vec::new();
        for round in 0..24 {
            for of in 0..2 {
                for tape in 0..4 {
                    let errors = u64::from(of == 1 && bad.contains(&round));
                    samples.push(mount(samples.len() as i64, of, tape, 20, errors));
                }
            }
        }
        unwell(&report(&samples))
    };
    assert_eq!(rounds(0..16), []);
    assert_eq!(rounds(22..24), named(&["d1"], Verdict::Bad));
}

#[test]
fn drives_of_different_models_are_not_compared() {
    let samples = matrix(|at, of, tape| {
        let product = journal::ProductRecord { product: format!("model {}", of / 2), ..Default::default() };
        let counts = if of < 2 { 20 } else { 2_000 };
        MountSample { product: Some(product), ..mount(at, of, tape, counts, 0) }
    });
    assert_eq!(unwell(&report(&samples)), []);
}
