//! What the target answers by itself: which units there are, and commands for those that are not (SPC-5,
//! SAM-6).

use scsi::{Cdb, Completion, Status};

use crate::pdu::Lun;

use super::worker::check_condition;

const REQUEST_SENSE: u8 = 0x03;
const INQUIRY: u8 = 0x12;
const REPORT_LUNS: u8 = 0xa0;

/// The command in these bytes, as long as its operation code says (SAM-6, 5.2.1). Vendors' own may be of any
/// length: then they are all of the bytes.
pub(super) fn cdb_of(bytes: [u8; 16]) -> Cdb {
    let length = match bytes[0] >> 5 {
        0 => 6,
        1 | 2 => 10,
        5 => 12,
        _ => 16,
    };
    Cdb::new(&bytes[..length]).expect("all of these are lengths of commands")
}

/// Whether the target itself answers REPORT LUNS there.
pub(super) fn is_report_luns(cdb: &Cdb, lun: Lun, luns: &[Lun]) -> bool {
    let anywhere = lun == Lun::REPORT_LUNS || lun == Lun::default() || luns.contains(&lun);
    cdb.operation_code() == REPORT_LUNS && anywhere
}

/// REPORT LUNS.
pub(super) fn report_luns(cdb: &Cdb, luns: &[Lun], into: &mut [u8]) -> Completion {
    let [_, _, select, _, _, _, a, b, c, d, ..] = *cdb.bytes() else {
        return check_condition(0x5, 0x24, 0x00);
    };
    let allocation = u32::from_be_bytes([a, b, c, d]) as usize;
    let listed: &[Lun] = match select {
        // Units, with or without well-known ones, of which only the one that lists them is here.
        0x00 | 0x02 => luns,
        0x01 => &[Lun::REPORT_LUNS],
        _ => return check_condition(0x5, 0x24, 0x00),
    };
    let mut list = ((listed.len() * 8) as u32).to_be_bytes().to_vec();
    list.extend([0; 4]);
    listed.iter().for_each(|lun| list.extend(lun.0));
    give(&list, allocation, into)
}

/// What a unit answers that is not there.
pub(super) fn absent(cdb: &Cdb, into: &mut [u8]) -> Completion {
    match *cdb.bytes() {
        [INQUIRY, flags, _, high, low, ..] if flags & 1 == 0 => {
            // Qualifier 3, type 1Fh: nothing can be there; SPC-3; 31 more bytes.
            let mut data = [b' '; 36];
            data[..8].copy_from_slice(&[0x7f, 0, 5, 2, 31, 0, 0, 0]);
            give(&data, usize::from(u16::from_be_bytes([high, low])), into)
        }
        [REQUEST_SENSE, _, _, _, allocation, ..] => {
            let sense = check_condition(0x5, 0x25, 0x00).sense;
            give(&sense, usize::from(allocation), into)
        }
        _ => check_condition(0x5, 0x25, 0x00),
    }
}

fn give(data: &[u8], allocation: usize, into: &mut [u8]) -> Completion {
    let given = data.len().min(allocation).min(into.len());
    into[..given].copy_from_slice(&data[..given]);
    Completion { status: Status::Good, sense: Vec::new(), transferred: given }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_listed_as_far_as_there_is_room() {
        let luns = [Lun::of(0).unwrap(), Lun::of(300).unwrap()];
        let cdb = |select: u8, length: u8| {
            Cdb::new(&[REPORT_LUNS, 0, select, 0, 0, 0, 0, 0, 0, length, 0, 0]).unwrap()
        };
        let mut into = [0; 64];
        assert_eq!(report_luns(&cdb(0, 64), &luns, &mut into).transferred, 24);
        assert_eq!(into[..4], [0, 0, 0, 16]);
        assert_eq!(into[16..18], [0x41, 0x2c]);
        assert_eq!(report_luns(&cdb(2, 12), &luns, &mut into).transferred, 12);
        assert_eq!(report_luns(&cdb(0, 64), &luns, &mut into[..8]).transferred, 8);
        assert_eq!(report_luns(&cdb(9, 64), &luns, &mut into).status, Status::CheckCondition);
    }

    #[test]
    fn nothing_is_where_no_unit_is() {
        let mut into = [0; 64];
        let inquiry = absent(&Cdb::new(&[INQUIRY, 0, 0, 0, 36, 0]).unwrap(), &mut into);
        assert_eq!((inquiry.transferred, into[0]), (36, 0x7f));
        let ready = absent(&Cdb::new(&[0; 6]).unwrap(), &mut into);
        assert_eq!((ready.status, ready.sense[2], ready.sense[12]), (Status::CheckCondition, 5, 0x25));
    }

    #[test]
    fn every_operation_code_has_a_length() {
        for code in 0..=255 {
            let mut bytes = [7; 16];
            bytes[0] = code;
            assert_eq!(cdb_of(bytes).operation_code(), code);
        }
        assert_eq!(cdb_of([0x12; 16]).bytes().len(), 6);
        assert_eq!(cdb_of([0x88; 16]).bytes().len(), 16);
        assert_eq!(cdb_of([0xa3; 16]).bytes().len(), 12);
    }
}
