//! A record with a wrong checksum, to see whether the drive looks at it.

use ::scsi::command::Stream;
use ::scsi::{Command, Data};

use super::condition::Stop;
use super::{BlockProtection, Drive};
use crate::{Sense, TapeError};

/// What a drive did with a record whose checksum was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// Blocks carry no checksums now.
    NotProtected,
    /// It was refused, and nothing was written.
    Refused(Sense),
    /// It was refused, and the tape stands elsewhere than before.
    RefusedAndMoved(Sense),
    /// It was taken as if it were right.
    Taken,
}

impl Drive {
    /// Writes a record with a checksum in which one bit is wrong, at the end of data. If the drive takes it
    /// the tape holds a record that is not what its checksum says: only for a tape without value.
    pub fn plant(&mut self, block: &[u8]) -> Result<Planted, TapeError> {
        // Nothing may be in the buffer about which what follows could leave a doubt.
        self.mark(0)?;
        let Some(protection) = self.protection else { return Ok(Planted::NotProtected) };
        let at = self.session()?.at;
        let [first, rest @ ..] = protection.checksum(block);
        let mut sent = block.to_vec();
        sent.push(first ^ 1);
        sent.extend_from_slice(&rest);
        assert_eq!(sent.len(), block.len() + BlockProtection::LENGTH, "a checksum of four bytes");
        let length = u32::try_from(sent.len()).unwrap_or(u32::MAX);
        let command = Command::from(Stream::Write6 { fixed: false, length });
        let ended = self.once("write", &command, Data::Out(&sent));
        let session = self.session()?;
        session.sure = false;
        let sense = match ended {
            Ok(_) => {
                session.passed(1);
                session.ends_here();
                session.sure = true;
                return Ok(Planted::Taken);
            }
            Err(Stop::Heard(heard)) => Sense::from(&heard.sense),
            Err(stop) => return Err(self.error_of("write", stop)),
        };
        let stands = self.reported()?.and_then(|reported| reported.at);
        if stands == Some(at) || stands.is_none() {
            self.session()?.stands(at);
            return Ok(Planted::Refused(sense));
        }
        self.poison();
        Ok(Planted::RefusedAndMoved(sense))
    }
}
