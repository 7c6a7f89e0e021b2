//! The bytes of files: in, out, verified.

use archive::{ArchiveError, PutOptions, VerifyDone};
use base::ArchivePath;
use identity::Rights;

use super::Guarded;
use crate::roles::{Access, Bytes};
use crate::rule::Putting;
use crate::seam::{Download, Upload};
use crate::transfers::AuditedUpload;

impl<E: Bytes + Access + ?Sized> Bytes for Guarded<E> {
    fn begin_put(
        &self,
        path: &ArchivePath,
        mut options: PutOptions,
    ) -> Result<Box<dyn Upload>, ArchiveError> {
        // A repeat by its idempotency key gets the first answer and replaces nothing.
        let keeps = options.if_current.is_none() && (options.keep_existing || options.idempotency.is_some());
        let putting = self.rule.putting("put", path, keeps)?;
        if options.hold.is_some() {
            self.rule.may("hold", Rights::MANAGE, path)?;
        }
        self.rule.unlocked_put(path)?;
        options.keep_existing |= putting == Putting::Create;
        self.rule.own_up(&mut options.attributes);
        options.who = Some(self.rule.acting(options.who.as_deref().unwrap_or_default()));
        if let Some((_, principal)) = &mut options.idempotency {
            *principal = self.rule.acting(principal);
        }
        self.rule.ledger.admit("put")?;
        let begun = self.engine.begin_put(path, options);
        let inner = begun.inspect_err(|error| self.rule.ledger.failed("put", path.as_str(), error))?;
        let (rule, path) = (self.rule.clone(), path.clone());
        let (ledger, what) = (rule.ledger.clone(), path.to_string());
        // Somebody may have taken a lock while the bytes came.
        let unlocked = Box::new(move || rule.unlocked_put(&path));
        Ok(Box::new(AuditedUpload { inner, ledger, what, unlocked }))
    }

    fn upload_haste(&self, caller: &str) -> u64 {
        self.engine.upload_haste(caller)
    }

    fn open_read_for(&self, path: &ArchivePath, who: &str) -> Result<Box<dyn Download>, ArchiveError> {
        let who = self.rule.acting(who);
        let look = || self.rule.may_current("read", Rights::READ, path);
        self.opened(look, || self.engine.open_read_for(path, &who))
    }

    fn verify(&self, path: &ArchivePath, offset: u64, length: u64) -> Result<VerifyDone, ArchiveError> {
        self.rule.may("verify", Rights::READ, path)?;
        self.engine.verify(path, offset, length)
    }
}
