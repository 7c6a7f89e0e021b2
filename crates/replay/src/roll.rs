//! State is rolled forward: what lines between the last ones of state and the beginning of a record tell.

use std::collections::BTreeMap;

use base::{BlockAddress, ByteCount, FileId, Timestamp, Vid};
use usage::{Access, Migrated, Put, Stage, TapeState, What};

/// Puts and wanted files that are followed at most; further ones are taken to be over when the record begins.
const FOLLOWED_MAX: usize = 4_000_000;

/// A put or a wanted file of before.
type Of<T> = (Timestamp, Option<String>, T);

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// Size of the blocks of tapes, as the lines of state say.
    pub(super) block_size: u64,
    /// Files that are in the pool, as far as anybody knows only there.
    puts: BTreeMap<FileId, Of<Put>>,
    /// By class and tape pool: files that were written.
    written: BTreeMap<(Option<String>, String), u64>,
    /// Files that were put and have gone from `puts` otherwise, by class.
    gone: BTreeMap<Option<String>, u64>,
    /// Wanted files that have not come.
    wanted: BTreeMap<FileId, Vec<Of<Stage>>>,
}

impl Before {
    /// Takes a line in that is none of state.
    pub(super) fn push(&mut self, access: Access, tapes: &mut BTreeMap<Vid, TapeState>) {
        let Access { at, class, what, .. } = access;
        match what {
            What::Put(put) if self.puts.len() < FOLLOWED_MAX => {
                self.puts.insert(put.file, (at, class, put));
            }
            What::Stage(stage) if !stage.online && self.wanted.len() < FOLLOWED_MAX => {
                self.is_safe(stage.file);
                self.wanted.entry(stage.file).or_default().push((at, class, stage));
            }
            What::Recalled(recalled) => drop(self.wanted.remove(&recalled.file)),
            What::Evicted(file) | What::Deleted(file) => self.is_safe(file.file),
            What::Migrated(migrated) => {
                if let Some(tape) = tapes.get_mut(&migrated.vid) {
                    self.grow(tape, &migrated);
                }
                if !migrated.repack {
                    *self.written.entry((class, migrated.pool)).or_default() += u64::from(migrated.members);
                }
            }
            _ => {}
        }
    }

    /// A file that left the pool, or that is wanted from tape, has all its copies; most that are deleted
    /// have.
    fn is_safe(&mut self, file: FileId) {
        if let Some((_, class, _)) = self.puts.remove(&file) {
            *self.gone.entry(class).or_default() += 1;
        }
    }

    /// A container was written to a tape.
    fn grow(&self, tape: &mut TapeState, migrated: &Migrated) {
        if tape.state == "scratch" || tape.state == "labelling" {
            "active".clone_into(&mut tape.state);
        }
        tape.pool = Some(migrated.pool.clone());
        let end = migrated.block.0 + migrated.length.0.div_ceil(self.block_size.max(1));
        tape.end_of_data = BlockAddress(tape.end_of_data.0.max(end));
        tape.written = ByteCount(tape.written.0 + migrated.length.0);
        tape.free = ByteCount(tape.free.0.saturating_sub(migrated.length.0));
    }

    /// Puts that have not all their copies, and wanted files that have not come. The log tells how many files
    /// a container has, not which: of each class the oldest are taken to be written.
    pub(super) fn finish(self) -> (Vec<Of<Put>>, Vec<Of<Stage>>) {
        let mut written: BTreeMap<Option<String>, u64> = BTreeMap::new();
        for ((class, _), files) in self.written {
            let least = written.entry(class).or_insert(files);
            *least = (*least).min(files);
        }
        for (class, files) in &mut written {
            *files = files.saturating_sub(self.gone.get(class).copied().unwrap_or(0));
        }
        let mut puts: Vec<Of<Put>> = self.puts.into_values().collect();
        puts.sort_by_key(|(at, _, put)| (*at, put.file));
        puts.retain(|(_, class, _)| match written.get_mut(class) {
            Some(files) if *files > 0 => {
                *files -= 1;
                false
            }
            _ => true,
        });
        let mut stages: Vec<Of<Stage>> = self.wanted.into_values().flatten().collect();
        stages.sort_by_key(|(at, _, stage)| (*at, stage.file));
        (puts, stages)
    }
}
