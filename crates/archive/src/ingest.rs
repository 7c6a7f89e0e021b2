//! A put: bytes to the pool, synced, then one catalogue command; only then is it acknowledged.

use base::{ArchivePath, Blake3, BlobDescription, ByteCount, Checksums, Name, StreamChecksums};
use catalogue::{Command, Entry, FileKind, Outcome, PoolData, PutFile, PutOutcome, Rejection, Replace};
use pool::BlobWriter;

use crate::classes::Class;
use crate::namespace::in_words;
use crate::{Archive, ArchiveError, PutDone, PutOptions};

/// Values up to this size share log segments; above they are striped.
pub const SMALL_BYTES_MAX: usize = 256 << 10;
/// How often a small value is stored anew because its segment was removed meanwhile.
const SEGMENT_RETRIES_MAX: usize = 4;

/// A put in progress. Dropping it stores nothing.
pub struct Upload {
    archive: Archive,
    path: ArchivePath,
    name: Name,
    options: PutOptions,
    /// The first bytes, until there are too many for a small value.
    small: Vec<u8>,
    large: Option<BlobWriter>,
    hasher: blake3::Hasher,
    sums: StreamChecksums,
    received: u64,
}

impl Archive {
    /// Begins a put. The path is checked now, so that a put that cannot succeed is refused before its body.
    ///
    /// # Errors [`ArchiveError::IsADirectory`], [`ArchiveError::NotADirectory`], [`ArchiveError::NotFound`]
    /// for a missing directory, [`ArchiveError::Exists`] if asked to keep what is there,
    /// [`ArchiveError::NoSuchClass`].
    pub fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Result<Upload, ArchiveError> {
        let (_, name) = path.split().ok_or_else(|| ArchiveError::IsADirectory(path.clone()))?;
        if let Some(class) = &options.class {
            self.engine().classes.by_name(class)?;
        }
        match self.engine().read(|view| view.resolve(path))? {
            Some(Entry::Directory(_)) => return Err(ArchiveError::IsADirectory(path.clone())),
            // A repeat with the same key must get its first answer, so the key decides later.
            Some(Entry::File(_)) if options.keep_existing && options.idempotency.is_none() => {
                return Err(ArchiveError::Exists(path.clone()));
            }
            Some(Entry::File(_)) => {}
            None => self.check_parent(path, options.make_parents)?,
        }
        if let Some(length) = options.length {
            self.check_fits_a_tape(length)?;
        }
        Ok(Upload {
            archive: self.clone(),
            path: path.clone(),
            name,
            options,
            small: Vec::new(),
            large: None,
            hasher: blake3::Hasher::new(),
            sums: StreamChecksums::default(),
            received: 0,
        })
    }

    fn check_parent(&self, path: &ArchivePath, make_parents: bool) -> Result<(), ArchiveError> {
        let Some((parent, _)) = path.split() else { return Ok(()) };
        match self.directory_id(&parent) {
            Ok(_) => Ok(()),
            Err(ArchiveError::NotFound(_)) if make_parents => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn check_fits_a_tape(&self, length: ByteCount) -> Result<(), ArchiveError> {
        let limit = self.largest_container()?;
        if length.0 > limit.0 {
            return Err(ArchiveError::Limit { what: "a file larger than the largest tape", limit: limit.0 });
        }
        Ok(())
    }
}

impl Upload {
    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// If the pool cannot take them, or there are more than were announced. The upload must be dropped then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.received += bytes.len() as u64;
        if let Some(expected) = self.options.length
            && self.received > expected.0
        {
            return Err(ArchiveError::LengthMismatch { expected: expected.0, actual: self.received });
        }
        self.hasher.update(bytes);
        self.sums = self.sums.extend(bytes);
        if let Some(writer) = &mut self.large {
            return Ok(writer.write(bytes)?);
        }
        if self.small.len() + bytes.len() <= SMALL_BYTES_MAX {
            self.small.extend_from_slice(bytes);
            return Ok(());
        }
        let pool = &self.archive.engine().pool;
        let mut writer = match self.options.length {
            Some(length) => pool.create_sized(length)?,
            None => pool.create()?,
        };
        writer.write(&self.small)?;
        writer.write(bytes)?;
        self.small = Vec::new();
        self.large = Some(writer);
        Ok(())
    }

    /// Ends the body: checks it, syncs it, commits it. When this returns the file is kept: its shards are
    /// synced on k+m distinct drives (a small one on m+1) and the catalogue's transaction is durable.
    ///
    /// # Errors
    /// After an error nothing is stored, but for [`ArchiveError::Store`], where only a repeat with the same
    /// idempotency key can tell.
    pub fn finish(mut self) -> Result<PutDone, ArchiveError> {
        let size = ByteCount(self.received);
        let checksums = Checksums { stream: self.sums, blake3: Blake3(*self.hasher.finalize().as_bytes()) };
        self.check_announced(size, &checksums)?;
        let (parent_path, _) =
            self.path.split().ok_or_else(|| ArchiveError::IsADirectory(self.path.clone()))?;
        let engine = std::sync::Arc::clone(self.archive.engine_arc());
        let parent = if self.options.make_parents {
            self.archive.ensure_directory(&parent_path)?
        } else {
            self.archive.directory_id(&parent_path)?
        };
        let class = self.class(&parent_path, size)?;
        self.archive.check_fits_a_tape(size)?;
        let large = self.large.take().map(BlobWriter::finish).transpose()?;
        let mut put = PutFile {
            parent,
            name: self.name.clone(),
            kind: self.options.link_target.clone().map_or(FileKind::Regular, FileKind::Symlink),
            size,
            attributes: self.options.attributes.clone(),
            checksums,
            class: class.id,
            dataset: self.dataset(parent.0),
            data: None,
            replace: if self.options.keep_existing { Replace::Refused } else { Replace::Allowed },
            idempotency: self.options.idempotency.as_ref().map(|(key, owner)| hashed_key(owner, key)),
        };
        let before = engine.read(|view| view.entry(parent, &self.name))?;
        let done = match large {
            Some(blob) => self.commit_large(put, blob)?,
            None if size.0 == 0 => self.commit(put)?,
            None => self.store_small(&mut put)?,
        };
        if done.replaced.is_some() {
            self.archive.forget_wants(before);
        }
        engine.bell.backlog_changed();
        Ok(PutDone {
            file: done.file,
            created: done.created,
            replaced: done.replaced.is_some(),
            size,
            checksums,
            class: class.settings.name,
        })
    }

    fn check_announced(&self, size: ByteCount, checksums: &Checksums) -> Result<(), ArchiveError> {
        if let Some(expected) = self.options.length
            && expected != size
        {
            return Err(ArchiveError::LengthMismatch { expected: expected.0, actual: size.0 });
        }
        let mismatch = |kind, expected: String, actual: String| {
            (expected != actual).then_some(ArchiveError::DigestMismatch { kind, expected, actual })
        };
        let adler = self.options.adler32.and_then(|expected| {
            mismatch("adler32", expected.to_string(), checksums.stream.adler32.to_string())
        });
        let blake3 = self
            .options
            .blake3
            .and_then(|expected| mismatch("BLAKE3", expected.to_string(), checksums.blake3.to_string()));
        adler.or(blake3).map_or(Ok(()), Err)
    }

    /// The class that the client named, else the nearest directory's, else by size.
    fn class(&self, parent: &ArchivePath, size: ByteCount) -> Result<Class, ArchiveError> {
        let engine = self.archive.engine();
        if let Some(name) = &self.options.class {
            return engine.classes.by_name(name).cloned();
        }
        let mut directory = Some(parent.clone());
        while let Some(path) = directory {
            let class = engine.read(|view| match view.resolve(&path)? {
                Some(Entry::Directory(id)) => Ok(view.directory(id)?.and_then(|record| record.class)),
                _ => Ok(None),
            })?;
            if let Some(class) = class.and_then(|id| engine.classes.get(id)) {
                return Ok(class.clone());
            }
            directory = path.split().map(|(above, _)| above);
        }
        engine
            .classes
            .by_size(size)
            .cloned()
            .ok_or_else(|| ArchiveError::NoSuchClass { name: String::new(), known: String::new() })
    }

    fn dataset(&self, parent: u64) -> u64 {
        match &self.options.dataset {
            // Hints live above all directory ids, so that the two never mix.
            Some(hint) => {
                let hash = Blake3::of(hint.as_bytes()).0;
                (1 << 63) | hash.iter().take(7).fold(0, |number, byte| (number << 8) | u64::from(*byte))
            }
            None => parent,
        }
    }

    fn commit(&self, put: PutFile) -> Result<PutOutcome, ArchiveError> {
        match self.archive.engine().execute(Command::PutFile(Box::new(put))) {
            Ok(Outcome::Put(outcome)) => Ok(outcome),
            Ok(other) => unreachable!("a put's outcome is a put, not {other:?}"),
            Err(error) => Err(in_words(error, &self.path)),
        }
    }

    fn commit_large(&self, mut put: PutFile, blob: BlobDescription) -> Result<PutOutcome, ArchiveError> {
        let piece = base::BlobPiece { blob: blob.id, offset: ByteCount(0), length: put.size };
        put.data = Some(PoolData { blobs: vec![blob.clone()], pieces: vec![piece] });
        let result = self.commit(put);
        // Refused for certain, or a repeat: nothing refers to these bytes. After an engine failure nobody
        // knows, so they stay, and the next start finds out.
        let unused = match &result {
            Ok(outcome) => !outcome.created,
            Err(ArchiveError::Store(_)) => false,
            Err(_) => true,
        };
        if unused && let Err(error) = self.archive.engine().pool.remove(&blob) {
            tracing::warn!(%error, "an unused blob stays until the next start");
        }
        result
    }

    /// Stores a small value and commits it. The gate is entered before, so that a segment which is swept
    /// meanwhile is still known as garbage when the commit arrives; see `sweep`.
    fn store_small(&self, put: &mut PutFile) -> Result<PutOutcome, ArchiveError> {
        let engine = self.archive.engine();
        let _storing = engine.gate.enter();
        let mut last = None;
        for _ in 0..SEGMENT_RETRIES_MAX {
            let (blob, piece) = engine.pool.put_small(&self.small)?;
            put.data = Some(PoolData { blobs: vec![blob], pieces: vec![piece] });
            match self.commit(put.clone()) {
                // The segment's other values were all deleted and it is being removed: store in another one.
                Err(error @ ArchiveError::Rejected(Rejection::BlobIsGarbage(_))) => {
                    engine.pool.seal_segments();
                    last = Some(error);
                }
                Ok(outcome) => {
                    if !outcome.created {
                        engine.sweep.ring();
                    }
                    return Ok(outcome);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or(ArchiveError::Stopping))
    }
}

fn hashed_key(owner: &str, key: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(owner.len() as u64).to_le_bytes());
    hasher.update(owner.as_bytes());
    hasher.update(key.as_bytes());
    *hasher.finalize().as_bytes()
}
