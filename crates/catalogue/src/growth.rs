//! What the writer needs to know of commands: which make the catalogue grow, on whose behalf, and how much
//! work they are.

use crate::command::{BATCH_FILES_MAX, Command};

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
            | Command::SetAcl { .. }
            | Command::SetOwner { .. }
            | Command::SetQuota { .. } => Need::Growth,
            Command::ReserveContainer
            | Command::SealContainer(_)
            | Command::OpenPack(_)
            | Command::AddMembers { .. }
            | Command::BeginRun { .. }
            | Command::AppendToRun { .. }
            | Command::RecallDone(_)
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
            | Command::Release { .. }
            | Command::DoSome { .. }
            | Command::ForgetRequest { .. }
            | Command::RecallFailed { .. }
            | Command::RecallCopyFailed { .. }
            | Command::Evict { .. }
            | Command::ExpirePins
            | Command::ExpireIdempotency
            | Command::GarbageRemoved { .. }
            | Command::TrimChanges { .. }
            | Command::MoveStripe { .. }
            | Command::PoolCopyLost { .. }
            | Command::PoolCopyFound { .. }
            | Command::PoolCopiesLost { .. }
            | Command::PoolCopiesFound { .. }
            | Command::CopyDamaged { .. }
            | Command::MendCopy { .. }
            | Command::DropImage { .. }
            | Command::ImageLost { .. }
            | Command::RequeueCopy { .. }
            | Command::CopyVerified { .. }
            | Command::ReclaimTape { .. }
            | Command::AdoptRun { .. }
            | Command::AcceptRestore { .. }
            | Command::TapeFound(_)
            | Command::AdoptContainer(_)
            | Command::RestoreSettled
            | Command::EndQuarantine
            | Command::DissolvePack { .. }
            | Command::SetDriveDown { .. }
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
            | Command::Evict { files }
            | Command::PoolCopyLost { files }
            | Command::PoolCopyFound { files } => files.len(),
            Command::PoolCopiesLost { copies } | Command::PoolCopiesFound { copies } => copies.len(),
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
            Command::GarbageRemoved { blobs, values } => blobs.len() + values.len(),
            Command::ValuesRemoved { values, pages } => values.len() + pages.len(),
            Command::CompleteUpload(complete) => complete.parts.len(),
            Command::NoteUnknown { found, gone } => found.len() + gone.len(),
            _ => 1,
        }
    }
}
