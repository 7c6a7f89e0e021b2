//! Asks disks and enclosures how they are. No command here changes anything on a device.

use std::path::Path;
use std::time::{Duration, Instant};

use scsi::command::{Diagnostic, PageControl, Primary};
use scsi::enclosure::page as pages;
use scsi::log::{SupportedPages, page};
use scsi::{Cdb, Command, Data, Malformed, Status, Transport};
use sgio::{NvmeDevice, SgDevice};
use topology::nvme::LOG_PAGE;
use topology::{Disk, DiskKind, LOG_PAGES, Record, Services};

/// The longest that one command may take: a disk that is busy with its own errors takes seconds.
pub const COMMAND_MAX: Duration = Duration::from_secs(10);
/// The longest that all of a machine may take: what is not asked by then is told as such.
pub const ASK_MAX: Duration = Duration::from_secs(180);
/// Bytes that are asked for first of a page of an enclosure, as Linux does (ses.c, `INIT_ALLOC_SIZE`).
const FIRST: u16 = 32;

/// Why nothing is known of a device, in words.
enum NotAsked {
    /// It could not be opened, or its turn did not come.
    Unopened(String),
    /// It was opened, and did not answer: what it is asked through the kernel may not come back either.
    Silent(String),
}

impl NotAsked {
    /// Keeps it below the device's directory in `/answers`.
    fn keep(&self, answers: &mut Record, directory: &str) {
        let (file, why) = match self {
            NotAsked::Unopened(why) => ("error", why),
            NotAsked::Silent(why) => ("silent", why),
        };
        answers.put_text(&format!("{directory}/{file}"), why);
    }
}

/// What a command that did not end well says of the device.
enum Ended {
    /// The device has not got it: others may be asked.
    Refused,
    /// The device, or the way to it, cannot be asked at all.
    Broken(String),
}

/// Sends a command for data and gives what came.
fn fetch(
    transport: &mut dyn Transport,
    cdb: Result<Cdb, Malformed>,
    length: usize,
) -> Result<Vec<u8>, Ended> {
    let cdb = cdb.map_err(|error| Ended::Broken(error.to_string()))?;
    // The first answer may be a unit attention, which is said once and is of no concern here.
    for _ in 0..3 {
        let mut buffer = vec![0; length.min(transport.transfer_max())];
        let done = transport.execute(&cdb, Data::In(&mut buffer), COMMAND_MAX);
        let done = done.map_err(|error| Ended::Broken(error.to_string()))?;
        match done.status {
            Status::Good => {
                buffer.truncate(done.transferred);
                return Ok(buffer);
            }
            Status::CheckCondition => {
                let sense = scsi::Sense::decode(&done.sense).ok();
                match sense.map(|sense| sense.key) {
                    Some(scsi::SenseKey::UnitAttention) => {}
                    Some(scsi::SenseKey::NotReady) => {
                        return Err(Ended::Broken("the device is not ready".to_owned()));
                    }
                    _ => return Err(Ended::Refused),
                }
            }
            Status::Busy | Status::TaskSetFull => {}
            _ => return Err(Ended::Refused),
        }
    }
    Err(Ended::Refused)
}

fn log_sense(page: u8, length: u16) -> Result<Cdb, Malformed> {
    let command = Primary::LogSense {
        save: false,
        control: PageControl::CUMULATIVE,
        page,
        subpage: 0,
        parameter: 0,
        allocation_length: length,
    };
    Command::from(command).encode()
}

/// A log page: first its header, then as much as that says. Some disks do not take a long allocation for a
/// short page (smartmontools, `scsiLogSense`).
fn log_page(transport: &mut dyn Transport, code: u8) -> Result<Vec<u8>, Ended> {
    let head = fetch(transport, log_sense(code, 4), 4)?;
    let [is, _, high, low] = head[..] else { return Err(Ended::Refused) };
    if is & 0x3f != code {
        return Err(Ended::Refused);
    }
    let length = u16::from_be_bytes([high, low]).saturating_add(4);
    fetch(transport, log_sense(code, length), usize::from(length))
}

/// The log pages of a disk.
///
/// # Errors
/// In words, if the disk cannot be asked, or has none of them.
pub fn log_pages(transport: &mut dyn Transport) -> Result<Vec<(u8, Vec<u8>)>, String> {
    let supported = match log_page(transport, page::SUPPORTED) {
        Ok(bytes) => SupportedPages::decode(&bytes).ok(),
        Err(Ended::Refused) => None,
        Err(Ended::Broken(why)) => return Err(why),
    };
    let has = |code| supported.as_ref().is_none_or(|list| list.pages.iter().any(|(own, _)| *own == code));
    let mut all = Vec::new();
    for code in LOG_PAGES.into_iter().filter(|code| has(*code)) {
        match log_page(transport, code) {
            Ok(bytes) => all.push((code, bytes)),
            Err(Ended::Refused) => {}
            Err(Ended::Broken(why)) => return Err(why),
        }
    }
    if all.is_empty() { Err("the device has no log pages".to_owned()) } else { Ok(all) }
}

/// SMART of a SATA disk: its attributes and their thresholds, whichever it gives.
pub fn smart_data(transport: &mut dyn Transport) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let mut of =
        |feature| fetch(transport, Diagnostic::Smart { feature }.encode(), scsi::ata::SMART_LENGTH).ok();
    (of(Diagnostic::SMART_READ_DATA), of(Diagnostic::SMART_READ_THRESHOLDS))
}

/// The pages of an enclosure.
///
/// # Errors
/// In words, if it cannot be asked.
pub fn enclosure_pages(transport: &mut dyn Transport) -> Result<Vec<(u8, Vec<u8>)>, String> {
    let receive = |page, allocation_length| Diagnostic::Receive { page, allocation_length }.encode();
    let mut all = Vec::new();
    for code in pages::ALL {
        let fetched = fetch(transport, receive(code, FIRST), usize::from(FIRST)).and_then(|head| {
            let [_, _, high, low, ..] = head[..] else { return Err(Ended::Refused) };
            let length = u16::from_be_bytes([high, low]).saturating_add(4);
            if usize::from(length) <= head.len() {
                return Ok(head.into_iter().take(usize::from(length)).collect());
            }
            fetch(transport, receive(code, length), usize::from(length))
        });
        match fetched {
            Ok(bytes) => all.push((code, bytes)),
            Err(Ended::Refused) => {}
            Err(Ended::Broken(why)) => return Err(why),
        }
    }
    if all.is_empty() { Err("the device answers no page of enclosure services".to_owned()) } else { Ok(all) }
}

/// Asks all of a machine, and keeps the answers below `/answers`.
pub(crate) fn all(disks: &[Disk], services: &[Services]) -> Record {
    let mut answers = Record::default();
    let end = Instant::now() + ASK_MAX;
    let is_late = || Instant::now() > end;
    for one in services {
        let directory = format!("/answers/scsi/{}", one.device);
        let asked = if is_late() { Err(late()) } else { asked(one.generic.as_deref(), enclosure_pages) };
        match asked {
            Ok(pages) => {
                pages
                    .into_iter()
                    .for_each(|(code, bytes)| answers.put(&format!("{directory}/ses-{code:02x}"), bytes));
            }
            Err(why) => why.keep(&mut answers, &directory),
        }
    }
    for disk in disks.iter().filter(|disk| disk.kind != DiskKind::Virtual) {
        for path in &disk.paths {
            let is_nvme = path.host.is_none();
            let kind = if is_nvme { "nvme" } else { "scsi" };
            let directory = format!("/answers/{kind}/{}", path.device);
            let done = match () {
                () if is_late() => Err(late()),
                () if is_nvme => nvme(&path.device).map(|bytes| vec![(format!("log-{LOG_PAGE:02x}"), bytes)]),
                () => scsi_disk(disk, path.generic.as_deref()),
            };
            match done {
                Ok(files) => {
                    files
                        .into_iter()
                        .for_each(|(name, bytes)| answers.put(&format!("{directory}/{name}"), bytes));
                    // One path that answers is enough.
                    break;
                }
                Err(why) => why.keep(&mut answers, &directory),
            }
        }
    }
    answers
}

fn late() -> NotAsked {
    NotAsked::Unopened(format!("the others took {} s: it was not asked", ASK_MAX.as_secs()))
}

/// Opens a device and asks it.
fn asked<T>(
    generic: Option<&str>,
    ask: impl FnOnce(&mut dyn Transport) -> Result<T, String>,
) -> Result<T, NotAsked> {
    let no_device = || NotAsked::Unopened("it has no generic device: load the kernel module sg".to_owned());
    let path = Path::new("/dev").join(generic.ok_or_else(no_device)?);
    let opened = SgDevice::open(&path);
    let mut device = opened.map_err(|error| NotAsked::Unopened(in_words(error.to_string())))?;
    ask(&mut device).map_err(|why| NotAsked::Silent(in_words(why)))
}

/// One line, and the next step where it is known.
fn in_words(text: String) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect();
    if text.contains("ermission denied") { format!("{text}: run as root") } else { text }
}

fn scsi_disk(disk: &Disk, generic: Option<&str>) -> Result<Vec<(String, Vec<u8>)>, NotAsked> {
    asked(generic, |transport| {
        let logs = log_pages(transport);
        let mut files: Vec<_> =
            logs.iter().flatten().map(|(code, bytes)| (format!("log-{code:02x}"), bytes.clone())).collect();
        // The vendor of a SATA disk behind a translator (SAT-4, 10.2).
        if disk.vendor.as_deref() == Some("ATA") {
            let (data, thresholds) = smart_data(transport);
            files.extend(data.map(|bytes| ("ata-smart".to_owned(), bytes)));
            files.extend(thresholds.map(|bytes| ("ata-thresholds".to_owned(), bytes)));
        }
        match logs {
            Err(why) if files.is_empty() => Err(why),
            _ => Ok(files),
        }
    })
}

fn nvme(device: &str) -> Result<Vec<u8>, NotAsked> {
    let path = Path::new("/dev").join(device);
    let opened = NvmeDevice::open(&path);
    let opened = opened.map_err(|error| NotAsked::Unopened(in_words(error.to_string())))?;
    let page = opened.log_page(LOG_PAGE, COMMAND_MAX).map(Vec::from);
    page.map_err(|error| NotAsked::Silent(in_words(error.to_string())))
}
