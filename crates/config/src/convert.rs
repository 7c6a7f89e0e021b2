//! From `kist.toml` to the settings of the engine.

use base::ByteCount;
use std::path::Path;
use std::time::Duration;

use archive::DriveLocation;
use archive::{
    Aim, ChangeLogSettings, ChapSettings, ClassSettings, DiskPolicy, DriveLimits, FlowSettings,
    GroupSettings, LeavingSettings, LibrarySettings, MountSettings, OrderFrom, PlacingSettings,
    PoolDriveSettings, PoolSettings, ReplaceLost, ScsiLibrarySettings, Settings, ShareSettings,
    TapePoolSettings, TapeSettings, TimingSettings, UpkeepSettings, VirtualLibrarySettings, Water,
};
use backup::BackupSettings;
use drive::BurnInDemand;
use library::scsi::IscsiName;
use library::scsi::changer::DriveSeat;
use toml::Spanned;

use super::check::UNUSED_LEAST;
use super::file::{
    Backup, Catalogue, Class, Config, Drives, Group, Library, LibraryKind, Pool, PoolDrive, PredictedFailure,
    Recall, RecallOrder, RecallOrderFrom, Replace, ReplaceBurnIn, Tape, TapePool, Timing,
};
use super::keys;
use super::libraries::range;
use super::value::Residency;

/// Low water where only high water is given: so many points below it.
const LOW_BELOW_HIGH: u8 = 10;

impl Config {
    /// The engine's settings; relative directories are those below `directory`.
    pub fn settings(&self, directory: &Path) -> Settings {
        // Each table is taken apart completely, so that a new key cannot be forgotten here.
        let Config {
            format: _,
            server: _,
            identity: _,
            s3: _,
            tape_rest: _,
            third_party_copy: _,
            xrootd: _,
            catalogue,
            backup: _,
            pool,
            library,
            more_libraries,
            tape,
            tape_pools,
            classes,
        } = self;
        // How long requests are kept is told the engine apart: see `upkeep`.
        let Catalogue { directory: catalogue_directory, map_size, .. } = catalogue;
        let change_log = ChangeLogSettings {
            base_changes: catalogue.base_changes,
            base_log_percent: catalogue.base_log_percent,
            keep_changes: catalogue.keep_changes,
            keep_age: catalogue.keep_age.0,
        };
        // How the pool is kept is told the engine apart: see `upkeep`.
        let Pool { arena, io, unknown_kept, drives, groups, high_water, low_water, .. } = pool;
        let high = high_water.as_ref().map(|high| high.get_ref().0);
        let low = low_water.as_ref().map(|low| low.get_ref().0);
        let library_settings = |library: &Library| library_settings(library, directory);
        let drive = |drive: &PoolDrive| {
            let PoolDrive { id, path, host, enclosure, group } = drive;
            // What is no location was refused when the file was checked.
            let at = DriveLocation::parse(path.get_ref(), directory)
                .unwrap_or_else(|_| DriveLocation::Directory(directory.join(path.get_ref())));
            let group = group.as_ref().map(|group| group.get_ref().clone()).unwrap_or_default();
            let (host, enclosure) = (host.clone(), enclosure.clone());
            PoolDriveSettings { id: *id.get_ref(), at, host, enclosure, group }
        };
        Settings {
            catalogue_directory: directory.join(catalogue_directory),
            catalogue_map_size: map_size.get_ref().0,
            change_log,
            pool: PoolSettings {
                code: pool.code(),
                groups: groups.iter().map(|(name, group)| group_settings(name.get_ref(), group)).collect(),
                arena: arena.get_ref().0,
                // What is none was refused when the file was checked.
                io: io.get_ref().parse().unwrap_or_default(),
                unknown_kept: unknown_kept.0,
                water: high.map(|high_percent| Water {
                    high_percent,
                    low_percent: low.unwrap_or_else(|| high_percent.saturating_sub(LOW_BELOW_HIGH)),
                }),
                drives: drives.iter().map(drive).collect(),
            },
            library: library_settings(library),
            more_libraries: more_libraries.iter().map(library_settings).collect(),
            classes: classes.iter().map(class_settings).collect(),
            tape_pools: tape_pools.iter().map(tape_pool_settings).collect(),
            tape: tape_settings(tape, native_rate(std::iter::once(library).chain(more_libraries))),
        }
    }
}

impl Config {
    /// The settings of the backup, if there is one; a relative directory is below `directory`.
    pub fn backup_settings(&self, directory: &Path) -> Option<BackupSettings> {
        let Backup { directory: below, ship_every, snapshot_every, keep_snapshots } = self.backup.as_ref()?;
        Some(BackupSettings {
            directory: directory.join(below),
            ship_every: ship_every.0,
            snapshot_every: snapshot_every.0,
            keep_snapshots: *keep_snapshots.get_ref(),
        })
    }

    /// How the pool is scrubbed and rebuilt, and how long requests are kept.
    pub fn upkeep(&self) -> UpkeepSettings {
        UpkeepSettings {
            pass: Duration::from_secs(u64::from(*self.pool.scrub_days.get_ref()) * 86_400),
            rebuild_after: self.pool.rebuild_after.0,
            disks: disk_policy(&self.pool),
            requests_kept: self.catalogue.requests_kept.0,
            requests_kept_max: self.catalogue.requests_kept_max,
            ..UpkeepSettings::default()
        }
    }
}

fn group_settings(name: &str, group: &Group) -> GroupSettings {
    // The first three are its code.
    let Group { data: _, parity: _, local_parity: _, high_water, low_water } = group;
    GroupSettings {
        name: name.to_owned(),
        code: group.code(),
        water: Water { high_percent: high_water.get_ref().0, low_percent: low_water.get_ref().0 },
    }
}

fn disk_policy(pool: &Pool) -> DiskPolicy {
    DiskPolicy {
        predicted_failure: match pool.predicted_failure {
            PredictedFailure::Tell => archive::PredictedFailure::Tell,
            PredictedFailure::Drain => archive::PredictedFailure::Drain,
        },
        replace: match pool.replace {
            Replace::No => ReplaceLost::No,
            Replace::Mounted => ReplaceLost::Mounted,
            Replace::Blank => ReplaceLost::Blank,
        },
        replace_burn_in: match pool.replace_burn_in {
            ReplaceBurnIn::Off => BurnInDemand::Off,
            ReplaceBurnIn::Quick => BurnInDemand::Quick,
            ReplaceBurnIn::Full => BurnInDemand::Full,
        },
        lights: pool.lights,
    }
}

fn library_settings(library: &Library, directory: &Path) -> LibrarySettings {
    let Library {
        name,
        site,
        kind,
        directory: below,
        changer,
        drives,
        slots,
        cartridge_capacity,
        portals,
        initiator,
        chap,
        mount_cost_percent,
        timing,
    } = library;
    let timing = timing.as_ref().map(timing_settings);
    let text = |spanned: &Spanned<String>| spanned.get_ref().clone();
    // What cannot be read was refused when the file was checked.
    let changer = changer.as_ref().and_then(|changer| changer.get_ref().parse().ok());
    let kind = match (kind, changer) {
        (LibraryKind::Scsi, Some(changer)) => archive::LibraryKind::Scsi(ScsiLibrarySettings {
            changer,
            drives: match drives.get_ref() {
                Drives::Count(count) => (0..*count).map(DriveSeat::Number).collect(),
                Drives::Serials(all) => all.iter().filter_map(|one| one.parse().ok()).collect(),
            },
            slots: slots.as_ref().map(|all| all.iter().filter_map(|one| range(one.get_ref())).collect()),
            capacity: cartridge_capacity.as_ref().map_or(ByteCount(0), |capacity| capacity.get_ref().0),
            portals: portals.iter().filter_map(|one| library::scsi::portal(one.get_ref()).ok()).collect(),
            initiator: initiator.as_ref().and_then(|name| IscsiName::new(&text(name)).ok()),
            chap: chap.as_ref().map(|chap| ChapSettings {
                user: chap.user.clone(),
                secret_file: directory.join(&chap.secret_file),
            }),
            timing,
        }),
        _ => archive::LibraryKind::Virtual(VirtualLibrarySettings {
            directory: directory.join(below.as_deref().unwrap_or(Path::new(""))),
            drives: library.drive_count(),
            timing,
        }),
    };
    LibrarySettings {
        name: name.get_ref().clone(),
        site: site.clone(),
        mount_cost_percent: *mount_cost_percent.get_ref(),
        kind,
    }
}

fn timing_settings(timing: &Timing) -> TimingSettings {
    let Timing { drive, scale, robots } = timing;
    TimingSettings { drive: drive.get_ref().clone(), scale: *scale.get_ref(), robots: *robots.get_ref() }
}

fn class_settings(class: &Class) -> ClassSettings {
    // What must not be shared was checked when the file was read.
    let Class {
        name,
        up_to,
        copies,
        apart: _,
        large,
        pack,
        pack_age,
        data_set_depth,
        recall,
        pool_group,
        pool_group_for,
        residency,
        pool_max,
        pool_min,
        evict_min,
        weight,
        drives_min,
        drives_max,
    } = class;
    ClassSettings {
        name: name.get_ref().clone(),
        up_to: up_to.as_ref().map(|up_to| up_to.get_ref().0),
        copies: copies.get_ref().clone(),
        large_bytes: large.0,
        pack_bytes: pack.get_ref().0,
        pack_age: pack_age.0,
        data_set_depth: *data_set_depth,
        recall_packs: *recall == Recall::Pack,
        cold: residency.as_ref().is_some_and(|residency| *residency.get_ref() == Residency::Tape),
        pool_max: pool_max.as_ref().map(|pool_max| pool_max.get_ref().0),
        placing: PlacingSettings {
            group: pool_group.as_ref().map(|group| group.get_ref().clone()).unwrap_or_default(),
            unused_for: pool_group_for.as_ref().map(|span| span.get_ref().0),
        },
        leaving: LeavingSettings {
            unused_for: residency.as_ref().and_then(|residency| match residency.get_ref() {
                // Earlier versions took less, and the use of a file is known to the hour.
                Residency::Unused(span) => Some(span.0.max(UNUSED_LEAST)),
                Residency::Pool | Residency::Tape => None,
            }),
            size_min: evict_min.map_or(base::ByteCount(0), |size| size.0),
            pool_min: pool_min.as_ref().map_or(base::ByteCount(0), |size| size.get_ref().0),
        },
        share: ShareSettings { weight: *weight.get_ref(), drives: limits(drives_min, drives_max.as_ref()) },
    }
}

fn tape_pool_settings(pool: &TapePool) -> TapePoolSettings {
    let TapePool {
        name,
        mount_bytes,
        mount_age,
        drives_max,
        drives_min,
        open_tapes_max,
        library,
        encryption,
    } = pool;
    TapePoolSettings {
        name: name.get_ref().clone(),
        mount_bytes: mount_bytes.0,
        mount_age: mount_age.0,
        drives_max: *drives_max.get_ref(),
        drives_min: *drives_min.get_ref(),
        open_tapes_max: open_tapes_max.as_ref().map(|most| *most.get_ref()),
        library: library.as_ref().map(|library| library.get_ref().clone()),
        encryption: encryption.as_ref().and_then(|encryption| keys::read(encryption).ok()),
    }
}

fn limits(min: &Spanned<usize>, max: Option<&Spanned<usize>>) -> DriveLimits {
    DriveLimits { min: *min.get_ref(), max: max.map(|max| *max.get_ref()) }
}

/// The rate of the fastest drives whose model is named, as fast as the library has them.
fn native_rate<'a>(libraries: impl Iterator<Item = &'a Library>) -> Option<ByteCount> {
    let rate = |library: &Library| {
        let timing = library.timing.as_ref()?;
        let model = mechanics::timing(timing.drive.get_ref()).ok()?;
        Some(ByteCount((model.native_rate as f64 * timing.scale.get_ref()) as u64))
    };
    libraries.filter_map(rate).max()
}

fn tape_settings(tape: &Tape, native_rate: Option<ByteCount>) -> TapeSettings {
    let Tape {
        block,
        flush_bytes,
        flush_age,
        index_bytes,
        buffer,
        recall_age,
        recall_bytes,
        recall_order,
        recall_order_from,
        recall_files,
        recall_at_once,
        recall_drives_min,
        recall_drives_max,
        migration_drives_min,
        migration_drives_max,
        starvation,
        share_half_life,
        mounts_at_once,
        remount_delay,
        remount_bytes,
        dismount_delay,
        retry_delay,
        cleaning_uses_max,
        cleaning_time_max,
        stream_rate,
        streams_max,
    } = tape;
    let default = FlowSettings::default().stream_rate;
    let stream_rate = stream_rate.map_or(native_rate.unwrap_or(default), |rate| rate.0);
    TapeSettings {
        block_bytes: block.get_ref().0,
        flush_bytes: flush_bytes.get_ref().0,
        flush_age: flush_age.0,
        index_bytes: index_bytes.get_ref().0,
        buffer: buffer.get_ref().0,
        recall_age: recall_age.0,
        recall_bytes: recall_bytes.0,
        recall_aim: match recall_order {
            RecallOrder::LastFile => Aim::LastFile,
            RecallOrder::MeanWait => Aim::MeanWait,
        },
        recall_order_from: match recall_order_from {
            RecallOrderFrom::Own => OrderFrom::Own,
            RecallOrderFrom::Drive => OrderFrom::Drive,
            RecallOrderFrom::Cheaper => OrderFrom::Cheaper,
        },
        dismount_delay: dismount_delay.0,
        retry_delay: retry_delay.0,
        mounts: MountSettings {
            recall_files: recall_files.as_ref().map(|files| *files.get_ref()),
            recall_at_once: recall_at_once.as_ref().map(|priority| *priority.get_ref()),
            remount_delay: remount_delay.0,
            remount_bytes: remount_bytes.map(|bytes| bytes.0),
            starvation: starvation.0,
            share_half_life: share_half_life.get_ref().0,
            recall: limits(recall_drives_min, recall_drives_max.as_ref()),
            migration: limits(migration_drives_min, migration_drives_max.as_ref()),
            mounts_at_once: Some(*mounts_at_once).filter(|most| *most > 0),
            cleaning: archive::CleaningSettings {
                uses_max: *cleaning_uses_max,
                time_max: cleaning_time_max.0,
            },
        },
        flow: FlowSettings { stream_rate, streams_max: *streams_max },
    }
}
