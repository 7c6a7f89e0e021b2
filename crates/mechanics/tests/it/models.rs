//! The data files of drives, media and robots, and what becomes of them.

use base::{BlockAddress, Partition};
use mechanics::{
    DriveModel, LocateFigures, MediumModel, ModelError, Models, Place, RobotModel, WrapEndsError,
};

const BLOCK: u32 = 524_288;

#[test]
fn every_figure_has_a_source_and_only_read_ones_are_verified() {
    let mut figures: Vec<_> = mechanics::drives().iter().flat_map(DriveModel::figures).collect();
    figures.extend(mechanics::locates().iter().flat_map(LocateFigures::figures));
    figures.extend(mechanics::media().iter().flat_map(MediumModel::figures));
    figures.extend(mechanics::robots().iter().flat_map(RobotModel::figures));
    let statements = mechanics::drives().iter().flat_map(DriveModel::statements);
    let sources = figures.iter().map(|named| (named.figure.source.clone(), named.figure.verified));
    let stated = statements.map(|named| (named.statement.source.clone(), named.statement.verified));
    let all: Vec<(String, bool)> = sources.chain(stated).collect();
    assert!(all.len() > 400, "{} figures", all.len());
    for (source, verified) in all {
        assert!(source.len() > 10, "{source:?} is no source");
        let own_word = source.starts_with("derived: ") || source.starts_with("assumed: ");
        assert!(!(own_word && verified), "{source:?} is not verified");
    }
}

#[test]
fn drives_and_media_know_each_other() {
    for drive in mechanics::drives() {
        let own = drive.own_medium().unwrap_or_else(|error| panic!("{}: {error}", drive.name));
        assert!(drive.takes(own).is_some());
        for taken in &drive.media {
            let medium = mechanics::medium(&taken.medium).unwrap_or_else(|error| panic!("{error}"));
            let timing = drive.timing(medium);
            assert!(timing.least_rate <= timing.native_rate && timing.least_rate > 0, "{}", timing.name);
            assert!(timing.load_us > 1_000_000 && timing.unload_us > 1_000_000, "{}", timing.name);
            assert!(timing.lpos_per_second > 0.0 && timing.locate.lpos_us > 0.0, "{}", timing.name);
        }
    }
    for medium in mechanics::media() {
        let taken = mechanics::drives().iter().any(|drive| drive.takes(medium).is_some());
        assert!(taken, "no drive takes {}", medium.name);
    }
}

#[test]
fn names_are_found_however_they_are_written() {
    for name in ["LTO-8", "lto8", "LTO 8", "Lto_8", "ult3580-td8"] {
        assert_eq!(mechanics::drive(name).map(|drive| drive.name.as_str()), Ok("LTO-8"), "{name}");
    }
    assert_eq!(mechanics::medium("l9").map(|medium| medium.name.as_str()), Ok("LTO-9"));
    assert_eq!(mechanics::robot("sl8500").map(|robot| robot.timing().robots), Ok(4));
    let error = mechanics::drive("LTO-99").unwrap_err();
    assert!(error.known.contains(&"LTO-9-HH".to_owned()));
    assert!(error.to_string().contains("LTO-10"), "{error}");
}

#[test]
fn timings_are_those_of_the_data() {
    let lto8 = mechanics::timing("LTO8").unwrap();
    assert_eq!((lto8.native_rate, lto8.least_rate), (360_000_000, 112_000_000));
    assert_eq!((lto8.load_us, lto8.unload_us), (15_000_000, 24_000_000));
    assert_eq!(lto8.name, "LTO-8");
    assert!(!lto8.recommends_order);
    let drive = mechanics::drive("LTO-8").unwrap();
    let older = drive.timing(mechanics::medium("LTO-7").unwrap());
    assert_eq!((older.name.as_str(), older.native_rate), ("LTO-8 with LTO-7", 300_000_000));
    assert!(mechanics::timing("LTO-9").unwrap().recommends_order);
    assert!(!mechanics::timing("LTO-9-HH").unwrap().recommends_order);
}

/// Worked by hand from the coefficients that CTA has, on LTO-8: LPOS 2,696 to 171,097, middle at
/// (171,097 - 2,696) / 2 = 84,200, bands of 52 wraps.
///
/// - wrap 0, 2,696 to wrap 1, 171,097: another wrap, landing zone and direction, 168,401 LPOS:
///   4.29 + 6.69 - 6.04 + 5.22 + 168,401 x 0.0006192 = 10.16 + 104.273899 = 114.433899 s.
/// - wrap 0, 100,000 back to 90,000: 4.29 + 11.32 + 10,000 x 0.0006192 = 21.802 s.
/// - wrap 0, 50,000 to wrap 52, 60,000: another wrap and band: 4.29 + 6.69 + 3.2 + 6.192 = 20.372 s.
/// - wrap 0, 84,000 to 84,400: 4.29 - 6.04 + 0.24768 is below zero; no locate takes less than 4.29 s.
#[test]
fn costs_are_those_of_cta() {
    let track = mechanics::medium("LTO-8").unwrap().track(mechanics::drive("LTO-8").unwrap(), BLOCK, None);
    let cost = |from: (u16, u32), to: (u16, u32)| {
        let place = |(wrap, lpos)| Place { wrap, lpos };
        track.locate_us(place(from), place(to))
    };
    assert_eq!(cost((0, 2_696), (1, 171_097)), 114_433_899);
    assert_eq!(cost((0, 100_000), (0, 90_000)), 21_802_000);
    assert_eq!(cost((0, 50_000), (52, 60_000)), 20_372_000);
    assert_eq!(cost((0, 84_000), (0, 84_400)), 4_290_000);
}

/// IBM's SCSI reference gives what is left for two partitions: 1,462.5 GB on LTO-5, 11,884.615 GB on LTO-8,
/// 17,742.66 GB on LTO-9; mkltfs leaves 1,425 GB for data on LTO-5.
#[test]
fn the_data_partition_begins_behind_index_and_guard() {
    let (lto5, lto8, lto9) = (
        mechanics::medium("LTO-5").unwrap(),
        mechanics::medium("LTO-8").unwrap(),
        mechanics::medium("LTO-9").unwrap(),
    );
    assert_eq!(lto5.data_capacity().0, 1_425_000_000_000);
    let both = |medium: &MediumModel| {
        (medium.data_capacity().0 + medium.index_wraps.whole() * medium.wrap_capacity.whole()) / 1_000_000_000
    };
    assert_eq!((both(lto5), both(lto8), both(lto9)), (1_462, 11_884, 17_742));
    assert_eq!((lto8.first_data_wrap(), lto9.first_data_wrap()), (4, 6));
    assert_eq!((lto8.data_wraps(), lto9.data_wraps()), (204, 274));
    let track = lto9.track(mechanics::drive("LTO-9").unwrap(), BLOCK, None);
    assert_eq!(track.place(BlockAddress(0)), Place { wrap: 6, lpos: 2_696 });
    assert_eq!(track.place(BlockAddress(lto9.wrap_blocks(BLOCK))).wrap, 7);
    assert_eq!(track.map.wraps(), 280);
    assert_eq!(track.read_us(1_000_000), 1_310_720_000, "524,288 bytes at 400 MB/s are 1,310.72 us");
}

#[test]
fn measured_ends_of_wraps_override_the_nominal_ones() {
    let medium = mechanics::medium("LTO-8").unwrap();
    let drive = mechanics::drive("LTO-8").unwrap();
    // Twice the nominal blocks on each wrap, as compressible data have; the third wrap is not full.
    let nominal = medium.wrap_blocks(BLOCK);
    let map = medium.measured_map(&[2 * nominal, 4 * nominal], BLOCK).unwrap();
    assert_eq!(map.ends(), [2 * nominal, 4 * nominal]);
    let measured = medium.track(drive, BLOCK, Some(map));
    let plain = medium.track(drive, BLOCK, None);
    let wraps = |block| {
        let block = BlockAddress(block);
        (plain.place(block).wrap, measured.place(block).wrap)
    };
    assert_eq!(wraps(3 * nominal), (7, 5));
    assert_eq!(wraps(5 * nominal), (9, 6), "behind the last end wraps are as long as the last one");
    assert_eq!(wraps(6 * nominal), (10, 7));
    assert_eq!(medium.measured_map(&[], BLOCK).unwrap(), medium.data_map(BLOCK), "none is full yet");
    let full: Vec<u64> = (1..=204).map(|wrap| wrap * 100).collect();
    assert_eq!(medium.measured_map(&full, BLOCK).unwrap().ends(), full);
}

#[test]
fn impossible_ends_of_wraps_are_refused() {
    let medium = mechanics::medium("LTO-8").unwrap();
    let refused = |ends: &[u64]| medium.measured_map(ends, BLOCK).unwrap_err();
    assert!(matches!(refused(&[0]), WrapEndsError::Order { wrap: 0, .. }));
    assert!(matches!(refused(&[10, 20, 20]), WrapEndsError::Order { wrap: 2, .. }));
    let many: Vec<u64> = (1..=205).collect();
    assert!(matches!(refused(&many), WrapEndsError::TooMany { given: 205, wraps: 204, .. }));
}

#[test]
fn the_geometry_of_both_partitions_is_that_of_the_data() {
    for medium in mechanics::media() {
        let geometry = medium.geometry();
        assert_eq!(geometry.block_map(BLOCK), medium.data_map(BLOCK), "{}", medium.name);
        assert_eq!(geometry.first_wrap(Partition::Data), medium.first_data_wrap(), "{}", medium.name);
    }
    let lto9 = mechanics::medium("LTO-9").unwrap().geometry();
    assert_eq!((lto9.index_wraps, lto9.guard_wraps, lto9.wraps), (2, 4, 280));
}

/// A site's own drive: the example of the reference.
fn own() -> String {
    let page = include_str!("../../../../docs/reference/mechanics.md");
    let (_, rest) = page.split_once("```\n[sources]").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    format!("[sources]{example}")
}

#[test]
fn a_site_adds_a_drive_of_its_own() {
    let drive = DriveModel::parse(&own()).unwrap();
    let timing = drive.timing(drive.own_medium().unwrap());
    assert_eq!((timing.native_rate, timing.load_us), (290_000_000, 21_500_000));
    assert_eq!(drive.unload.source, "Measured here, June 2026, 40 unloads");
    assert!((timing.lpos_per_second - 1e6 / 619.2).abs() < 1e-6, "no mean rewind: it winds as in locates");
}

#[test]
fn wrong_data_files_are_refused_with_a_reason() {
    let own = own();
    let error = |from: &str, to: &str| {
        assert!(own.contains(from), "{from}");
        Models::parse(&own.replace(from, to)).unwrap_err().to_string()
    };
    let expect = |from: &str, to: &str, words: &str| {
        let error = error(from, to);
        assert!(error.contains(words), "{from} -> {to}: {error:?} says nothing of {words:?}");
    };
    expect("value = 290", "value = 0", "LTO-8-ours: rate: 0 is not possible: it must be more than 0");
    expect("value = 290", "value = 100", "least_rate: it is above the rate of 100 MB/s");
    expect("value = 290", "value = inf", "up to 1e18");
    expect("value = 21.5", "value = -1", "load: -1000000 is not possible");
    expect("290, unit = \"MB/s\"", "290, unit = \"s\"", "unit \"s\" does not fit: use MB/s");
    expect("290, unit = \"MB/s\"", "290, unit = \"furlongs\"", "use MB/s");
    expect("source = \"us: 40 unloads\"", "source = \"them\"", "source \"them\" is not in [sources] (us)");
    expect("assumed: as any LTO-8\", verified = false", "assumed: \", verified = false", "needs its reason");
    expect("as any LTO-8\", verified = false", "as any LTO-8\", verified = true", "is not verified");
    expect("locate = \"lto\"", "locate = \"dat\"", "locate: \"dat\" is not known: use one of lto");
    expect("unload =", "unlaod =", "unlaod");
    expect(", verified = true }", " }", "verified");
    let twice = format!("{own}{}", &own[own.find("[[drive]]").unwrap()..]);
    assert_eq!(Models::parse(&twice), Err(ModelError::Twice { name: "LTO-8-ours".to_owned() }));
    let two = twice.replacen("LTO-8-ours", "other", 1).replacen("\"ours\"", "\"another\"", 1);
    assert!(matches!(DriveModel::parse(&two), Err(ModelError::NotOne { drives: 2 })));
    assert!(matches!(DriveModel::parse("[sources]"), Err(ModelError::NotOne { drives: 0 })));
}
