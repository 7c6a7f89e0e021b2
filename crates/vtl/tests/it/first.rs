use scsi::Data;
use scsi::command::{ElementType, Primary, SpaceCode};

use crate::common::*;

#[test]
fn a_cartridge_is_loaded_written_read_and_brought_back() {
    let bench = Bench::new();
    let mut drive = bench.loaded();
    let mut changer = bench.host(CHANGER);
    drive.write(&pattern(1, 1000));
    drive.marks(1);
    drive.write(&pattern(2, 10));
    assert_eq!(drive.place(), (0, 3, 1));
    assert_eq!(drive.space(SpaceCode::Filemarks, -1), Ok(()));
    assert_eq!(drive.place(), (0, 1, 0));
    drive.locate(0, 0);
    assert_eq!(drive.read(1000), Ok(pattern(1, 1000)));
    let bays = changer.elements(ElementType::DataTransfer);
    assert_eq!(bays.len(), 2);
    assert_eq!(bays[0].volume(), Some(VID.into()));
    assert_eq!(code(&changer.fails(&move_medium(BAY, SLOT), Data::None)), (5, 0x53, 3));
    drive.go(&unload(), Data::None);
    changer.go(&move_medium(BAY, SLOT), Data::None);
    assert_eq!(code(&drive.fails(&Primary::TestUnitReady.into(), Data::None)), (2, 0x3a, 0));
}
