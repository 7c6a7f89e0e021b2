//! What stands on drives of the pool.

use crate::split;

/// Superblocks, headers of records, footers of segments, as they are and with checksums that agree.
pub(crate) fn drive(data: &[u8]) {
    let (which, rest) = split(data);
    match which % 2 {
        0 => drive::fuzz::superblock(rest),
        _ => pool::fuzz::segment(rest),
    }
}

/// Records, tables and pages of a store of values, as they are and with checksums that agree.
pub(crate) fn value_log(data: &[u8]) {
    let (which, rest) = split(data);
    match which % 3 {
        0 => valuelog::fuzz::record(rest),
        1 => valuelog::fuzz::table(rest),
        _ => valuelog::fuzz::pages(rest),
    }
}
