//! Uploads in parts.

use std::collections::BTreeMap;

use archive::{ArchiveError, CompleteOptions, MultipartInfo, PartInfo, PutDone, PutOptions};
use base::{ArchivePath, ByteCount, Name, UploadId};
use identity::Rights;

use super::{Guarded, bucket_path};
use crate::roles::{Access, Parts};
use crate::rule::Putting;
use crate::seam::PartUpload;
use crate::transfers::AuditedPart;

impl<E: Parts + Access + ?Sized> Parts for Guarded<E> {
    fn open_multipart(&self, path: &ArchivePath, mut options: PutOptions) -> Result<UploadId, ArchiveError> {
        self.rule.putting("open-upload", path, options.keep_existing)?;
        if options.hold.is_some() {
            self.rule.may("hold", Rights::MANAGE, path)?;
        }
        self.rule.own_up(&mut options.attributes);
        options.who = Some(self.rule.acting(options.who.as_deref().unwrap_or_default()));
        self.rule.done("open-upload", path, || self.engine.open_multipart(path, options))
    }

    fn multipart(&self, upload: UploadId) -> Result<MultipartInfo, ArchiveError> {
        self.upload("look at upload", upload)
    }

    fn multiparts(
        &self,
        bucket: &Name,
        prefix: &str,
        after: Option<(&str, UploadId)>,
        limit: usize,
    ) -> Result<(Vec<MultipartInfo>, bool), ArchiveError> {
        let directory = bucket_path(bucket)?;
        self.rule.may("list-uploads", Rights::LIST, &directory)?;
        if self.rule.is_admin() {
            return self.engine.multiparts(bucket, prefix, after, limit);
        }
        let mut after = after.map(|(key, upload)| (key.to_owned(), upload));
        let (mut known, mut found) = (BTreeMap::new(), Vec::new());
        // Whoever asks goes on behind what they see: a page of which they see nothing would come again.
        loop {
            let from = after.as_ref().map(|(key, upload)| (key.as_str(), *upload));
            let (page, more) = self.engine.multiparts(bucket, prefix, from, limit)?;
            let Some(last) = page.last() else { return Ok((found, false)) };
            let key = last.path.as_str().strip_prefix(directory.as_str()).unwrap_or_default();
            after = Some((key.trim_start_matches('/').to_owned(), last.upload));
            for info in page {
                if self.is_listable(info.path.split().map(|(above, _)| above), &mut known)? {
                    found.push(info);
                }
            }
            if !more || found.len() >= limit {
                let more = more || found.len() > limit;
                found.truncate(limit);
                return Ok((found, more));
            }
        }
    }

    fn parts(
        &self,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<(Vec<PartInfo>, bool), ArchiveError> {
        self.upload("list-parts", upload)?;
        self.engine.parts(upload, after, limit)
    }

    fn begin_part(
        &self,
        upload: UploadId,
        number: u16,
        length: Option<ByteCount>,
        who: &str,
    ) -> Result<Box<dyn PartUpload>, ArchiveError> {
        let path = self.upload("put-part", upload)?.path;
        self.rule.ledger.admit("put-part")?;
        let inner = self.engine.begin_part(upload, number, length, &self.rule.acting(who))?;
        let what = format!("part {number} of {path}");
        Ok(Box::new(AuditedPart { inner, ledger: self.rule.ledger.clone(), what }))
    }

    fn complete_multipart(
        &self,
        upload: UploadId,
        parts: &[u16],
        mut options: CompleteOptions,
    ) -> Result<PutDone, ArchiveError> {
        let path = self.upload("complete-upload", upload)?.path;
        // A repeat gets the first answer and replaces nothing; the engine refuses whatever else is there.
        let putting = self.rule.putting("complete-upload", &path, options.if_current.is_none())?;
        self.rule.unlocked_put(&path)?;
        options.keep_existing |= putting == Putting::Create;
        options.who = self.rule.acting(&options.who);
        self.rule.done("complete-upload", path, || self.engine.complete_multipart(upload, parts, options))
    }

    fn completed_multipart(&self, path: &ArchivePath, upload: UploadId) -> Result<PutDone, ArchiveError> {
        self.rule.putting("complete-upload", path, true)?;
        self.engine.completed_multipart(path, upload)
    }

    fn abort_multipart(&self, upload: UploadId) -> Result<(), ArchiveError> {
        let path = self.upload("abort-upload", upload)?.path;
        self.rule.done("abort-upload", path, || self.engine.abort_multipart(upload))
    }
}

impl<E: Parts + Access + ?Sized> Guarded<E> {
    /// The upload, if the caller may put its parts.
    fn upload(&self, verb: &'static str, upload: UploadId) -> Result<MultipartInfo, ArchiveError> {
        let info = self.engine.multipart(upload)?;
        if !self.rule.is_admin() && info.owner != self.rule.ledger.caller.name {
            self.rule.may(verb, Rights::MODIFY, &info.path)?;
        }
        self.rule.putting(verb, &info.path, true)?;
        Ok(info)
    }
}
