//! How long each command may take before it is given up: what a drive recommends (REPORT SUPPORTED OPERATION
//! CODES with its time-outs) where that is longer.
//!
//! A limit that is too short costs more than one that is too long: a command that was given up leaves doubt
//! behind it.

use std::time::Duration;

use ::scsi::Command;
use ::scsi::command::{Changer, Primary, Stream};

/// The longest time that a device's word is taken for: two hours and a half, as FORMAT MEDIUM of an LTO-9
/// drive that must first characterise the tape.
pub(crate) const SAID_MAX: Duration = Duration::from_secs(4 * 3600);

/// Commands that only the electronics answer: one that queues behind a head in motion may wait for its end.
const QUICK: Duration = Duration::from_secs(60);
/// Settings, reservations and cartridge memory, which some drives keep on the medium before they answer.
const SETTING: Duration = Duration::from_secs(300);
/// A record: the drive may have to write its whole buffer before it, with retries at each spot (LTO drives
/// recommend 25 to 39 minutes).
const TRANSFER: Duration = Duration::from_secs(40 * 60);
/// A movement over the whole tape, with retries (LTO drives recommend up to 49 minutes).
const POSITION: Duration = Duration::from_secs(50 * 60);
/// A load that characterises a new LTO-9 tape: up to two hours (IBM).
const LOAD: Duration = Duration::from_secs(150 * 60);
/// Partitions, with the same.
const FORMAT: Duration = Duration::from_secs(4 * 3600);
/// A robot that walks through a long library and tries a grip again.
const MOVE: Duration = Duration::from_secs(15 * 60);
/// An inventory by looking at each cartridge.
const INVENTORY: Duration = Duration::from_secs(3600);

/// The limit of a command.
pub(crate) fn of(command: &Command) -> Duration {
    match command {
        Command::Primary(command) => primary(command),
        Command::Stream(command) => stream(command),
        Command::Changer(command) => changer(command),
    }
}

fn primary(command: &Primary) -> Duration {
    match command {
        Primary::ModeSelect6 { .. }
        | Primary::ModeSelect10 { .. }
        | Primary::LogSelect { .. }
        | Primary::LogSense { .. }
        | Primary::PreventAllowMediumRemoval { .. }
        | Primary::ReadAttribute { .. }
        | Primary::WriteAttribute { .. }
        | Primary::SecurityProtocolIn { .. }
        | Primary::SecurityProtocolOut { .. }
        | Primary::PersistentReserveIn { .. }
        | Primary::PersistentReserveOut { .. }
        | Primary::Reserve6
        | Primary::Release6 => SETTING,
        Primary::TestUnitReady
        | Primary::RequestSense { .. }
        | Primary::Inquiry { .. }
        | Primary::ModeSense6 { .. }
        | Primary::ModeSense10 { .. }
        | Primary::ReportLuns { .. }
        | Primary::ReportSupportedOperationCodes { .. } => QUICK,
    }
}

fn stream(command: &Stream) -> Duration {
    match command {
        Stream::Read6 { .. }
        | Stream::Write6 { .. }
        | Stream::WriteFilemarks6 { .. }
        | Stream::WriteFilemarks16 { .. } => TRANSFER,
        Stream::Rewind { .. }
        | Stream::Space6 { .. }
        | Stream::Space16 { .. }
        | Stream::Locate10 { .. }
        | Stream::Locate16 { .. } => POSITION,
        Stream::LoadUnload { .. } => LOAD,
        Stream::FormatMedium { .. } | Stream::Erase6 { .. } | Stream::SetCapacity { .. } => FORMAT,
        Stream::ReadBlockLimits { .. }
        | Stream::ReadPosition { .. }
        | Stream::ReportDensitySupport { .. } => QUICK,
        Stream::AllowOverwrite { .. }
        | Stream::GenerateRao { .. }
        | Stream::ReceiveRao { .. }
        | Stream::ReadEndOfWrapPosition { .. } => SETTING,
    }
}

fn changer(command: &Changer) -> Duration {
    match command {
        Changer::InitializeElementStatus | Changer::InitializeElementStatusWithRange { .. } => INVENTORY,
        _ => MOVE,
    }
}
