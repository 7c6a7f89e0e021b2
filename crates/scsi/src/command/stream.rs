//! The commands of tape drives (SSC-5, clauses 5 to 7).

use super::{Entry, Set, Transfer, entry};
use crate::bytes::Layout;
use crate::code::codes;

codes! {
    closed
    /// What SPACE counts (SSC-5, 6.8).
    SpaceCode {
        Blocks = 0 "logical blocks",
        Filemarks = 1 "filemarks",
        SequentialFilemarks = 2 "filemarks next to each other",
        EndOfData = 3 "to the end of data",
    }
}

codes! {
    closed
    /// What LOCATE(16) goes to (SSC-5, 6.4).
    Destination {
        Object = 0 "the logical object with this number",
        File = 1 "the first block behind the filemark with this number",
        EndOfData = 3 "the end of data",
    }
}

codes! {
    closed
    /// The forms of READ POSITION (SSC-5, 7.7).
    PositionForm {
        Short = 0x00 "short form",
        ShortVendor = 0x01 "short form with vendor specific addresses",
        Long = 0x06 "long form",
        Extended = 0x08 "extended form",
    }
}

codes! {
    closed
    /// What FORMAT MEDIUM makes (SSC-5, 6.2).
    FormatKind {
        Default = 0 "the default format",
        Partition = 1 "partitions as the mode page says",
        DefaultThenPartition = 2 "the default format, then partitions",
    }
}

codes! {
    closed
    /// What ALLOW OVERWRITE allows (SSC-5, 7.1).
    AllowOverwrite {
        Disabled = 0 "nothing is allowed",
        CurrentPosition = 1 "writing at the position",
        Format = 2 "formatting",
    }
}

codes! {
    closed
    /// How GENERATE RECOMMENDED ACCESS ORDER goes about it (IBM LTO SCSI reference, table 11).
    RaoProcess {
        Unspecified = 0 "not supported",
        Keep = 1 "the order is kept, times are estimated",
        Reorder = 2 "the order is changed",
    }
}

codes! {
    closed
    /// What READ END OF WRAP POSITION shares its service action with: it is told by this byte.
    Qualifier {
        EndOfWrap = 0x45 "end of wrap position",
    }
}

/// A command of a tape drive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // The fields have the names of the standard; lengths are in bytes.
pub enum Stream {
    /// To the begin of the partition.
    Rewind { immediate: bool },
    /// Makes partitions.
    FormatMedium { verify: bool, immediate: bool, format: FormatKind, length: u16 },
    /// The least and greatest block length; with `maximum_object`, the greatest block number.
    ReadBlockLimits { maximum_object: bool },
    /// One block, or with `fixed`, `length` blocks. With `suppress`, another length is no error.
    Read6 { suppress: bool, fixed: bool, length: u32 },
    /// One block, or with `fixed`, `length` blocks.
    Write6 { fixed: bool, length: u32 },
    /// Makes the medium shorter: `proportion` of 65,535.
    SetCapacity { immediate: bool, proportion: u16 },
    /// Filemarks; none: what is buffered is written.
    WriteFilemarks6 { immediate: bool, count: u32 },
    /// Filemarks at a position that is checked.
    WriteFilemarks16 {
        first_of_sequence: bool,
        last_of_sequence: bool,
        immediate: bool,
        partition: u8,
        object: u64,
        count: u32,
    },
    /// Over blocks or filemarks, back if negative.
    Space6 { code: SpaceCode, count: i64 },
    /// Over blocks or filemarks, back if negative.
    Space16 { code: SpaceCode, count: i64, length: u16 },
    /// Erases from here; `long`: to the end of the partition.
    Erase6 { immediate: bool, long: bool },
    /// Loads or unloads the medium.
    LoadUnload { immediate: bool, hold: bool, end_of_tape: bool, retension: bool, load: bool },
    /// To a block.
    Locate10 { vendor_address: bool, change_partition: bool, immediate: bool, object: u32, partition: u8 },
    /// To a block, file or the end of data.
    Locate16 {
        destination: Destination,
        change_partition: bool,
        immediate: bool,
        explicit: bool,
        partition: u8,
        object: u64,
    },
    /// Where the medium stands. The allocation length counts for the extended form only.
    ReadPosition { form: PositionForm, allocation_length: u16 },
    /// Densities; `medium`: of the one that is loaded.
    ReportDensitySupport { medium_type: bool, medium: bool, allocation_length: u16 },
    /// Lets the next write, or format, overwrite in append-only mode.
    AllowOverwrite { allow: AllowOverwrite, partition: u8, object: u64 },
    /// Asks for the best order in which to read.
    GenerateRao { process: RaoProcess, uds_type: u8, length: u32 },
    /// The order, or with `limits`, how many segments it may have.
    ReceiveRao { limits: bool, offset: u32, allocation_length: u32, uds_type: u8 },
    /// The last block of a wrap, or of all.
    ReadEndOfWrapPosition { wrap_valid: bool, all: bool, wrap: u16, allocation_length: u32 },
}

impl Set for Stream {
    const TABLE: &'static [Entry<Self>] = {
        use Stream as S;
        &[
            entry(0x01, &[], "REWIND", S::Rewind { immediate: false }),
            entry(
                0x04,
                &[],
                "FORMAT MEDIUM",
                S::FormatMedium { verify: false, immediate: false, format: FormatKind::Default, length: 0 },
            ),
            entry(0x05, &[], "READ BLOCK LIMITS", S::ReadBlockLimits { maximum_object: false }),
            entry(0x08, &[], "READ(6)", S::Read6 { suppress: false, fixed: false, length: 0 }),
            entry(0x0a, &[], "WRITE(6)", S::Write6 { fixed: false, length: 0 }),
            entry(0x0b, &[], "SET CAPACITY", S::SetCapacity { immediate: false, proportion: 0 }),
            entry(0x10, &[], "WRITE FILEMARKS(6)", S::WriteFilemarks6 { immediate: false, count: 0 }),
            entry(0x11, &[], "SPACE(6)", S::Space6 { code: SpaceCode::Blocks, count: 0 }),
            entry(0x19, &[], "ERASE(6)", S::Erase6 { immediate: false, long: false }),
            entry(
                0x1b,
                &[],
                "LOAD UNLOAD",
                S::LoadUnload {
                    immediate: false,
                    hold: false,
                    end_of_tape: false,
                    retension: false,
                    load: false,
                },
            ),
            entry(
                0x2b,
                &[],
                "LOCATE(10)",
                S::Locate10 {
                    vendor_address: false,
                    change_partition: false,
                    immediate: false,
                    object: 0,
                    partition: 0,
                },
            ),
            entry(
                0x34,
                &[0x00, 0x01, 0x06, 0x08],
                "READ POSITION",
                S::ReadPosition { form: PositionForm::Short, allocation_length: 0 },
            ),
            entry(
                0x44,
                &[],
                "REPORT DENSITY SUPPORT",
                S::ReportDensitySupport { medium_type: false, medium: false, allocation_length: 0 },
            ),
            entry(
                0x80,
                &[],
                "WRITE FILEMARKS(16)",
                S::WriteFilemarks16 {
                    first_of_sequence: false,
                    last_of_sequence: false,
                    immediate: false,
                    partition: 0,
                    object: 0,
                    count: 0,
                },
            ),
            entry(
                0x82,
                &[],
                "ALLOW OVERWRITE",
                S::AllowOverwrite { allow: AllowOverwrite::Disabled, partition: 0, object: 0 },
            ),
            entry(0x91, &[], "SPACE(16)", S::Space16 { code: SpaceCode::Blocks, count: 0, length: 0 }),
            entry(
                0x92,
                &[],
                "LOCATE(16)",
                S::Locate16 {
                    destination: Destination::Object,
                    change_partition: false,
                    immediate: false,
                    explicit: false,
                    partition: 0,
                    object: 0,
                },
            ),
            entry(
                0xa3,
                &[0x1d],
                "RECEIVE RECOMMENDED ACCESS ORDER",
                S::ReceiveRao { limits: false, offset: 0, allocation_length: 0, uds_type: 0 },
            ),
            entry(
                0xa3,
                &[0x1f],
                "READ END OF WRAP POSITION",
                S::ReadEndOfWrapPosition { wrap_valid: false, all: false, wrap: 0, allocation_length: 0 },
            ),
            entry(
                0xa4,
                &[0x1d],
                "GENERATE RECOMMENDED ACCESS ORDER",
                S::GenerateRao { process: RaoProcess::Unspecified, uds_type: 0, length: 0 },
            ),
        ]
    };

    fn layout(&mut self, l: &mut Layout<'_>) {
        match self {
            Stream::Rewind { immediate } => l.flag(1, 0, immediate),
            Stream::FormatMedium { verify, immediate, format, length } => {
                l.flag(1, 1, verify);
                l.flag(1, 0, immediate);
                l.code(2, 0, 4, "FORMAT", format);
                l.number(3, 2, length);
            }
            Stream::ReadBlockLimits { maximum_object } => l.flag(1, 0, maximum_object),
            Stream::Read6 { suppress, fixed, length } => {
                l.flag(1, 1, suppress);
                l.flag(1, 0, fixed);
                l.number(2, 3, length);
            }
            Stream::Write6 { fixed, length } => {
                l.flag(1, 0, fixed);
                l.number(2, 3, length);
            }
            Stream::SetCapacity { immediate, proportion } => {
                l.flag(1, 0, immediate);
                l.number(3, 2, proportion);
            }
            Stream::WriteFilemarks6 { immediate, count } => {
                l.flag(1, 0, immediate);
                l.number(2, 3, count);
            }
            Stream::WriteFilemarks16 {
                first_of_sequence,
                last_of_sequence,
                immediate,
                partition,
                object,
                count,
            } => {
                l.flag(1, 3, first_of_sequence);
                l.flag(1, 2, last_of_sequence);
                l.flag(1, 0, immediate);
                l.number(3, 1, partition);
                l.number(4, 8, object);
                l.number(12, 3, count);
            }
            Stream::Space6 { code, count } => {
                l.code(1, 0, 4, "CODE", code);
                l.signed(2, 3, count);
            }
            Stream::Space16 { code, count, length } => {
                l.code(1, 0, 4, "CODE", code);
                l.signed(4, 8, count);
                l.number(12, 2, length);
            }
            Stream::Erase6 { immediate, long } => {
                l.flag(1, 1, immediate);
                l.flag(1, 0, long);
            }
            Stream::LoadUnload { immediate, hold, end_of_tape, retension, load } => {
                l.flag(1, 0, immediate);
                l.flag(4, 3, hold);
                l.flag(4, 2, end_of_tape);
                l.flag(4, 1, retension);
                l.flag(4, 0, load);
            }
            Stream::Locate10 { vendor_address, change_partition, immediate, object, partition } => {
                l.flag(1, 2, vendor_address);
                l.flag(1, 1, change_partition);
                l.flag(1, 0, immediate);
                l.number(3, 4, object);
                l.number(8, 1, partition);
            }
            Stream::Locate16 { destination, change_partition, immediate, explicit, partition, object } => {
                l.code(1, 3, 2, "DEST_TYPE", destination);
                l.flag(1, 1, change_partition);
                l.flag(1, 0, immediate);
                l.flag(2, 0, explicit);
                l.number(3, 1, partition);
                l.number(4, 8, object);
            }
            Stream::ReadPosition { form, allocation_length } => {
                l.code(1, 0, 5, "SERVICE ACTION", form);
                l.number(7, 2, allocation_length);
            }
            Stream::ReportDensitySupport { medium_type, medium, allocation_length } => {
                l.flag(1, 1, medium_type);
                l.flag(1, 0, medium);
                l.number(7, 2, allocation_length);
            }
            Stream::AllowOverwrite { allow, partition, object } => {
                l.code(2, 0, 4, "ALLOW OVERWRITE", allow);
                l.number(3, 1, partition);
                l.number(4, 8, object);
            }
            Stream::GenerateRao { process, uds_type, length } => {
                l.service(0x1d);
                l.code(2, 0, 3, "PROCESS", process);
                l.bits(3, 0, 3, uds_type);
                l.number(6, 4, length);
            }
            Stream::ReceiveRao { limits, offset, allocation_length, uds_type } => {
                l.service(0x1d);
                l.flag(1, 7, limits);
                l.number(2, 4, offset);
                l.number(6, 4, allocation_length);
                l.bits(10, 0, 3, uds_type);
            }
            Stream::ReadEndOfWrapPosition { wrap_valid, all, wrap, allocation_length } => {
                l.service(0x1f);
                l.code(2, 0, 8, "SERVICE ACTION QUALIFIER", &mut Qualifier::EndOfWrap);
                l.flag(3, 1, all);
                l.flag(3, 0, wrap_valid);
                l.number(4, 2, wrap);
                l.number(6, 4, allocation_length);
            }
        }
    }

    fn transfer(&self, block_length: u32) -> Transfer {
        let blocks =
            |fixed: bool, length: u32| u64::from(length) * if fixed { u64::from(block_length) } else { 1 };
        match *self {
            Stream::Rewind { .. }
            | Stream::SetCapacity { .. }
            | Stream::WriteFilemarks6 { .. }
            | Stream::WriteFilemarks16 { .. }
            | Stream::Space6 { .. }
            | Stream::Erase6 { .. }
            | Stream::LoadUnload { .. }
            | Stream::Locate10 { .. }
            | Stream::Locate16 { .. }
            | Stream::AllowOverwrite { .. } => Transfer::None,
            Stream::FormatMedium { length: 0, .. } | Stream::Space16 { length: 0, .. } => Transfer::None,
            Stream::FormatMedium { length, .. } | Stream::Space16 { length, .. } => Transfer::output(length),
            Stream::ReadBlockLimits { maximum_object } => Transfer::In(if maximum_object { 20 } else { 6 }),
            Stream::Read6 { fixed, length, .. } => Transfer::In(blocks(fixed, length)),
            Stream::Write6 { fixed, length } => Transfer::Out(blocks(fixed, length)),
            Stream::ReadPosition { form, allocation_length } => match form {
                PositionForm::Short | PositionForm::ShortVendor => Transfer::In(20),
                PositionForm::Long => Transfer::In(32),
                PositionForm::Extended => Transfer::input(allocation_length),
            },
            Stream::ReportDensitySupport { allocation_length, .. } => Transfer::input(allocation_length),
            Stream::GenerateRao { length, .. } => Transfer::output(length),
            Stream::ReceiveRao { allocation_length, .. }
            | Stream::ReadEndOfWrapPosition { allocation_length, .. } => Transfer::input(allocation_length),
        }
    }
}
