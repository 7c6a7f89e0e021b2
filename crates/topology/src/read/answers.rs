//! What disks answered, as it stands in `/answers` of a tree.

use scsi::ata;
use scsi::log::{LogPage, disk, error_counter, page, temperature};

use crate::machine::{Answered, Counter, Disk, ScsiAnswers};
use crate::nvme::{LOG_PAGE, SmartLog};
use crate::reader::Reader;
use crate::tree::Unread;

/// Log pages of disks that are looked at: who asks disks asks for these.
pub const LOG_PAGES: [u8; 11] = [
    page::WRITE_ERRORS,
    page::READ_ERRORS,
    page::VERIFY_ERRORS,
    page::NON_MEDIUM_ERRORS,
    page::TEMPERATURE,
    page::START_STOP,
    page::SELF_TEST,
    page::SOLID_STATE,
    page::BACKGROUND_SCAN,
    page::PROTOCOL_PORT,
    page::INFORMATIONAL,
];

/// Looks at what a disk answered on any of its paths.
pub(super) fn read(reader: &Reader<'_>, disk: &mut Disk) {
    let mut why = None;
    for path in &disk.paths {
        let answered =
            if path.host.is_some() { scsi(reader, &path.device) } else { nvme(reader, &path.device) };
        match answered {
            Ok(Some(answered)) => {
                disk.answered = answered;
                break;
            }
            Ok(None) => {}
            Err(text) => why = why.or(Some(text)),
        }
    }
    if let (Answered::Nothing(text), Some(why)) = (&mut disk.answered, why) {
        *text = why;
    }
    match disk.answered.clone() {
        Answered::Nothing(_) => {}
        Answered::Scsi(answers) => of_scsi(disk, &answers),
        Answered::Nvme(log) => of_nvme(disk, &log),
    }
}

fn scsi(reader: &Reader<'_>, device: &str) -> Result<Option<Answered>, String> {
    let directory = format!("/answers/scsi/{device}");
    let at = |name: &str| format!("{directory}/{name}");
    let mut answers = ScsiAnswers::default();
    for code in LOG_PAGES {
        let path = at(&format!("log-{code:02x}"));
        let Some(bytes) = reader.bytes(&path) else { continue };
        match LogPage::decode(&bytes) {
            Ok(page) if page.code == code => drop(answers.pages.insert(code, page)),
            _ => reader.problem(&path, Unread::Garbage),
        }
    }
    if let Some(page) = answers.pages.get(&page::PROTOCOL_PORT) {
        match disk::ports(page) {
            Ok(ports) => answers.phys = ports.into_iter().flat_map(|(_, phys)| phys).collect(),
            Err(_) => reader.problem(&at("log-18"), Unread::Garbage),
        }
    }
    if let Some(bytes) = reader.bytes(&at("ata-smart")) {
        match ata::attributes(&bytes) {
            Ok(attributes) => answers.smart = attributes,
            Err(_) => reader.problem(&at("ata-smart"), Unread::Garbage),
        }
    }
    if let Some(bytes) = reader.bytes(&at("ata-thresholds")) {
        match ata::thresholds(&bytes) {
            Ok(thresholds) => answers.thresholds = thresholds,
            Err(_) => reader.problem(&at("ata-thresholds"), Unread::Garbage),
        }
    }
    if answers == ScsiAnswers::default() {
        return reader.not_asked(&directory).map_or(Ok(None), Err);
    }
    Ok(Some(Answered::Scsi(Box::new(answers))))
}

fn nvme(reader: &Reader<'_>, device: &str) -> Result<Option<Answered>, String> {
    let directory = format!("/answers/nvme/{device}");
    let path = format!("{directory}/log-{LOG_PAGE:02x}");
    let Some(bytes) = reader.bytes(&path) else {
        return reader.not_asked(&directory).map_or(Ok(None), Err);
    };
    match SmartLog::decode(&bytes) {
        Some(log) => Ok(Some(Answered::Nvme(log))),
        None => {
            reader.problem(&path, Unread::Garbage);
            Ok(None)
        }
    }
}

fn of_nvme(disk: &mut Disk, log: &SmartLog) {
    let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    disk.counters.add(Counter::MediaErrors, whole(log.media_errors));
    disk.celsius = log.celsius().or(disk.celsius);
    disk.power_on_hours = Some(whole(log.power_on_hours));
}

fn of_scsi(disk: &mut Disk, answers: &ScsiAnswers) {
    let page = |code: u8| answers.pages.get(&code);
    let number = |code: u8, parameter: u16| page(code).and_then(|page| page.number(parameter));
    for (code, counter) in [
        (page::READ_ERRORS, Counter::ReadUncorrected),
        (page::WRITE_ERRORS, Counter::WriteUncorrected),
        (page::VERIFY_ERRORS, Counter::VerifyUncorrected),
    ] {
        if let Some(value) = number(code, error_counter::UNCORRECTED) {
            disk.counters.add(counter, value);
        }
    }
    if let Some(value) = number(page::NON_MEDIUM_ERRORS, 0) {
        disk.counters.add(Counter::NonMedium, value);
    }
    if let Some(scan) = page(page::BACKGROUND_SCAN).and_then(disk::BackgroundScan::of_log) {
        disk.counters.add(Counter::ScanDefects, u64::from(scan.defects));
        disk.power_on_hours = Some(u64::from(scan.power_on_hours));
    }
    for phy in &answers.phys {
        disk.counters.add(Counter::InvalidDwords, u64::from(phy.invalid_dwords));
        disk.counters.add(Counter::DisparityErrors, u64::from(phy.disparity_errors));
        disk.counters.add(Counter::SyncLosses, u64::from(phy.sync_losses));
        disk.counters.add(Counter::ResetProblems, u64::from(phy.reset_problems));
        for path in &mut disk.paths {
            if path.address == Some(phy.address) {
                path.megabits = path.megabits.or(phy.rate.megabits());
            }
        }
    }
    let informational = page(page::INFORMATIONAL).and_then(disk::Informational::of_log);
    let celsius = page(page::TEMPERATURE).and_then(temperature::celsius);
    let celsius = celsius.or_else(|| informational.and_then(|read| read.celsius)).map(i16::from);
    disk.celsius = celsius.or(disk.celsius);
    disk.celsius_max =
        page(page::TEMPERATURE).and_then(disk::reference_celsius).map(i16::from).or(disk.celsius_max);
    for attribute in &answers.smart {
        // Vendors keep other things in the upper bytes of these two.
        let [low, ..] = attribute.raw;
        match attribute.id {
            ata::attribute::TEMPERATURE => disk.celsius = disk.celsius.or(Some(i16::from(low))),
            ata::attribute::POWER_ON_HOURS => {
                disk.power_on_hours = disk.power_on_hours.or(Some(attribute.raw_number() & 0xffff_ffff));
            }
            ata::attribute::REALLOCATED_SECTORS => {
                disk.counters.add(Counter::Reallocated, attribute.raw_number());
            }
            ata::attribute::PENDING_SECTORS => disk.counters.add(Counter::Pending, attribute.raw_number()),
            ata::attribute::OFFLINE_UNCORRECTABLE => {
                disk.counters.add(Counter::OfflineUncorrectable, attribute.raw_number());
            }
            ata::attribute::REPORTED_UNCORRECTED => {
                disk.counters.add(Counter::ReportedUncorrected, attribute.raw_number());
            }
            ata::attribute::LINK_CHECKSUM_ERRORS => {
                disk.counters.add(Counter::LinkChecksum, attribute.raw_number());
            }
            _ => {}
        }
    }
}
