//! How a drive is set while a cartridge is in use: blocks of any length, buffered, with a checksum where it
//! can, an early warning in time, encrypted as it is to be, and the cartridge kept in. Set at each load and
//! again after whatever may have set it back: a drive that takes four bytes of checksum for data would ruin
//! the volume.

use ::scsi::command::{PageControl, Prevention, Primary};
use ::scsi::lbp::BlockProtection;
use ::scsi::mode::{
    BlockDescriptor, ControlDataProtection, DataCompression, DeviceConfigurationExtension, ModeContent,
    ModeDirection, ModeForm, ModePage, ModeParameters, ProtectionMethod,
};
use ::scsi::{Command, Data, SenseKey};
use base::{ByteCount, Partition};

use super::ability::op;
use super::condition::Stop;
use super::transfer::LENGTH_MAX;
use super::{Drive, EarlyWarning, ProtectionWish};
use crate::{DeviceError, TapeError};

/// The most that MODE SENSE(6) can give. Tapes need no more, and some targets have no MODE SELECT(10).
const ANSWER_BYTES: u8 = u8::MAX;
/// Pages with which header and block descriptor are asked for: any would do, but no drive has all.
const HEADER_PAGES: [u8; 4] = [0x10, 0x0f, 0x00, 0x3f];
/// The unit of the programmable early warning.
const MEGABYTE: u64 = 1_000_000;

impl Drive {
    /// Sets the drive as it is to be.
    pub fn set_up(&mut self) -> Result<(), TapeError> {
        self.set_blocks()?;
        self.set_protection()?;
        self.set_early_warning()?;
        self.set_compression()?;
        self.assure_encryption()?;
        self.prevent_removal(Prevention::Prevent)
    }

    /// The current values of a page, `None` if the drive does not have it.
    pub fn mode_page(&mut self, page: u8, subpage: u8) -> Result<Option<ModeParameters>, TapeError> {
        let key = u16::from(page) << 8 | u16::from(subpage);
        if !self.abilities.may(op::MODE_SENSE, key) {
            return Ok(None);
        }
        let command = Command::from(Primary::ModeSense6 {
            no_descriptors: false,
            control: PageControl::Current,
            page,
            subpage,
            allocation_length: ANSWER_BYTES,
        });
        match self.quiet_answer("mode sense", &command, usize::from(ANSWER_BYTES)) {
            Ok(answer) => {
                let all = ModeParameters::decode(&answer, ModeForm::Six, ModeDirection::Sense);
                all.map(Some).map_err(|error| self.strange("mode sense", error))
            }
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => {
                self.abilities.refused(op::MODE_SENSE, key);
                Ok(None)
            }
            Err(stop) => Err(self.error_of("mode sense", stop)),
        }
    }

    /// Sets parameters. `false` if the drive refuses them.
    pub fn mode_select(&mut self, parameters: &ModeParameters) -> Result<bool, TapeError> {
        let list = parameters.encode(ModeForm::Six, ModeDirection::Select);
        let length = u8::try_from(list.len()).unwrap_or(u8::MAX);
        assert_eq!(usize::from(length), list.len(), "mode parameters are too long for MODE SELECT(6)");
        let command =
            Command::from(Primary::ModeSelect6 { page_format: true, revert: false, save: false, length });
        match self.quiet("mode select", &command, Data::Out(&list)) {
            Ok(_) => Ok(true),
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => Ok(false),
            Err(stop) => Err(self.error_of("mode select", stop)),
        }
    }

    /// The page of this kind in parameters with the same header.
    fn select_page(&mut self, content: ModeContent, buffered: u8) -> Result<bool, TapeError> {
        let pages = vec![ModePage::from(content)];
        self.mode_select(&ModeParameters { buffered, pages, ..ModeParameters::default() })
    }

    /// Header and block descriptor.
    pub fn mode_header(&mut self) -> Result<Option<ModeParameters>, TapeError> {
        for page in HEADER_PAGES {
            if let Some(parameters) = self.mode_page(page, 0)? {
                return Ok(Some(parameters));
            }
        }
        Ok(None)
    }

    /// Blocks of any length, and a buffer.
    fn set_blocks(&mut self) -> Result<(), TapeError> {
        let known = self.mode_header()?;
        let is_set = |parameters: &ModeParameters| {
            parameters.descriptors.first().is_none_or(|descriptor| descriptor.block_length == 0)
                && parameters.buffered != 0
        };
        if known.as_ref().is_some_and(is_set) {
            return Ok(());
        }
        let density = known.as_ref().and_then(|known| known.descriptors.first()).map_or(0, |d| d.density);
        let descriptors = vec![BlockDescriptor { density, blocks: 0, block_length: 0 }];
        self.mode_select(&ModeParameters { buffered: 1, descriptors, ..ModeParameters::default() })?;
        let fixed = |parameters: &ModeParameters| {
            parameters.descriptors.first().is_some_and(|descriptor| descriptor.block_length != 0)
        };
        if self.mode_header()?.as_ref().is_some_and(fixed) {
            return Err(self.unfit("mode select"));
        }
        Ok(())
    }

    /// A drive that cannot be set as it must be.
    pub fn unfit(&self, operation: &'static str) -> TapeError {
        let sense = ::scsi::Sense::new(SenseKey::IllegalRequest, 0x26, 0x00);
        let source = crate::DeviceError::Sense((&sense).into());
        TapeError::DriveFailed { drive: self.name.clone(), operation, source }
    }

    fn protection_page(&mut self) -> Result<Option<ControlDataProtection>, TapeError> {
        let parameters = self.mode_page(0x0a, 0xf0)?;
        Ok(parameters.and_then(|parameters| {
            parameters.pages.into_iter().find_map(|page| match page.content {
                ModeContent::ControlDataProtection(page) => Some(page),
                _ => None,
            })
        }))
    }

    /// Turns checksums of blocks on, or off if another has left them on.
    fn set_protection(&mut self) -> Result<(), TapeError> {
        let wish = self.options.protection;
        let known = self.protection_page()?;
        if self.protection_found.is_none() {
            // What an earlier process of ours has left on, nobody else has asked for.
            self.protection_found = known
                .clone()
                .map(|known| if self.left_by_us { ControlDataProtection::default() } else { known });
        }
        let methods: &[ProtectionMethod] = match (&known, wish) {
            (None, ProtectionWish::Required) => return Err(self.unfit("mode sense")),
            (None, _) => &[],
            (Some(_), ProtectionWish::Off) => &[ProtectionMethod::None],
            (Some(_), _) => {
                &[ProtectionMethod::Crc32c, ProtectionMethod::ReedSolomon, ProtectionMethod::None]
            }
        };
        let mut set = known;
        for method in methods {
            let page = match method {
                ProtectionMethod::None => ControlDataProtection::default(),
                method => ControlDataProtection {
                    method: *method,
                    information_length: 4,
                    on_write: true,
                    on_read: true,
                    on_recover: false,
                },
            };
            if is_protected_as(set.as_ref(), &page) {
                break;
            }
            if self.select_page(ModeContent::ControlDataProtection(page.clone()), 1)? {
                set = self.protection_page()?;
                if is_protected_as(set.as_ref(), &page) {
                    break;
                }
            }
        }
        let method = set.filter(|page| page.on_write || page.on_read);
        self.protection = method.as_ref().and_then(|page| BlockProtection::of(page.method));
        // One of the two alone, or a method that we do not know, is no way to use a drive.
        let is_whole = method.as_ref().is_none_or(|page| page.on_write && page.on_read);
        let is_known = method.is_none() || self.protection.is_some();
        if !is_whole || !is_known || wish == ProtectionWish::Required && self.protection.is_none() {
            return Err(self.unfit("mode select"));
        }
        let overhead = self.protection.map_or(0, |_| BlockProtection::LENGTH);
        let longest = self.block_limit.min(self.unit.transfer_max()).min(LENGTH_MAX);
        self.block_max = longest.saturating_sub(overhead);
        Ok(())
    }

    /// Sets what the next program that uses the drive might not bear as it was set at the load. As well as
    /// can be: the cartridge has gone, and the next load sets the drive anew.
    pub fn put_back(&mut self) {
        // The drive refuses plain writes (0B/10/01) of a program that knows nothing of checksums.
        if let Some(found) = self.protection_found.take()
            && let Ok(Some(now)) = self.protection_page()
            && !is_protected_as(Some(&now), &found)
        {
            let _ = self.select_page(ModeContent::ControlDataProtection(found), 1);
        }
        // A program may take a warning that it did not ask for to be an error.
        if let Some(found) = self.warning_found.take()
            && let Ok(Some((page, buffered))) = self.warning_page()
            && page.early_warning_size != found
        {
            let page = DeviceConfigurationExtension { early_warning_size: found, ..page };
            let _ = self.select_page(ModeContent::DeviceConfigurationExtension(page), buffered);
        }
    }

    /// The page of the programmable early warning, and how writes are buffered.
    fn warning_page(&mut self) -> Result<Option<(DeviceConfigurationExtension, u8)>, TapeError> {
        let parameters = self.mode_page(0x10, 0x01)?;
        Ok(parameters.and_then(|parameters| {
            let buffered = parameters.buffered;
            parameters.pages.into_iter().find_map(|page| match page.content {
                ModeContent::DeviceConfigurationExtension(page) => Some((page, buffered)),
                _ => None,
            })
        }))
    }

    /// Finds out how early the drive is to warn for this cartridge. Once for each load and format: after a
    /// doubt it is set again as it was.
    pub fn choose_early_warning(&mut self) -> Result<(), TapeError> {
        let bytes = match self.options.early_warning {
            EarlyWarning::Own => None,
            EarlyWarning::Bytes(bytes) => Some(bytes.0),
            EarlyWarning::Part { part, least } => {
                let space = self.space_of(Partition::Data);
                let total = self.unless_refused(space)?.flatten().and_then(|space| space.total);
                total.and_then(|total| total.0.checked_div(part)).filter(|bytes| *bytes >= least.0)
            }
        };
        let size = bytes.map(|bytes| u16::try_from(bytes.div_ceil(MEGABYTE)).unwrap_or(u16::MAX));
        self.session()?.warning_wish = size.filter(|size| *size > 0);
        Ok(())
    }

    /// Tells the drive how early it is to warn, and sees whether it took that.
    /// A drive that refuses it warns when it does by itself.
    pub fn set_early_warning(&mut self) -> Result<(), TapeError> {
        let session = self.session()?;
        session.is_warning_set = false;
        let Some(size) = session.warning_wish else { return Ok(()) };
        let is_set = self.try_early_warning(size);
        let is_set = self.unless_refused(is_set)?.unwrap_or(false);
        self.session()?.is_warning_set = is_set;
        Ok(())
    }

    /// What came of asking for something that a cartridge can be read without; `None` if the drive would not.
    /// Not so if nobody knows any more how it stands, or it cannot be reached.
    fn unless_refused<T>(&mut self, asked: Result<T, TapeError>) -> Result<Option<T>, TapeError> {
        match asked {
            Ok(told) => Ok(Some(told)),
            Err(TapeError::DriveFailed { source: DeviceError::Sense(_), .. })
                if self.doubt.is_none() && !self.disturbed =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn try_early_warning(&mut self, size: u16) -> Result<bool, TapeError> {
        let Some((known, buffered)) = self.warning_page()? else { return Ok(false) };
        if self.warning_found.is_none() {
            self.warning_found = Some(if self.left_by_us { 0 } else { known.early_warning_size });
        }
        let page = DeviceConfigurationExtension {
            early_warning_size: size,
            early_warning_unit: DeviceConfigurationExtension::EARLY_WARNING_MEGABYTES,
            ..known.clone()
        };
        Ok(known == page
            || self.select_page(ModeContent::DeviceConfigurationExtension(page.clone()), buffered)?
                && self.warning_page()?.is_some_and(|(now, _)| now == page))
    }

    /// What lies between the programmable early warning and the drive's own, at the least: what is behind
    /// that one, no drive says for certain.
    pub fn early_warning_room(&self) -> Option<ByteCount> {
        let session = self.session.as_ref()?;
        let size = session.warning_wish.filter(|_| session.is_warning_set)?;
        Some(ByteCount(u64::from(size) * MEGABYTE))
    }

    /// Whether the drive is to warn earlier than by itself on the cartridge in it.
    pub fn wishes_early_warning(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.warning_wish.is_some())
    }

    fn set_compression(&mut self) -> Result<(), TapeError> {
        let Some(wish) = self.options.compression else { return Ok(()) };
        let Some(parameters) = self.mode_page(0x0f, 0)? else { return Ok(()) };
        let known = parameters.pages.into_iter().find_map(|page| match page.content {
            ModeContent::DataCompression(page) => Some(page),
            _ => None,
        });
        if let Some(known) = known.filter(|known| known.capable && known.enabled != wish) {
            let page = DataCompression { enabled: wish, ..known };
            self.select_page(ModeContent::DataCompression(page), parameters.buffered)?;
        }
        Ok(())
    }

    /// Keeps the cartridge in the drive, or lets it go. Drives without a door do not have the command.
    pub fn prevent_removal(&mut self, prevention: Prevention) -> Result<(), TapeError> {
        let command = Command::from(Primary::PreventAllowMediumRemoval { prevention });
        match self.quiet("prevent removal", &command, Data::None) {
            Ok(_) => Ok(()),
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => Ok(()),
            Err(stop) => Err(self.error_of("prevent removal", stop)),
        }
    }
}

fn is_protected_as(known: Option<&ControlDataProtection>, page: &ControlDataProtection) -> bool {
    known.is_some_and(|known| {
        known.method == page.method
            && (known.on_write, known.on_read) == (page.on_write, page.on_read)
            && (!page.on_write || known.information_length == page.information_length)
    })
}
