//! What the comparison of a restored catalogue asks of this room.

use base::{BlockAddress, ContainerId, Vid};
use catalogue::{Command, TapeState};
use settle::{Settler, TapeRoom};

use crate::mends::FromTape;
use crate::room::Tape;
use ground::ArchiveError;

impl Tape {
    /// What compares a restored catalogue with pool and tapes.
    pub(crate) fn settler(&self) -> Settler<'_> {
        Settler {
            ground: &self.ground,
            library: self.library.as_ref(),
            upkeep: &self.upkeep,
            settling: &self.settling,
            room: self,
        }
    }
}

impl TapeRoom for Tape {
    fn post_tape(&self, vid: Vid) {
        Tape::post_tape(self, vid);
    }

    fn set_look(&self, vid: Vid, is_wanted: bool) {
        self.set_tasks(vid, |tasks| tasks.look = is_wanted);
    }

    fn change_state(&self, vid: Vid, seen: TapeState, change: Command) -> Result<bool, ArchiveError> {
        let _one = self.tape_states();
        let is_so = self.tape(vid)?.state == seen;
        if is_so {
            self.execute(change)?;
        }
        Ok(is_so)
    }

    fn look_at_inventory(&self) -> Result<(), ArchiveError> {
        Tape::look_at_inventory(self).map(drop)
    }

    fn is_to_be_tried(&self, vid: Vid) -> bool {
        Tape::is_to_be_tried(self, vid)
    }

    fn try_now(&self, vid: Vid) {
        Tape::try_now(self, vid);
    }

    fn drop_place(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError> {
        Tape::drop_place(self, container, vid, block, reason)
    }

    fn members_moved(&self, container: ContainerId) -> Result<(), ArchiveError> {
        Tape::members_moved(self, container)
    }

    fn want_bytes(&self, container: ContainerId) -> Result<bool, ArchiveError> {
        // That it is asked for later only is no reason to give anything up.
        Ok(Tape::want_bytes(self, container, |_| {})? != FromTape::Nowhere)
    }

    fn dissolve_if_stuck(&self, container: ContainerId) -> Result<bool, ArchiveError> {
        Tape::dissolve_if_stuck(self, container, false)
    }
}
