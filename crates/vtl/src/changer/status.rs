//! READ ELEMENT STATUS (SMC-3, 6.11).

use std::sync::atomic::Ordering;

use scsi::command::ElementType;
use scsi::element::{Element, ElementPage, ElementStatus, PageElementType, VolumeTag};
use scsi::sense::AdditionalSense;
use scsi::{ElementAddress, Text};

use super::cleaners::SUFFIX;
use super::{Elements, Run};
use crate::answer::{Outcome, Refusal, give};

/// Which elements are asked for.
pub struct Range {
    pub kind: ElementType,
    pub first: ElementAddress,
    pub count: u16,
}

/// 30/00: the library cannot identify the medium.
const CANNOT_IDENTIFY: AdditionalSense = AdditionalSense { asc: 0x30, ascq: 0x00 };

/// The medium type of a cleaning cartridge (SMC-3, 6.11); that of a tape is 1.
const CLEANING: u8 = 2;

impl Run<'_> {
    pub fn read_element_status(
        &mut self,
        range: Range,
        volume_tags: bool,
        identifiers: bool,
        allocation: u32,
    ) -> Outcome {
        let elements = self.shared.elements();
        let kinds = [
            (ElementType::Transport, PageElementType::Transport),
            (ElementType::ImportExport, PageElementType::ImportExport),
            (ElementType::DataTransfer, PageElementType::DataTransfer),
            (ElementType::Storage, PageElementType::Storage),
        ];
        let mut left = usize::from(range.count);
        let mut pages = Vec::new();
        // In order of the addresses: the count is of the first ones.
        for (kind, page_kind) in kinds {
            if range.kind != ElementType::All && range.kind != kind {
                continue;
            }
            let addresses: Vec<_> =
                elements.addresses(kind).filter(|address| *address >= range.first).take(left).collect();
            left -= addresses.len();
            if addresses.is_empty() {
                continue;
            }
            let of = |address| self.element(&elements, kind, address, volume_tags, identifiers);
            pages.push(ElementPage {
                kind: page_kind,
                primary_tags: volume_tags,
                alternate_tags: false,
                elements: addresses.into_iter().map(of).collect(),
            });
        }
        drop(elements);
        if pages.is_empty() && range.count > 0 && range.first != ElementAddress(0) {
            // 5/21/01: there is nothing from there on.
            return Err(Refusal::illegal(0x21, 0x01));
        }
        let data = ElementStatus::of(pages).encode();
        Ok(give(&data, u64::from(allocation), self.into))
    }

    fn element(
        &self,
        elements: &Elements,
        kind: ElementType,
        address: ElementAddress,
        volume_tags: bool,
        identifiers: bool,
    ) -> Element {
        let held = elements.held(address);
        let is_door = kind == ElementType::ImportExport;
        // While an operator is at the door the picker keeps away.
        let is_open = is_door && self.shared.door_open.load(Ordering::SeqCst);
        let drive = elements.drive_number(address).and_then(|number| self.drives.get(number));
        let damaged = held.is_some_and(|held| held.damaged);
        let is_cleaner = held.is_some_and(|held| elements.cleaners().contains(&held.vid));
        let suffix = match self.shared.options.barcode_suffix.as_str() {
            suffix if suffix.is_empty() || !is_cleaner => suffix,
            _ => SUFFIX,
        };
        let tag = held.map(|held| format!("{}{suffix}", held.vid));
        let is_loaded = held.is_some_and(|held| held.loaded)
            && (!is_cleaner || drive.is_some_and(|drive| drive.cleaning.is_under_way()));
        let identifier =
            tag.and_then(|tag| Text::new(&tag)).map(|identifier| VolumeTag { identifier, sequence: 0 });
        Element {
            address,
            full: held.is_some(),
            by_operator: held.is_some_and(|held| held.by_operator),
            exceptional: damaged,
            // The picker gets at everything but a cartridge that a drive has loaded.
            accessible: kind != ElementType::Transport && !is_open && !is_loaded,
            exports: is_door,
            imports: is_door,
            exception: if damaged { CANNOT_IDENTIFY } else { AdditionalSense::default() },
            source: held.and_then(|held| held.source),
            medium_type: if is_cleaner { CLEANING } else { u8::from(held.is_some()) },
            primary_tag: volume_tags.then(|| identifier.unwrap_or_default()),
            identifier: drive.filter(|_| identifiers).map(|drive| drive.identity.designator()),
            ..Element::default()
        }
    }
}
