//! Uploads in parts: the parts stand in the pool as any bytes do, and at the end the catalogue makes a file
//! of them. No byte is copied; only a part that was hashed at another offset than it has in the file is read
//! once.

use base::{
    ArchivePath, ByteCount, Checksums, Name, PartHasher, PartsMerger, StreamChecksums, Timestamp, UploadId,
};
use catalogue::{
    CompleteUpload, FileRecord, Followed, Object, OpenUpload, PARTS_MAX, PutObject, PutOutcome, Rejection,
    UploadPart, UploadPlan, UploadRecord, View, completion_key, typed,
};
use pool::Use;

use crate::Ingest;
use crate::Shared;
use crate::upload::Upload;
use ground::truncated;
use ground::{
    ArchiveError, CompleteOptions, Ground, MultipartInfo, PartInfo, PutDone, PutOptions, UploadError,
};
use namespace::TREE_RETRIES_MAX;

/// Most uploads or parts in one page of a listing.
pub const MULTIPART_PAGE_MAX: usize = 10_000;
/// Attributes of an upload whose names begin so are the door's: they do not come to the file.
pub const UPLOAD_XATTRS: &str = "kist.upload.";
/// Most bytes in the name of who began an upload.
const OWNER_BYTES_MAX: usize = 64;

impl Ingest {
    /// Begins an upload in parts of a path below a directory of the root. Of the options, length, checksums,
    /// link target and idempotency key are not looked at. The upload survives a crash of the server.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`] for a missing directory, [`ArchiveError::IsADirectory`],
    /// [`ArchiveError::NoSuchClass`], or too many uploads are open.
    pub fn open_multipart(&self, path: &ArchivePath, options: PutOptions) -> Result<UploadId, ArchiveError> {
        let ingest = &*self.0;
        let (bucket, key) = split_bucket(path)?;
        let class = options.class.as_deref().map(|name| ingest.classes.by_name(name)).transpose()?;
        let class = class.map(|class| class.id);
        match ingest.read(|view| view.find(path))? {
            Some(Followed::Directory(..)) => return Err(ArchiveError::IsADirectory(path.clone())),
            Some(Followed::File(..)) if options.keep_existing => {
                return Err(ArchiveError::Exists(path.clone()));
            }
            Some(Followed::File(..)) => {}
            None => self.check_parent(path, options.make_parents)?,
        }
        self.0.namespace.check_quota_of_upload(path, &options.attributes.group)?;
        self.check_room(None)?;
        let owner = options.who.as_deref().unwrap_or(&options.attributes.owner);
        let open = OpenUpload {
            bucket: self.0.namespace.directory_id(&ArchivePath::root().join(&bucket)?)?,
            key,
            owner: truncated(owner, OWNER_BYTES_MAX),
            plan: UploadPlan {
                attributes: options.attributes,
                class,
                dataset: options.dataset,
                make_parents: options.make_parents,
                implied_parents: options.implied_parents,
                keep_existing: options.keep_existing,
                hold: options.hold,
            },
        };
        ingest.ask(Box::new(open)).map_err(|error| namespace::in_words(error, path))
    }

    /// An upload in parts.
    ///
    /// # Errors
    /// [`UploadError::NoSuchUpload`].
    pub fn multipart(&self, upload: UploadId) -> Result<MultipartInfo, ArchiveError> {
        let ingest = &*self.0;
        let info = ingest.read(|view| match view.upload(upload)? {
            Some(record) if !record.ending => info(ingest, view, upload, record),
            _ => Ok(None),
        })?;
        info.ok_or_else(|| UploadError::NoSuchUpload(upload).into())
    }

    /// Uploads below a directory of the root in the order of path and id, from behind a path and id on; and
    /// whether there is more.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NotADirectory`].
    pub fn multiparts(
        &self,
        bucket: &Name,
        prefix: &str,
        after: Option<(&str, UploadId)>,
        limit: usize,
    ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError> {
        let ingest = &*self.0;
        let limit = limit.clamp(1, MULTIPART_PAGE_MAX);
        let directory = self.0.namespace.directory_id(&ArchivePath::root().join(bucket)?)?;
        ingest.read(|view| {
            let mut rows = view.uploads(directory, prefix, after, limit + 1)?;
            let more = rows.len() > limit;
            rows.truncate(limit);
            let mut infos = Vec::with_capacity(rows.len());
            for (id, record) in rows {
                infos.extend(info(ingest, view, id, record)?);
            }
            Ok((infos, more))
        })
    }

    /// Uploads that were begun before this time, oldest first, from behind an id on.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn multiparts_before(
        &self,
        before: Timestamp,
        after: Option<UploadId>,
        limit: usize,
    ) -> Result<Vec<MultipartInfo>, ArchiveError> {
        let ingest = &*self.0;
        ingest.read(|view| {
            let mut infos = Vec::new();
            for (id, record) in view.uploads_before(before, after, limit.clamp(1, MULTIPART_PAGE_MAX))? {
                if !record.ending {
                    infos.extend(info(ingest, view, id, record)?);
                }
            }
            Ok(infos)
        })
    }

    /// Parts of an upload with numbers above `after`; and whether there is more.
    ///
    /// # Errors
    /// [`UploadError::NoSuchUpload`].
    pub fn parts(
        &self,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<PartInfo>, bool), ArchiveError> {
        let limit = limit.clamp(1, MULTIPART_PAGE_MAX);
        let rows = self.0.read(|view| match view.upload(upload)? {
            Some(record) if !record.ending => view.upload_parts(upload, after, limit + 1).map(Some),
            _ => Ok(None),
        })?;
        let mut rows = rows.ok_or(UploadError::NoSuchUpload(upload))?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        Ok((rows.into_iter().map(|(number, part)| part_info(number, part)).collect(), more))
    }

    /// Makes the file of these parts, in this order; other parts are given up. No byte is moved. When this
    /// returns the file is kept as after a put. A repeat gets the first answer, as long as idempotency keys
    /// are kept.
    ///
    /// # Errors
    /// [`UploadError::NoSuchUpload`], [`UploadError::NoSuchPart`], [`UploadError::PartChanged`], or as a
    /// put. The upload is still open then, but for [`ArchiveError::Store`], where a repeat can tell.
    pub fn complete_multipart(
        &self,
        upload: UploadId,
        parts: &[u16],
        options: CompleteOptions,
    ) -> Result<PutDone, ArchiveError> {
        let ingest = &*self.0;
        // No piece that is read from here on is removed meanwhile.
        let _reading = ingest.gate.enter();
        let found = ingest.read(|view| match view.upload(upload)? {
            Some(record) if !record.ending => {
                let path = ground::path_of_upload(view, &record)?;
                let rows = view.upload_parts(upload, 0, usize::from(PARTS_MAX))?;
                Ok(path.map(|path| (record, path, rows)))
            }
            _ => Ok(None),
        })?;
        let Some((record, path, rows)) = found else { return self.completed(upload) };
        let named = named(upload, parts, &options.stamps, &rows)?;
        check_drives(ingest, upload, &named)?;
        let (size, checksums) = self.whole(&path, &named)?;
        let began = ingest.now();
        let if_current = options.if_current;
        let hold = record.plan.hold;
        let options = put_options(ingest, record.plan, options);
        let end = Upload::of_parts(self, &path, options, size, began)?;
        let (mut put, class) = end.prepared(size, checksums)?;
        put.idempotency = Some(completion_key(upload));
        let object = PutObject { put, if_current, hold, always: true };
        let parts = named.iter().map(|(number, part)| (*number, part.stamp)).collect();
        let mut complete = CompleteUpload { upload, parts, object };
        let mut outcome = self.commit_parts(&end, &complete);
        for _ in 0..TREE_RETRIES_MAX {
            if !end.has_lost_parent(&outcome) {
                break;
            }
            let Some((parent, _)) = path.split() else { break };
            complete.object.put.parent = end.parent(&parent)?;
            outcome = self.commit_parts(&end, &complete);
        }
        let outcome = match outcome {
            // Somebody else has completed or aborted it meanwhile.
            Err(ArchiveError::Upload(UploadError::NoSuchUpload(_))) => return self.completed(upload),
            outcome => outcome?,
        };
        // Parts that were not named, or all of them if the same bytes were there already.
        ingest.sweep.ring();
        end.complete(&complete.object.put, class, &outcome)
    }

    fn commit_parts(&self, end: &Upload, complete: &CompleteUpload) -> Result<PutOutcome, ArchiveError> {
        let upload = complete.upload;
        match self.0.ask(Box::new(complete.clone())) {
            Ok(outcome) => Ok(outcome),
            Err(ArchiveError::Rejected(Rejection::NotFound(Object::Upload(_)))) => {
                Err(UploadError::NoSuchUpload(upload).into())
            }
            Err(ArchiveError::Rejected(
                Rejection::NotFound(Object::UploadPart(_, number))
                | Rejection::WrongState { object: Object::UploadPart(_, number), .. },
            )) => Err(UploadError::PartChanged { upload, number }.into()),
            Err(error) => Err(end.in_words(error)),
        }
    }

    /// The answer to an upload of this path that was completed, for as long as idempotency keys are kept and
    /// the file is at this path.
    ///
    /// # Errors
    /// [`UploadError::NoSuchUpload`].
    pub fn completed_multipart(&self, path: &ArchivePath, upload: UploadId) -> Result<PutDone, ArchiveError> {
        let done = self.completed(upload)?;
        let at = self.0.read(|view| view.path_of_file(done.file))?;
        if at.as_deref() == Some(path.as_str()) {
            Ok(done)
        } else {
            Err(UploadError::NoSuchUpload(upload).into())
        }
    }

    /// The answer to a repeat.
    fn completed(&self, upload: UploadId) -> Result<PutDone, ArchiveError> {
        let ingest = &*self.0;
        let known = ingest.read(|view| match view.completed_upload(upload)? {
            Some(id) => Ok(view.file(id)?.map(|file| (id, file))),
            None => Ok(None),
        })?;
        // What is lost is not acknowledged once more: its client may still have it.
        let known = known.filter(|(_, record)| !record.is_lost());
        let Some((file, record)) = known else { return Err(UploadError::NoSuchUpload(upload).into()) };
        let FileRecord { size, checksums, class, .. } = record;
        Ok(PutDone {
            file,
            created: false,
            replaced: false,
            size,
            checksums,
            class: ingest.classes.name(class),
        })
    }

    /// Size and checksums of the file that these parts make.
    fn whole(
        &self,
        path: &ArchivePath,
        parts: &[(u16, &UploadPart)],
    ) -> Result<(ByteCount, Checksums), ArchiveError> {
        let mut stream = StreamChecksums::of(b"");
        let mut merger = PartsMerger::new();
        for (number, part) in parts {
            stream = stream.combine(part.checksums, part.size.0);
            let end = merger.offset().0.checked_add(part.size.0);
            if end.is_none_or(|end| end > i64::MAX as u64) {
                return Err(ArchiveError::Limit { what: "bytes of a file", limit: i64::MAX as u64 });
            }
            if merger.push(&part.hash, part.size) {
                continue;
            }
            // Its place was not known when it came: usually only that of a last, shorter part.
            tracing::debug!(%path, number, "a part is read to be hashed at its place");
            let hash = self.hash_part(path, part, merger.offset())?;
            if !merger.push(&hash, part.size) {
                return Err(ArchiveError::Corrupt { path: path.clone() });
            }
        }
        Ok((merger.offset(), Checksums { stream, blake3: merger.finish() }))
    }

    fn hash_part(
        &self,
        path: &ArchivePath,
        part: &UploadPart,
        offset: ByteCount,
    ) -> Result<base::PartHash, ArchiveError> {
        let ingest = &*self.0;
        let mut hasher = PartHasher::new(offset);
        let mut stream = StreamChecksums::of(b"");
        for piece in &part.pieces {
            let blob = ingest.read(|view| view.blob(piece.blob))?;
            let blob = blob.ok_or_else(|| ArchiveError::Corrupt { path: path.clone() })?;
            let mut reader = ingest.pool.read_piece(&blob, piece)?.used_by(Use::Client);
            while let Some(bytes) = reader.next()? {
                hasher.update(bytes.as_ref());
                stream = stream.extend(bytes.as_ref());
            }
        }
        if stream != part.checksums {
            return Err(ArchiveError::Corrupt { path: path.clone() });
        }
        Ok(hasher.finish())
    }

    /// Gives up an upload: its parts are removed. From the first moment on it takes no more parts.
    ///
    /// # Errors
    /// [`UploadError::NoSuchUpload`]; one that was completed is none.
    pub fn abort_multipart(&self, upload: UploadId) -> Result<(), ArchiveError> {
        let ingest = &*self.0;
        let is_open = ingest.read(|view| view.upload(upload))?.is_some();
        if !is_open || !give_up(ingest, upload)? {
            return Err(UploadError::NoSuchUpload(upload).into());
        }
        ingest.sweep.ring();
        Ok(())
    }
}

/// Whether it was there to be given up.
fn give_up(ground: &Ground, upload: UploadId) -> Result<bool, ArchiveError> {
    let mut is_first = true;
    loop {
        match ground.ask(typed::AbortUpload { upload }) {
            Ok(true) => is_first = false,
            Ok(false) => return Ok(true),
            // Somebody else has ended it.
            Err(ArchiveError::Rejected(Rejection::NotFound(Object::Upload(_)))) => return Ok(!is_first),
            Err(error) => return Err(error),
        }
    }
}

/// Brings to an end what the last server had begun to give up.
pub fn finish_aborts(ground: &Ground) -> Result<(), ArchiveError> {
    ground::each_upload(
        ground,
        |id, record| if record.ending { give_up(ground, id).map(drop) } else { Ok(()) },
    )
}

/// Gives up all uploads of before the restore of the catalogue: nobody knows whether the pool still has their
/// parts, which nothing reads before they are a file. Those that were begun since stay.
pub fn give_up_restored(ground: &Ground) -> Result<(), ArchiveError> {
    let from = ground.read(|view| view.restored_from())?;
    ground::each_upload(ground, |id, record| {
        if id.0 >= from {
            return Ok(());
        }
        let key = &record.key;
        tracing::warn!(upload = %id, key, "an upload in parts is given up: its client begins anew");
        give_up(ground, id).map(drop)
    })
}

/// The directory of the root, and the path below it.
fn split_bucket(path: &ArchivePath) -> Result<(Name, String), ArchiveError> {
    let mut parts = path.as_str().trim_start_matches('/').splitn(2, '/');
    match (parts.next(), parts.next()) {
        (Some(bucket), Some(key)) if !key.is_empty() => Ok((Name::new(bucket)?, key.to_owned())),
        _ => Err(ArchiveError::NotOffered("an upload in parts that is not below a directory of the root")),
    }
}

fn info(
    ingest: &Shared,
    view: &View<'_>,
    upload: UploadId,
    record: UploadRecord,
) -> Result<Option<MultipartInfo>, catalogue::ReadError> {
    let Some(path) = ground::path_of_upload(view, &record)? else { return Ok(None) };
    let UploadRecord { owner, created, plan, .. } = record;
    let class = plan.class.map(|class| ingest.classes.name(class));
    Ok(Some(MultipartInfo { upload, path, owner, created, attributes: plan.attributes, class }))
}

pub(crate) fn part_info(number: u16, part: UploadPart) -> PartInfo {
    let UploadPart { stamp, stored, size, attributes, .. } = part;
    PartInfo { number, size, stored, attributes, stamp }
}

/// The parts that are named, in order.
fn named<'r>(
    upload: UploadId,
    numbers: &[u16],
    stamps: &[u64],
    rows: &'r [(u16, UploadPart)],
) -> Result<Vec<(u16, &'r UploadPart)>, ArchiveError> {
    let mut named = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let row = rows.binary_search_by_key(number, |(number, _)| *number).ok().and_then(|at| rows.get(at));
        let (_, part) = row.ok_or(UploadError::NoSuchPart { upload, number: *number })?;
        if stamps.get(at).is_some_and(|stamp| *stamp != part.stamp) {
            return Err(UploadError::PartChanged { upload, number: *number }.into());
        }
        named.push((*number, part));
    }
    Ok(named)
}

/// Refuses parts whose bytes went with drives that are given up: files are declared lost then, and what is
/// not one yet must not become one that nobody has looked at.
fn check_drives(ingest: &Shared, upload: UploadId, parts: &[(u16, &UploadPart)]) -> Result<(), ArchiveError> {
    let given_up = ingest.upkeep.given_up();
    if given_up.is_empty() {
        return Ok(());
    }
    ingest.read(|view| {
        for (number, part) in parts {
            for piece in &part.pieces {
                let Some(blob) = view.blob(piece.blob)? else { continue };
                // A description that contradicts itself is the catalogue's check's to report.
                if matches!(ingest.pool.has_drives_without(&blob, piece, &given_up), Ok(false)) {
                    return Ok(Err(UploadError::NoSuchPart { upload, number: *number }.into()));
                }
            }
        }
        Ok(Ok(()))
    })?
}

/// What a put of the file would say.
fn put_options(ingest: &Shared, plan: UploadPlan, complete: CompleteOptions) -> PutOptions {
    let mut attributes = plan.attributes;
    // What is said at the end replaces what was said at the beginning.
    attributes.xattrs.retain(|(name, _)| {
        !name.starts_with(UPLOAD_XATTRS) && complete.xattrs.iter().all(|(said, _)| said != name)
    });
    attributes.xattrs.extend(complete.xattrs);
    PutOptions {
        attributes,
        class: plan.class.map(|class| ingest.classes.name(class)),
        keep_existing: plan.keep_existing || complete.keep_existing,
        if_current: complete.if_current,
        hold: plan.hold,
        implied_parents: plan.implied_parents,
        make_parents: plan.make_parents,
        dataset: plan.dataset,
        who: (!complete.who.is_empty()).then_some(complete.who),
        ..PutOptions::default()
    }
}
