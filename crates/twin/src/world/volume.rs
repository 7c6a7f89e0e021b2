//! Labels and indexes, command by command as Kist's own volumes have them.
//!
//! Where a library says what a mount costs beside the load (`mount_extra`), or tapes have the labels of
//! another system, that stands in place of all this.

use base::Partition;
use mechanics::{Motion, TapeByte};

use super::World;
use super::drives::Drive;
use crate::holdings::TapeIndex;
use crate::moment::Moment;
use report::outcome::DriveActivity;
use scenario::model::Labels;

/// A label of a partition: VOL1 and the LTFS label.
const LABEL_BYTES: u64 = 1 << 10;
/// An index without files.
const INDEX_BYTES: u64 = 2 << 10;

/// The beginning of a partition.
const fn begin_of(partition: Partition) -> TapeByte {
    TapeByte { partition, byte: 0 }
}

impl Drive {
    fn go(&mut self, at: Moment, run: impl FnOnce(&mut Motion, u64) -> u64) -> Moment {
        Moment(run(&mut self.motion, at.0 - self.stood) + self.stood).max(at)
    }

    fn move_to(&mut self, at: Moment, to: TapeByte) -> Moment {
        self.go(at, |motion, now| motion.locate(now, to))
    }

    /// Looks at the label of a partition; a blank cartridge has nothing to read there.
    fn identify(&mut self, at: Moment, partition: Partition, is_blank: bool) -> Moment {
        let at = self.move_to(at, begin_of(partition));
        if is_blank { at } else { self.go(at, |motion, now| motion.read(now, LABEL_BYTES, LABEL_BYTES)) }
    }

    /// Bytes with a synchronous file mark behind them.
    fn write_marked(&mut self, at: Moment, bytes: u64) -> Moment {
        self.go(at, |motion, now| {
            let now = motion.write(now, bytes);
            motion.flush(now)
        })
    }

    /// A file mark, the index, a file mark.
    fn write_construct(&mut self, at: Moment, bytes: u64) -> Moment {
        let at = self.write_marked(at, 0);
        self.write_marked(at, bytes)
    }

    fn label(&mut self, mut at: Moment) -> Moment {
        // Is it blank? It is asked before the tape is given a name, and again before it is labelled.
        for partition in [Partition::Index, Partition::Data, Partition::Index, Partition::Data] {
            at = self.identify(at, partition, true);
        }
        for partition in [Partition::Index, Partition::Data] {
            at = self.move_to(at, begin_of(partition));
            at = self.write_marked(at, LABEL_BYTES / 2);
            at = self.write_marked(at, LABEL_BYTES / 2);
        }
        at = self.write_construct(at, INDEX_BYTES);
        let end = self.motion.host();
        at = self.move_to(at, TapeByte { partition: Partition::Index, byte: LABEL_BYTES });
        at = self.write_construct(at, INDEX_BYTES);
        self.move_to(at, end)
    }
}

impl World<'_> {
    /// Whether the drive's tapes are opened and closed as Kist does it.
    pub(super) fn has_volumes(&self, drive: usize) -> bool {
        let library = &self.model.site.libraries[self.drives[drive].library];
        library.mount_extra.is_zero() && self.model.foreign.labels == Labels::None
    }

    fn index_bytes(&self, tape: TapeIndex) -> u64 {
        let of = &self.holdings.tapes()[tape.0 as usize];
        let flushed: u64 = self.tapes[tape.0 as usize].flushed.iter().map(|(at, _)| self.files_of(*at)).sum();
        let files = of.files.saturating_add(flushed);
        INDEX_BYTES.saturating_add(files.saturating_mul(self.model.site.work.index_bytes_a_file))
    }

    /// Labels of both partitions and the newest index are read; a scratch tape is labelled. Gives when.
    pub(super) fn open_volume(&mut self, drive: usize, tape: TapeIndex, is_new: bool, at: Moment) -> Moment {
        if !self.has_volumes(drive) {
            return at;
        }
        let index = self.index_bytes(tape);
        let it = &mut self.drives[drive];
        if is_new {
            let done = it.label(at);
            self.holdings.tape_mut(tape).used = self.drives[drive].motion.host().byte;
            return done;
        }
        let at = it.identify(at, Partition::Index, false);
        let at = it.identify(at, Partition::Data, false);
        let used = self.holdings.tapes()[tape.0 as usize].used;
        let to = TapeByte { partition: Partition::Data, byte: used.saturating_sub(index) };
        let at = it.move_to(at, to);
        it.go(at, |motion, now| motion.read(now, index.min(used), used))
    }

    /// An index behind the data, and with `both` one on the index partition.
    pub(super) fn write_volume_index(
        &mut self,
        drive: usize,
        tape: TapeIndex,
        at: Moment,
        both: bool,
    ) -> Moment {
        let bytes = self.index_bytes(tape);
        let used = self.holdings.tapes()[tape.0 as usize].used;
        let it = &mut self.drives[drive];
        let mut now = it.locate(at, TapeByte { partition: Partition::Data, byte: used });
        it.trail.push((now, DriveActivity::Mount));
        now = it.write_construct(now, bytes);
        if both {
            now = it.move_to(now, TapeByte { partition: Partition::Index, byte: LABEL_BYTES });
            now = it.write_construct(now, bytes);
        }
        let of = self.holdings.tape_mut(tape);
        of.used = of.used.saturating_add(bytes);
        now
    }
}
