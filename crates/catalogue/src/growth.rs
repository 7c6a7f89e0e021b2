//! What the writer needs to know of commands: which make the catalogue grow on behalf of somebody outside,
//! and how much work they are.

use crate::command::{BATCH_FILES_MAX, Command};

impl Command {
    /// Whether the command keeps something new, or changes what is kept. Refused when the catalogue has no
    /// room; everything else, what makes room and what the server does by itself, goes on as far as it can.
    #[must_use]
    pub fn is_growth(&self) -> bool {
        matches!(
            self,
            Command::MakeDirectory { .. }
                | Command::PutFile(_)
                | Command::Rename { .. }
                | Command::OpenRequest { .. }
                | Command::AddToRequest { .. }
                | Command::OpenUpload(_)
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
                | Command::SetQuota { .. }
        )
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
            Command::AdoptContainer(container) => container.members.len(),
            Command::RecallDone(done) => done.files.len(),
            Command::GarbageRemoved { blobs, values } => blobs.len() + values.len(),
            Command::CompleteUpload(complete) => complete.parts.len(),
            Command::NoteUnknown { found, gone } => found.len() + gone.len(),
            _ => 1,
        }
    }
}
