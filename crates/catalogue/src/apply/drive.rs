//! Drives that an operator has taken out of use, of tape and of the pool, and the cleaning of tape drives.

use base::{DriveId, PercentPoints, StripeCode, Vid};

use super::{limit, reason};
use crate::command::Outcome;
use crate::draft::Draft;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{
    CleanerRecord, CleaningAsk, DriveCleaning, DriveDisk, DriveDiskRecord, PoolDriveRecord, PoolDriveState,
    RebalanceRecord, RecodingRecord, Rule,
};
use crate::table::Table;

/// Most bytes in a tape drive's name.
pub(super) const DRIVE_BYTES_MAX: usize = 128;

pub(super) fn set_down(draft: &mut Draft<'_>, drive: &str, down: Option<&str>) -> Result<Outcome, Rejection> {
    check_name(drive)?;
    let known: Option<String> = draft.view().get(Table::DriveDown, &key::drive(drive))?;
    let down = down.map(reason);
    if known == down {
        return Ok(Outcome::Done);
    }
    match down {
        Some(why) => draft.put(Table::DriveDown, key::drive(drive), &why),
        None => draft.remove(Table::DriveDown, key::drive(drive)),
    }
    Ok(Outcome::Done)
}

fn check_name(drive: &str) -> Result<(), Rejection> {
    limit("bytes of a drive's name", drive.len(), DRIVE_BYTES_MAX)?;
    if drive.is_empty() {
        let what = "a drive has a name";
        return Err(Rejection::Malformed { object: Object::Drive(drive.to_owned()), what });
    }
    Ok(())
}

pub(super) fn set_pool_drive(
    draft: &mut Draft<'_>,
    drive: DriveId,
    state: Option<PoolDriveState>,
) -> Result<Outcome, Rejection> {
    let known: Option<PoolDriveRecord> = draft.view().get(Table::PoolDrive, &key::pool_drive(drive))?;
    if known.map(|known| known.state) == state {
        return Ok(Outcome::Done);
    }
    match state {
        Some(state) => {
            let record = PoolDriveRecord { state, since: draft.at };
            draft.put(Table::PoolDrive, key::pool_drive(drive), &record);
        }
        None => draft.remove(Table::PoolDrive, key::pool_drive(drive)),
    }
    Ok(Outcome::Done)
}

/// Most bytes in the name of a disk.
pub(super) const DISK_BYTES_MAX: usize = 256;

pub(super) fn set_disk(
    draft: &mut Draft<'_>,
    drive: DriveId,
    disk: Option<&DriveDisk>,
) -> Result<Outcome, Rejection> {
    let known: Option<DriveDiskRecord> = draft.view().get(Table::DriveDisk, &key::pool_drive(drive))?;
    let Some(disk) = disk else {
        if known.is_some() {
            draft.remove(Table::DriveDisk, key::pool_drive(drive));
        }
        return Ok(Outcome::Done);
    };
    limit("bytes of a disk's name", disk.disk.len(), DISK_BYTES_MAX)?;
    if disk.disk.is_empty() {
        let what = "a disk has a name";
        return Err(Rejection::Malformed { object: Object::Drive(drive.to_string()), what });
    }
    let disk = DriveDisk { drained: disk.drained.as_deref().map(reason), ..disk.clone() };
    if known.as_ref().is_some_and(|known| known.known == disk) {
        return Ok(Outcome::Done);
    }
    let place = |disk: &DriveDisk| (disk.disk.clone(), disk.slot);
    let before = known.filter(|known| place(&known.known) == place(&disk));
    let since = before.map_or(draft.at, |known| known.since);
    draft.put(Table::DriveDisk, key::pool_drive(drive), &DriveDiskRecord { known: disk, since });
    Ok(Outcome::Done)
}

pub(super) fn set_rebalance(draft: &mut Draft<'_>, to: Option<PercentPoints>) -> Result<Outcome, Rejection> {
    let known = draft.view().rebalance()?;
    if known.map(|known| known.to) == to {
        return Ok(Outcome::Done);
    }
    match to {
        Some(to) => {
            let record = RebalanceRecord { to, since: draft.at };
            draft.put(Table::Rebalance, key::REBALANCE.to_vec(), &record);
        }
        None => draft.remove(Table::Rebalance, key::REBALANCE.to_vec()),
    }
    Ok(Outcome::Done)
}

pub(super) fn set_recoding(draft: &mut Draft<'_>, to: Option<StripeCode>) -> Result<Outcome, Rejection> {
    let known = draft.view().recoding()?;
    if known.map(|known| known.to) == to {
        return Ok(Outcome::Done);
    }
    match to {
        Some(to) => {
            let record = RecodingRecord { to, since: draft.at };
            draft.put(Table::Recoding, key::REBALANCE.to_vec(), &record);
        }
        None => draft.remove(Table::Recoding, key::REBALANCE.to_vec()),
    }
    Ok(Outcome::Done)
}

pub(super) fn set_cleaning(
    draft: &mut Draft<'_>,
    drive: &str,
    urgent: Option<bool>,
) -> Result<Outcome, Rejection> {
    check_name(drive)?;
    let known: DriveCleaning =
        draft.view().get(Table::DriveCleaning, &key::drive(drive))?.unwrap_or_default();
    let urgent_now = urgent == Some(true) && draft.view().holds(Rule::UrgentAnew)?;
    let before = known.asks.filter(|asks| asks.urgent || !urgent_now);
    let since = before.map_or(draft.at, |asks| asks.since);
    let new = DriveCleaning { asks: urgent.map(|urgent| CleaningAsk { urgent, since }), ..known };
    if new != known {
        keep_cleaning(draft, drive, new);
    }
    Ok(Outcome::Done)
}

pub(super) fn count_cleaning(draft: &mut Draft<'_>, vid: Vid, anew: bool) -> Result<Outcome, Rejection> {
    let known: Option<CleanerRecord> = draft.view().get(Table::Cleaner, &key::tape(vid))?;
    if anew {
        if known.is_some() {
            draft.remove(Table::Cleaner, key::tape(vid));
        }
        return Ok(Outcome::Done);
    }
    let mut cleaner = known.unwrap_or_default();
    cleaner.uses = cleaner.uses.saturating_add(1);
    draft.put(Table::Cleaner, key::tape(vid), &cleaner);
    Ok(Outcome::Done)
}

pub(super) fn uncount_cleaning(draft: &mut Draft<'_>, vid: Vid) -> Result<Outcome, Rejection> {
    let known: Option<CleanerRecord> = draft.view().get(Table::Cleaner, &key::tape(vid))?;
    let Some(CleanerRecord { uses: 1.., .. }) = known else { return Ok(Outcome::Done) };
    let mut cleaner = known.unwrap_or_default();
    cleaner.uses -= 1;
    match cleaner == CleanerRecord::default() {
        true => draft.remove(Table::Cleaner, key::tape(vid)),
        false => draft.put(Table::Cleaner, key::tape(vid), &cleaner),
    }
    Ok(Outcome::Done)
}

pub(super) fn cleaning_ended(
    draft: &mut Draft<'_>,
    vid: Vid,
    drive: &str,
    unfit: Option<&str>,
) -> Result<Outcome, Rejection> {
    check_name(drive)?;
    match unfit {
        Some(why) => {
            let known: Option<CleanerRecord> = draft.view().get(Table::Cleaner, &key::tape(vid))?;
            let unfit = Some(reason(why));
            let new = CleanerRecord { unfit, ..known.clone().unwrap_or_default() };
            if known.as_ref() != Some(&new) {
                draft.put(Table::Cleaner, key::tape(vid), &new);
            }
        }
        None => {
            let new = DriveCleaning { asks: None, cleaned: Some(draft.at) };
            let known: Option<DriveCleaning> = draft.view().get(Table::DriveCleaning, &key::drive(drive))?;
            if known != Some(new) {
                keep_cleaning(draft, drive, new);
            }
        }
    }
    Ok(Outcome::Done)
}

/// A drive of which nothing is to be known has no row.
fn keep_cleaning(draft: &mut Draft<'_>, drive: &str, cleaning: DriveCleaning) {
    match cleaning == DriveCleaning::default() {
        true => draft.remove(Table::DriveCleaning, key::drive(drive)),
        false => draft.put(Table::DriveCleaning, key::drive(drive), &cleaning),
    }
}
