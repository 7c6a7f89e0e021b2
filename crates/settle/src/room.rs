//! What the comparison of a restored catalogue stands on, and what it asks of the tape room above it.

use catalogue::{Command, TapeState};
use std::ops::Deref;

use base::{BlockAddress, ContainerId, Vid};
use ground::{ArchiveError, Ground};
use library::Library;
use upkeep::Upkeep;

use crate::progress::Settling;

/// The tape room, as the comparison knows it: what is to be done about a tape or a container once it is
/// known how it stands.
pub trait TapeRoom {
    /// The catalogue has something else of a tape now, or it is here again.
    fn post_tape(&self, vid: Vid);

    /// A tape is to be mounted and looked at when a drive has nothing better to do, or needs not be any more.
    fn set_look(&self, vid: Vid, is_wanted: bool);

    /// Carries out what changes the state of a tape, if that is still what was seen. `false`: somebody has
    /// set another one meanwhile, which stays.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    fn change_state(&self, vid: Vid, seen: TapeState, change: Command) -> Result<bool, ArchiveError>;

    /// Asks the library whether cartridges came or went.
    ///
    /// # Errors
    /// If the library cannot be asked, or the catalogue not be written.
    fn look_at_inventory(&self) -> Result<(), ArchiveError>;

    /// Whether a suspect tape is tried again by itself.
    fn is_to_be_tried(&self, vid: Vid) -> bool;

    /// A suspect tape is tried again as soon as a drive can.
    fn try_now(&self, vid: Vid);

    /// Nothing of a container is expected at a place on tape any more.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    fn drop_place(
        &self,
        container: ContainerId,
        vid: Vid,
        block: BlockAddress,
        reason: &str,
    ) -> Result<(), ArchiveError>;

    /// The places of a container changed: whoever waits for a file of it is told.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    fn members_moved(&self, container: ContainerId) -> Result<(), ArchiveError>;

    /// Has the bytes of a container read from a tape. `false`: no tape can give them.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    fn want_bytes(&self, container: ContainerId) -> Result<bool, ArchiveError>;

    /// Dissolves a container that no tape has and that can never be written. Gives whether it was.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    fn dissolve_if_stuck(&self, container: ContainerId) -> Result<bool, ArchiveError>;
}

/// Compares a restored catalogue with pool and tapes. It stands on the [`Ground`], all of which it has as its
/// own, and keeps nothing itself: how far it is stands in [`Settling`].
pub struct Settler<'a> {
    /// What it stands on.
    pub ground: &'a Ground,
    /// The libraries.
    pub library: &'a dyn Library,
    /// The room that keeps what is there.
    pub upkeep: &'a Upkeep,
    /// How far the comparison is.
    pub settling: &'a Settling,
    /// The tape room.
    pub room: &'a dyn TapeRoom,
}

impl Deref for Settler<'_> {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        self.ground
    }
}
