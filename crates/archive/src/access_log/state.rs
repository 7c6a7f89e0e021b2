//! Lines of state: what a replay begins with.

use base::Timestamp;
use catalogue::TapeRecord;
use usage::{Access, Begins, ClassState, DriveState, Start, What};

use crate::ArchiveError;
use ground::summary;
use tape::Tape;

/// Gives the lines that tell how the classes, drives and tapes stand now. What cannot be read is left out.
pub(super) fn state_lines(engine: &Tape, begins: Begins, each: &mut dyn FnMut(Access)) {
    let at = engine.now();
    if let Err(error) = lines(engine, begins, at, each) {
        tracing::error!(%error, "the access log lacks the state of tapes and drives");
    }
}

fn lines(
    engine: &Tape,
    begins: Begins,
    at: Timestamp,
    each: &mut dyn FnMut(Access),
) -> Result<(), ArchiveError> {
    let (tapes, down) = engine.read(|view| Ok((view.tapes()?, view.drives_down()?)))?;
    let drives = engine.library().drives();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let mut line = |class: Option<String>, what| each(Access { at, class, who: None, what });
    let start = Start {
        begins,
        tapes: count(tapes.len()),
        drives: count(drives.len()),
        pool: engine.pool_bytes(),
        block_size: engine.settings.tape.block_bytes,
    };
    line(None, What::Start(start));
    for class in engine.classes.all() {
        let pools = class.copies.iter().map(|id| engine.classes.tape_pool_name(*id)).collect();
        let state = ClassState { pools, pool_max: class.settings.pool_max };
        line(Some(class.settings.name.clone()), What::Class(state));
    }
    for name in drives {
        let library = engine.libraries.name(engine.library().library_of(&name)).to_owned();
        let up = !down.iter().any(|(drive, _)| drive == name.as_str());
        line(None, What::Drive(DriveState { drive: name.as_str().to_owned(), library, up }));
    }
    for (vid, record) in tapes {
        line(None, What::Tape(tape_state(engine, vid, &record)));
    }
    Ok(())
}

fn tape_state(engine: &Tape, vid: base::Vid, record: &TapeRecord) -> usage::TapeState {
    usage::TapeState {
        vid,
        pool: record.tape_pool.map(|id| engine.classes.tape_pool_name(id)),
        library: engine.libraries.name(engine.libraries.of_tape(vid)).to_owned(),
        state: record.state.word().to_owned(),
        capacity: record.capacity,
        written: record.written,
        free: summary(record).free,
        end_of_data: record.end_of_data,
    }
}
