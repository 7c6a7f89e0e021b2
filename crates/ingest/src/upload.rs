//! A put: bytes to the pool, synced, then one catalogue command; only then is it acknowledged.

use std::sync::Arc;

use base::{
    ArchivePath, Blake3, BlobDescription, BlobPiece, ByteCount, Checksums, DirId, DriveGroup, FileId, Name,
    StreamChecksums, Timestamp,
};
use catalogue::{
    Entry, FileKind, FileRecord, Followed, PoolData, PutFile, PutObject, PutOutcome, RecallDone, Rejection,
    Replace, typed,
};
use pool::BlobWriter;
use threads::mpsc::sync_channel;

use crate::Ingest;
use crate::small::SmallPut;
use ground::Class;
use ground::access::Notice;
use ground::{ArchiveError, PutDone, PutOptions, SMALL_BYTES_MAX};
use namespace::{TREE_RETRIES_MAX, in_words};

/// How often a small value is stored anew because its segment was removed meanwhile.
pub(crate) const SEGMENT_RETRIES_MAX: usize = 4;

/// How often a put is committed whose file turns out to be LOST behind its commit: each further time it was
/// found again, and lost again, in between.
const LOST_RETRIES_MAX: usize = 4;

/// What becomes of the bytes of a repeat.
enum Repeated {
    /// The file has what the first put brought. Whether these bytes are known to the catalogue all the same.
    Kept { used: bool },
    /// It became LOST behind the commit that called this put a repeat: nothing but these bytes is left.
    Lost,
}

/// Is told how a put ended.
pub type PutCallback = Box<dyn FnOnce(Result<PutDone, ArchiveError>) + Send>;

/// A put in progress. Dropping it stores nothing.
pub struct Upload {
    ingest: Ingest,
    path: ArchivePath,
    name: Name,
    options: PutOptions,
    /// The first bytes, until there are too many for a small value.
    small: Vec<u8>,
    large: Option<BlobWriter>,
    hasher: blake3::Hasher,
    received: u64,
    began: Timestamp,
}

impl Ingest {
    /// Begins a put. The path is checked now, so that a put that cannot succeed is refused before its body.
    ///
    /// # Errors [`ArchiveError::IsADirectory`], [`ArchiveError::NotADirectory`], [`ArchiveError::NotFound`]
    /// for a missing directory, [`ArchiveError::Exists`] if asked to keep what is there,
    /// [`ArchiveError::NoSuchClass`].
    pub fn begin_put(&self, path: &ArchivePath, options: PutOptions) -> Result<Upload, ArchiveError> {
        let began = self.0.now();
        let (_, name) = path.split().ok_or_else(|| ArchiveError::IsADirectory(path.clone()))?;
        if let Some(class) = &options.class {
            self.0.classes.by_name(class)?;
        }
        match self.0.read(|view| view.find(path))? {
            Some(Followed::Directory(..)) => return Err(ArchiveError::IsADirectory(path.clone())),
            // A repeat with the same key must get its first answer, so the key decides later.
            Some(Followed::File(..)) if options.keep_existing && options.idempotency.is_none() => {
                return Err(ArchiveError::Exists(path.clone()));
            }
            Some(Followed::File(current, _))
                if options.if_current.is_some_and(|wanted| wanted != current) =>
            {
                return Err(ArchiveError::NotCurrent(path.clone()));
            }
            Some(Followed::File(..)) => {}
            None if options.if_current.is_some() => return Err(ArchiveError::NotCurrent(path.clone())),
            None => self.check_parent(path, options.make_parents)?,
        }
        if let Some(length) = options.length {
            let key = options.idempotency.as_ref().map(|(key, owner)| hashed_key(owner, key));
            self.0.namespace.check_quota(path, &options.attributes.group, length, key.as_ref())?;
        }
        self.check_room(options.length)?;
        Ok(Upload {
            ingest: self.clone(),
            path: path.clone(),
            name,
            options,
            small: Vec::new(),
            large: None,
            hasher: blake3::Hasher::new(),
            received: 0,
            began,
        })
    }

    /// Whether there is room for a new file, and a writer to commit them.
    pub(crate) fn check_room(&self, length: Option<ByteCount>) -> Result<(), ArchiveError> {
        let ingest = &*self.0;
        ingest.catalogue.check_room().map_err(ArchiveError::Store)?;
        ingest.check_takes_file(length)
    }

    pub(crate) fn check_parent(&self, path: &ArchivePath, make_parents: bool) -> Result<(), ArchiveError> {
        let Some((parent, _)) = path.split() else { return Ok(()) };
        match self.0.namespace.directory_id(&parent) {
            Ok(_) => Ok(()),
            Err(ArchiveError::NotFound(_)) if make_parents => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The drives that get the bytes of a file that comes to stand below a directory, as far as that can be
    /// told before all of it is there.
    pub(crate) fn group_below(&self, named: Option<&str>, directory: DirId, size: ByteCount) -> DriveGroup {
        if self.0.settings.pool.groups.is_empty() {
            return DriveGroup::MAIN;
        }
        let class = self.0.namespace.class_for(named, directory, size);
        class.map_or(DriveGroup::MAIN, |class| self.0.group_of_class(class.id))
    }

    /// The same of one at a path.
    fn group_for(&self, named: Option<&str>, path: &ArchivePath, size: ByteCount) -> DriveGroup {
        if self.0.settings.pool.groups.is_empty() {
            return DriveGroup::MAIN;
        }
        // Directories that are missing are made at the end, and are of the class of those above them.
        let mut above = path.split();
        let directory = loop {
            let Some((parent, _)) = above else { break DirId::ROOT };
            match self.0.namespace.directory_id(&parent) {
                Ok(directory) => break directory,
                Err(_) => above = parent.split(),
            }
        };
        self.group_below(named, directory, size)
    }
}

impl Upload {
    /// A put whose bytes are in the pool already, as parts of so many bytes in all.
    pub(crate) fn of_parts(
        ingest: &Ingest,
        path: &ArchivePath,
        options: PutOptions,
        size: ByteCount,
        began: Timestamp,
    ) -> Result<Upload, ArchiveError> {
        let (_, name) = path.split().ok_or_else(|| ArchiveError::IsADirectory(path.clone()))?;
        Ok(Upload {
            ingest: ingest.clone(),
            path: path.clone(),
            name,
            options,
            small: Vec::new(),
            large: None,
            hasher: blake3::Hasher::new(),
            received: size.0,
            began,
        })
    }

    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// If the pool cannot take them, or there are more than were announced. The upload must be dropped then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let taken = self.take_in(bytes);
        taken.map_err(|error| self.ingest.0.tell_of_lack(error, self.options.length))
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.received += bytes.len() as u64;
        if let Some(expected) = self.options.length
            && self.received > expected.0
        {
            return Err(ArchiveError::LengthMismatch { expected: expected.0, actual: self.received });
        }
        self.hasher.update(bytes);
        if let Some(writer) = &mut self.large {
            return Ok(writer.write(bytes)?);
        }
        if self.small.len() + bytes.len() <= SMALL_BYTES_MAX {
            self.small.extend_from_slice(bytes);
            return Ok(());
        }
        let writer = self.ingest.0.pool.create_on(self.group(), self.options.length)?;
        let who = self.options.who.as_deref().unwrap_or_default();
        let mut writer = writer.used_by_client_of(who).with_checksums();
        writer.write(&self.small)?;
        writer.write(bytes)?;
        self.small = Vec::new();
        self.large = Some(writer);
        Ok(())
    }

    /// The drives that get its bytes: those of the class that it will have, as far as that can be told now.
    fn group(&self) -> DriveGroup {
        let size = self.options.length.unwrap_or(ByteCount(u64::MAX));
        self.ingest.group_for(self.options.class.as_deref(), &self.path, size)
    }

    /// The client sends nothing at present: gives back memory of the pool that others need meanwhile.
    pub fn pause(&mut self) {
        if let Some(writer) = &mut self.large {
            writer.pause();
        }
    }

    /// Gives the file an extended attribute that is known only when its bytes have gone by.
    pub fn attribute(&mut self, name: String, value: Vec<u8>) {
        self.options.attributes.xattrs.push((name, value));
    }

    /// Ends the body: checks it, syncs it, commits it. When this returns the file is kept: its shards are
    /// synced on k+m distinct drives (a small one on m+1) and the catalogue's transaction is durable.
    ///
    /// # Errors
    /// After an error nothing is stored, but for [`ArchiveError::Store`], where only a repeat with the same
    /// idempotency key can tell.
    pub fn finish(self) -> Result<PutDone, ArchiveError> {
        let (sender, receiver) = sync_channel(1);
        // Nobody but this call holds the receiver.
        self.finish_then(Box::new(move |done| drop(sender.send(done))));
        receiver.recv().unwrap_or(Err(ArchiveError::Stopping))
    }

    /// As [`Upload::finish`], but `done` gets what it returns. A small file may be finished by another
    /// thread, together with others, after this has returned; then nobody but `done` waits for its syncs.
    pub fn finish_then(mut self, done: PutCallback) {
        let (ingest, length) = (Arc::clone(&self.ingest.0), self.options.length);
        let teller = Arc::clone(&ingest);
        // Whoever finishes it, and wherever it fails.
        let done: PutCallback =
            Box::new(move |put| done(put.map_err(|error| teller.tell_of_lack(error, length))));
        let (put, class) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(error) => return done(Err(error)),
        };
        let Some(writer) = self.large.take() else {
            return ingest.small.submit(SmallPut { upload: self, put, class, done });
        };
        let outcome = writer.finish().map_err(ArchiveError::from);
        let outcome = outcome.and_then(|blob| self.commit_large(put.clone(), blob));
        done(outcome.and_then(|outcome| self.complete(&put, class, &outcome)));
    }

    /// What goes into the catalogue, but for where the bytes are.
    fn prepare(&mut self) -> Result<(PutFile, Class), ArchiveError> {
        let size = ByteCount(self.received);
        // Of a large file the pool computes them, in the pass over the bytes that makes its parity.
        let stream = match &mut self.large {
            Some(writer) => {
                let Some(sums) = writer.end()? else { unreachable!("the writer was made with checksums") };
                sums
            }
            None => StreamChecksums::of(&self.small),
        };
        let checksums = Checksums { stream, blake3: Blake3(*self.hasher.finalize().as_bytes()) };
        self.check_announced(size, &checksums)?;
        self.prepared(size, checksums)
    }

    /// What goes into the catalogue of bytes of this size and these checksums, but for where they are.
    pub(crate) fn prepared(
        &self,
        size: ByteCount,
        checksums: Checksums,
    ) -> Result<(PutFile, Class), ArchiveError> {
        let (parent_path, _) =
            self.path.split().ok_or_else(|| ArchiveError::IsADirectory(self.path.clone()))?;
        let parent = self.parent(&parent_path)?;
        let class = self.ingest.0.namespace.class_for(self.options.class.as_deref(), parent, size)?;
        let put = PutFile {
            parent,
            name: self.name.clone(),
            kind: self.options.link_target.clone().map_or(FileKind::Regular, FileKind::Symlink),
            size,
            attributes: self.options.attributes.clone(),
            checksums,
            class: class.id,
            dataset: self.ingest.0.namespace.data_set_for(
                self.options.dataset.as_deref(),
                (&parent_path, parent),
                &class,
            )?,
            data: None,
            replace: if self.options.keep_existing { Replace::Refused } else { Replace::Allowed },
            idempotency: self.options.idempotency.as_ref().map(|(key, owner)| hashed_key(owner, key)),
        };
        Ok((put, class))
    }

    /// The answer to a put that is committed.
    pub(crate) fn complete(
        &self,
        put: &PutFile,
        class: Class,
        done: &PutOutcome,
    ) -> Result<PutDone, ArchiveError> {
        let ingest = &*self.ingest.0;
        if done.created {
            self.write_down(put, done.file);
        }
        self.ingest.0.namespace.forget_wants(done.replaced.map(Entry::File), None);
        ingest.notifier.backlog_changed();
        // A repeat leaves the file as it was, its class included.
        let kept = if done.created { None } else { ingest.read(|view| view.file(done.file))? };
        Ok(PutDone {
            file: done.file,
            created: done.created,
            replaced: done.replaced.is_some(),
            size: put.size,
            checksums: put.checksums,
            class: kept.map_or(class.settings.name, |file| ingest.classes.name(file.class)),
        })
    }

    fn write_down(&self, put: &PutFile, file: FileId) {
        let ingest = &*self.ingest.0;
        ingest.access.push(|| {
            let at = ingest.now();
            let (class, who, bytes) = (put.class, self.options.who.clone(), put.size);
            Notice::Put { at, class, who, file, bytes, set: put.dataset, took: at.since(self.began) }
        });
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

    /// The directory that the file comes to stand in, made if it is missing and may be.
    pub(crate) fn parent(&self, path: &ArchivePath) -> Result<DirId, ArchiveError> {
        match (self.options.make_parents, self.options.implied_parents) {
            (true, true) => self.ingest.0.namespace.ensure_directory_with(path, &namespace::implied()),
            (true, false) => self.ingest.0.namespace.ensure_directory(path),
            (false, _) => self.ingest.0.namespace.directory_id(path),
        }
    }

    fn commit_large(&self, mut put: PutFile, blob: BlobDescription) -> Result<PutOutcome, ArchiveError> {
        let piece = base::BlobPiece { blob: blob.id, offset: ByteCount(0), length: put.size };
        put.data = Some(PoolData { blobs: vec![blob.clone()], pieces: vec![piece] });
        let (result, used) = self.commit_or_keep(&put, &blob, piece);
        if !used && let Err(error) = self.ingest.0.pool.remove(&blob) {
            tracing::warn!(%error, "an unused blob stays until the next start");
        }
        result
    }

    /// Commits a put, or makes sure of what it repeats; and whether the catalogue knows its blob, or may.
    /// Refused for certain, or a repeat: nothing refers to the bytes. After an engine failure nobody knows,
    /// so they stay, and the next start finds out.
    fn commit_or_keep(
        &self,
        put: &PutFile,
        blob: &BlobDescription,
        piece: BlobPiece,
    ) -> (Result<PutOutcome, ArchiveError>, bool) {
        let failed = |error: ArchiveError| {
            let used = !error.is_certain_refusal();
            (Err(error), used)
        };
        for _ in 0..LOST_RETRIES_MAX {
            let outcome = match self.commit(put.clone()) {
                Ok(outcome) if outcome.created => return (Ok(outcome), true),
                Ok(outcome) => outcome,
                Err(error) => return failed(error),
            };
            match self.keep_repeat(outcome.file, || Ok((blob.clone(), piece))) {
                Ok(Repeated::Kept { used }) => return (Ok(outcome), used),
                // The next commit finds it LOST, and takes these bytes.
                Ok(Repeated::Lost) => {}
                Err(error) => return failed(error),
            }
        }
        (Err(ArchiveError::Lost(self.path.clone())), false)
    }

    /// A repeat is acknowledged only if what was kept the first time can be read. If it is on tape only, the
    /// bytes just received take the place of a recall: then `store` is called for where they are.
    ///
    /// # Errors
    /// If the pool holds the kept bytes and cannot read them; [`ArchiveError::Lost`] if the file became LOST
    /// while the bytes took the place of a recall.
    fn keep_repeat(
        &self,
        file: FileId,
        store: impl FnOnce() -> Result<(BlobDescription, BlobPiece), ArchiveError>,
    ) -> Result<Repeated, ArchiveError> {
        let ingest = &*self.ingest.0;
        let Some(record) = ingest.read(|view| view.file(file))? else {
            return Ok(Repeated::Kept { used: false });
        };
        if record.is_online() {
            return self.check_readable(&record).map(|()| Repeated::Kept { used: false });
        }
        if record.is_lost() {
            return Ok(Repeated::Lost);
        }
        let (blob, piece) = store()?;
        let recall = RecallDone { blobs: vec![blob], files: vec![(file, vec![piece])] };
        let taken = ingest.ask(Box::new(recall))?;
        ingest.notifier.wants_changed(file);
        ingest.sweep.ring();
        if taken == 0 {
            // It is something else by now, and these bytes are given up.
            match ingest.read(|view| view.file(file))? {
                Some(record) if record.is_lost() => return Err(ArchiveError::Lost(self.path.clone())),
                Some(record) if record.is_online() => self.check_readable(&record)?,
                _ => {}
            }
        }
        // A blob of which nothing was taken is garbage that the catalogue knows and the sweeper removes.
        Ok(Repeated::Kept { used: true })
    }

    fn check_readable(&self, record: &FileRecord) -> Result<(), ArchiveError> {
        let ingest = &*self.ingest.0;
        let _reading = ingest.gate.enter();
        for piece in &record.pieces {
            let Some(blob) = ingest.read(|view| view.blob(piece.blob))? else { continue };
            let unreadable = |source| ArchiveError::KeptUnreadable { path: self.path.clone(), source };
            let mut reader = ingest.pool.read_piece(&blob, piece).map_err(unreadable)?;
            while reader.next().map_err(unreadable)?.is_some() {}
        }
        Ok(())
    }

    /// The bytes of a small file.
    pub(crate) fn small(&self) -> &[u8] {
        &self.small
    }

    /// Stores a small value by itself and commits it, again and again if its segment is removed meanwhile.
    /// The gate must have been entered; see [`SmallPuts`](crate::small::SmallPuts).
    pub(crate) fn store_small(&self, put: &PutFile) -> Result<PutOutcome, ArchiveError> {
        for _ in 0..SEGMENT_RETRIES_MAX {
            let (blob, piece) = self.ingest.0.pool.put_small(&self.small)?;
            let data = Some(PoolData { blobs: vec![blob.clone()], pieces: vec![piece] });
            let result = self.commit(PutFile { data, ..put.clone() });
            if let Some(result) = self.settle_small(&blob, &piece, result) {
                return result;
            }
        }
        Err(ArchiveError::Stopping)
    }

    /// What follows from the commit of a small value; `None` if it has to be stored and committed anew.
    pub(crate) fn settle_small(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        result: Result<PutOutcome, ArchiveError>,
    ) -> Option<Result<PutOutcome, ArchiveError>> {
        let ingest = &*self.ingest.0;
        match &result {
            // The segment's other values were all deleted and it is being removed, or a repair has moved it
            // to other drives meanwhile.
            Err(ArchiveError::Rejected(Rejection::BlobIsGarbage(_) | Rejection::BlobDiffers(_))) => {
                ingest.pool.seal_segments();
                return None;
            }
            Ok(outcome) if outcome.created => {}
            Ok(outcome) => {
                // The value just given up may have left its segment empty: another one takes this.
                let kept = self.keep_repeat(outcome.file, || {
                    ingest.pool.seal_segments();
                    Ok(ingest.pool.put_small(&self.small)?)
                });
                match kept {
                    Ok(Repeated::Kept { .. }) => {}
                    // The value just given up was all that was left: it is stored and committed once more.
                    Ok(Repeated::Lost) => return None,
                    Err(error) => return Some(Err(error)),
                }
                ingest.sweep.ring();
            }
            Err(error) => {
                if error.is_certain_refusal()
                    && let Err(error) = ingest.pool.punch(blob, piece)
                {
                    tracing::warn!(%error, "a refused value stays until its segment is removed");
                }
            }
        }
        Some(result)
    }

    /// An error of the catalogue in the words of who puts this file.
    pub(crate) fn in_words(&self, error: ArchiveError) -> ArchiveError {
        in_words(error, &self.path)
    }

    /// The command of this put.
    pub(crate) fn command(&self, put: PutFile) -> typed::Put {
        let PutOptions { if_current, hold, implied_parents: always, .. } = self.options;
        if if_current.is_none() && hold.is_none() && !always {
            return typed::Put::File(Box::new(put));
        }
        typed::Put::Object(Box::new(PutObject { put, if_current, hold, always }))
    }

    /// Whether a refusal may mean that the directory went with its last object: see `implied_parents`.
    pub(crate) fn has_lost_parent<T>(&self, result: &Result<T, ArchiveError>) -> bool {
        self.options.make_parents && matches!(result, Err(ArchiveError::NotFound(_)))
    }

    pub(crate) fn commit(&self, mut put: PutFile) -> Result<PutOutcome, ArchiveError> {
        let mut result = self.commit_once(put.clone());
        for _ in 0..TREE_RETRIES_MAX {
            if !self.has_lost_parent(&result) {
                break;
            }
            let Some((parent, _)) = self.path.split() else { break };
            put.parent = self.parent(&parent)?;
            result = self.commit_once(put.clone());
        }
        result
    }

    fn commit_once(&self, put: PutFile) -> Result<PutOutcome, ArchiveError> {
        self.ingest.0.ask(self.command(put)).map_err(|error| self.in_words(error))
    }
}

fn hashed_key(owner: &str, key: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(owner.len() as u64).to_le_bytes());
    hasher.update(owner.as_bytes());
    hasher.update(key.as_bytes());
    *hasher.finalize().as_bytes()
}
