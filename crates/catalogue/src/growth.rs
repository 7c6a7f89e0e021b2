//! What the writer needs to know of commands: which make the catalogue grow, on whose behalf, how much work
//! they are, and which of them can be done in parts.

use crate::command::{BATCH_FILES_MAX, Command, Outcome, Work};

/// Which part of the catalogue's room a command may use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// All of it: it makes room, ends what was begun, or is little and must not fail.
    Room,
    /// All but a last part, which is kept for what makes room: it begins or goes on with work of the server
    /// that keeps more.
    Work,
    /// All but a reserve: it keeps something new, or changes what is kept, for somebody outside.
    Growth,
}

impl Command {
    /// Whether it is refused when there is little room, and how little that is.
    #[must_use]
    pub fn need(&self) -> Need {
        // Each is named, so that a new one is not forgotten.
        match self {
            Command::MakeDirectory { .. }
            | Command::PutFile(_)
            | Command::Rename { .. }
            | Command::RenameEntry { .. }
            | Command::OpenRequest { .. }
            | Command::AddToRequest { .. }
            | Command::OpenPathRequest { .. }
            | Command::AddPaths { .. }
            | Command::RecallStarted { .. }
            | Command::SetRequestPriority { .. }
            | Command::OpenUpload(_)
            | Command::BeginUpload(_)
            | Command::PutPart(_)
            | Command::CompleteUpload(_)
            | Command::SetBucket { .. }
            | Command::MakeBucket { .. }
            | Command::PutObject(_)
            | Command::CloneFile(_)
            | Command::SetHold { .. }
            | Command::SetXattrs { .. }
            | Command::SetDirectoryXattrs { .. }
            | Command::ChangeClass { .. }
            | Command::NoteUse { .. }
            | Command::DoSome { work: Work::OrderByUse, .. }
            | Command::SetAcl { .. }
            | Command::SetOwner { .. }
            | Command::SetQuota { .. } => Need::Growth,
            Command::ReserveContainer
            | Command::SealContainer(_)
            | Command::OpenPack(_)
            | Command::AddMembers { .. }
            | Command::BeginRun { .. }
            | Command::BeginHistoryRun { .. }
            | Command::AppendToRun { .. }
            | Command::RecallDone(_)
            | Command::PartsRecalled(_)
            | Command::StoreImage { .. }
            | Command::NoteUnknown { .. } => Need::Work,
            Command::Initialise { .. }
            | Command::OpenEpoch
            | Command::DefineTapePool { .. }
            | Command::DefineClass { .. }
            | Command::RemoveFile { .. }
            | Command::RemoveDirectory { .. }
            | Command::RegisterTape { .. }
            | Command::AssignTape { .. }
            | Command::TapeLabelled { .. }
            | Command::SetTapeState { .. }
            | Command::TapeFailed { .. }
            | Command::ForgetTapeFailures { .. }
            | Command::CountMount { .. }
            | Command::CommitRun { .. }
            | Command::IndexWritten { .. }
            | Command::EndRun { .. }
            | Command::CloseRequest { .. }
            | Command::CancelRequest { .. }
            | Command::ClosePathRequest { .. }
            | Command::CancelFiles { .. }
            | Command::Release { .. }
            | Command::Unpin { .. }
            | Command::DoSome { .. }
            | Command::ForgetRequest { .. }
            | Command::RecallFailed { .. }
            | Command::RecallCopyFailed { .. }
            | Command::RecallPlaceFailed { .. }
            | Command::Evict { .. }
            | Command::ExpirePins
            | Command::ExpireIdempotency
            | Command::GarbageRemoved { .. }
            | Command::TrimChanges { .. }
            | Command::MoveStripe { .. }
            | Command::CopySegment { .. }
            | Command::PoolCopyLost { .. }
            | Command::PoolCopyFound { .. }
            | Command::PoolCopiesLost { .. }
            | Command::PoolCopiesFound { .. }
            | Command::CopyDamaged { .. }
            | Command::GiveUpPlace { .. }
            | Command::MendCopy { .. }
            | Command::DropImage { .. }
            | Command::ImageLost { .. }
            | Command::RequeueCopy { .. }
            | Command::KeepCopy { .. }
            | Command::DropUnneededCopies { .. }
            | Command::CopyVerified { .. }
            | Command::ReclaimTape { .. }
            | Command::SetTapeAway { .. }
            | Command::SetTapeKey { .. }
            | Command::SetTapeCapacity { .. }
            | Command::SetKeyAtHand { .. }
            | Command::SetTapeLeaving { .. }
            | Command::RetireTape { .. }
            | Command::AddTape { .. }
            | Command::AdoptRun { .. }
            | Command::AcceptRestore { .. }
            | Command::TapeFound(_)
            | Command::AdoptContainer(_)
            | Command::RestoreSettled
            | Command::EndQuarantine
            | Command::DissolvePack { .. }
            | Command::SetDriveDown { .. }
            | Command::SetPoolDrive { .. }
            | Command::SetDriveDisk { .. }
            | Command::SetRebalance { .. }
            | Command::SetRecoding { .. }
            | Command::BlobRecoded { .. }
            | Command::SetDriveCleaning { .. }
            | Command::CountCleaning { .. }
            | Command::UncountCleaning { .. }
            | Command::CleaningEnded { .. }
            | Command::AbortUpload { .. }
            | Command::RemoveObject { .. }
            | Command::RemoveVersion { .. }
            | Command::SetResidency { .. }
            | Command::EvictCold
            | Command::SetLifecycleCursor { .. }
            | Command::CountQuota { .. }
            | Command::NoteTime { .. }
            | Command::MoveTimeForward { .. }
            | Command::PlanTimeBack { .. }
            | Command::TimeMovedBack { .. }
            | Command::NoteLeap { .. }
            | Command::ValuesRemoved { .. }
            | Command::ClosePack { .. }
            | Command::CondemnTree { .. }
            | Command::BaseOnTape { .. }
            | Command::AdoptRule { .. } => Need::Room,
        }
    }

    /// About how many things the command changes; 1 for most.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Command::AddToRequest { files, .. }
            | Command::Release { files: Some(files), .. }
            | Command::Unpin { files, .. }
            | Command::CancelFiles { files, .. }
            | Command::RecallStarted { files }
            | Command::Evict { files }
            | Command::NoteUse { files }
            | Command::PoolCopyLost { files }
            | Command::PoolCopyFound { files } => files.len(),
            Command::PoolCopiesLost { copies } | Command::PoolCopiesFound { copies } => copies.len(),
            Command::AddPaths { paths, .. } => paths.len(),
            Command::DoSome { most, .. } => *most as usize,
            Command::CancelRequest { .. }
            | Command::Release { files: None, .. }
            | Command::ForgetRequest { .. }
            | Command::ExpirePins
            | Command::ExpireIdempotency
            | Command::EvictCold
            | Command::CountQuota { .. }
            | Command::TrimChanges { .. }
            | Command::DissolvePack { .. } => BATCH_FILES_MAX,
            Command::SealContainer(container) => container.members.len(),
            Command::AddMembers { members, .. } => members.len(),
            Command::AdoptContainer(container) => container.members.len(),
            Command::RecallDone(done) => done.files.len(),
            Command::PartsRecalled(done) => done.files.len() + done.parts.len(),
            Command::GarbageRemoved { blobs, values } => blobs.len() + values.len(),
            Command::ValuesRemoved { values, pages } => values.len() + pages.len(),
            Command::CompleteUpload(complete) => complete.parts.len(),
            Command::NoteUnknown { found, gone } => found.len() + gone.len(),
            _ => 1,
        }
    }

    /// A first half of the work, and what is left to do after it, each a command that could have been given
    /// so: for where the whole finds no room. Nothing is left where whoever gave the command gives it again
    /// until all is done. `None`: it is one thing, or must be done as a whole.
    #[must_use]
    pub fn halves(&self) -> Option<(Command, Option<Command>)> {
        let (first, rest) = match self {
            Command::DoSome { work, most } if *most > 1 => {
                (Command::DoSome { work: work.clone(), most: most / 2 }, None)
            }
            Command::Evict { files } => of_list(files, |files| Command::Evict { files })?,
            Command::NoteUse { files } => of_list(files, |files| Command::NoteUse { files })?,
            Command::PoolCopiesLost { copies } => {
                of_list(copies, |copies| Command::PoolCopiesLost { copies })?
            }
            Command::PoolCopiesFound { copies } => {
                of_list(copies, |copies| Command::PoolCopiesFound { copies })?
            }
            Command::Release { request, files: Some(files) } => {
                of_list(files, |files| Command::Release { request: *request, files: Some(files) })?
            }
            Command::Unpin { request, files } => {
                of_list(files, |files| Command::Unpin { request: *request, files })?
            }
            Command::GarbageRemoved { blobs, values } if values.is_empty() => {
                of_list(blobs, |blobs| Command::GarbageRemoved { blobs, values: Vec::new() })?
            }
            _ => return None,
        };
        assert!(
            0 < first.rows() && first.rows() < self.rows(),
            "a part is less than the whole, so that it ends"
        );
        let left = rest.as_ref().map_or(0, Command::rows);
        assert!(rest.is_none() || first.rows() + left == self.rows(), "the parts together are the whole");
        Some((first, rest))
    }
}

fn of_list<T: Clone>(list: &[T], command: impl Fn(Vec<T>) -> Command) -> Option<(Command, Option<Command>)> {
    let (first, rest) = list.split_at(list.len() / 2);
    (!first.is_empty()).then(|| (command(first.to_vec()), Some(command(rest.to_vec()))))
}

impl Outcome {
    /// What both [`Command::halves`] did together.
    #[must_use]
    pub fn and(self, next: Outcome) -> Outcome {
        match (self, next) {
            (Outcome::Evicted(mut done), Outcome::Evicted(next)) => {
                done.extend(next);
                Outcome::Evicted(done)
            }
            (Outcome::PoolCopyLost(mut done), Outcome::PoolCopyLost(next)) => {
                done.extend(next);
                Outcome::PoolCopyLost(done)
            }
            (_, next) => next,
        }
    }
}
