//! Which commands make the catalogue grow on behalf of somebody outside.

use crate::command::Command;

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
}
