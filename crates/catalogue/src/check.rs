//! The integrity of the whole: every record readable, every reference answered, every tally right.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use base::{BlobId, BlobPiece, ByteCount, ClassId, DirId, DriveId, FileId, Layout, TapePoolId};

use crate::apply::RESTORE_JUMP;
use crate::codec::Codec;
use crate::command::Envelope;
use crate::encoding::{Meta, Nothing, PartRecord, counter_key};
use crate::error::{ReadError, hex};
use crate::frame;
use crate::key::{self, KeyReader};
use crate::record::{
    BlobRecord, ClassRecord, ContainerRecord, Counter, DirectoryRecord, Entry, FileRecord, FileState,
    Garbage, IdempotencyRecord, Sectors, Tally, TodoFile, TreeRecord, Version,
};
use crate::table::Table;
use crate::view::View;

mod access;
mod by_use;
mod cold;
mod request;
mod tape;
mod tree;
mod upload;
mod version;

/// Two records that contradict each other, or a tally that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inconsistency {
    /// The table.
    pub table: Table,
    /// The key in hexadecimal digits.
    pub key: String,
    /// What is wrong.
    pub what: &'static str,
}

impl View<'_> {
    /// Checks all tables against each other. Empty if all is well. Reads the whole catalogue; memory grows
    /// with the number
    /// of blobs, not with that of files.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn check(&self) -> Result<Vec<Inconsistency>, ReadError> {
        let mut check =
            Check { view: self, found: Vec::new(), tallies: BTreeMap::new(), references: BTreeMap::new() };
        if self.meta()?.is_none() {
            return check.emptiness();
        }
        check.definitions()?;
        check.namespace()?;
        check.files()?;
        check.versions()?;
        check.containers()?;
        check.tapes()?;
        check.requests()?;
        check.uploads()?;
        check.blobs()?;
        check.answers()?;
        check.cold()?;
        check.by_use()?;
        check.changes()?;
        check.acls()?;
        check.quotas()?;
        check.trees()?;
        check.tallies()?;
        Ok(check.found)
    }
}

struct Check<'v> {
    view: &'v View<'v>,
    found: Vec<Inconsistency>,
    tallies: BTreeMap<Vec<u8>, Tally>,
    references: BTreeMap<BlobId, (u64, u64)>,
}

impl Check<'_> {
    fn expect(&mut self, is_right: bool, table: Table, key: &[u8], what: &'static str) {
        if !is_right {
            self.found.push(Inconsistency { table, key: hex(key), what });
        }
    }

    fn has<T: Codec>(&self, table: Table, key: &[u8]) -> Result<bool, ReadError> {
        Ok(self.view.get::<T>(table, key)?.is_some())
    }

    fn walk<T: Codec>(
        &mut self,
        table: Table,
        mut visit: impl FnMut(&mut Self, KeyReader<'_>, &[u8], T) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let view = self.view;
        view.each(table, &[], None, |key, value| {
            let record = frame::open(table, key, value)?;
            visit(self, KeyReader::new(table, key), key, record)?;
            Ok(ControlFlow::Continue(()))
        })
    }

    fn count(&mut self, counter: Counter, bytes: ByteCount) {
        let tally = self.tallies.entry(counter_key(counter)).or_default();
        tally.files += 1;
        tally.bytes.0 = tally.bytes.0.wrapping_add(bytes.0);
    }

    fn refer(&mut self, pieces: &[BlobPiece]) {
        for piece in pieces {
            let (references, live) = self.references.entry(piece.blob).or_default();
            *references += 1;
            *live = live.wrapping_add(piece.length.0);
        }
    }

    /// Before the first command no table has a row.
    fn emptiness(mut self) -> Result<Vec<Inconsistency>, ReadError> {
        for table in Table::ALL {
            let rows = self.view.rows(table, &[], None, 1, |_, key, _| Ok(key.to_vec()))?;
            for key in rows {
                self.expect(false, table, &key, "the catalogue is not initialised but has this record");
            }
        }
        Ok(self.found)
    }

    fn namespace(&mut self) -> Result<(), ReadError> {
        const T: Table = Table::Entry;
        self.walk(T, |check, mut parts, key, entry: Entry| {
            let parent = DirId(parts.u64()?);
            let name = parts.name()?;
            check.expect(check.view.directory(parent)?.is_some(), T, key, "the directory does not exist");
            let is_answered = match entry {
                Entry::Directory(id) => {
                    let below = check.view.directory(id)?;
                    below.is_some_and(|below| below.parent == parent && below.name.as_ref() == Some(&name))
                }
                Entry::File(id) => {
                    let file = check.view.file(id)?;
                    file.is_some_and(|file| file.parent == parent && file.name == name && file.is_named())
                }
            };
            check.expect(is_answered, T, key, "what the name stands for does not say so");
            Ok(())
        })?;
        self.walk(Table::Directory, |check, mut parts, key, directory: DirectoryRecord| {
            let id = DirId(parts.u64()?);
            let is_named = match &directory.name {
                None => id == DirId::ROOT && directory.parent == id,
                Some(name) => {
                    // A condemned tree has lost its name, and stands where it stood.
                    let is_named = check.view.entry(directory.parent, name)? == Some(Entry::Directory(id));
                    let is_condemned = check.has::<TreeRecord>(Table::Tree, key)?;
                    let above = check.view.directory(directory.parent)?;
                    is_named != is_condemned && above.is_some()
                }
            };
            check.expect(is_named, Table::Directory, key, "the directory has no name");
            let is_known = directory.class.is_none_or(|class| check.has_class(class).unwrap_or(false));
            check.expect(is_known, Table::Directory, key, "the class does not exist");
            Ok(())
        })?;
        self.walk(Table::Class, |check, _, key, class: ClassRecord| {
            for pool in &class.copies {
                let is_known = check.has::<String>(Table::TapePool, &key::tape_pool(*pool))?;
                check.expect(is_known, Table::Class, key, "the tape pool does not exist");
            }
            Ok(())
        })?;
        self.walk(Table::TapePool, |_, mut parts, _, _: String| parts.u16().map(TapePoolId).map(drop))
    }

    /// Classes and tape pools are never deleted.
    fn definitions(&mut self) -> Result<(), ReadError> {
        let meta: Meta = self.view.expect(Table::Meta, key::META)?;
        for id in (1..meta.next_class).map(ClassId) {
            let is_known = self.has_class(id)?;
            self.expect(is_known, Table::Class, &key::class(id), "the class is missing");
        }
        for id in (1..meta.next_tape_pool).map(TapePoolId) {
            let is_known = self.has::<String>(Table::TapePool, &key::tape_pool(id))?;
            self.expect(is_known, Table::TapePool, &key::tape_pool(id), "the tape pool is missing");
        }
        Ok(())
    }

    fn has_class(&self, id: ClassId) -> Result<bool, ReadError> {
        self.has::<ClassRecord>(Table::Class, &key::class(id))
    }

    fn files(&mut self) -> Result<(), ReadError> {
        self.walk(Table::File, |check, mut parts, key, file: FileRecord| {
            let id = FileId(parts.u64()?);
            check.refer(&file.pieces);
            let is_known = check.has_class(file.class)?;
            check.expect(is_known, Table::File, key, "the class does not exist");
            let held: u64 = file.pieces.iter().map(|piece| piece.length.0).sum();
            let fits = file.pieces.is_empty() || held == file.size.0;
            check.expect(fits, Table::File, key, "the pieces do not add up to the size");
            if file.is_named() {
                check.count(Counter::Class(file.class), file.size);
                if file.is_online() {
                    check.count(Counter::Online(file.class), file.size);
                    check.stands_by_use(id, &file, key)?;
                }
                let is_current = check.view.entry(file.parent, &file.name)? == Some(Entry::File(id));
                let is_kept = check.view.version(file.parent, &file.name, id)? == Some(Version::File);
                check.expect(is_current != is_kept, Table::File, key, "the live file has no name, or two");
            }
            check.file_on_tape(id, &file, key)
        })?;
        self.walk(Table::Todo, |check, mut parts, key, todo: TodoFile| {
            let class = ClassId(parts.u16()?);
            check.count(Counter::Todo(class), todo.size);
            let dataset = parts.u64()?;
            let file = check.view.file(FileId(parts.u64()?))?;
            let is_right = file.is_some_and(|file| {
                (file.class, file.dataset, file.size) == (class, dataset, todo.size)
                    && file.state == FileState::Live
                    && file.is_online()
            });
            check.expect(is_right, Table::Todo, key, "the file does not wait to be sealed");
            Ok(())
        })?;
        self.walk(Table::Part, |check, mut parts, key, _: PartRecord| {
            let is_known = check.view.file(FileId(parts.u64()?))?.is_some();
            check.expect(is_known, Table::Part, key, "the file does not exist");
            Ok(())
        })
    }

    fn file_on_tape(&mut self, id: FileId, file: &FileRecord, key: &[u8]) -> Result<(), ReadError> {
        let mut sealed = 0;
        let (mut is_safe, mut is_readable) = (true, true);
        let parts = self.view.parts(id)?;
        let has_parts = !parts.is_empty();
        for (container, member) in parts {
            // Of a file that was given up, a part that came to no tape may be gone.
            let follows = member.file_offset.0 == sealed || !file.is_named();
            self.expect(follows, Table::File, key, "the parts do not follow one another");
            sealed += member.length.0;
            let record = self.view.container(container)?;
            self.expect(record.is_some(), Table::File, key, "a part's container does not exist");
            is_safe &= record.as_ref().is_some_and(ContainerRecord::is_safe);
            is_readable &= record.is_some_and(|record| record.places().next().is_some());
        }
        let waits = self.has::<TodoFile>(Table::Todo, &key::todo(file.class, file.dataset, id))?;
        let is_sealed = sealed == file.size.0 && has_parts;
        self.expect(!(waits && is_sealed), Table::File, key, "the file is sealed but waits to be");
        self.expect(sealed <= file.size.0, Table::File, key, "the parts have more bytes than the file");
        let is_needed = file.is_named() || (has_parts && !is_safe);
        self.expect(is_needed, Table::File, key, "the file is condemned and no container needs it");
        let can_be_read = file.is_online() || file.state != FileState::Live || (is_readable && is_sealed);
        self.expect(can_be_read, Table::File, key, "the bytes are neither in the pool nor on tape");
        self.expect(file.has_data() || !file.is_lost(), Table::File, key, "a file without bytes is lost");
        Ok(())
    }

    fn blobs(&mut self) -> Result<(), ReadError> {
        let mut references = std::mem::take(&mut self.references);
        self.walk(Table::Blob, |check, mut parts, key, blob: BlobRecord| {
            let id = BlobId(parts.u64()?);
            let counted = references.remove(&id).unwrap_or_default();
            let is_right = counted == (blob.references, blob.live.0) && counted.0 > 0;
            check.expect(is_right, Table::Blob, key, "the references are miscounted");
            let is_found = match blob.stands_as {
                Some(extents) => check.view.blob_named(extents)? == id && extents != id,
                None => true,
            };
            check.expect(is_found, Table::Blob, key, "its extents are not known to be its");
            for set in &blob.stripes {
                let drives: Option<Vec<DriveId>> =
                    check.view.get(Table::StripeSet, &key::stripe_set(*set))?;
                let fits = drives.is_some_and(|drives| drives.len() == blob.layout.width());
                check.expect(fits, Table::Blob, key, "a stripe set does not exist or has another width");
            }
            Ok(())
        })?;
        for blob in references.keys() {
            self.expect(
                false,
                Table::Blob,
                &key::blob(*blob),
                "a piece refers to this blob, which does not exist",
            );
        }
        self.walk(Table::Garbage, |check, mut parts, key, garbage: Garbage| {
            let blob = BlobId(parts.u64()?);
            let offset = ByteCount(parts.u64()?);
            let record = check.view.blob_record(blob)?;
            let is_right = match &garbage {
                Garbage::Blob(description) => {
                    description.id == blob && offset == key::WHOLE_BLOB && record.is_none()
                }
                Garbage::Value(description, piece) => {
                    let is_of_it = match record {
                        Some(record) => check.view.describe(blob, &record)? == *description,
                        None => false,
                    };
                    (piece.blob, piece.offset) == (blob, offset)
                        && is_of_it
                        && matches!(description.layout, Layout::Segment { .. })
                }
            };
            check.expect(is_right, Table::Garbage, key, "the garbage is in use, or another blob's");
            Ok(())
        })?;
        self.walk(Table::StandsAs, |check, mut parts, key, _: BlobId| {
            let extents = BlobId(parts.u64()?);
            let blob = check.view.blob_of_extents(extents)?;
            let is_right = blob.is_some_and(|blob| blob.stands_as == Some(extents));
            check.expect(is_right, Table::StandsAs, key, "no blob stands as this one");
            Ok(())
        })?;
        self.walk(Table::Unneeded, |check, mut parts, key, sectors: Sectors| {
            let blob = check.view.blob_record(BlobId(parts.u64()?))?;
            parts.u32()?;
            let is_right = blob.is_some_and(|blob| matches!(blob.layout, Layout::Segment { .. }))
                && sectors.iter().any(|page| *page != 0);
            check.expect(is_right, Table::Unneeded, key, "the segment is not in use, or all of it is needed");
            Ok(())
        })?;
        self.walk(Table::StripeSet, |_, _, _, _: Vec<DriveId>| Ok(()))
    }

    fn answers(&mut self) -> Result<(), ReadError> {
        self.walk(Table::Idempotency, |check, mut parts, key, record: IdempotencyRecord| {
            let age = key::idempotency_age(record.at, &parts.digest()?);
            let is_aged = check.has::<Nothing>(Table::IdempotencyAge, &age)?;
            check.expect(is_aged, Table::Idempotency, key, "the answer would be kept for ever");
            Ok(())
        })?;
        self.walk(Table::IdempotencyAge, |check, mut parts, key, _: Nothing| {
            let at = parts.time()?;
            let record: Option<IdempotencyRecord> = check.view.get(Table::Idempotency, &parts.digest()?)?;
            let is_right = record.is_some_and(|record| record.at == at);
            check.expect(is_right, Table::IdempotencyAge, key, "the answer does not exist");
            Ok(())
        })
    }

    fn changes(&mut self) -> Result<(), ReadError> {
        let last = self.view.last_change()?;
        let mut next = self.view.first_change()?;
        let view = self.view;
        view.each(Table::Change, &[], None, |key, value| {
            let bytes = frame::open_bytes(Table::Change, key, value)?;
            let sequence = KeyReader::new(Table::Change, key).u64()?;
            // After a restore the numbers go on behind a multiple of this.
            let is_next = sequence == next || (sequence > next && sequence.is_multiple_of(RESTORE_JUMP));
            self.expect(is_next, Table::Change, key, "a change is missing before this one");
            next = sequence.saturating_add(1);
            self.expect(Envelope::decode(bytes).is_ok(), Table::Change, key, "the change is no command");
            Ok(ControlFlow::Continue(()))
        })?;
        self.expect(next == last + 1, Table::Change, &key::change(last), "the last change is missing");
        Ok(())
    }

    fn tallies(&mut self) -> Result<(), ReadError> {
        let mut tallies = std::mem::take(&mut self.tallies);
        self.walk(Table::Counter, |check, _, key, tally: Tally| {
            // Counts of events have no records to be counted anew.
            let is_of_events = [Counter::PacksSealed, Counter::Flushes, Counter::Indexes]
                .iter()
                .any(|event| counter_key(*event) == key);
            let counted = tallies.remove(key).unwrap_or_default();
            let is_right = tally == counted || (is_of_events && tally.files >= counted.files);
            check.expect(is_right, Table::Counter, key, "the tally is wrong");
            Ok(())
        })?;
        for key in tallies.keys() {
            self.expect(false, Table::Counter, key, "the tally is missing");
        }
        Ok(())
    }
}
