//! Faults of a SCSI drive at each command: what is on the tape, and what is read from it.

use scsi::{Sense, SenseKey, Status};

use crate::common::data;
use crate::scsi_drive::{
    Bench, LOCATE_16, MARKS, MODE_SELECT, OPS, POSITION, READ, READY, WRITE, objects, options, reserving, run,
};
use crate::scsi_model::{Fault, Quirks};

pub fn faults() -> Vec<Fault> {
    let attention = |asc, ascq| Fault::Says(Sense::new(SenseKey::UnitAttention, asc, ascq));
    let deferred = Sense { deferred: true, ..Sense::new(SenseKey::MediumError, 0x0c, 0) };
    vec![
        Fault::Lost,
        Fault::LostAfter,
        Fault::LostHalfway,
        Fault::Reset { keeps_buffer: true },
        Fault::Reset { keeps_buffer: false },
        Fault::LosesBufferSilently,
        Fault::LostAfterReset { keeps_buffer: true },
        Fault::LostAfterReset { keeps_buffer: false },
        Fault::Shifts(-1),
        Fault::Shifts(-3),
        Fault::Exchanged,
        Fault::Status(Status::Busy),
        Fault::Status(Status::TaskSetFull),
        Fault::Status(Status::TaskAborted),
        Fault::Status(Status::ReservationConflict),
        attention(0x28, 0x00),
        attention(0x29, 0x00),
        attention(0x29, 0x07),
        attention(0x2a, 0x01),
        attention(0x2a, 0x02),
        attention(0x2f, 0x00),
        attention(0x5a, 0x01),
        Fault::Says(deferred),
        Fault::Says(Sense::new(SenseKey::NotReady, 0x04, 0x01)),
        Fault::Says(Sense::new(SenseKey::NotReady, 0x04, 0x03)),
        Fault::Says(Sense::new(SenseKey::NotReady, 0x3a, 0x00)),
        Fault::Says(Sense::new(SenseKey::AbortedCommand, 0x47, 0x00)),
        Fault::DoesAndSays(Sense::new(SenseKey::AbortedCommand, 0x4b, 0x00)),
        Fault::Says(Sense::new(SenseKey::AbortedCommand, 0x10, 0x01)),
        Fault::Says(Sense::new(SenseKey::MediumError, 0x0c, 0x00)),
        Fault::DoesAndSays(Sense::new(SenseKey::MediumError, 0x0c, 0x00)),
        Fault::Says(Sense::new(SenseKey::HardwareError, 0x44, 0x00)),
        Fault::Says(Sense::new(SenseKey::RecoveredError, 0x00, 0x17)),
    ]
}

/// A fault at each command of each kind, with each fault: never a flushed block is written over, never a
/// block stands twice, and what was acknowledged is there.
#[test]
fn no_fault_writes_over_a_block_or_writes_one_twice() {
    let (mut fired, mut proven, mut refused) = (0, 0, 0);
    for (options, rewinds) in [(options(), false), (reserving(), false), (reserving(), true)] {
        for operation in [WRITE, MARKS, POSITION, READY, MODE_SELECT] {
            for skip in 0..8 {
                for fault in faults() {
                    // Recovered errors of a command that was not carried out are no answer of a drive.
                    let says_done =
                        matches!(&fault, Fault::Says(sense) if sense.key == SenseKey::RecoveredError);
                    // Half of a command other than file marks, or a tape that moved while it was asked.
                    let odd = operation != MARKS && matches!(fault, Fault::LostHalfway)
                        || operation == POSITION && matches!(fault, Fault::Shifts(_));
                    if says_done || odd {
                        continue;
                    }
                    let quirks = Quirks { rewinds, ..Quirks::default() };
                    let mut bench = Bench::begun(quirks, options.clone());
                    bench.model.lock().plan_after(operation, skip, fault.clone());
                    let name = format!("{operation:02x} after {skip}: {fault:?}");
                    let (done, flushed) = run(&mut bench);
                    check(&bench, done, flushed, &name);
                    let seen = bench.scsi.seen();
                    fired += bench.model.lock().fired;
                    proven += seen.answers_proven;
                    refused += usize::from(done < OPS.len());
                }
            }
        }
    }
    assert!(
        fired > 800 && proven > 40 && refused > 200,
        "{fired} faults, {proven} proven, {refused} refused"
    );
}

fn check(bench: &Bench, done: usize, flushed: usize, name: &str) {
    let model = bench.model.lock();
    let content = model.content(1);
    let all = objects(&OPS);
    let kept = objects(&OPS[..flushed]);
    assert!(content.len() >= kept.len() && content[..kept.len()] == kept, "{name}: flushed objects are gone");
    let over = model.written_over.iter().filter(|(_, block)| *block < kept.len()).count();
    assert_eq!(over, 0, "{name}: flushed objects were written over");
    if done == OPS.len() {
        assert_eq!(content, all, "{name}: all was acknowledged");
        assert!(model.written_over.is_empty(), "{name}");
    } else if model.written_over.is_empty() {
        assert_eq!(content, all[..content.len()], "{name}: an object stands twice, or is left out");
    }
    assert!(model.content(0).is_empty(), "{name}");
}

/// Faults of movements and reads: what is read is what stands there, or an error.
#[test]
fn no_fault_reads_another_block() {
    let mut fired = 0;
    for operation in [READ, LOCATE_16, POSITION, READY] {
        for skip in 0..6 {
            let mut faults = faults();
            faults.push(Fault::Damages);
            faults.push(Fault::Shifts(2));
            for fault in faults {
                let says_done = matches!(&fault, Fault::Says(sense) if sense.key == SenseKey::RecoveredError);
                let moves = matches!(fault, Fault::Shifts(_) | Fault::LostHalfway | Fault::Damages);
                // A tape that moves by itself after a read, or data without a checksum, nobody can tell.
                if says_done || moves && operation != LOCATE_16 && !matches!(fault, Fault::Damages) {
                    continue;
                }
                if matches!(fault, Fault::LostHalfway) || matches!(fault, Fault::Damages) && operation != READ
                {
                    continue;
                }
                let mut bench = Bench::begun(Quirks::default(), reserving());
                let (done, _) = run(&mut bench);
                assert_eq!(done, OPS.len());
                let name = format!("{operation:02x} after {skip}: {fault:?}");
                bench.model.lock().plan_after(operation, skip, fault);
                let all = objects(&OPS);
                for block in [4, 0, 6, 1, 9] {
                    if bench.drive.locate(data(block)).is_err() {
                        break;
                    }
                    let Ok(found) = bench.read() else { break };
                    assert_eq!(found, all[block as usize], "{name}: object {block}");
                }
                let model = bench.model.lock();
                fired += model.fired;
                assert_eq!(model.content(1), all, "{name}");
            }
        }
    }
    assert!(fired > 300, "{fired} faults");
}
