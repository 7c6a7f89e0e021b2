//! What cartridge is in the drive.

use ::scsi::attribute::id;
use ::scsi::command::{PageControl, Primary, Stream};
use ::scsi::density::DensityReport;
use ::scsi::log::{LogPage, page, volume_statistics};
use ::scsi::mode::{MediumConfiguration, ModeContent};
use ::scsi::{Command, SenseKey};
use base::Partition;

use super::ability::op;
use super::condition::Stop;
use super::{Cartridge, CartridgeAccess, Drive, DriveGeneration};
use crate::TapeError;

/// Bytes of a list of densities.
const DENSITY_BYTES: u16 = 4096;
/// Bytes of a log page.
const LOG_BYTES: u16 = 16 * 1024;
/// The medium type of the cartridge memory for WORM (SPC-5, 7.4.2).
const TYPE_WORM: u64 = 0x80;

/// A cartridge as the drive describes it. What it does not tell is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Medium {
    /// The generation of the drive.
    pub drive: Option<DriveGeneration>,
    /// The kind of cartridge.
    pub cartridge: Option<Cartridge>,
    /// What this drive can do with it, by the table of compatibility.
    pub access: Option<CartridgeAccess>,
    /// The code of its density.
    pub density: Option<u8>,
    /// The medium type of MODE SENSE.
    pub medium_type: Option<u8>,
    /// What is written stays.
    pub worm: bool,
    /// The same by the word of the cartridge, and not of a mode page alone, which some targets have wrong: it
    /// is read only.
    pub is_worm_by_itself: bool,
    /// Its switch, or the drive, does not let it be written.
    pub write_protected: bool,
    /// Partitions that it has.
    pub partitions: u8,
    /// How often it was loaded.
    pub load_count: Option<u64>,
    /// MiB written to it in its life.
    pub written_in_life: Option<u64>,
    /// MiB read from it in its life.
    pub read_in_life: Option<u64>,
    /// Its serial number.
    pub serial: Option<String>,
    /// The barcode in its memory.
    pub barcode: Option<String>,
}

impl Drive {
    /// A log page, `None` if the drive does not have it.
    pub fn log_page(&mut self, code: u8) -> Result<Option<LogPage>, TapeError> {
        self.log_page_by(code, |drive, command| drive.answer("log sense", command, usize::from(LOG_BYTES)))
    }

    /// The same of a drive of which nothing is in doubt, and without another try: it costs the time limit of
    /// one command at most.
    pub fn log_page_at_once(&mut self, code: u8) -> Result<Option<LogPage>, TapeError> {
        self.log_page_by(code, |drive, command| {
            drive.answer_at_once("log sense", command, usize::from(LOG_BYTES))
        })
    }

    fn log_page_by(
        &mut self,
        code: u8,
        ask: impl FnOnce(&mut Drive, &Command) -> Result<Vec<u8>, Stop>,
    ) -> Result<Option<LogPage>, TapeError> {
        if !self.abilities.may(op::LOG_SENSE, u16::from(code)) {
            return Ok(None);
        }
        let command = Command::from(Primary::LogSense {
            save: false,
            control: PageControl::CUMULATIVE,
            page: code,
            subpage: 0,
            parameter: 0,
            allocation_length: LOG_BYTES,
        });
        match ask(self, &command) {
            Ok(answer) => {
                let page = LogPage::decode(&answer).map_err(|error| self.strange("log sense", error))?;
                Ok(Some(page).filter(|page| page.code == code))
            }
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => {
                self.abilities.refused(op::LOG_SENSE, u16::from(code));
                Ok(None)
            }
            Err(stop) => Err(self.error_of("log sense", stop)),
        }
    }

    /// The densities that the drive has.
    fn densities(&mut self) -> Result<DensityReport, TapeError> {
        if !self.abilities.may(op::REPORT_DENSITY, 0) {
            return Ok(DensityReport::default());
        }
        let command = Command::from(Stream::ReportDensitySupport {
            medium_type: false,
            medium: false,
            allocation_length: DENSITY_BYTES,
        });
        match self.quiet_answer("report density support", &command, usize::from(DENSITY_BYTES)) {
            Ok(answer) => {
                DensityReport::decode(&answer).map_err(|error| self.strange("report density support", error))
            }
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => {
                self.abilities.refused(op::REPORT_DENSITY, 0);
                Ok(DensityReport::default())
            }
            Err(stop) => Err(self.error_of("report density support", stop)),
        }
    }

    /// Whether the cartridge is handled as WORM, if a mode page says so.
    fn is_worm_by_mode(&mut self) -> Result<bool, TapeError> {
        let parameters = self.mode_page(0x1d, 0)?;
        Ok(parameters.is_some_and(|parameters| {
            parameters.pages.iter().any(|page| {
                matches!(
                    &page.content,
                    ModeContent::MediumConfiguration(MediumConfiguration { worm: true, .. })
                )
            })
        }))
    }

    fn number(&mut self, attribute: u16) -> Result<Option<u64>, TapeError> {
        let value = self.attribute(Partition::Index, attribute)?;
        Ok(value.and_then(|value| ::scsi::attribute::Attribute::new(attribute, value).number()))
    }

    fn text(&mut self, attribute: u16) -> Result<Option<String>, TapeError> {
        let value = self.attribute(Partition::Index, attribute)?;
        let text = value.map(|value| ::scsi::attribute::Attribute::new(attribute, value).text());
        Ok(text.filter(|text| !text.is_empty()))
    }

    /// Finds out what is in the drive.
    pub fn describe(&mut self) -> Result<Medium, TapeError> {
        let header = self.mode_header()?;
        let density = header.as_ref().and_then(|header| header.descriptors.first()).map(|one| one.density);
        let medium_type = header.as_ref().map(|header| header.medium_type);
        let drive = {
            let densities = self.densities()?;
            DriveGeneration::of(&self.inquiry, &densities)
        };
        let cartridge = match (drive, medium_type) {
            (Some(drive), Some(code)) => Cartridge::of(drive, code, density.unwrap_or(0)),
            _ => None,
        };
        let access = match (drive, cartridge) {
            (Some(drive), Some(cartridge)) => Some(drive.access(cartridge, density.unwrap_or(0))),
            _ => None,
        };
        let statistics = self.log_page(page::VOLUME_STATISTICS)?;
        let by_code = cartridge.map(Cartridge::is_worm);
        let by_memory = self.number(id::MEDIUM_TYPE)?.map(|kind| kind == TYPE_WORM);
        let by_statistics = statistics.as_ref().and_then(|log| log.number(volume_statistics::WORM));
        let said = [by_code, by_memory, by_statistics.map(|worm| worm != 0)];
        // The mode page only where nothing else tells: targets without WORM have it wrong.
        let worm = match said.iter().any(Option::is_some) {
            true => said.contains(&Some(true)),
            false => self.is_worm_by_mode()?,
        };
        // How often it was threaded; what asks the memory for it also reads the volume change reference
        // behind it, which makes that rise with the next write.
        let load_count = match statistics.and_then(|log| log.number(volume_statistics::THREADS)) {
            Some(count) => Some(count),
            None => self.number(id::LOAD_COUNT)?,
        };
        let partitions = self.count_partitions()?;
        Ok(Medium {
            drive,
            cartridge,
            access,
            density,
            medium_type,
            worm,
            is_worm_by_itself: said.contains(&Some(true)),
            write_protected: header.is_some_and(|header| header.write_protected),
            partitions,
            load_count,
            written_in_life: self.number(id::WRITTEN_IN_LIFE)?,
            read_in_life: self.number(id::READ_IN_LIFE)?,
            serial: self.text(id::MEDIUM_SERIAL)?,
            barcode: self.text(id::BARCODE)?,
        })
    }
}
