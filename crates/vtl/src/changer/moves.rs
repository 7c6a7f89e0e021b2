//! MOVE MEDIUM and EXCHANGE MEDIUM (SMC-3).

use std::sync::atomic::Ordering;

use base::Vid;
use library::LibraryError;
use scsi::ElementAddress;
use scsi::command::ElementType;

use super::Run;
use super::elements::TRANSPORT;
use crate::answer::Refusal;

impl Run<'_> {
    /// There is one picker, which 0 means too, and it turns nothing over.
    pub fn check_transport(&self, transport: ElementAddress, invert: bool) -> Result<(), Refusal> {
        if transport != TRANSPORT && transport != ElementAddress(0) {
            return Err(Refusal::illegal(0x21, 0x01));
        }
        // The flag that asks for it is in the command's last byte but one.
        if invert { Err(Refusal::bit(10, 0)) } else { Ok(()) }
    }

    /// What an element is that a cartridge can be in for long.
    fn place(&self, address: ElementAddress) -> Result<ElementType, Refusal> {
        match self.shared.elements().kind(address)? {
            ElementType::Transport | ElementType::All => Err(Refusal::illegal(0x21, 0x01)),
            kind => Ok(kind),
        }
    }

    /// Whether a cartridge may be taken from here and put there: doors may be locked.
    fn check_doors(&self, kinds: &[ElementType]) -> Result<(), Refusal> {
        let by_the_door = kinds.contains(&ElementType::ImportExport);
        if by_the_door && self.changer.gate.is_prevented() {
            return Err(Refusal::illegal(0x53, 0x02));
        }
        if by_the_door && self.shared.door_open.load(Ordering::SeqCst) {
            // 5/3B/11: medium magazine not accessible.
            return Err(Refusal::illegal(0x3b, 0x11));
        }
        Ok(())
    }

    /// Has the library itself bring a cartridge to its door, or in from there, if it is not where it should
    /// be. One that has no door of its own keeps it in a slot, and only this target knows better.
    fn through_the_door(&self, vid: Vid, to: ElementType) -> Result<(), Refusal> {
        // Those for cleaning stand in a directory of their own.
        if self.is_cleaner(vid) {
            return Ok(());
        }
        let moved = match to {
            ElementType::ImportExport => self.shared.library.export(vid),
            _ => self.shared.library.import(vid),
        };
        match moved {
            Ok(_)
            | Err(
                LibraryError::NoImportExport
                | LibraryError::NotInSlot { .. }
                | LibraryError::NotInImportExport { .. },
            ) => Ok(()),
            Err(error) => Err(Refusal::from(error)),
        }
    }

    /// Has the library move a cartridge from an element of one kind into one of another; in a drive it is
    /// loaded.
    fn bring(
        &self,
        (from, from_kind): (ElementAddress, ElementType),
        (to, to_kind): (ElementAddress, ElementType),
    ) -> Result<(), Refusal> {
        let vid = self.shared.elements().full(from)?.vid;
        self.through_the_door(vid, to_kind)?;
        if to_kind != ElementType::DataTransfer {
            return Ok(());
        }
        let loaded = self.load(from, to);
        if loaded.is_err() {
            // Back to where this target has it. If that fails too it is brought in when it is moved again.
            let _ = self.through_the_door(vid, from_kind);
        }
        loaded
    }

    /// Sees to it that the robot gets at the cartridge in a drive.
    fn ejected(&self, address: ElementAddress) -> Result<(), Refusal> {
        let number = self.shared.elements().drive_number(address);
        let Some(drive) = number.and_then(|number| self.drives.get(number)) else { return Ok(()) };
        let held = self.shared.elements().held(address).map(|held| held.vid);
        if held.is_some_and(|vid| self.is_cleaner(vid)) {
            if drive.cleaning.is_under_way() {
                return Err(Refusal::illegal(0x53, 0x03));
            }
            drive.cleaning.taken();
            return Ok(());
        }
        if self.shared.elements().held(address).is_none_or(|held| !held.loaded) {
            return Ok(());
        }
        if drive.gate.is_prevented() || !self.shared.options.unload_on_move {
            // 5/53/03: prevented by the data transfer element.
            return Err(Refusal::illegal(0x53, 0x03));
        }
        drive.unload(self.shared)
    }

    /// Loads into a drive what stands in an element.
    fn load(&self, from: ElementAddress, drive: ElementAddress) -> Result<(), Refusal> {
        let (vid, number) = {
            let elements = self.shared.elements();
            (elements.full(from)?.vid, elements.drive_number(drive))
        };
        let drive = number.and_then(|number| self.drives.get(number));
        let drive = drive.ok_or_else(|| Refusal::illegal(0x21, 0x01))?;
        match self.is_cleaner(vid) {
            true => drive.clean(self.shared, vid).map_err(Refusal::from),
            false => drive.load(self.shared, vid, None).map_err(Refusal::from),
        }
    }

    fn is_cleaner(&self, vid: Vid) -> bool {
        self.shared.elements().cleaners().contains(&vid)
    }

    /// Takes the robot for something, during which no cartridge that comes new gets one of the elements that
    /// it keeps.
    fn with_robot(&self, run: impl FnOnce() -> Result<(), Refusal>) -> Result<(), Refusal> {
        let _robot = self.robot();
        let result = run();
        self.shared.elements().reserve(&[]);
        self.shared.keep_places();
        result
    }

    pub fn move_medium(&self, from: ElementAddress, to: ElementAddress) -> Result<(), Refusal> {
        self.with_robot(|| self.carry(from, to))
    }

    fn carry(&self, from: ElementAddress, to: ElementAddress) -> Result<(), Refusal> {
        let (from_kind, to_kind) = (self.place(from)?, self.place(to)?);
        {
            let mut elements = self.shared.elements();
            elements.full(from)?;
            if from == to {
                return Ok(());
            }
            elements.empty(to)?;
            elements.reserve(&[to]);
        }
        self.check_doors(&[from_kind, to_kind])?;
        self.ejected(from)?;
        self.bring((from, from_kind), (to, to_kind))?;
        self.shared.elements().moved(from, to);
        self.changer.log().moves += 1;
        Ok(())
    }

    /// The cartridge of `from` goes to `first_to`, the one that is there to `second_to`, which may be `from`
    /// itself. That one cannot be put into a drive by the same command.
    pub fn exchange_medium(
        &self,
        from: ElementAddress,
        first_to: ElementAddress,
        second_to: ElementAddress,
    ) -> Result<(), Refusal> {
        self.with_robot(|| self.exchange(from, first_to, second_to))
    }

    fn exchange(
        &self,
        from: ElementAddress,
        first_to: ElementAddress,
        second_to: ElementAddress,
    ) -> Result<(), Refusal> {
        let kinds = [self.place(from)?, self.place(first_to)?, self.place(second_to)?];
        let [from_kind, first_kind, second_kind] = kinds;
        if second_kind == ElementType::DataTransfer || from == first_to || first_to == second_to {
            return Err(Refusal::illegal(0x21, 0x01));
        }
        {
            let mut elements = self.shared.elements();
            elements.full(from)?;
            elements.full(first_to)?;
            if second_to != from {
                elements.empty(second_to)?;
            }
            elements.reserve(&[from, first_to, second_to]);
        }
        self.check_doors(&kinds)?;
        self.ejected(from)?;
        self.ejected(first_to)?;
        self.bring((first_to, first_kind), (second_to, second_kind))?;
        if let Err(refusal) = self.bring((from, from_kind), (first_to, first_kind)) {
            let first = self.shared.elements().full(first_to)?.vid;
            let _ = self.through_the_door(first, first_kind);
            return Err(refusal);
        }
        let mut elements = self.shared.elements();
        let (first, second) = (elements.take(from), elements.take(first_to));
        if let (Some(first), Some(second)) = (first, second) {
            elements.put(from, first_to, first);
            elements.put(first_to, second_to, second);
        }
        self.changer.log().moves += 2;
        Ok(())
    }
}
