//! Copies of objects that share the bytes in the pool.

use base::{ArchivePath, ByteCount, FileId, Layout};
use catalogue::{CloneFile, Entry, FileKind, FileRecord, PutOutcome, Replace};

use crate::Ingest;
use ground::{ArchiveError, CloneOptions, PutDone, PutOptions, Which};
use namespace::{TREE_RETRIES_MAX, in_words};

impl Ingest {
    /// Copies a version to a path. Its bytes are shared; only values in segments, which are small, are
    /// written anew.
    ///
    /// # Errors
    /// [`ArchiveError::Nearline`] if the source has to be staged first; as
    /// [`Namespace::object`](namespace::Namespace::object) and [`Ingest::begin_put`].
    pub fn clone_object(
        &self,
        from: &ArchivePath,
        which: Which,
        to: &ArchivePath,
        options: CloneOptions,
    ) -> Result<PutDone, ArchiveError> {
        let (source, record) = self.0.namespace.version_file(from, which)?;
        if !record.is_online() || !self.is_shareable(&record)? {
            return self.copy_bytes((from, source), record, to, options);
        }
        // By the catalogue's word alone the copy would have bytes that nothing has.
        self.0.check_online(&[source])?;
        let (parent_path, name) = to.split().ok_or_else(|| ArchiveError::IsADirectory(to.clone()))?;
        let ingest = &*self.0;
        for _ in 0..TREE_RETRIES_MAX {
            let parent = self.0.namespace.ensure_directory_with(&parent_path, &namespace::implied())?;
            let class = self.0.namespace.class_for(options.class.as_deref(), parent, record.size)?;
            let clone = CloneFile {
                source,
                parent,
                name: name.clone(),
                attributes: options.attributes.clone(),
                class: class.id,
                dataset: self.0.namespace.data_set_for(None, (&parent_path, parent), &class)?,
                replace: Replace::Allowed,
                if_current: None,
                hold: options.hold,
            };
            match ingest.ask(Box::new(clone)).map_err(|error| in_words(error, to)) {
                Ok(done) => return Ok(self.cloned(&record, class.settings.name, done)),
                // The directory went with its last object, or the source went: then it is not found again.
                Err(ArchiveError::NotFound(_)) => drop(self.0.namespace.version_file(from, which)?),
                Err(error) => return Err(error),
            }
        }
        Err(ArchiveError::TreeChanges)
    }

    fn cloned(&self, record: &FileRecord, class: String, done: PutOutcome) -> PutDone {
        self.0.namespace.forget_wants(done.replaced.map(Entry::File), None);
        self.0.notifier.backlog_changed();
        PutDone {
            file: done.file,
            created: true,
            replaced: done.replaced.is_some(),
            size: record.size,
            checksums: record.checksums,
            class,
        }
    }

    /// Whether no piece of a file lies in a segment.
    fn is_shareable(&self, record: &FileRecord) -> Result<bool, ArchiveError> {
        self.0.read(|view| {
            for piece in &record.pieces {
                let blob = view.blob_record(piece.blob)?;
                if blob.is_none_or(|blob| matches!(blob.layout, Layout::Segment { .. })) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn copy_bytes(
        &self,
        (from, source): (&ArchivePath, FileId),
        record: FileRecord,
        to: &ArchivePath,
        options: CloneOptions,
    ) -> Result<PutDone, ArchiveError> {
        // By its id: it may be gone, or another version may have the name by now.
        let mut download = self.open_found(from, Some(&options.who), |view| {
            let record = view.file(source)?.filter(FileRecord::is_named);
            Ok(record.map(|record| (source, record)).ok_or_else(|| ArchiveError::NotFound(from.clone())))
        })?;
        let link_target = match record.kind {
            FileKind::Symlink(target) => Some(target),
            FileKind::Regular => None,
        };
        let put = PutOptions {
            length: Some(ByteCount(record.size.0)),
            blake3: Some(record.checksums.blake3),
            attributes: options.attributes.unwrap_or(record.attributes),
            class: options.class,
            hold: options.hold,
            link_target,
            implied_parents: true,
            make_parents: true,
            who: Some(options.who),
            ..PutOptions::default()
        };
        let mut upload = self.begin_put(to, put)?;
        while let Some(bytes) = download.next()? {
            upload.write(bytes.as_ref())?;
        }
        upload.finish()
    }
}
