//! The machines that an engine runs on: the real ones, or in the simulator others that behave alike.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backup::PoolSeen;
use base::{Blake3, ByteCount, Clock, DriveId, Epoch, Uuid};
use catalogue::{Command, PoolDriveState, ReadError, View};
use library::scsi::changer::{
    ChangerTimes, LoadableDrive, ScsiLibrary, ScsiLibraryConfig, SeatedDrive, Unreached,
};
use library::scsi::{
    ChapAccount, DeviceAddress, DeviceChoice, DriveMaker, EarlyWarning, FoundDevices, IscsiName,
    ReservationKey, ScsiDrive, ScsiDriveOptions, Sources, Transport, Ways,
};
use library::{
    DriveName, Library, SleepingWaiter, Union, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig,
    VirtualTiming,
};
use mechanics::{Geometry, RobotTiming};
use store::{CatalogueStore, StoreOptions};

use crate::{
    AccessLog, ChapSettings, DriveFitFile, LibraryKind, LibrarySettings, MountLog, OpenError,
    ScsiLibrarySettings, Settings, TimingSettings, VirtualLibrarySettings,
};
use ground::PoolDrive;
use tape::of_what_has_no_vid;

/// What initiators of ours are called, before the name of their machine.
const INITIATOR: &str = "iqn.2026-01.org.kist";

/// Commands that one group commit may hold.
const COMMIT_BATCH_MAX: usize = 1_024;

/// So many starts a drive may have seen that cannot be asked.
const EPOCHS_AWAY: u32 = 1_000;

/// Sizes of the pool that are part of its format; `None`: the usual one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolShape {
    /// Payload of a cell.
    pub cell_size: Option<ByteCount>,
    /// The length at which a segment of small values is sealed.
    pub segment_size: Option<ByteCount>,
}

/// What an engine is opened over. Nobody else uses any of it meanwhile.
pub struct Machines {
    /// The catalogue, initialised.
    pub catalogue: CatalogueStore,
    /// Each drive of the settings, in their order.
    pub drives: Vec<PoolDrive>,
    /// The tape library.
    pub library: Arc<dyn Library>,
    /// A new random UUID; `None` if the system has no entropy.
    pub random_uuid: Arc<dyn Fn() -> Option<Uuid> + Send + Sync>,
    /// Where mounts are written down; `None`: nowhere, and reports on tapes are empty.
    pub mount_log: Option<Arc<dyn MountLog>>,
    /// Where it is kept over stops what the locates of each drive say of it; `None`: nowhere.
    pub drive_fits: Option<DriveFitFile>,
    /// Where puts, gets, recalls and the like are written down; `None`: nowhere, and analyses are empty.
    pub access_log: Option<Arc<dyn AccessLog>>,
    /// The directory of the catalogue's backup, which must not be ahead of it; `None`: not looked at.
    pub backup: Option<PathBuf>,
}

impl Machines {
    /// Opens what the settings name: the catalogue in its directory, drives in theirs, and the virtual
    /// library. A missing drive costs redundancy, not the start.
    ///
    /// # Errors
    /// Says which part cannot be opened, and why.
    pub fn open(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Machines, OpenError> {
        let options =
            StoreOptions { map_size: settings.catalogue_map_size, clock, batch_max: COMMIT_BATCH_MAX };
        let directory = &settings.catalogue_directory;
        if !CatalogueStore::is_there(directory) {
            return Err(OpenError::NoCatalogue { directory: directory.clone() });
        }
        let catalogue = CatalogueStore::open(directory, options)?;
        let instance = catalogue.read(|view| view.instance())?.ok_or(OpenError::NotInitialised)?;
        let library = open_libraries(settings)?;
        if let Some(text) = of_what_has_no_vid(library.as_ref()) {
            tracing::warn!("{text}");
        }
        for text in library.out_of_reach() {
            tracing::error!("{text}; it is tried again");
        }
        let out = catalogue.read(|view| {
            let (mut out, lost) = (view.pool_drives_in(PoolDriveState::Removed)?, lost_drives(view)?);
            out.extend(lost);
            Ok(out)
        })?;
        Ok(Machines {
            catalogue,
            drives: open_drives(settings, instance, &out)?,
            library,
            random_uuid: Arc::new(system_uuid),
            mount_log: None,
            drive_fits: None,
            access_log: None,
            backup: None,
        })
    }
}

/// The drives that were given up. A catalogue that was restored says nothing of it: a drive may have been put
/// in again since, and hold what nobody else does.
pub(crate) fn lost_drives(view: &View<'_>) -> Result<BTreeSet<DriveId>, ReadError> {
    if view.is_restored()? {
        return Ok(BTreeSet::new());
    }
    view.pool_drives_in(PoolDriveState::Lost)
}

/// Makes a new instance's catalogue and gives it its id.
///
/// # Errors
/// If the directory holds a catalogue already or cannot be used.
pub fn create_catalogue(
    directory: &Path,
    map_size: ByteCount,
    instance: Uuid,
    clock: Arc<dyn Clock>,
) -> Result<(), OpenError> {
    let options = StoreOptions { map_size, clock, batch_max: COMMIT_BATCH_MAX };
    let catalogue = CatalogueStore::open(directory, options)?;
    catalogue.execute(Command::Initialise { instance })?;
    Ok(())
}

/// Opens the library that the settings name, without an engine. Nobody else uses it meanwhile. One that is
/// not reached is open too: see [`Library::out_of_reach`].
///
/// # Errors
/// If it cannot be opened.
pub fn open_library(settings: &LibrarySettings) -> Result<Arc<dyn Library>, OpenError> {
    open_named(settings, "", None)
}

/// Opens all libraries that the settings name, as one. Those that are not reached are open too: see
/// [`Library::out_of_reach`].
///
/// # Errors
/// If one of them cannot be opened, or they do not go together.
pub fn open_libraries(settings: &Settings) -> Result<Arc<dyn Library>, OpenError> {
    let key = Some(reservation_key(settings));
    let first = open_named(&settings.library, "", key)?;
    if settings.more_libraries.is_empty() {
        return Ok(first);
    }
    let mut libraries = vec![(settings.library.name.clone(), first)];
    for more in &settings.more_libraries {
        libraries.push((more.name.clone(), open_named(more, &format!("{}-", more.name), key)?));
    }
    Ok(Arc::new(Union::new(libraries)?))
}

/// Opens a library whose drives have names that begin with `prefix`, and are reserved with `key` while they
/// hold a tape.
fn open_named(
    settings: &LibrarySettings,
    prefix: &str,
    key: Option<ReservationKey>,
) -> Result<Arc<dyn Library>, OpenError> {
    match &settings.kind {
        LibraryKind::Virtual(files) => Ok(Arc::new(open_virtual(files, prefix)?)),
        LibraryKind::Scsi(scsi) => {
            let make = Box::new(move |name: &DriveName, way| scsi_drive(name, way, key));
            Ok(Arc::new(open_scsi_library(scsi, prefix, make)?))
        }
    }
}

/// The key by which this instance reserves drives: another one on each machine and for each instance, and the
/// same after a restart, so that it takes its own reservations back.
#[must_use]
pub fn reservation_key(settings: &Settings) -> ReservationKey {
    let host = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let place = settings.catalogue_directory.as_os_str().as_encoded_bytes();
    let hash = Blake3::of(&[b"Kist reserves drives".as_slice(), &host, place].join(&0)).0;
    let (first, _) = hash.split_first_chunk().unwrap_or((&[1; 8], &[]));
    // 0 is no key.
    ReservationKey::from(u64::from_be_bytes(*first).max(1))
}

/// Where changer and drives of a library are looked for.
#[must_use]
pub fn scsi_sources(settings: &ScsiLibrarySettings) -> Sources {
    let mut portals = settings.portals.clone();
    if let DeviceChoice::At(DeviceAddress::Iscsi { portal, .. }) = &settings.changer
        && !portals.contains(portal)
    {
        portals.push(portal.clone());
    }
    Sources::with_this_machine(portals)
}

/// A library behind a changer, which need not be reached now. Its drives have names that begin with `prefix`;
/// `make` makes the driver of each.
///
/// # Errors
/// If the settings do not go together, or the secret cannot be read.
pub fn open_scsi_library(
    settings: &ScsiLibrarySettings,
    prefix: &str,
    make: Box<DriveMaker>,
) -> Result<ScsiLibrary, OpenError> {
    let drives = (0..).zip(&settings.drives).map(|(number, seat): (u16, _)| {
        Ok((DriveName::new(&format!("{prefix}drive{number}"))?, seat.clone()))
    });
    let config = ScsiLibraryConfig {
        slots: settings.slots.clone(),
        drives: drives.collect::<Result<_, OpenError>>()?,
        capacity: settings.capacity,
        times: ChangerTimes::default(),
    };
    let ways = scsi_ways(settings.initiator.clone(), settings.chap.as_ref())?;
    let waiter = Arc::clone(&ways.waiter);
    let devices =
        FoundDevices { ways, sources: scsi_sources(settings), changer: settings.changer.clone(), make };
    Ok(ScsiLibrary::new(config, Arc::new(devices), waiter)?)
}

/// The ways of this machine to SCSI devices. Without a name of its own it is called after its host.
///
/// # Errors
/// If the secret cannot be read, or is none.
pub fn scsi_ways(initiator: Option<IscsiName>, chap: Option<&ChapSettings>) -> Result<Ways, OpenError> {
    let account = chap.map(|ChapSettings { user, secret_file }| {
        let path = || secret_file.clone();
        let secret = std::fs::read_to_string(secret_file)
            .map_err(|source| OpenError::ChapSecretFile { path: path(), source })?;
        ChapAccount::new(user, secret.trim_end_matches(['\n', '\r']))
            .map_err(|source| OpenError::ChapSecret { path: path(), source })
    });
    Ok(Ways {
        initiator: initiator.map_or_else(own_initiator, Ok)?,
        account: account.transpose()?,
        waiter: Arc::new(SleepingWaiter::new()),
    })
}

/// A drive behind a changer, reserved with `key` while it holds a tape.
///
/// # Errors
/// If it does not answer.
pub fn scsi_drive(
    name: &DriveName,
    way: Box<dyn Transport>,
    key: Option<ReservationKey>,
) -> Result<Box<dyn LoadableDrive>, Unreached> {
    seated(scsi_driver(name, way, key)?)
}

/// The driver of a drive as the archive uses it, reserved with `key` while it holds a tape.
///
/// # Errors
/// If it does not answer.
pub fn scsi_driver(
    name: &DriveName,
    way: Box<dyn Transport>,
    key: Option<ReservationKey>,
) -> Result<ScsiDrive, Unreached> {
    let early_warning = EarlyWarning::Part { part: ground::WARNING_PART, least: ground::WARNING_LEAST };
    let options = ScsiDriveOptions { reservation_key: key, early_warning, ..ScsiDriveOptions::default() };
    ScsiDrive::open(name.clone(), way, None, options).map_err(|error| Unreached(error.to_string()))
}

/// A drive behind a changer.
///
/// # Errors
/// If somebody uses it.
pub fn seated(drive: ScsiDrive) -> Result<Box<dyn LoadableDrive>, Unreached> {
    let name = drive.name().clone();
    match SeatedDrive::new(drive) {
        Some(seated) => Ok(Box::new(seated)),
        None => Err(Unreached(format!("drive {name} is in use already"))),
    }
}

/// What this machine is called at targets that were told nothing else.
fn own_initiator() -> Result<IscsiName, OpenError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().to_lowercase().chars().filter(|char| is_of_name(*char)).collect();
    let host = if host.is_empty() { "host" } else { &host };
    IscsiName::new(&format!("{INITIATOR}:{host}")).map_err(OpenError::Initiator)
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_lowercase() || char.is_ascii_digit() || ".-".contains(char)
}

fn open_virtual(files: &VirtualLibrarySettings, prefix: &str) -> Result<VirtualLibrary, OpenError> {
    let config = library_config(files, prefix)?;
    Ok(match &files.timing {
        None => VirtualLibrary::open(&files.directory, &config)?,
        Some(timing) => VirtualLibrary::open_timed(&files.directory, &config, library_timing(timing)?)?,
    })
}

/// The time that machines of these models take, by the clock of this machine.
fn library_timing(settings: &TimingSettings) -> Result<VirtualTiming, OpenError> {
    let drive = mechanics::drive(&settings.drive)?;
    let medium = drive.own_medium()?;
    let robot = mechanics::robot(ground::ROBOT_MODEL)?.timing();
    Ok(VirtualTiming {
        drive: drive.timing(medium),
        geometry: Geometry::of(medium),
        robot: RobotTiming { robots: settings.robots, ..robot },
        scale: settings.scale,
        waiter: Arc::new(SleepingWaiter::new()),
    })
}

/// What the drives of the pool know of the instance, from their superblocks; and the numbers of those that
/// cannot be read, with the reason.
#[must_use]
pub fn pool_seen(settings: &Settings) -> (PoolSeen, Vec<(u16, String)>) {
    let (mut seen, mut unreadable) = (PoolSeen::default(), Vec::new());
    for drive in &settings.pool.drives {
        match drive.at.read_stamp() {
            Ok(stamp) => {
                seen.instance = seen.instance.or(Some(stamp.instance));
                seen.epoch = seen.epoch.max(stamp.epoch);
                seen.change = seen.change.max(stamp.commit);
            }
            Err(error) => unreadable.push((drive.id, error.to_string())),
        }
    }
    if !unreadable.is_empty() {
        // A drive that is away may have seen later starts than the others.
        seen.epoch = Epoch(seen.epoch.0.saturating_add(EPOCHS_AWAY));
    }
    (seen, unreadable)
}

/// Those that were taken out are not looked at: their directories may belong to another instance by now.
fn open_drives(
    settings: &Settings,
    instance: Uuid,
    out: &BTreeSet<DriveId>,
) -> Result<Vec<PoolDrive>, OpenError> {
    let mut drives: Vec<PoolDrive> = Vec::new();
    for drive in &settings.pool.drives {
        let id = DriveId(drive.id);
        if out.contains(&id) {
            drives.push((id, None));
            continue;
        }
        let opened = match drive.at.open(instance, id, settings.pool.io) {
            Ok(opened) => Some(opened),
            Err(
                error @ (drive::DriveOpenError::NotADrive(_)
                | drive::DriveOpenError::Io { .. }
                | drive::DriveOpenError::Damaged(_)),
            ) => {
                tracing::error!(drive = drive.id, %error, "a pool drive is missing");
                None
            }
            Err(source) => return Err(OpenError::Drive { id: drive.id, source }),
        };
        drives.push((id, opened));
    }
    Ok(drives)
}

/// The virtual library's drives and robot; its cartridges are those that stand in its directory.
fn library_config(
    settings: &VirtualLibrarySettings,
    prefix: &str,
) -> Result<VirtualLibraryConfig, OpenError> {
    let names = (0..settings.drives).map(|number| DriveName::new(&format!("{prefix}vdrive{number}")));
    Ok(VirtualLibraryConfig {
        drives: names.collect::<Result<_, _>>()?,
        robots: 1,
        cartridges: Vec::new(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    })
}

fn system_uuid() -> Option<Uuid> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(Uuid::from_random(bytes))
}
