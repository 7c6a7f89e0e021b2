//! What initiators may set: mode pages (SSC-5, 8.5).

use library::BLOCK_BYTES_MAX;
use scsi::command::{PageControl, Primary};
use scsi::lbp::BlockProtection;
use scsi::mode::{
    BlockDescriptor, Control, ControlDataProtection, DataCompression, DeviceConfiguration,
    DeviceConfigurationExtension, InformationalExceptions, MediumConfiguration, MediumPartition, ModeContent,
    ModeParameters, ProtectionMethod,
};
use scsi::sense::SenseFormat;

use super::{Run, Tape};
use crate::answer::{Outcome, Refusal};
use crate::gate::MODE_CHANGED;
use crate::primary::{ModeRequest, mode_select};

/// What is set, for all initiators alike. A reset brings the defaults back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// 0: a write is on the medium when it is answered; 1: it may be in a buffer.
    pub buffered: u8,
    /// The length of blocks with FIXED, 0 if none is set.
    pub block_length: u32,
    descriptor_sense: bool,
    protection: ControlDataProtection,
    /// Nothing is compressed here; drives let the host think so.
    compression: bool,
    /// Partitions beside the first that FORMAT MEDIUM is to make.
    pub additional_partitions: Option<u8>,
    /// How long before early warning the programmable one comes, in megabytes; 0: there is none.
    early_warning_size: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            buffered: 1,
            block_length: 0,
            descriptor_sense: false,
            protection: ControlDataProtection::default(),
            compression: true,
            additional_partitions: None,
            early_warning_size: 0,
        }
    }
}

impl Settings {
    pub fn format(&self) -> SenseFormat {
        if self.descriptor_sense { SenseFormat::Descriptor } else { SenseFormat::Fixed }
    }

    pub fn protection_on_read(&self) -> Option<BlockProtection> {
        BlockProtection::of(self.protection.method).filter(|_| self.protection.on_read)
    }

    pub fn protection_on_write(&self) -> Option<BlockProtection> {
        BlockProtection::of(self.protection.method).filter(|_| self.protection.on_write)
    }

    /// How many bytes lie between the programmable early warning and the other one. `None`: it is not set.
    pub fn early_warning(&self) -> Option<u64> {
        (self.early_warning_size > 0).then(|| u64::from(self.early_warning_size) * MEGABYTE)
    }

    /// Takes a page of MODE SELECT over.
    fn set(&mut self, page: ModeContent) -> Result<(), Refusal> {
        match page {
            ModeContent::Control(page) => {
                self.descriptor_sense = page.descriptor_sense;
                let own = Control { descriptor_sense: page.descriptor_sense, ..control() };
                same(&own, &page)
            }
            ModeContent::ControlDataProtection(page) => self.protect(page),
            ModeContent::DataCompression(page) => {
                self.compression = page.enabled;
                Ok(())
            }
            ModeContent::MediumPartition(page) => {
                if page.additional > ADDITIONAL_MAX {
                    return Err(Refusal::illegal(0x26, 0x02));
                }
                self.additional_partitions = Some(page.additional);
                Ok(())
            }
            // Where the tape stands is not set by this, and of the compression nothing depends.
            ModeContent::DeviceConfiguration(page) => {
                let own = DeviceConfiguration {
                    active_partition: page.active_partition,
                    ..configuration(page.compression_algorithm)
                };
                same(&own, &page)
            }
            ModeContent::InformationalExceptions(page) => same(&exceptions(), &page),
            ModeContent::DeviceConfigurationExtension(page) => {
                self.early_warning_size = page.early_warning_size;
                same(&extension(page.early_warning_size), &page)
            }
            ModeContent::MediumConfiguration(page) => same(&MediumConfiguration::default(), &page),
            _ => Err(Refusal::parameter(0)),
        }
    }

    fn protect(&mut self, page: ControlDataProtection) -> Result<(), Refusal> {
        let fits = match page.method {
            ProtectionMethod::None => !page.on_write && !page.on_read,
            ProtectionMethod::ReedSolomon | ProtectionMethod::Crc32c => {
                usize::from(page.information_length) == BlockProtection::LENGTH
            }
            ProtectionMethod::Other(_) => false,
        };
        // Blocks are not recovered from a buffer here: RECOVER BUFFERED DATA is not known.
        if !fits || page.on_recover {
            return Err(Refusal::illegal(0x26, 0x02));
        }
        self.protection = page;
        Ok(())
    }
}

/// The unit of the programmable early warning.
const MEGABYTE: u64 = 1_000_000;

/// Partitions beside the first that a cartridge can have.
pub const ADDITIONAL_MAX: u8 = 1;

/// 5/26/02 unless nothing would be changed.
fn same<T: PartialEq>(own: &T, given: &T) -> Result<(), Refusal> {
    if own == given { Ok(()) } else { Err(Refusal::illegal(0x26, 0x02)) }
}

fn configuration(compression_algorithm: u8) -> DeviceConfiguration {
    DeviceConfiguration {
        identifiers_supported: true,
        enable_end_of_data: true,
        synchronize_at_early_warning: true,
        compression_algorithm,
        ..DeviceConfiguration::default()
    }
}

/// Only the unit of megabytes is known.
fn extension(early_warning_size: u16) -> DeviceConfigurationExtension {
    DeviceConfigurationExtension { early_warning_size, ..DeviceConfigurationExtension::default() }
}

/// TapeAlert flags are asked for, they do not end commands.
fn exceptions() -> InformationalExceptions {
    InformationalExceptions { disabled: true, method: 3, ..InformationalExceptions::default() }
}

/// Commands of a session are carried out in their order.
fn control() -> Control {
    Control::default()
}

impl Tape {
    /// All pages with the values that are asked for.
    fn pages(&mut self, control: PageControl) -> Vec<ModeContent> {
        if control == PageControl::Changeable {
            return changeable();
        }
        let at = self.position().ok();
        let active = self.medium.as_ref().zip(at).map_or(0, |(medium, at)| medium.number(at.partition));
        let defaults = Settings::default();
        let set = if control == PageControl::Default { &defaults } else { &self.settings };
        let partitions = self.medium.as_ref().map_or(1, |medium| medium.partitions);
        let additional = set.additional_partitions.unwrap_or(partitions.saturating_sub(1));
        vec![
            ModeContent::Control(Control { descriptor_sense: set.descriptor_sense, ..self::control() }),
            ModeContent::ControlDataProtection(set.protection.clone()),
            ModeContent::DataCompression(DataCompression {
                enabled: set.compression,
                capable: true,
                decompress: true,
                ..DataCompression::default()
            }),
            ModeContent::DeviceConfiguration(DeviceConfiguration {
                active_partition: active,
                ..configuration(u8::from(set.compression))
            }),
            ModeContent::DeviceConfigurationExtension(extension(set.early_warning_size)),
            ModeContent::MediumPartition(MediumPartition {
                additional_max: ADDITIONAL_MAX,
                additional,
                by_device: true,
                size_unit: 3,
                only_on_format: true,
                format_recognition: 3,
                unit_exponent: 9,
                sizes: self.sizes(additional),
                ..MediumPartition::default()
            }),
            ModeContent::InformationalExceptions(exceptions()),
            ModeContent::MediumConfiguration(MediumConfiguration::default()),
        ]
    }

    /// Sizes of the partitions in units of 10^9 bytes: the library says that of the data partition only.
    fn sizes(&self, additional: u8) -> Vec<u16> {
        /// "What is left", or not known.
        const REST: u16 = 0xffff;
        let capacity = self.medium.as_ref().map_or(0, |medium| medium.capacity.0);
        let data = u16::try_from(capacity / 1_000_000_000).unwrap_or(REST).max(1);
        if additional == 0 { vec![data] } else { vec![REST, data] }
    }

    pub fn mode_sense(&mut self, run: &mut Run<'_>, command: &Primary) -> Outcome {
        let Some(request) = ModeRequest::of(command) else { return Err(Refusal::illegal(0x20, 0)) };
        let density = run.shared.options.density.primary;
        let pages = self.pages(request.control);
        let is_changeable = request.control == PageControl::Changeable;
        let (settings, defaults) = (&self.settings, Settings::default());
        let set = if request.control == PageControl::Default { &defaults } else { settings };
        let block_length = if is_changeable { 0x00ff_ffff } else { set.block_length };
        let density = if is_changeable { 0 } else { density };
        let head = ModeParameters {
            medium_type: 0,
            write_protected: self.medium.as_ref().is_some_and(|medium| medium.write_protected),
            buffered: if is_changeable { 0x07 } else { set.buffered },
            ..ModeParameters::default()
        };
        let descriptor = BlockDescriptor { density, blocks: 0, block_length };
        request.answer(head, Some(descriptor), pages, run.into)
    }

    pub fn mode_select(&mut self, run: &mut Run<'_>, command: &Primary) -> Outcome {
        let Some(read) = mode_select(command, run.out) else { return Err(Refusal::illegal(0x20, 0)) };
        let (parameters, bytes) = read?;
        if bytes == 0 {
            return Ok(0);
        }
        // All of it is taken over, or nothing.
        let mut settings = self.settings.clone();
        if parameters.buffered > 1 || parameters.speed != 0 {
            return Err(Refusal::illegal(0x26, 0x02));
        }
        settings.buffered = parameters.buffered;
        match &parameters.descriptors[..] {
            [] => {}
            [descriptor] => {
                let own = run.shared.options.density.primary;
                let keeps_density = [0, 0x7f, own].contains(&descriptor.density);
                let longest = u32::try_from(BLOCK_BYTES_MAX).unwrap_or(u32::MAX);
                if !keeps_density || descriptor.blocks != 0 || descriptor.block_length > longest {
                    return Err(Refusal::illegal(0x26, 0x02));
                }
                settings.block_length = descriptor.block_length;
            }
            _ => return Err(Refusal::illegal(0x26, 0x00)),
        }
        parameters.pages.into_iter().try_for_each(|page| settings.set(page.content))?;
        if settings != self.settings {
            if settings.early_warning_size != self.settings.early_warning_size
                && let Some(medium) = &mut self.medium
            {
                medium.forget_zone();
            }
            self.settings = settings;
            let is_descriptor = self.settings.format() == SenseFormat::Descriptor;
            run.drive.descriptor_sense.store(is_descriptor, std::sync::atomic::Ordering::Relaxed);
            run.drive.gate.tell_others(Some(run.nexus), MODE_CHANGED);
        }
        Ok(bytes)
    }
}

/// Pages with a one for each bit that MODE SELECT can change.
fn changeable() -> Vec<ModeContent> {
    vec![
        ModeContent::Control(Control { descriptor_sense: true, ..Control::default() }),
        ModeContent::ControlDataProtection(ControlDataProtection {
            method: ProtectionMethod::of(0xff),
            information_length: 0x3f,
            on_write: true,
            on_read: true,
            on_recover: false,
        }),
        ModeContent::DataCompression(DataCompression { enabled: true, ..DataCompression::default() }),
        ModeContent::DeviceConfiguration(DeviceConfiguration::default()),
        ModeContent::DeviceConfigurationExtension(extension(u16::MAX)),
        ModeContent::MediumPartition(MediumPartition { additional: 0xff, ..MediumPartition::default() }),
        ModeContent::InformationalExceptions(InformationalExceptions::default()),
        ModeContent::MediumConfiguration(MediumConfiguration::default()),
    ]
}
