//! Checksums of blocks between host and drive.

use base::Partition;
use library::scsi::Planted;

use super::{BLOCK, Buffers, at, stands};
use crate::content;
use crate::run::{Figures, Outcome, Run, Trouble};

/// Right checksums pass, wrong ones do not.
pub fn protection(run: &mut Run<'_>, figures: &mut Figures) -> Outcome {
    let scsi = run.scsi()?;
    if !scsi.is_protected() {
        return Err(Trouble::NotOffered("the drive has no logical block protection".to_owned()));
    }
    let length = BLOCK.min(scsi.block_bytes_max());
    let mut buffers = Buffers::of(length);
    let end = run.tape.space_to_end_of_data(Partition::Data)?;
    buffers.write(run, end, length)?;
    run.tape.write_filemarks(0)?;
    run.tape.locate(end)?;
    buffers.read(run, end, length)?;
    let behind = at(Partition::Data, end.block.0 + 1);
    stands(run, behind)?;
    // The end of data is where the tape stands now: the driver knows it by that.
    run.tape.space_to_end_of_data(Partition::Data)?;
    content::fill(&mut buffers.block, behind);
    let sense = match scsi.plant_wrong_checksum(&buffers.block)? {
        Planted::Refused(sense) => sense,
        Planted::NotProtected => {
            return Err(Trouble::Wrong("it has turned the protection off by itself".to_owned()));
        }
        Planted::RefusedAndMoved(sense) => {
            let what = format!("it refused a block with a wrong checksum ({sense}) and yet moved the tape");
            return Err(Trouble::Wrong(what));
        }
        Planted::Taken => {
            return Err(Trouble::Wrong("it took a block with a wrong checksum".to_owned()));
        }
    };
    figures.add_sense("refused with", sense);
    // The next one goes where that one would have.
    buffers.write(run, behind, length)?;
    run.tape.write_filemarks(0)?;
    run.tape.locate(behind)?;
    buffers.read(run, behind, length)
}
