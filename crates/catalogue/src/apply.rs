//! The one way to change the catalogue.

use crate::command::{BATCH_FILES_MAX, Command, Envelope, Outcome, Work};
use crate::draft::{Draft, Memo};
use crate::encoding::ENVELOPE_BYTES_MAX;
use crate::error::Rejection;
use crate::key;
use crate::kv::{KvError, Transaction};
use crate::table::Table;

mod access;
mod adopt;
mod bucket;
mod clock;
mod cold;
mod copy;
mod dissolve;
mod drive;
mod evict;
mod hold;
mod lifecycle;
mod lost;
mod namespace;
mod object;
mod online;
mod part;
mod pool;
mod put;
mod quota;
mod recall;
mod request;
mod restore;
mod run;
mod seal;
mod sealing;
mod segment;
mod setup;
mod stripe;
mod tape;
mod tidy;
mod tree;
mod unknown;
mod upload;
mod version;

pub(crate) use restore::level_of;
pub use restore::{RESTORE_JUMP, changes_behind};
pub use setup::{CLASS_COPIES_MAX, LABEL_BYTES_MAX};

/// Applies a command and appends it to the change log. Deterministic: the same commands in the same order
/// give the same tables, byte for byte, however they are spread over transactions. A command that changes
/// nothing is not logged.
///
/// # Errors
/// Says why the command was refused; the transaction is then as it was before, except if
/// [`Rejection::is_engine_failure`], after which the whole transaction must be dropped.
pub fn apply(txn: &mut dyn Transaction, envelope: &Envelope) -> Result<Outcome, Rejection> {
    let mut batch = Batch::new(txn);
    let outcome = batch.apply(envelope)?;
    batch.finish()?;
    Ok(outcome)
}

/// Applies several commands in one transaction: as [`apply()`] each, but what all of them change is written
/// once, by [`Batch::finish`]. A batch that is dropped without it leaves a transaction that must be dropped.
pub struct Batch<'t> {
    txn: &'t mut dyn Transaction,
    memo: Memo,
}

impl<'t> Batch<'t> {
    /// A batch without commands.
    pub fn new(txn: &'t mut dyn Transaction) -> Self {
        Batch { txn, memo: Memo::default() }
    }

    /// Applies one command.
    ///
    /// # Errors
    /// As [`apply()`].
    pub fn apply(&mut self, envelope: &Envelope) -> Result<Outcome, Rejection> {
        let bytes = envelope.encode();
        limit("bytes of a command", bytes.len(), ENVELOPE_BYTES_MAX)?;
        let mut draft = Draft::new(&mut *self.txn, &mut self.memo, envelope.at);
        let outcome = perform(&mut draft, &envelope.command)?;
        quota::settle(&mut draft)?;
        assert!(draft.charges.is_empty(), "all that counts for a quota is charged with the change");
        if draft.is_changed() {
            let sequence = draft.change_meta(|meta| {
                let sequence = meta.next_change;
                meta.next_change += 1;
                sequence
            })?;
            debug_assert!(
                Envelope::decode(&bytes).is_ok_and(|again| again == *envelope),
                "the log gives back the change that was applied"
            );
            draft.put_bytes(Table::Change, key::change(sequence), &bytes);
            draft.write()?;
        }
        Ok(outcome)
    }

    /// Writes what is still held back; the transaction may be committed then.
    ///
    /// # Errors
    /// If the engine fails: the transaction must be dropped.
    pub fn finish(self) -> Result<(), KvError> {
        self.memo.write(self.txn)
    }
}

fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    if let Command::Initialise { instance } = command {
        return setup::initialise(draft, *instance);
    }
    draft.meta()?;
    match command {
        Command::Initialise { .. } => Err(Rejection::AlreadyInitialised),
        Command::OpenEpoch => setup::open_epoch(draft),
        Command::AdoptRule { rule } => setup::adopt_rule(draft, *rule),
        Command::DefineTapePool { name } => setup::define_tape_pool(draft, name),
        Command::DefineClass { name, copies } => setup::define_class(draft, name, copies),
        Command::MakeDirectory { parent, name, attributes, class } => {
            namespace::make_directory(draft, *parent, name, attributes, *class)
        }
        Command::PutFile(put) => put::put_file(draft, put),
        Command::Rename { from_parent, from_name, to_parent, to_name, replace } => {
            namespace::rename(draft, (*from_parent, from_name), (*to_parent, to_name), *replace)
        }
        Command::RenameEntry { source, from_parent, from_name, to_parent, to_name, replace } => {
            namespace::check_entry(draft, (*from_parent, from_name), *source)?;
            namespace::rename(draft, (*from_parent, from_name), (*to_parent, to_name), *replace)
        }
        Command::RemoveFile { parent, name } => namespace::remove_file(draft, *parent, name),
        Command::RemoveDirectory { parent, name } => namespace::remove_directory(draft, *parent, name),
        Command::ReserveContainer => seal::reserve(draft),
        Command::SealContainer(container) => seal::seal(draft, container),
        Command::OpenPack(open) => sealing::open(draft, open),
        Command::AddMembers { container, members } => sealing::add(draft, *container, members),
        Command::ClosePack { container } => sealing::close(draft, *container),
        Command::RegisterTape { .. }
        | Command::AssignTape { .. }
        | Command::TapeLabelled { .. }
        | Command::SetTapeState { .. }
        | Command::TapeFailed { .. }
        | Command::ForgetTapeFailures { .. }
        | Command::CountMount { .. }
        | Command::BaseOnTape { .. }
        | Command::SetTapeAway { .. }
        | Command::SetTapeKey { .. }
        | Command::SetTapeCapacity { .. }
        | Command::SetKeyAtHand { .. }
        | Command::SetTapeLeaving { .. }
        | Command::RetireTape { .. }
        | Command::AddTape { .. }
        | Command::ReclaimTape { .. } => tape::perform(draft, command),
        Command::BeginRun { .. }
        | Command::BeginHistoryRun { .. }
        | Command::AppendToRun { .. }
        | Command::CommitRun { .. }
        | Command::IndexWritten { .. }
        | Command::AdoptRun { .. }
        | Command::EndRun { .. } => run::perform(draft, command),
        Command::OpenRequest { .. }
        | Command::AddToRequest { .. }
        | Command::OpenPathRequest { .. }
        | Command::AddPaths { .. }
        | Command::ClosePathRequest { .. }
        | Command::CancelFiles { .. }
        | Command::RecallStarted { .. }
        | Command::CloseRequest { .. }
        | Command::CancelRequest { .. }
        | Command::Release { .. }
        | Command::Unpin { .. }
        | Command::SetRequestPriority { .. }
        | Command::ForgetRequest { .. } => request::perform(draft, command),
        Command::RecallDone(done) => recall::done(draft, &done.blobs, &done.files, &[]),
        Command::PartsRecalled(done) => recall::done(draft, &done.blobs, &done.files, &done.parts),
        Command::RecallFailed { file, reason } => recall::failed(draft, *file, reason),
        Command::RecallCopyFailed { file, vid, reason } => recall::copy_failed(draft, *file, *vid, reason),
        Command::RecallPlaceFailed { vid, block, reason } => {
            recall::place_failed(draft, *vid, *block, reason).map(|()| Outcome::Done)
        }
        Command::Evict { files } => evict::evict(draft, files),
        Command::NoteUse { files } => online::note_use(draft, files),
        Command::ExpirePins => tidy::expire_pins(draft, BATCH_FILES_MAX),
        Command::ExpireIdempotency => tidy::expire_idempotency(draft, BATCH_FILES_MAX),
        Command::DoSome { work, most } => do_some(draft, work, *most),
        Command::GarbageRemoved { blobs, values } => tidy::garbage_removed(draft, blobs, values),
        Command::ValuesRemoved { values, pages } => segment::values_removed(draft, values, pages),
        Command::TrimChanges { through } => tidy::trim_changes(draft, *through, tidy::ROWS_MAX),
        Command::MoveStripe { blob, stripe, from, to } => stripe::moved(draft, *blob, *stripe, *from, to),
        Command::CopySegment { blob, from, to } => stripe::copied(draft, *blob, *from, to),
        Command::PoolCopyLost { files } => lost::any_pool_copies_lost(draft, files),
        Command::PoolCopyFound { files } => lost::any_pool_copies_found(draft, files),
        Command::PoolCopiesLost { copies } => lost::pool_copies_lost(draft, copies),
        Command::PoolCopiesFound { copies } => lost::pool_copies_found(draft, copies),
        Command::CopyDamaged { .. }
        | Command::GiveUpPlace { .. }
        | Command::StoreImage { .. }
        | Command::MendCopy { .. }
        | Command::DropImage { .. }
        | Command::ImageLost { .. }
        | Command::RequeueCopy { .. }
        | Command::KeepCopy { .. }
        | Command::DropUnneededCopies { .. }
        | Command::CopyVerified { .. } => copy::perform(draft, command),
        Command::AcceptRestore { epoch, after, seen } => restore::accept(draft, *epoch, *after, *seen),
        Command::TapeFound(found) => adopt::tape_found(draft, found),
        Command::AdoptContainer(found) => adopt::adopt(draft, found),
        Command::RestoreSettled => restore::settled(draft),
        Command::EndQuarantine => restore::end_quarantine(draft),
        Command::DissolvePack { container } => dissolve::dissolve(draft, *container),
        Command::SetResidency { .. }
        | Command::EvictCold
        | Command::ChangeClass { .. }
        | Command::SetLifecycleCursor { .. } => cold::perform(draft, command),
        Command::OpenUpload(_)
        | Command::BeginUpload(_)
        | Command::PutPart(_)
        | Command::CompleteUpload(_)
        | Command::AbortUpload { .. } => upload::perform(draft, command),
        Command::SetAcl { directory, entries } => access::set_acl(draft, *directory, entries.as_deref()),
        Command::SetOwner { entry, owner, group } => {
            access::set_owner(draft, *entry, owner.as_deref(), group.as_deref())
        }
        Command::SetQuota { subject, limits } => quota::set(draft, subject, *limits),
        Command::CountQuota { subject } => quota::count(draft, subject),
        Command::CondemnTree { parent, name, directory, owner, with_lists } => {
            tree::condemn(draft, (*parent, name), *directory, owner, *with_lists)
        }
        Command::SetDriveDown { drive, down } => drive::set_down(draft, drive, down.as_deref()),
        Command::SetPoolDrive { drive, state } => drive::set_pool_drive(draft, *drive, *state),
        Command::SetDriveDisk { drive, disk } => drive::set_disk(draft, *drive, disk.as_ref()),
        Command::SetRebalance { to } => drive::set_rebalance(draft, *to),
        Command::SetRecoding { to } => drive::set_recoding(draft, *to),
        Command::BlobRecoded { from, to } => stripe::recoded(draft, *from, to),
        Command::SetDriveCleaning { drive, urgent } => drive::set_cleaning(draft, drive, *urgent),
        Command::CountCleaning { vid, anew } => drive::count_cleaning(draft, *vid, *anew),
        Command::UncountCleaning { vid } => drive::uncount_cleaning(draft, *vid),
        Command::CleaningEnded { vid, drive, unfit } => {
            drive::cleaning_ended(draft, *vid, drive, unfit.as_deref())
        }
        Command::NoteUnknown { found, gone } => unknown::note(draft, found, gone),
        Command::NoteLeap { by } => clock::note_leap(draft, *by),
        Command::NoteTime { .. }
        | Command::MoveTimeForward { .. }
        | Command::PlanTimeBack { .. }
        | Command::TimeMovedBack { .. } => clock::perform(draft, command),
        Command::SetBucket { .. }
        | Command::MakeBucket { .. }
        | Command::PutObject(_)
        | Command::CloneFile(_)
        | Command::RemoveObject { .. }
        | Command::RemoveVersion { .. }
        | Command::SetHold { .. }
        | Command::SetXattrs { .. }
        | Command::SetDirectoryXattrs { .. } => object::perform(draft, command),
    }
}

fn do_some(draft: &mut Draft<'_>, work: &Work, most: u32) -> Result<Outcome, Rejection> {
    let most = most as usize;
    limit("items in one command", most, BATCH_FILES_MAX)?;
    // None would be done, for ever.
    let most = most.max(1);
    match work {
        Work::CancelRequest(request) => request::cancel(draft, *request, most),
        Work::ForgetRequest(request) => request::forget(draft, *request, most),
        Work::ExpirePins => tidy::expire_pins(draft, most),
        Work::ExpireIdempotency => tidy::expire_idempotency(draft, most),
        Work::EvictCold => cold::evict_cold(draft, most),
        Work::TrimChanges(through) => tidy::trim_changes(draft, *through, most),
        Work::DissolvePack(container) => dissolve::some(draft, *container, most),
        Work::OrderByUse => online::order_by_use(draft, most),
        Work::CountPaths => request::count_paths(draft, most),
        Work::RemoveTree(directory) => tree::remove_some(draft, *directory, most),
    }
}

/// Refuses more than `most` of `what`.
fn limit(what: &'static str, found: usize, most: usize) -> Result<(), Rejection> {
    if found > most {
        return Err(Rejection::LimitExceeded { what, limit: most as u64 });
    }
    Ok(())
}

/// Most bytes of a reason; the rest is cut off, since a long error message must not stop what it explains.
const REASON_BYTES_MAX: usize = 512;

fn reason(text: &str) -> String {
    let end = (0..=REASON_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    let kept = text.get(..end.unwrap_or(0)).unwrap_or("");
    assert!(kept.len() + 3 >= REASON_BYTES_MAX.min(text.len()), "no more is cut off than part of a letter");
    kept.to_owned()
}
