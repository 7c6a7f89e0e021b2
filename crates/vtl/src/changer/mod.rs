//! The medium changer as a logical unit (SMC-3).

pub mod cleaners;
mod elements;
mod log;
mod moves;
pub mod places;
mod status;

use std::sync::{Mutex, MutexGuard, PoisonError};

use iscsi::target::Nexus;
use scsi::command::{Changer as Command_, Primary};
use scsi::mode::{
    Control, DeviceCapabilities, ElementKinds, ExtendedDeviceCapabilities, ModeContent, ModeParameters,
    TransportGeometry,
};
use scsi::{Command, CommandSet, DeviceType};

pub use elements::{Elements, Refreshed};

use crate::answer::{Outcome, Refusal};
use crate::gate::{Gate, IMPORT_EXPORT_ACCESSED, MEDIUM_CHANGED};
use crate::options::Options;
use crate::primary::{Common, ISCSI, Identity, MISSING, ModeRequest, SAM, SMC, SPC, log_sense, mode_select};
use crate::tape::Drive;
use crate::target::Shared;

/// The changer.
pub struct Changer {
    pub gate: Gate,
    pub identity: Identity,
    /// The one picker: moves wait for each other.
    robot: Mutex<()>,
    log: Mutex<log::Log>,
    missing: Vec<(u8, Option<u16>)>,
}

/// A command under way.
struct Run<'a> {
    changer: &'a Changer,
    shared: &'a Shared,
    drives: &'a [Drive],
    into: &'a mut [u8],
}

impl Changer {
    pub fn new(options: &Options) -> Changer {
        let identity = Identity {
            device_type: DeviceType::Changer,
            vendor: options.vendor,
            product: options.changer_product,
            revision: options.revision,
            serial: options.serial.clone(),
            more: Vec::new(),
            standards: [SAM, SPC, ISCSI, SMC, 0, 0, 0, 0],
        };
        let mut missing = MISSING.to_vec();
        missing.extend([(0xa2, None), (0xb5, None), (0x4c, None), (0x8c, None), (0x8d, None)]);
        Changer { gate: Gate::default(), identity, robot: Mutex::new(()), log: Mutex::default(), missing }
    }

    /// Looks whether cartridges came or went; if so, all initiators are told.
    pub fn look(&self, shared: &Shared, drives: &[Drive]) {
        let refreshed = shared.refresh(drives);
        if refreshed.changed {
            shared.keep_places();
        }
        if refreshed.accessed {
            self.gate.tell_others(None, IMPORT_EXPORT_ACCESSED);
        }
        if refreshed.changed {
            self.gate.tell_others(None, MEDIUM_CHANGED);
        }
    }

    /// The unit for the commands that are alike.
    pub fn common<'a>(&'a self, shared: &'a Shared) -> Common<'a> {
        Common {
            identity: &self.identity,
            gate: &self.gate,
            set: CommandSet::Changer,
            luns: &shared.luns,
            missing: &self.missing,
        }
    }

    /// Carries a command out.
    pub fn execute(
        &self,
        (shared, drives): (&Shared, &[Drive]),
        nexus: &Nexus,
        command: &Command,
        out: &[u8],
        into: &mut [u8],
    ) -> Outcome {
        match command {
            Command::Primary(primary) => match self.common(shared).execute(nexus, primary, out, into) {
                Some(outcome) => outcome,
                None => self.primary(shared, primary, out, into),
            },
            Command::Changer(command) => {
                let mut run = Run { changer: self, shared, drives, into };
                run.execute(command)
            }
            Command::Stream(_) => Err(Refusal::illegal(0x20, 0)),
        }
    }
}

impl Run<'_> {
    fn execute(&mut self, command: &Command_) -> Outcome {
        match *command {
            // What is where is always known: nothing is looked at that a refresh has not seen.
            Command_::InitializeElementStatus => Ok(0),
            Command_::InitializeElementStatusWithRange { range, first, .. } => {
                if range {
                    self.shared.elements().kind(first)?;
                }
                Ok(0)
            }
            Command_::PositionToElement { transport, to, invert } => {
                self.check_transport(transport, invert)?;
                self.shared.elements().kind(to)?;
                Ok(0)
            }
            Command_::MoveMedium { transport, from, to, invert } => {
                self.check_transport(transport, invert)?;
                self.move_medium(from, to).map(|()| 0)
            }
            Command_::ExchangeMedium {
                transport,
                from,
                first_to,
                second_to,
                invert_first,
                invert_second,
            } => {
                self.check_transport(transport, invert_first || invert_second)?;
                self.exchange_medium(from, first_to, second_to).map(|()| 0)
            }
            Command_::ReadElementStatus {
                volume_tags,
                kind,
                first,
                count,
                identifiers,
                allocation_length,
                ..
            } => {
                let range = status::Range { kind, first, count };
                self.read_element_status(range, volume_tags, identifiers, allocation_length)
            }
            Command_::RequestVolumeElementAddress { .. } => Err(Refusal::illegal(0x20, 0)),
        }
    }

    /// The robot's lock.
    fn robot(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changer.robot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Changer {
    fn primary(&self, shared: &Shared, command: &Primary, out: &[u8], into: &mut [u8]) -> Outcome {
        match command {
            Primary::TestUnitReady => Ok(0),
            Primary::ModeSense6 { .. } | Primary::ModeSense10 { .. } => {
                let Some(request) = ModeRequest::of(command) else { return Err(Refusal::illegal(0x20, 0)) };
                let pages = match request.control {
                    scsi::command::PageControl::Changeable => changeable(),
                    _ => pages(shared),
                };
                request.answer(ModeParameters::default(), None, pages, into)
            }
            Primary::ModeSelect6 { .. } | Primary::ModeSelect10 { .. } => {
                let Some(read) = mode_select(command, out) else { return Err(Refusal::illegal(0x20, 0)) };
                let (parameters, bytes) = read?;
                let own = pages(shared);
                // Nothing of a changer can be set: what is there may be written back.
                let same = |page: &scsi::mode::ModePage| own.contains(&page.content);
                if !parameters.descriptors.is_empty() || !parameters.pages.iter().all(same) {
                    return Err(Refusal::illegal(0x26, 0x02));
                }
                Ok(bytes)
            }
            Primary::LogSense { .. } => {
                let mut log = self.log();
                let codes = log.pages();
                log_sense(command, &codes, |code| Ok(log.page(code)), into)
            }
            _ => Err(Refusal::illegal(0x20, 0)),
        }
    }

    /// What it counts, and the flags that it has raised.
    pub fn log(&self) -> MutexGuard<'_, log::Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slots, doors and drives.
const PLACES: ElementKinds = ElementKinds(0b1110);
const NONE: ElementKinds = ElementKinds(0);

fn pages(shared: &Shared) -> Vec<ModeContent> {
    vec![
        ModeContent::Control(Control::default()),
        ModeContent::ElementAddressAssignment(shared.elements().ranges().clone()),
        ModeContent::TransportGeometry(TransportGeometry(vec![(false, 0)])),
        ModeContent::DeviceCapabilities(DeviceCapabilities {
            store: PLACES,
            smc2: true,
            volume_tag_reader: true,
            auto_clean: false,
            moves: [NONE, PLACES, PLACES, PLACES],
            exchanges: [NONE, PLACES, PLACES, PLACES],
            ..DeviceCapabilities::default()
        }),
        ModeContent::ExtendedDeviceCapabilities(ExtendedDeviceCapabilities {
            source_eject_required: !shared.options.unload_on_move,
            destination_eject_required: true,
            true_exchange: true,
            locks_import_export: true,
            ..ExtendedDeviceCapabilities::default()
        }),
    ]
}

fn changeable() -> Vec<ModeContent> {
    vec![
        ModeContent::Control(Control::default()),
        ModeContent::ElementAddressAssignment(Default::default()),
        ModeContent::TransportGeometry(TransportGeometry(vec![(false, 0)])),
        ModeContent::DeviceCapabilities(DeviceCapabilities::default()),
        ModeContent::ExtendedDeviceCapabilities(ExtendedDeviceCapabilities::default()),
    ]
}
