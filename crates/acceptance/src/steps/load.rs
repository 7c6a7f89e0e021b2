//! The tape comes, is looked at, formatted, and goes.

use std::time::Instant;

use base::Partition;
use library::DriveProduct;
use library::ReadBlock;
use library::TapeError;
use library::scsi::ScsiDrive;

use super::{BLOCK, Buffers, at, place, records, stands, words};
use crate::report::{DriveFacts, Unit};
use crate::run::{Figures, Outcome, Run, Trouble};

/// The longest label.
const LABEL_BYTES: usize = 64 << 10;
/// Attributes of a cartridge's memory in which programs say that it is theirs (SPC-5, 7.4): their vendor,
/// their name, what they call it, and where an LTFS volume stands.
const OWNERS: [(u16, &str); 4] = [
    (0x0800, "the vendor of a program"),
    (0x0801, "the name of a program"),
    (0x0803, "a label"),
    (0x080c, "where a volume stands"),
];

/// What the drive is, and what is in it.
pub fn facts(scsi: &ScsiDrive) -> DriveFacts {
    let DriveProduct { vendor, product, firmware, serial } = scsi.product();
    let medium = scsi.medium().unwrap_or_default();
    DriveFacts {
        vendor,
        product,
        revision: firmware,
        serial,
        generation: medium.drive.map(|generation| generation.to_string()),
        cartridge: medium.cartridge.map(|cartridge| cartridge.to_string()),
        cartridge_serial: medium.serial,
        abilities: scsi.abilities(),
    }
}

/// From its slot into the drive.
pub fn load(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    mount(run, figures)?;
    stands(run, at(Partition::Index, 0))?;
    let scsi = run.scsi()?;
    let medium = scsi.medium().unwrap_or_default();
    figures.add("longest block", scsi.block_bytes_max() as f64, Unit::Bytes);
    figures.add("partitions", f64::from(medium.partitions), Unit::Count);
    if let Some(loads) = medium.load_count {
        figures.add("loads of the cartridge", loads as f64, Unit::Count);
    }
    if medium.write_protected {
        return Err(Trouble::Wrong("the cartridge is write protected: move its switch".to_owned()));
    }
    if medium.worm {
        return Err(Trouble::Wrong("it is a WORM cartridge: what is written stays".to_owned()));
    }
    Ok(())
}

fn mount(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let begun = Instant::now();
    run.subject.library.mount(run.plan.vid, &run.subject.drive)?;
    figures.add("robot and load", begun.elapsed().as_secs_f64(), Unit::Seconds);
    if let Some(load) = run.scsi()?.recent_loads().last() {
        figures.add("load", load.as_secs_f64(), Unit::Seconds);
    }
    Ok(())
}

/// Whether somebody has something on the tape.
pub fn belongings(run: &mut Run<'_>, _: &mut Figures) -> Outcome {
    run.belonging = belonging(run)?;
    match &run.belonging {
        Some(what) if !run.plan.overwrite => Err(Trouble::Wrong(format!(
            "there is something on cartridge {}: {what}; it was left as it is",
            run.plan.vid
        ))),
        _ => Ok(()),
    }
}

/// What says that the tape is somebody's.
fn belonging(run: &mut Run<'_>) -> Outcome<Option<String>> {
    for partition in [Partition::Index, Partition::Data] {
        let begin = at(partition, 0);
        run.tape.locate(begin)?;
        let mut buffer = vec![0; LABEL_BYTES];
        let record = match run.tape.read_block(&mut buffer) {
            Ok(ReadBlock::EndOfData) => continue,
            Ok(ReadBlock::Data(length)) => buffer.get(..length).unwrap_or_default(),
            Ok(other) => return Ok(Some(format!("{} at {}", words(other), place(begin)))),
            Err(TapeError::BufferTooSmall { record, .. }) => {
                return Ok(Some(format!("a record of {record} bytes at {}", place(begin))));
            }
            Err(error) => return Err(error.into()),
        };
        let label = match record.first_chunk::<4>() {
            Some(b"VOL1") => {
                let name: String = record.iter().skip(4).take(6).map(|byte| char::from(*byte)).collect();
                let is_ltfs = record.get(24..28) == Some(b"LTFS");
                let kind = if is_ltfs { "an LTFS volume" } else { "an ANSI label (VOL1)" };
                format!("{kind} of {:?}", name.trim_end())
            }
            _ => format!("a record of {} bytes", record.len()),
        };
        return Ok(Some(format!("{label} at {}", place(begin))));
    }
    for (id, meaning) in OWNERS {
        let value = run.tape.read_attribute(Partition::Index, id)?;
        if let Some(value) = value.filter(|value| value.iter().any(|byte| !matches!(*byte, 0 | b' '))) {
            let text = String::from_utf8_lossy(&value);
            let text: String = text.trim_end().chars().filter(|char| !char.is_control()).collect();
            return Ok(Some(format!("its memory has {meaning} ({id:04X}h): {text:?}")));
        }
    }
    Ok(None)
}

/// Two empty partitions.
pub fn format(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    for (id, _) in OWNERS {
        if run.tape.read_attribute(Partition::Index, id)?.is_some() {
            run.tape.write_attribute(Partition::Index, id, &[])?;
        }
    }
    let begun = Instant::now();
    run.tape.format_partitions()?;
    figures.add("format", begun.elapsed().as_secs_f64(), Unit::Seconds);
    run.regions.clear();
    stands(run, at(Partition::Index, 0))?;
    let partitions = run.scsi()?.medium().unwrap_or_default().partitions;
    if partitions != 2 {
        return Err(Trouble::Wrong(format!("it has {partitions} partitions and should have 2")));
    }
    for partition in [Partition::Index, Partition::Data] {
        let end = run.tape.space_to_end_of_data(partition)?;
        if end != at(partition, 0) {
            return Err(Trouble::Wrong(format!("after the format data end at {}", place(end))));
        }
        if let Some(space) = run.scsi()?.space(partition)? {
            let name = format!("room of partition {}", partition.ltfs_id());
            figures.add(name, space.remaining.0 as f64, Unit::Bytes);
        }
    }
    Ok(())
}

/// Out and in again: what was written is still there.
pub fn load_again(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    unload(run, figures)?;
    mount(run, figures)?;
    stands(run, at(Partition::Index, 0))?;
    let mut buffers = Buffers::of(BLOCK);
    for partition in [Partition::Index, Partition::Data] {
        run.tape.locate(at(partition, 0))?;
        buffers.read(run, at(partition, 0), records::LENGTH)?;
    }
    Ok(())
}

/// Back into its slot.
pub fn unload(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let begun = Instant::now();
    let vid = run.subject.library.unmount(&run.subject.drive)?;
    figures.add("unload and robot", begun.elapsed().as_secs_f64(), Unit::Seconds);
    if vid != run.plan.vid {
        return Err(Trouble::Wrong(format!("cartridge {vid} came out of the drive")));
    }
    Ok(())
}
