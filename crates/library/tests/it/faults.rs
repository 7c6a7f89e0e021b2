//! Faults on demand: `cargo test -p library --features faults`.
#![cfg(feature = "faults")]

use crate::common::{Bench, VID, data, drive_name, read_at, vid};
use base::Partition;
use library::{Library, LibraryError, TapeError};

#[test]
fn planned_faults_happen_once_each_is_met() {
    let bench = Bench::new();
    let faults = bench.library.faults();
    faults.plan_jam(vid(VID));
    let error = bench.library.mount(vid(VID), &drive_name("vdrive0")).unwrap_err();
    assert!(matches!(error, LibraryError::RobotJam { .. }), "{error}");
    let mut drive = bench.load(VID);
    drive.locate(data(0)).unwrap();
    for n in 0..3 {
        drive.write_block(&[n; 10]).unwrap();
    }

    faults.plan_unreadable(vid(VID), data(1));
    assert!(matches!(read_at(drive.as_mut(), data(1)), Err(TapeError::Unreadable { .. })));
    assert!(read_at(drive.as_mut(), data(2)).is_ok());

    faults.plan_end(vid(VID), data(3));
    assert!(matches!(drive.write_block(b"x"), Err(TapeError::EndOfMedium { .. })));
    drive.write_filemarks(0).unwrap();
    assert_eq!(faults.fired(), 3);

    faults.clear();
    faults.plan_write_error(vid(VID), data(4));
    drive.write_block(b"x").unwrap();
    assert!(matches!(drive.write_block(b"y"), Err(TapeError::Medium { .. })));
    assert_eq!(faults.fired(), 4);
    // After a failed write nothing more is written until a reload shows what is there.
    for result in [drive.write_block(b"z"), drive.write_filemarks(0)] {
        assert!(matches!(result, Err(TapeError::Poisoned { .. })), "{result:?}");
    }
    drop(drive);
    bench.library.unmount(&drive_name("vdrive0")).unwrap();
    let mut drive = bench.load(VID);
    assert_eq!(drive.space_to_end_of_data(Partition::Data).unwrap(), data(4));
    drive.write_filemarks(0).unwrap();
}
