//! Uploads whose end is written down.

use archive::{ArchiveError, PartInfo, PutCallback, PutDone};

use crate::authority::Ledger;
use crate::seam::{PartUpload, Upload};

/// A file on its way in.
pub(crate) struct AuditedUpload {
    pub inner: Box<dyn Upload>,
    pub ledger: Ledger,
    pub what: String,
}

impl Upload for AuditedUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.inner.write(bytes)
    }

    fn pause(&mut self) {
        self.inner.pause();
    }

    fn attribute(&mut self, name: String, value: Vec<u8>) {
        self.inner.attribute(name, value);
    }

    fn finish(self: Box<Self>) -> Result<PutDone, ArchiveError> {
        self.ledger.admit("put")?;
        let done = self.inner.finish();
        self.ledger.outcome("put", &self.what, &done);
        done
    }

    fn finish_then(self: Box<Self>, done: PutCallback) {
        let AuditedUpload { inner, ledger, what } = *self;
        if let Err(full) = ledger.admit("put") {
            return done(Err(full));
        }
        inner.finish_then(Box::new(move |outcome| {
            ledger.outcome("put", &what, &outcome);
            done(outcome);
        }));
    }
}

/// A part on its way in.
pub(crate) struct AuditedPart {
    pub inner: Box<dyn PartUpload>,
    pub ledger: Ledger,
    pub what: String,
}

impl PartUpload for AuditedPart {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        self.inner.write(bytes)
    }

    fn pause(&mut self) {
        self.inner.pause();
    }

    fn finish(self: Box<Self>, attributes: Vec<(String, Vec<u8>)>) -> Result<PartInfo, ArchiveError> {
        self.ledger.admit("put-part")?;
        let done = self.inner.finish(attributes);
        self.ledger.outcome("put-part", &self.what, &done);
        done
    }
}
