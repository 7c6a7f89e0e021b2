//! The cartridge's memory, and keeping other hosts out.

use std::time::Duration;

use base::Partition;
use library::scsi::Transport;
use scsi::command::{Primary, Stream};
use scsi::{Command, Data, Sense, SenseKey, Status};

use crate::report::Unit;
use crate::run::{Figures, Outcome, Run, Trouble};

const READ_ATTRIBUTE: u8 = 0x8c;
/// The user's label, a text of 160 bytes (SPC-5, 7.4.1).
const LABEL: u16 = 0x0803;
/// The volume change reference, which the drive keeps.
const CHANGE_REFERENCE: u16 = 0x0009;
const TEXT: &[u8] = b"Kist library test";
/// Nothing that is sent to another host takes as long.
const LIMIT: Duration = Duration::from_secs(60);
/// Unit attentions that a new session hears of.
const ATTENTIONS_MAX: u32 = 8;

/// READ ATTRIBUTE and WRITE ATTRIBUTE.
pub fn memory(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    if !run.scsi()?.may(READ_ATTRIBUTE, 0) {
        return Err(Trouble::NotOffered("the drive gives no access to the cartridge memory".to_owned()));
    }
    run.tape.write_attribute(Partition::Index, LABEL, TEXT)?;
    let read = run.tape.read_attribute(Partition::Index, LABEL)?;
    let is_it = |value: &Vec<u8>| {
        value.strip_prefix(TEXT).is_some_and(|rest| rest.iter().all(|byte| matches!(*byte, 0 | b' ')))
    };
    if !read.as_ref().is_some_and(is_it) {
        return Err(Trouble::Wrong(format!(
            "attribute {LABEL:04X}h comes back otherwise than it was written"
        )));
    }
    run.tape.write_attribute(Partition::Index, LABEL, &[])?;
    let left = run.tape.read_attribute(Partition::Index, LABEL)?;
    if left.is_some_and(|value| value.iter().any(|byte| !matches!(*byte, 0 | b' '))) {
        return Err(Trouble::Wrong(format!("attribute {LABEL:04X}h is not removed")));
    }
    // It says whether another has written to a tape: each write raises it.
    let Some(before) = change_reference(run)? else {
        return Err(Trouble::NotOffered("the drive keeps no volume change reference".to_owned()));
    };
    let end = run.tape.space_to_end_of_data(Partition::Data)?;
    super::Buffers::of(super::BLOCK).write(run, end, 512)?;
    run.tape.write_filemarks(0)?;
    let after = change_reference(run)?.unwrap_or_default();
    if after <= before {
        let what = format!("the volume change reference is {after} after a write and was {before} before it");
        return Err(Trouble::Wrong(what));
    }
    figures.add("volume change reference", f64::from(after), Unit::Count);
    Ok(())
}

fn change_reference(run: &mut Run<'_>) -> Outcome<Option<u32>> {
    let value = run.tape.read_attribute(Partition::Index, CHANGE_REFERENCE)?;
    Ok(value.and_then(|value| Some(u32::from_be_bytes(*value.first_chunk()?))))
}

/// Another host is kept out.
pub fn reservations(run: &mut Run<'_>, _: &mut Figures) -> Outcome {
    let scsi = run.scsi()?;
    if !scsi.is_reserved() {
        return Err(Trouble::NotOffered("the drive cannot be reserved".to_owned()));
    }
    let mut other = (run.subject.second)(&scsi.identity()).map_err(Trouble::NotOffered)?;
    // What does no harm if it is carried out.
    let flush = Command::from(Stream::WriteFilemarks6 { immediate: false, count: 0 });
    let rewind = Command::from(Stream::Rewind { immediate: false });
    for (name, command) in [("a write", flush), ("a rewind", rewind)] {
        if !is_refused(other.as_mut(), &command)? {
            return Err(Trouble::Wrong(format!(
                "{name} of another host is carried out while it is reserved"
            )));
        }
    }
    // And we are not.
    run.tape.space_to_end_of_data(Partition::Data)?;
    Ok(())
}

/// Whether a command of another host ends with RESERVATION CONFLICT.
fn is_refused(other: &mut dyn Transport, command: &Command) -> Outcome<bool> {
    let failed = |what: String| Trouble::NotOffered(format!("the second path does not work: {what}"));
    let encoded = |command: &Command| command.encode().map_err(|error| failed(error.to_string()));
    let cdb = encoded(command)?;
    let ready = encoded(&Command::from(Primary::TestUnitReady))?;
    for _ in 0..ATTENTIONS_MAX {
        let end = other.execute(&cdb, Data::None, LIMIT).map_err(|error| failed(error.to_string()))?;
        match end.status {
            Status::ReservationConflict => return Ok(true),
            Status::CheckCondition => {
                let sense = Sense::decode(&end.sense).map_err(|error| failed(error.to_string()))?;
                if sense.key != SenseKey::UnitAttention {
                    return Ok(false);
                }
                other.execute(&ready, Data::None, LIMIT).map_err(|error| failed(error.to_string()))?;
            }
            _ => return Ok(false),
        }
    }
    Err(failed("it hears of new conditions each time".to_owned()))
}
