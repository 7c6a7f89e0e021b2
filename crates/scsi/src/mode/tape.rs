//! Mode pages of tape drives (SSC-5, 8.5), without their headers: offsets are two less than in the tables,
//! four less for subpages.

use crate::bytes::{Layout, Malformed, Packed, Reader};
use crate::code::codes;

codes! {
    open
    /// How blocks are protected between host and tape (SSC-5, 8.5.9).
    ProtectionMethod {
        None = 0x00 "not protected",
        ReedSolomon = 0x01 "Reed-Solomon CRC (ECMA-319)",
        Crc32c = 0x02 "CRC-32C",
    }
}

/// Control, 0Ah (SPC-5, 7.5.10). Names as there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The fields have the names of the standard.
pub struct Control {
    pub task_set_type: u8,
    pub task_management_only: bool,
    pub disable_protection_check: bool,
    /// D_SENSE: sense data comes in descriptor format.
    pub descriptor_sense: bool,
    pub global_logging_save_disable: bool,
    pub report_log_exceptions: bool,
    /// 0: commands of a session are carried out in their order; 1: in any.
    pub queue_algorithm: u8,
    pub no_unit_attention_on_release: bool,
    pub queue_error: u8,
    /// UA_INTLCK_CTRL: what becomes of a unit attention that was told.
    pub attention_interlock: u8,
    pub software_write_protect: bool,
    pub application_tag_owner: bool,
    pub task_aborted_status: bool,
    pub autoload_mode: u8,
    /// In tenths of a second.
    pub busy_timeout_tenths: u16,
    pub self_test_seconds: u16,
}

impl Packed for Control {
    const NAME: &'static str = "control mode page";
    const LENGTH: usize = 10;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.bits(0, 5, 3, &mut self.task_set_type);
        l.flag(0, 4, &mut self.task_management_only);
        l.flag(0, 3, &mut self.disable_protection_check);
        l.flag(0, 2, &mut self.descriptor_sense);
        l.flag(0, 1, &mut self.global_logging_save_disable);
        l.flag(0, 0, &mut self.report_log_exceptions);
        l.bits(1, 4, 4, &mut self.queue_algorithm);
        l.flag(1, 3, &mut self.no_unit_attention_on_release);
        l.bits(1, 1, 2, &mut self.queue_error);
        l.bits(2, 4, 2, &mut self.attention_interlock);
        l.flag(2, 3, &mut self.software_write_protect);
        l.flag(3, 7, &mut self.application_tag_owner);
        l.flag(3, 6, &mut self.task_aborted_status);
        l.bits(3, 0, 3, &mut self.autoload_mode);
        l.number(6, 2, &mut self.busy_timeout_tenths);
        l.number(8, 2, &mut self.self_test_seconds);
    }
}

/// Control data protection, 0Ah/F0h (SSC-5, 8.5.9).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControlDataProtection {
    /// The method.
    pub method: ProtectionMethod,
    /// Bytes of the checksum at the end of each block.
    pub information_length: u8,
    /// Blocks that are written carry it.
    pub on_write: bool,
    /// Blocks that are read carry it.
    pub on_read: bool,
    /// Blocks that are recovered from the buffer carry it.
    pub on_recover: bool,
}

impl Packed for ControlDataProtection {
    const NAME: &'static str = "control data protection mode page";
    const LENGTH: usize = 28;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.code(0, 0, 8, "the protection method", &mut self.method);
        l.bits(1, 0, 6, &mut self.information_length);
        l.flag(2, 7, &mut self.on_write);
        l.flag(2, 6, &mut self.on_read);
        l.flag(2, 5, &mut self.on_recover);
    }
}

/// Data compression, 0Fh (SSC-5, 8.5.4).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DataCompression {
    /// DCE: data is compressed.
    pub enabled: bool,
    /// DCC: the drive can.
    pub capable: bool,
    /// DDE: data is decompressed.
    pub decompress: bool,
    /// RED: what is reported as an exception on decompression.
    pub report: u8,
    /// The algorithm that writes.
    pub compression: u32,
    /// The algorithm of what was read.
    pub decompression: u32,
}

impl Packed for DataCompression {
    const NAME: &'static str = "data compression mode page";
    const LENGTH: usize = 14;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 7, &mut self.enabled);
        l.flag(0, 6, &mut self.capable);
        l.flag(1, 7, &mut self.decompress);
        l.bits(1, 5, 2, &mut self.report);
        l.number(2, 4, &mut self.compression);
        l.number(6, 4, &mut self.decompression);
    }
}

/// Device configuration, 10h (SSC-5, 8.5.5). Names as there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The fields have the names of the standard.
pub struct DeviceConfiguration {
    pub change_active_format: bool,
    pub active_format: u8,
    pub active_partition: u8,
    pub write_full_ratio: u8,
    pub read_empty_ratio: u8,
    /// In tenths of a second.
    pub write_delay_tenths: u16,
    pub buffer_recovery: bool,
    pub identifiers_supported: bool,
    pub report_setmarks: bool,
    pub automatic_velocity: bool,
    pub stop_on_consecutive_filemarks: u8,
    pub recover_order: bool,
    pub report_early_warning: bool,
    pub gap_size: u8,
    pub end_of_data_defined: u8,
    pub enable_end_of_data: bool,
    /// SEW: what is buffered goes to the medium at early warning.
    pub synchronize_at_early_warning: bool,
    pub software_write_protection: bool,
    pub address_mode_lock: bool,
    pub address_mode: bool,
    pub buffer_size_at_early_warning: u32,
    pub compression_algorithm: u8,
    pub worm_tamper_read: u8,
    pub only_if_reserved: bool,
    pub rewind_on_reset: u8,
    pub associated_write_protect: bool,
    pub persistent_write_protect: bool,
    pub permanent_write_protect: bool,
}

impl Packed for DeviceConfiguration {
    const NAME: &'static str = "device configuration mode page";
    const LENGTH: usize = 14;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 5, &mut self.change_active_format);
        l.bits(0, 0, 5, &mut self.active_format);
        l.number(1, 1, &mut self.active_partition);
        l.number(2, 1, &mut self.write_full_ratio);
        l.number(3, 1, &mut self.read_empty_ratio);
        l.number(4, 2, &mut self.write_delay_tenths);
        l.flag(6, 7, &mut self.buffer_recovery);
        l.flag(6, 6, &mut self.identifiers_supported);
        l.flag(6, 5, &mut self.report_setmarks);
        l.flag(6, 4, &mut self.automatic_velocity);
        l.bits(6, 2, 2, &mut self.stop_on_consecutive_filemarks);
        l.flag(6, 1, &mut self.recover_order);
        l.flag(6, 0, &mut self.report_early_warning);
        l.number(7, 1, &mut self.gap_size);
        l.bits(8, 5, 3, &mut self.end_of_data_defined);
        l.flag(8, 4, &mut self.enable_end_of_data);
        l.flag(8, 3, &mut self.synchronize_at_early_warning);
        l.flag(8, 2, &mut self.software_write_protection);
        l.flag(8, 1, &mut self.address_mode_lock);
        l.flag(8, 0, &mut self.address_mode);
        l.number(9, 3, &mut self.buffer_size_at_early_warning);
        l.number(12, 1, &mut self.compression_algorithm);
        l.bits(13, 6, 2, &mut self.worm_tamper_read);
        l.flag(13, 5, &mut self.only_if_reserved);
        l.bits(13, 3, 2, &mut self.rewind_on_reset);
        l.flag(13, 2, &mut self.associated_write_protect);
        l.flag(13, 1, &mut self.persistent_write_protect);
        l.flag(13, 0, &mut self.permanent_write_protect);
    }
}

/// Device configuration extension, 10h/01h (SSC-5, 8.5.8).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceConfigurationExtension {
    /// TARPF: TapeAlert flags are also in log parameters of failed pages.
    pub alert_respect_parameter: bool,
    /// TASER: TapeAlert changes do not make a unit attention.
    pub alert_select_exception: bool,
    /// TARPC: TapeAlert flags of the response page are cleared with it.
    pub alert_respect_page_control: bool,
    /// TAPLSD: TapeAlert flags at prevented loads are deactivated by the log.
    pub alert_prevent_log_sense: bool,
    /// 0: writing is allowed everywhere; 1: append-only mode.
    pub write_mode: u8,
    /// What a short erase does.
    pub short_erase_mode: u8,
    /// PEWS: how long before the drive's own early warning the programmable one comes; 0: there is none.
    pub early_warning_size: u16,
    /// The unit of that, as [`DeviceConfigurationExtension::EARLY_WARNING_MEGABYTES`].
    pub early_warning_unit: u8,
    /// VCELBRE: a volume that contains encrypted blocks is written only with encryption.
    pub encrypted_volume_requires_encryption: bool,
}

impl DeviceConfigurationExtension {
    /// The unit of the programmable early warning is 1,000,000 bytes; the only one before SSC-5.
    pub const EARLY_WARNING_MEGABYTES: u8 = 0;
}

impl Packed for DeviceConfigurationExtension {
    const NAME: &'static str = "device configuration extension mode page";
    const LENGTH: usize = 28;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 3, &mut self.alert_respect_parameter);
        l.flag(0, 2, &mut self.alert_select_exception);
        l.flag(0, 1, &mut self.alert_respect_page_control);
        l.flag(0, 0, &mut self.alert_prevent_log_sense);
        l.bits(1, 4, 4, &mut self.write_mode);
        l.bits(1, 0, 4, &mut self.short_erase_mode);
        l.number(2, 2, &mut self.early_warning_size);
        l.bits(0, 4, 4, &mut self.early_warning_unit);
        l.flag(4, 0, &mut self.encrypted_volume_requires_encryption);
    }
}

/// The fields of [`MediumPartition`] before the sizes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct PartitionHead {
    page: MediumPartition,
}

impl Packed for PartitionHead {
    const NAME: &'static str = "medium partition mode page";
    const LENGTH: usize = 6;

    fn layout(&mut self, l: &mut Layout<'_>) {
        let page = &mut self.page;
        l.number(0, 1, &mut page.additional_max);
        l.number(1, 1, &mut page.additional);
        l.flag(2, 7, &mut page.fixed);
        l.flag(2, 6, &mut page.by_device);
        l.flag(2, 5, &mut page.by_initiator);
        l.bits(2, 3, 2, &mut page.size_unit);
        l.flag(2, 2, &mut page.only_on_format);
        l.flag(2, 1, &mut page.clear);
        l.flag(2, 0, &mut page.add);
        l.number(3, 1, &mut page.format_recognition);
        l.bits(4, 4, 4, &mut page.partitioning_type);
        l.bits(4, 0, 4, &mut page.unit_exponent);
    }
}

/// Medium partitions, 11h (SSC-5, 8.5.7).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MediumPartition {
    /// The most partitions beside the first.
    pub additional_max: u8,
    /// Partitions beside the first that the medium has, or is to have.
    pub additional: u8,
    /// FDP: partitions are as the drive has them, fixed.
    pub fixed: bool,
    /// SDP: the drive chooses sizes.
    pub by_device: bool,
    /// IDP: the sizes are those of this page.
    pub by_initiator: bool,
    /// PSUM: 0 bytes, 1 kilobytes, 2 megabytes, 3 by [`MediumPartition::unit_exponent`].
    pub size_unit: u8,
    /// POFM: partitions are made by FORMAT MEDIUM, not by MODE SELECT.
    pub only_on_format: bool,
    /// CLEAR: partitions are cleared.
    pub clear: bool,
    /// ADDP: partitions are added.
    pub add: bool,
    /// What the drive recognizes on a medium by itself: 3 is format and partitions.
    pub format_recognition: u8,
    /// How partitions lie: 1 by wrap, 2 by length.
    pub partitioning_type: u8,
    /// The unit of sizes is 10 to the power of this, in bytes.
    pub unit_exponent: u8,
    /// The size of each partition; FFFFh for what is left.
    pub sizes: Vec<u16>,
}

impl MediumPartition {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<MediumPartition, Malformed> {
        let PartitionHead { mut page } = body.packed()?;
        while !body.is_empty() {
            page.sizes.push(body.u16()?);
        }
        Ok(page)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let head = PartitionHead { page: self.clone() };
        let mut out = head.encode();
        self.sizes.iter().for_each(|size| out.extend(size.to_be_bytes()));
        out
    }
}

/// Informational exceptions of a tape drive: TapeAlert, 1Ch (SSC-5, 8.5.6).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // The fields have the names of the standard.
pub struct InformationalExceptions {
    pub performance: bool,
    pub background_function: bool,
    pub warning: bool,
    /// DEXCPT: TapeAlert makes no exceptions, flags are polled.
    pub disabled: bool,
    pub test: bool,
    pub background_error: bool,
    pub log_errors: bool,
    /// MRIE: how an exception is reported.
    pub method: u8,
    /// In tenths of a second.
    pub interval_tenths: u32,
    /// Report count, or with `test` the number of a TapeAlert flag, negative to clear it.
    pub report_count: u32,
}

impl Packed for InformationalExceptions {
    const NAME: &'static str = "informational exceptions control mode page";
    const LENGTH: usize = 10;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 7, &mut self.performance);
        l.flag(0, 5, &mut self.background_function);
        l.flag(0, 4, &mut self.warning);
        l.flag(0, 3, &mut self.disabled);
        l.flag(0, 2, &mut self.test);
        l.flag(0, 1, &mut self.background_error);
        l.flag(0, 0, &mut self.log_errors);
        l.bits(1, 0, 4, &mut self.method);
        l.number(2, 4, &mut self.interval_tenths);
        l.number(6, 4, &mut self.report_count);
    }
}

/// Medium configuration, 1Dh (SSC-5, 8.5.10).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MediumConfiguration {
    /// WORMM: the volume is handled as WORM.
    pub worm: bool,
    /// Which labels may be overwritten on a WORM volume.
    pub label_restrictions: u8,
    /// Which filemarks may be overwritten on a WORM volume.
    pub filemark_restrictions: u8,
}

impl Packed for MediumConfiguration {
    const NAME: &'static str = "medium configuration mode page";
    const LENGTH: usize = 30;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 0, &mut self.worm);
        l.number(2, 1, &mut self.label_restrictions);
        l.number(3, 1, &mut self.filemark_restrictions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{hex, packed};

    #[test]
    fn hold_as_structures() {
        packed::<Control>();
        packed::<ControlDataProtection>();
        packed::<DataCompression>();
        packed::<DeviceConfiguration>();
        packed::<DeviceConfigurationExtension>();
        packed::<PartitionHead>();
        packed::<InformationalExceptions>();
        packed::<MediumConfiguration>();
    }

    /// Positions of all fields as `sdparm --enumerate` (1.12) prints them, less the headers.
    #[test]
    fn the_fields_lie_where_sdparm_has_them() {
        let filled = |text: &str, length: usize| {
            let mut bytes = hex(text);
            bytes.resize(length, 0);
            bytes
        };
        assert_eq!(DataCompression::usage(), filled("c0 e0 ff ff ff ff ff ff ff ff", 14));
        assert_eq!(DeviceConfiguration::usage(), hex("3f ff ff ff ff ff ff ff ff ff ff ff ff ff"));
        assert_eq!(DeviceConfigurationExtension::usage(), filled("ff ff ff ff 01", 28));
        assert_eq!(ControlDataProtection::usage(), filled("ff 3f e0", 28));
        // RAC and the bits behind ATMPE, which disks have, are not known here.
        assert_eq!(Control::usage(), hex("ff fe 38 c7 00 00 ff ff ff ff"));
        assert_eq!(PartitionHead::usage(), hex("ff ff ff ff ff 00"));
        assert_eq!(InformationalExceptions::usage(), hex("bf 0f ff ff ff ff ff ff ff ff"));
        assert_eq!(MediumConfiguration::usage(), filled("01 00 ff ff", 30));

        let page = DeviceConfiguration::decode(&hex("20 01 02 03 00 04 48 00 18 00 00 05 06 95")).unwrap();
        assert!(page.change_active_format && page.identifiers_supported && !page.buffer_recovery);
        assert_eq!((page.active_partition, page.write_full_ratio, page.read_empty_ratio), (1, 2, 3));
        assert_eq!((page.write_delay_tenths, page.stop_on_consecutive_filemarks), (4, 2));
        assert!(
            page.enable_end_of_data && page.synchronize_at_early_warning && !page.software_write_protection
        );
        assert_eq!((page.buffer_size_at_early_warning, page.compression_algorithm), (5, 6));
        assert_eq!((page.worm_tamper_read, page.rewind_on_reset), (2, 2));
        assert!(page.associated_write_protect && page.permanent_write_protect && !page.only_if_reserved);

        // Partitions as LTFS makes them: one more, sizes by the initiator in units of 10^9 bytes.
        let mut reader = Reader::new("test", &[1, 1, 0x3c, 3, 0x09, 0, 0, 37, 0xff, 0xff]);
        let page = MediumPartition::decode(&mut reader).unwrap();
        assert!(page.by_initiator && page.only_on_format && !page.fixed && !page.by_device);
        assert_eq!((page.additional, page.size_unit, page.unit_exponent), (1, 3, 9));
        assert_eq!((page.format_recognition, page.partitioning_type, page.sizes), (3, 0, vec![37, 0xffff]));

        let page = DeviceConfigurationExtension::decode(&filled("02 10 01 f4 01", 28)).unwrap();
        assert!(page.alert_respect_page_control && page.encrypted_volume_requires_encryption);
        assert_eq!((page.write_mode, page.short_erase_mode, page.early_warning_size), (1, 0, 500));
    }
}
