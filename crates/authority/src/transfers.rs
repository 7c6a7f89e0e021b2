//! Uploads whose end is written down.

use archive::{ArchiveError, PartInfo, PutCallback, PutDone};

use crate::authority::Ledger;
use crate::seam::{PartUpload, Upload};

/// A file on its way in.
pub(crate) struct AuditedUpload {
    pub inner: Box<dyn Upload>,
    pub ledger: Ledger,
    pub what: String,
    /// That no lock stands in the way, asked once more before the end.
    pub unlocked: Box<dyn FnOnce() -> Result<(), ArchiveError> + Send>,
}

impl AuditedUpload {
    fn admit(self) -> Result<(Box<dyn Upload>, Ledger, String), ArchiveError> {
        let AuditedUpload { inner, ledger, what, unlocked } = self;
        ledger.admit("put")?;
        unlocked().inspect_err(|error| ledger.failed("put", &what, error))?;
        Ok((inner, ledger, what))
    }
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
        let (inner, ledger, what) = self.admit()?;
        let done = inner.finish();
        ledger.outcome("put", &what, &done);
        done
    }

    fn finish_then(self: Box<Self>, done: PutCallback) {
        let (inner, ledger, what) = match self.admit() {
            Ok(admitted) => admitted,
            Err(refused) => return done(Err(refused)),
        };
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
