//! Bases that tapes have: the catalogue's rows at one change, from which a rebuild begins.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use base::Uuid;
use ltfs::catalogue_base::{BasePart, PART_BYTES_MAX};
use store::Replay;

use super::RebuildError;
use crate::backup::{BackupError, Progress, write_durable};

/// The parts of all bases of all instances that were read whole, by instance and newest change.
#[derive(Default)]
pub(super) struct BasesSeen {
    parts: BTreeMap<([u8; 16], u64), BTreeMap<u32, PartSeen>>,
    /// The newest base of which a tape has a name, whole or not.
    newest_named: u64,
}

struct PartSeen {
    path: PathBuf,
    rows: u64,
    rows_before: u64,
    is_last: bool,
}

/// A base of which every part is there.
pub(super) struct WholeBase {
    pub(super) change: u64,
    parts: Vec<PathBuf>,
}

impl BasesSeen {
    /// Keeps a part, unless another tape had it.
    pub(super) fn take(
        &mut self,
        spool: &Path,
        bytes: &[u8],
        part: &BasePart<'_>,
    ) -> Result<(), BackupError> {
        let head = part.head;
        let parts = self.parts.entry((head.instance.0, head.change.0)).or_default();
        if parts.contains_key(&head.part) {
            return Ok(());
        }
        let name = format!("{}-{:020}-{:06}.kcb", head.instance, head.change.0, head.part);
        write_durable(spool, &name, bytes)?;
        let seen = PartSeen {
            path: spool.join(&name),
            rows: part.rows.len() as u64,
            rows_before: head.rows_before,
            is_last: head.is_last,
        };
        parts.insert(head.part, seen);
        Ok(())
    }

    /// An index names a base of this change.
    pub(super) fn named(&mut self, change: u64) {
        self.newest_named = self.newest_named.max(change);
    }

    /// The newest base that is named anywhere.
    pub(super) fn newest_named(&self) -> u64 {
        self.newest_named
    }

    /// How many parts there are of each instance.
    pub(super) fn instances(&self) -> impl Iterator<Item = (Uuid, u64)> {
        self.parts.iter().map(|((instance, _), parts)| (Uuid(*instance), parts.len() as u64))
    }

    /// The bases of an instance of which all parts are there, in order. The parts count the rows before them,
    /// so that none can be missing unnoticed.
    pub(super) fn whole(&self, instance: Uuid) -> Vec<WholeBase> {
        let of_instance = self.parts.iter().filter(|((owner, _), _)| *owner == instance.0);
        let whole = of_instance.filter(|(_, parts)| is_whole(parts));
        whole
            .map(|((_, change), parts)| WholeBase {
                change: *change,
                parts: parts.values().map(|part| part.path.clone()).collect(),
            })
            .collect()
    }

    /// The bases of an instance that lack a part, in words.
    pub(super) fn broken(&self, instance: Uuid) -> Vec<String> {
        let of_instance = self.parts.iter().filter(|((owner, _), _)| *owner == instance.0);
        let broken = of_instance.filter(|(_, parts)| !is_whole(parts));
        broken.map(|((_, change), _)| format!("the base at change {change} lacks a part")).collect()
    }
}

fn is_whole(parts: &BTreeMap<u32, PartSeen>) -> bool {
    let mut rows = 0;
    let mut follows = true;
    for (number, (part, seen)) in (1u32..).zip(parts) {
        let is_end = parts.len() as u64 == u64::from(number);
        follows &= *part == number && seen.rows_before == rows && seen.is_last == is_end;
        rows += seen.rows;
    }
    follows && !parts.is_empty()
}

/// Puts the rows of a base into the empty catalogue.
pub(super) fn load(
    base: &WholeBase,
    instance: Uuid,
    replay: &mut Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), RebuildError> {
    let total = base.parts.len() as u64;
    for (done, path) in (1..).zip(&base.parts) {
        let bytes = read_part(path).map_err(BackupError::at(path, "reading"))?;
        let wrong = |reason: String| store::ReplayError::Base { reason };
        let part = BasePart::parse(&bytes).map_err(|error| wrong(error.to_string()))?;
        if part.head.format > store::FORMAT_VERSION || part.head.format < store::OLDEST_FORMAT_READ {
            let format = part.head.format;
            return Err(
                wrong(format!("its records have format {format}, which this Kist does not read")).into()
            );
        }
        if part.head.instance != instance || part.head.change.0 != base.change {
            return Err(wrong("a part of it was changed while it was read".to_owned()).into());
        }
        replay.put_rows(part.rows.iter().map(|row| (row.table, row.key, row.value)))?;
        progress(Progress::of("parts of the base read", done, total));
    }
    replay.rows_are_whole(base.change)?;
    Ok(())
}

/// A part that lies in a file.
pub(crate) fn read_part(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes =
        Vec::with_capacity(usize::try_from(fs::metadata(path)?.len()).unwrap_or(0).min(PART_BYTES_MAX));
    File::open(path)?.take(PART_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(rows_before: u64, rows: u64, is_last: bool) -> PartSeen {
        PartSeen { path: PathBuf::new(), rows, rows_before, is_last }
    }

    #[test]
    fn a_base_is_whole_if_its_parts_follow_each_other_to_the_last() {
        let of = |parts: Vec<(u32, PartSeen)>| is_whole(&parts.into_iter().collect());
        assert!(of(vec![(1, part(0, 5, true))]));
        assert!(of(vec![(1, part(0, 5, false)), (2, part(5, 1, true))]));
        assert!(!of(vec![]));
        assert!(!of(vec![(1, part(0, 5, false))]));
        assert!(!of(vec![(2, part(5, 1, true))]));
        assert!(!of(vec![(1, part(0, 5, false)), (3, part(5, 1, true))]));
        assert!(!of(vec![(1, part(0, 5, false)), (2, part(6, 1, true))]));
        assert!(!of(vec![(1, part(0, 5, true)), (2, part(5, 1, true))]));
    }
}
