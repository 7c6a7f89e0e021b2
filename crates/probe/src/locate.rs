//! The light of a slot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use scsi::command::Diagnostic;
use scsi::enclosure::{Configuration, EnclosureStatus, SlotControl, page};
use scsi::{Data, Status, Transport};
use sgio::SgDevice;
use topology::{Enclosure, Slot, SlotAt};

use crate::ask::{COMMAND_MAX, enclosure_pages};

/// How a light was switched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switched {
    /// By the kernel's `ses` driver.
    Kernel,
    /// By a page sent to the enclosure.
    Page,
}

/// Why a light was not switched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// The slot has no light that can be reached.
    #[error(
        "neither the kernel nor a page of the enclosure reaches slot {0}: run as root, or load the module ses"
    )]
    NoWay(u32),
    /// The kernel's file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Kernel {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The enclosure did not take the page.
    #[error("the enclosure at {device} did not take the request: {why}")]
    Page {
        /// The device.
        device: String,
        /// What it said.
        why: String,
    },
    /// It was asked for, and is not so.
    #[error(
        "slot {slot}: the enclosure took the request, and its light is not {wanted}: it may have none, or a \
        key or another host holds it"
    )]
    NotDone {
        /// The slot's number.
        slot: u32,
        /// `on` or `off`.
        wanted: &'static str,
    },
}

/// Switches the light of a slot, and looks whether it is so.
///
/// # Errors
/// If no device that serves the enclosure does it: why the last one did not.
pub fn locate(enclosure: &Enclosure, slot: &Slot, on: bool) -> Result<Switched, LocateError> {
    let mut failed = LocateError::NoWay(slot.number);
    for at in &slot.at {
        let generic = enclosure.services.iter().find(|one| one.device == at.device);
        let generic = generic.and_then(|one| one.generic.as_deref());
        let tries: [Option<Result<Switched, LocateError>>; 2] =
            [by_kernel(slot, at, on), generic.and_then(|generic| by_page(slot, at, generic, on))];
        for tried in tries.into_iter().flatten() {
            match tried {
                Ok(switched) => return Ok(switched),
                Err(error) => failed = error,
            }
        }
    }
    Err(failed)
}

/// Whether the light of a slot is on; `None` if nothing here tells.
#[must_use]
pub fn is_lit(enclosure: &Enclosure, slot: &Slot) -> Option<bool> {
    let directory = slot.at.iter().find_map(|at| at.directory.as_ref());
    let by_kernel = directory.and_then(|at| fs::read_to_string(Path::new(at).join("locate")).ok());
    let by_page = || enclosure.services.iter().any(|one| one.pages.is_ok()).then_some(slot.locate);
    by_kernel.map(|text| text.trim() != "0").or_else(by_page)
}

fn not_done(slot: &Slot, on: bool) -> LocateError {
    LocateError::NotDone { slot: slot.number, wanted: if on { "on" } else { "off" } }
}

fn by_kernel(slot: &Slot, at: &SlotAt, on: bool) -> Option<Result<Switched, LocateError>> {
    let path = Path::new(at.directory.as_ref()?).join("locate");
    let switch = || {
        fs::write(&path, if on { "1\n" } else { "0\n" })?;
        fs::read_to_string(&path)
    };
    Some(match switch() {
        Ok(text) if (text.trim() != "0") == on => Ok(Switched::Kernel),
        Ok(_) => Err(not_done(slot, on)),
        Err(source) => Err(LocateError::Kernel { path, source }),
    })
}

fn by_page(slot: &Slot, at: &SlotAt, generic: &str, on: bool) -> Option<Result<Switched, LocateError>> {
    at.element?;
    let path = Path::new("/dev").join(generic);
    let failed = |why: String| LocateError::Page { device: path.display().to_string(), why };
    let mut device = match SgDevice::open(&path) {
        Ok(device) => device,
        Err(error) => return Some(Err(failed(error.to_string()))),
    };
    Some(through(&mut device, slot, at, on).map_err(|why| why.map_or_else(|| not_done(slot, on), failed)))
}

/// `Err(None)`: it was asked for, and is not so.
pub(crate) fn through(
    transport: &mut dyn Transport,
    slot: &Slot,
    at: &SlotAt,
    on: bool,
) -> Result<Switched, Option<String>> {
    let (kind, element) =
        at.element.ok_or_else(|| Some(format!("slot {} is no element of it", slot.number)))?;
    let status = status(transport)?;
    // The pages may have changed since the slot was found: the request goes to the element that is there now.
    let page = status.control(kind, element, SlotControl { identify: on });
    let page = page.ok_or_else(|| Some("its configuration has changed: look again".to_owned()))?;
    let words = |error: String| Some(error);
    let length = u16::try_from(page.len()).map_err(|error| words(error.to_string()))?;
    let cdb = Diagnostic::Send { length }.encode().map_err(|error| words(error.to_string()))?;
    let done =
        transport.execute(&cdb, Data::Out(&page), COMMAND_MAX).map_err(|error| words(error.to_string()))?;
    if done.status != Status::Good {
        let sense = scsi::Sense::decode(&done.sense).map(|sense| sense.to_string());
        return Err(Some(sense.unwrap_or_else(|_| format!("status {:02X}h", done.status.byte()))));
    }
    let now = self::status(transport)?.of(kind, element).map(|status| status.slot().identify);
    if now == Some(on) { Ok(Switched::Page) } else { Err(None) }
}

fn status(transport: &mut dyn Transport) -> Result<EnclosureStatus, Option<String>> {
    let pages = enclosure_pages(transport).map_err(Some)?;
    let find = |code: u8| pages.iter().find(|(own, _)| *own == code).map(|(_, bytes)| bytes.as_slice());
    let missing = || Some("it gives no page of its configuration and status".to_owned());
    let configuration = Configuration::decode(find(page::CONFIGURATION).ok_or_else(missing)?);
    let configuration = configuration.map_err(|error| Some(error.to_string()))?;
    let status = EnclosureStatus::decode(find(page::STATUS).ok_or_else(missing)?, &configuration);
    status.map_err(|error| Some(error.to_string()))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
