//! The machines: tapes, drives, pool, catalogue, and reports about them.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use archive::{
    AddedDrive, ArchiveError, BackupStatus, CatalogueFinding, ChangeLogInfo, ClassInfo, CleaningInfo,
    ClockInfo, DiskReport, DiskWatch, DriveFitRecord, HealthProblem, HealthReport, KeptExtents, MountSample,
    NewDrive, PoolHealth, PoolInfo, QuarantineEnded, QueueLine, ReplacedDrive, ReportBy, ScrubInfo, TakeOver,
    TapeCheck, TapeContent, TapeDriveInfo, TapeExport, TapeImport, TapeInfo, TapeRepack, TapeReport, TapeUse,
    Totals, UnknownKept,
};
use std::collections::BTreeSet;

use base::{BlockAddress, Duration, PercentPoints, StripeCode, Timestamp, Uuid, Vid};
use catalogue::DriveSlot;

use super::Guarded;
use crate::roles::Operation;
use crate::seam::UsageSteps;

/// Tapes of one check that the audit log names.
const CHECKS_NAMED_MAX: usize = 10;

impl<E: Operation + ?Sized> Operation for Guarded<E> {
    fn instance(&self) -> Uuid {
        self.engine.instance()
    }

    fn may_look(&self) -> Result<(), ArchiveError> {
        self.rule.looks("look at", "machines")
    }

    fn may_administrate(&self) -> Result<(), ArchiveError> {
        self.rule.admin("run", "machines")
    }

    fn health(&self) -> Vec<HealthProblem> {
        let mut problems = self.engine.health();
        problems.extend(self.rule.ledger.problem());
        problems
    }

    fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError> {
        self.rule.looks("list", "tapes")?;
        self.engine.tapes()
    }

    fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape(vid)
    }

    fn tape_content(
        &self,
        vid: Vid,
        from: BlockAddress,
        limit: usize,
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape_content(vid, from, limit)
    }

    fn tape_drives(&self) -> Vec<TapeDriveInfo> {
        if self.rule.looks("list", "drives").is_ok() { self.engine.tape_drives() } else { Vec::new() }
    }

    fn pool_info(&self) -> Result<PoolInfo, ArchiveError> {
        self.rule.looks("look at", "the pool")?;
        self.engine.pool_info()
    }

    /// Everybody needs the names of classes to put something.
    fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError> {
        self.engine.classes()
    }

    fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError> {
        self.rule.looks("look at", "the queue")?;
        self.engine.queue()
    }

    fn totals(&self) -> Result<Totals, ArchiveError> {
        self.rule.looks("look at", "the totals")?;
        let mut totals = self.engine.totals()?;
        if let Some(problem) = self.rule.ledger.problem() {
            totals.warnings.push(problem.to_string());
            totals.problems.push(problem);
        }
        totals.warnings.extend(self.notices.all());
        Ok(totals)
    }

    fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError> {
        self.rule.admin("set-tape", vid)?;
        let to = match use_as {
            TapeUse::Active => "active",
            TapeUse::ReadOnly => "read-only",
            TapeUse::Disabled => "disabled",
        };
        let what = with_reason(&format!("{vid} {to}"), reason);
        self.rule.done("set-tape", what, || self.engine.set_tape(vid, use_as, reason))
    }

    fn drive_up(&self, drive: &str) -> Result<(), ArchiveError> {
        self.rule.admin("drive-up", drive)?;
        self.rule.done("drive-up", drive, || self.engine.drive_up(drive))
    }

    fn drive_down(&self, drive: &str, reason: &str) -> Result<(), ArchiveError> {
        self.rule.admin("drive-down", drive)?;
        self.rule.done("drive-down", with_reason(drive, reason), || self.engine.drive_down(drive, reason))
    }

    fn clean_drive(&self, drive: &str, with: Option<Vid>) -> Result<(), ArchiveError> {
        let what = with.map_or_else(|| drive.to_owned(), |vid| format!("{drive} {vid}"));
        self.rule.admin("clean-drive", &what)?;
        self.rule.done("clean-drive", what, || self.engine.clean_drive(drive, with))
    }

    fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        let shown = vids.iter().take(CHECKS_NAMED_MAX).map(ToString::to_string).collect::<Vec<_>>();
        let more = if vids.len() > CHECKS_NAMED_MAX { " ..." } else { "" };
        let what = shown.join(" ") + more;
        self.rule.admin("check-tapes", &what)?;
        self.rule.done("check-tapes", what, || self.engine.check_tapes(vids))
    }

    fn stop_checks(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        let what = vids.first().map(ToString::to_string).unwrap_or_default();
        self.rule.admin("stop-checks", &what)?;
        self.rule.done("stop-checks", what, || self.engine.stop_checks(vids))
    }

    fn tape_check(&self, vid: Vid) -> Result<Option<TapeCheck>, ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape_check(vid)
    }

    fn repack_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
        self.rule.admin("repack-tape", vid)?;
        self.rule.done("repack-tape", with_reason(&vid.to_string(), reason), || {
            self.engine.repack_tape(vid, reason)
        })
    }

    fn tape_repack(&self, vid: Vid) -> Result<Option<TapeRepack>, ArchiveError> {
        self.rule.looks("look at", vid)?;
        self.engine.tape_repack(vid)
    }

    fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError> {
        self.rule.admin("reclaim-tape", vid)?;
        self.rule.done("reclaim-tape", vid, || self.engine.reclaim_tape(vid))
    }

    fn export_tape(&self, vid: Vid) -> Result<TapeExport, ArchiveError> {
        self.rule.admin("export-tape", vid)?;
        // Who waits asks again and again: that it waits is written down once, and so is its end.
        let is_news = |export: &TapeExport| !matches!(export, TapeExport::Waiting { begins: false, .. });
        self.rule.done_with_news("export-tape", vid, is_news, || self.engine.export_tape(vid))
    }

    fn import_tapes(&self, element: Option<u32>) -> Result<Vec<TapeImport>, ArchiveError> {
        let what = element.map_or_else(|| "all elements".to_owned(), |element| format!("element {element}"));
        self.rule.admin("import-tapes", &what)?;
        self.rule.done("import-tapes", what, || self.engine.import_tapes(element))
    }

    fn set_tape_off_site(&self, vid: Vid, place: &str) -> Result<(), ArchiveError> {
        self.rule.admin("set-tape", vid)?;
        let what = with_reason(&format!("{vid} off-site"), place);
        self.rule.done("set-tape", what, || self.engine.set_tape_off_site(vid, place))
    }

    fn add_tape(&self, vid: Vid) -> Result<(), ArchiveError> {
        self.rule.admin("add-tape", vid)?;
        self.rule.done("add-tape", vid, || self.engine.add_tape(vid))
    }

    fn retire_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
        self.rule.admin("retire-tape", vid)?;
        let what = with_reason(&vid.to_string(), reason);
        self.rule.done("retire-tape", what, || self.engine.retire_tape(vid, reason))
    }

    fn refresh_inventory(&self, scan: bool) -> Result<BTreeSet<Vid>, ArchiveError> {
        let what = if scan { "scan" } else { "" };
        self.rule.admin("inventory", what)?;
        self.rule.done("inventory", what, || self.engine.refresh_inventory(scan))
    }

    fn machine_health(&self) -> Result<Arc<HealthReport>, ArchiveError> {
        self.rule.looks("look at", "the health of tapes and drives")?;
        self.engine.machine_health()
    }

    fn cleaning(&self) -> Result<CleaningInfo, ArchiveError> {
        self.rule.looks("look at", "the cleaning of drives")?;
        self.engine.cleaning()
    }

    fn drive_mounts(&self, drive: &str) -> Result<Vec<MountSample>, ArchiveError> {
        self.rule.looks("look at", drive)?;
        self.engine.drive_mounts(drive)
    }

    fn drive_fits(&self, drive: &str) -> Result<Vec<DriveFitRecord>, ArchiveError> {
        self.rule.looks("look at", drive)?;
        self.engine.drive_fits(drive)
    }

    fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError> {
        self.rule.looks("look at", "the report of tapes")?;
        self.engine.tape_report(window, by)
    }

    fn begin_usage(
        &self,
        window: Duration,
        class: Option<&str>,
    ) -> Result<Box<dyn UsageSteps>, ArchiveError> {
        self.rule.looks("look at", "the report of usage")?;
        self.engine.begin_usage(window, class)
    }

    fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError> {
        let what = class.unwrap_or("all classes");
        self.rule.admin("migrate", what)?;
        self.rule.done("migrate", what, || self.engine.migrate_now(class))
    }

    fn backup_status(&self) -> Option<BackupStatus> {
        self.rule.looks("look at", "the backup").ok()?;
        self.engine.backup_status()
    }

    fn backup_now(&self) -> Option<u64> {
        self.rule.admin("backup", "").ok()?;
        self.rule.done("backup", "", || Ok(self.engine.backup_now())).ok()?
    }

    fn change_log(&self) -> Result<Option<ChangeLogInfo>, ArchiveError> {
        self.rule.looks("look at", "the log of changes")?;
        self.engine.change_log()
    }

    fn quarantined(&self) -> Result<Option<KeptExtents>, ArchiveError> {
        self.rule.looks("look at", "the quarantine")?;
        self.engine.quarantined()
    }

    fn unknown_kept(&self) -> Result<UnknownKept, ArchiveError> {
        self.rule.looks("look at", "the quarantine")?;
        self.engine.unknown_kept()
    }

    fn end_quarantine(&self) -> Result<QuarantineEnded, ArchiveError> {
        self.rule.admin("end-quarantine", "")?;
        self.rule.done("end-quarantine", "", || self.engine.end_quarantine())
    }

    fn clock_info(&self) -> Result<ClockInfo, ArchiveError> {
        self.rule.looks("look at", "the clock")?;
        self.engine.clock_info()
    }

    fn accept_time(&self, today: Timestamp, back: bool) -> Result<ClockInfo, ArchiveError> {
        let what = if back { "the system's clock, also back" } else { "the system's clock" };
        self.rule.admin("accept-time", what)?;
        self.rule.done("accept-time", what, || self.engine.accept_time(today, back))
    }

    fn pool_health(&self) -> Result<PoolHealth, ArchiveError> {
        self.rule.looks("look at", "the pool")?;
        self.engine.pool_health()
    }

    fn scrub_info(&self) -> ScrubInfo {
        if self.rule.looks("look at", "the scrub").is_ok() {
            self.engine.scrub_info()
        } else {
            ScrubInfo::default()
        }
    }

    fn scrub_now(&self) {
        if self.rule.admin("scrub", "").is_ok() {
            let _ = self.rule.done("scrub", "", || {
                self.engine.scrub_now();
                Ok(())
            });
        }
    }

    fn verify_catalogue(&self) -> Result<Vec<CatalogueFinding>, ArchiveError> {
        self.rule.admin("verify", "the catalogue")?;
        self.engine.verify_catalogue()
    }

    fn pool_rebuild(&self, drive: Option<u16>, accept_loss: bool) -> Result<(), ArchiveError> {
        let what = drive.map_or("all".to_owned(), |drive| format!("drive {drive}"));
        self.rule.admin("rebuild", &what)?;
        self.rule.done("rebuild", what, || self.engine.pool_rebuild(drive, accept_loss))
    }

    fn pool_rebalance(&self, to: PercentPoints) -> Result<(), ArchiveError> {
        self.rule.admin("rebalance", to)?;
        self.rule.done("rebalance", to, || self.engine.pool_rebalance(to))
    }

    fn pool_rebalance_end(&self) -> Result<bool, ArchiveError> {
        self.rule.admin("rebalance-end", "")?;
        self.rule.done("rebalance-end", "", || self.engine.pool_rebalance_end())
    }

    fn pool_recode(&self) -> Result<StripeCode, ArchiveError> {
        self.rule.admin("recode", "")?;
        self.rule.done("recode", "", || self.engine.pool_recode())
    }

    fn pool_recode_end(&self) -> Result<bool, ArchiveError> {
        self.rule.admin("recode-end", "")?;
        self.rule.done("recode-end", "", || self.engine.pool_recode_end())
    }

    fn pool_drive_lost(&self, drive: u16, accept_loss: bool) -> Result<(), ArchiveError> {
        self.rule.admin("drive-lost", drive)?;
        self.rule.done("drive-lost", drive, || self.engine.pool_drive_lost(drive, accept_loss))
    }

    fn pool_drive_drain(&self, drive: u16) -> Result<(), ArchiveError> {
        self.rule.admin("drive-drain", drive)?;
        self.rule.done("drive-drain", drive, || self.engine.pool_drive_drain(drive))
    }

    fn pool_drive_keep(&self, drive: u16) -> Result<(), ArchiveError> {
        self.rule.admin("drive-keep", drive)?;
        self.rule.done("drive-keep", drive, || self.engine.pool_drive_keep(drive))
    }

    fn pool_drive_remove(&self, drive: u16) -> Result<(), ArchiveError> {
        self.rule.admin("drive-remove", drive)?;
        self.rule.done("drive-remove", drive, || self.engine.pool_drive_remove(drive))
    }

    fn pool_drive_add(&self, wanted: &NewDrive) -> Result<AddedDrive, ArchiveError> {
        self.rule.admin("drive-add", &wanted.at)?;
        self.rule.done("drive-add", &wanted.at, || self.engine.pool_drive_add(wanted))
    }

    fn disk_watch(&self) -> Result<DiskWatch, ArchiveError> {
        self.rule.admin("disk-watch", "")?;
        self.engine.disk_watch()
    }

    fn disks_found(&self, reports: Vec<DiskReport>) -> Result<Option<u16>, ArchiveError> {
        self.rule.admin("disks-found", "")?;
        // That nothing follows from a look is no news: there is one each minute.
        let drained = DrainedByPolicy::default();
        let note = |found: &Option<u16>| {
            drained.0.set(*found);
            found.is_some()
        };
        self.rule.done_with_news("drive-drain", &drained, note, || self.engine.disks_found(reports))
    }

    fn drive_light(&self, drive: u16, slot: Option<DriveSlot>) -> Result<(), ArchiveError> {
        self.rule.admin("drive-light", drive)?;
        self.rule.done("drive-light", drive, || self.engine.drive_light(drive, slot))
    }

    fn drive_taken_over(&self, drive: u16, by: &TakeOver) -> Result<ReplacedDrive, ArchiveError> {
        self.rule.admin("drive-take-over", drive)?;
        let what = format!("{drive}: {}", by.disk);
        self.rule.done("drive-take-over", what, || self.engine.drive_taken_over(drive, by))
    }

    fn pool_drive_replace(
        &self,
        drive: u16,
        new: bool,
        accept_loss: bool,
    ) -> Result<ReplacedDrive, ArchiveError> {
        self.rule.admin("drive-replace", drive)?;
        self.rule.done("drive-replace", drive, || self.engine.pool_drive_replace(drive, new, accept_loss))
    }
}

/// The drive that the policy has emptied, for the audit log.
#[derive(Default)]
struct DrainedByPolicy(Cell<Option<u16>>);

impl fmt::Display for DrainedByPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get() {
            Some(drive) => write!(f, "{drive}: its disk foretells its failure"),
            None => f.write_str("disks that foretell their failure"),
        }
    }
}

/// What was changed, and why as its operator says.
fn with_reason(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}
