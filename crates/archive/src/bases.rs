//! Bases of the catalogue in the making: the files in which one waits to be written, and what failed.
//!
//! The rows are read once, into files beside the catalogue, so that no read of the catalogue waits for a
//! tape. Sessions write the files to a tape of each pool, before an index.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use threads::{Mutex, MutexGuard};

use base::{ByteCount, Duration, Uuid, Vid};
use catalogue::ReadError;
use ltfs::catalogue_base::{BasePartWriter, BaseRow, PART_BYTES_MAX, PARTS_MAX, PartHead};
use ltfs::changes::ChangeNumber;
use session::back_off;

use crate::bases_on_tapes::{Standing, changes_behind};
use crate::engine::Engine;

/// Rows are read in one go for at most so long: pages that are freed meanwhile cannot be used again, and the
/// catalogue's file grows by as much.
const READ_LONGEST: Duration = Duration::from_secs(15 * 60);
/// A base that could not be made, or not be written to a tape, is tried again after this long: a try may read
/// the whole catalogue, or mount the tape ...
const RETRY_AFTER: Duration = Duration::from_secs(600);
/// ... and after each failure twice as long, up to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// A base may take one part in so many of what the catalogue's file system has free, so that the catalogue,
/// which grows meanwhile, has as much.
const FREE_PART: u64 = 2;
/// So much stays free of it whatever a base turns out to need.
const KEPT_FREE: u64 = 2 * ltfs::catalogue_base::PART_BYTES as u64;

/// A backup that fails for longer is not waited for: tapes get what takes its place. It may be a share that
/// is not mounted for a while.
const BACKUP_PATIENCE: Duration = Duration::from_secs(3_600);

/// Bases in the making.
#[derive(Default)]
pub(crate) struct Bases {
    waiting: Mutex<Waiting>,
    backup: Mutex<BackupHas>,
    failures: Mutex<Failures>,
}

/// What is known of the backup of the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum BackupHas {
    /// There is none.
    #[default]
    None,
    /// It has not told yet.
    Unknown,
    /// The log up to this change.
    Through(u64),
    /// It fails since then, by the steady clock.
    Failing(Duration),
}

/// What did not succeed, and rests.
#[derive(Default)]
struct Failures {
    /// Making one, and why.
    making: Rest,
    reason: String,
    /// Tapes to which one could not be written, or which did not give it back as it was written.
    tapes: BTreeMap<Vid, Rest>,
}

/// How often something failed in a row, and when last, by the steady clock.
#[derive(Clone, Copy, Default)]
struct Rest {
    failures: u32,
    last: Duration,
}

impl Rest {
    fn failed(&mut self, now: Duration) {
        *self = Rest { failures: self.failures.saturating_add(1), last: now };
    }

    fn is_over(self, now: Duration) -> bool {
        let Some(before) = self.failures.checked_sub(1) else { return true };
        now.saturating_sub(self.last) >= back_off(RETRY_AFTER, before, RETRY_AFTER_MAX)
    }
}

/// The base that waits to be written to tapes.
#[derive(Default)]
pub(crate) struct Waiting {
    made: Option<Arc<Made>>,
    /// How many were begun.
    begun: u64,
}

/// A base, in files.
pub(crate) struct Made {
    pub(crate) change: u64,
    pub(crate) bytes: ByteCount,
    parts: Vec<MadePart>,
    directory: Option<Directory>,
}

/// A directory that is removed when nobody needs it any more.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        remove_spool(&self.0);
    }
}

enum MadePart {
    File(PathBuf),
    /// In simulations there is no file system.
    Memory(Vec<u8>),
}

/// Why a base cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("reading the catalogue took longer than {} minutes", READ_LONGEST.as_nanos() / 60_000_000_000)]
    TooLong,
    #[error("the server stops")]
    Stopped,
    #[error("the file system of the catalogue has too little room for it")]
    NoRoom,
    #[error("a row, or the catalogue, is longer than a base can be")]
    TooLarge,
}

impl MakeError {
    /// Why not all rows were read.
    fn not_whole(is_stopping: bool) -> MakeError {
        if is_stopping { MakeError::Stopped } else { MakeError::TooLong }
    }
}

impl Bases {
    /// The base that waits. Held while one is made: whoever else needs one waits for it.
    pub(crate) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Bases::waiting`], `None` while another thread is at it.
    pub(crate) fn waiting_now(&self) -> Option<MutexGuard<'_, Waiting>> {
        self.waiting.try_lock().ok()
    }

    fn backup(&self) -> MutexGuard<'_, BackupHas> {
        self.backup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a backup, and nobody knows yet what it has.
    pub(crate) fn backup_begins(&self) {
        *self.backup() = BackupHas::Unknown;
    }

    /// The backup has all changes up to this one.
    pub(crate) fn shipped(&self, through: u64) {
        *self.backup() = BackupHas::Through(through);
    }

    /// The backup has failed: it does not count.
    pub(crate) fn backup_failed(&self, now: Duration) {
        let mut backup = self.backup();
        if !matches!(*backup, BackupHas::Failing(_)) {
            *backup = BackupHas::Failing(now);
        }
    }

    /// Up to which change the backup has the log; 0: it fails, or has not told yet; `None`: there is none.
    pub(crate) fn backup_has(&self) -> Option<u64> {
        match *self.backup() {
            BackupHas::None => None,
            BackupHas::Unknown | BackupHas::Failing(_) => Some(0),
            BackupHas::Through(through) => Some(through),
        }
    }

    /// Whether the backup can take the place of a lost catalogue, as far as is known: what is given up may
    /// count on it.
    pub(crate) fn backup_counts(&self) -> bool {
        matches!(*self.backup(), BackupHas::Through(through) if through > 0)
    }

    /// Whether it counts, or may do so soon: no tape is mounted for what takes its place before.
    pub(crate) fn backup_may_count(&self, now: Duration) -> bool {
        match *self.backup() {
            BackupHas::None => false,
            BackupHas::Unknown | BackupHas::Through(_) => true,
            BackupHas::Failing(since) => now.saturating_sub(since) < BACKUP_PATIENCE,
        }
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why none can be made, if the last try failed.
    pub(crate) fn failing(&self) -> Option<String> {
        let failures = self.failures();
        (failures.making.failures > 0).then(|| failures.reason.clone())
    }

    /// Whether one may be made now.
    pub(crate) fn may_make(&self, now: Duration) -> bool {
        self.failures().making.is_over(now)
    }

    /// Whether a tape may be given one now.
    pub(crate) fn may_write(&self, vid: Vid, now: Duration) -> bool {
        self.failures().tapes.get(&vid).is_none_or(|rest| rest.is_over(now))
    }

    /// A tape has one now, or did not take it: then another tape is to get it.
    pub(crate) fn tried(&self, vid: Vid, succeeded: bool, now: Duration) {
        let mut failures = self.failures();
        match succeeded {
            true => drop(failures.tapes.remove(&vid)),
            false => failures.tapes.entry(vid).or_default().failed(now),
        }
    }
}

impl Waiting {
    /// The base to be written to a tape: the one that waits if it is new enough, else one that is made now.
    /// `None` if that does not succeed, which is told, or did not a while ago.
    pub(crate) fn take(&mut self, engine: &Engine) -> Result<Option<Arc<Made>>, ReadError> {
        let settings = engine.settings.change_log;
        let (first, last) = engine.catalogue.read(|view| Ok((view.first_change()?, view.last_change()?)))?;
        let is_new = |made: &Made| {
            changes_behind(made.change, last) <= settings.base_changes.max(1) && made.change >= first
        };
        if !self.made.as_deref().is_some_and(is_new) {
            self.made = None;
            if engine.bases.may_make(engine.steady()) {
                self.begun += 1;
                let made = make(engine, self.begun);
                if let Err(MakeError::Read(_)) = made {
                    // What is damaged is to answer nothing more: all of it is looked at, then refused.
                    let _ = engine.catalogue.check_pages();
                }
                let mut failures = engine.bases.failures();
                match made {
                    Ok(made) => (self.made, failures.making) = (Some(Arc::new(made)), Rest::default()),
                    Err(MakeError::Stopped) => {}
                    Err(error) => {
                        tracing::error!(%error, "no base of the catalogue can be made: its log stays");
                        failures.making.failed(engine.steady());
                        failures.reason = error.to_string();
                    }
                }
            }
        }
        Ok(self.made.clone())
    }

    /// The base that waits cannot be used: the next one is made anew.
    pub(crate) fn discard(&mut self, change: u64) {
        if self.made.as_ref().is_some_and(|made| made.change == change) {
            self.made = None;
        }
    }

    /// Whether the file system of the catalogue is all but full, and no session is writing the files.
    fn is_in_the_way(&self, free: impl Fn(&Path) -> Option<u64>) -> bool {
        let Some(made) = self.made.as_ref().filter(|made| Arc::strong_count(made) == 1) else { return false };
        made.directory.as_ref().and_then(|Directory(path)| free(path)).is_some_and(|free| free < KEPT_FREE)
    }

    /// Removes the files if nobody waits for them, or if the catalogue needs their room and nobody reads
    /// them.
    pub(crate) fn drop_if_done(&mut self, engine: &Engine) -> Result<(), ReadError> {
        let Some(change) = self.made.as_ref().map(|made| made.change) else { return Ok(()) };
        if self.is_in_the_way(|directory| store::free_bytes(directory).ok()) {
            let error = MakeError::NoRoom;
            tracing::error!(%error, "the base of the catalogue that waits for tapes is given up");
            self.made = None;
            let mut failures = engine.bases.failures();
            failures.making.failed(engine.steady());
            failures.reason = error.to_string();
            return Ok(());
        }
        let has_backup = engine.bases.backup_may_count(engine.steady());
        let is_done = engine.catalogue.read(|view| {
            Ok(Standing::of(view, has_backup, None)?.oldest().is_none_or(|(_, oldest)| oldest >= change))
        })?;
        if is_done {
            self.made = None;
        }
        Ok(())
    }
}

impl Made {
    #[cfg(test)]
    fn in_directory(path: PathBuf) -> Made {
        Made { change: 1, bytes: ByteCount(0), parts: Vec::new(), directory: Some(Directory(path)) }
    }

    pub(crate) fn parts(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// The bytes of a part, the first one being 0.
    pub(crate) fn part(&self, at: u32) -> std::io::Result<Vec<u8>> {
        match self.parts.get(at as usize) {
            Some(MadePart::File(path)) => {
                let mut bytes = Vec::new();
                File::open(path)?.take(PART_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Some(MadePart::Memory(bytes)) => Ok(bytes.clone()),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

/// Reads all rows into parts.
fn make(engine: &Engine, number: u64) -> Result<Made, MakeError> {
    let mut maker = Maker::begin(engine, number)?;
    let mut failed = None;
    let whole = engine.catalogue.each_base_row(READ_LONGEST, &mut |change, table, key, value| {
        let row = BaseRow { table, key, value };
        failed = maker.add(change, row).err();
        failed.is_none() && !engine.stopping()
    })?;
    match failed {
        Some(error) => Err(error),
        None if !whole => Err(MakeError::not_whole(engine.stopping())),
        None => maker.end(),
    }
}

struct Maker {
    instance: Uuid,
    /// `None`: into memory.
    directory: Option<Directory>,
    change: u64,
    part: BasePartWriter,
    rows_before: u64,
    made: Vec<MadePart>,
    bytes: u64,
}

impl Maker {
    fn begin(engine: &Engine, number: u64) -> Result<Maker, MakeError> {
        let directory = match engine.catalogue.is_in_memory() {
            true => None,
            false => {
                let path = spool(&engine.settings.catalogue_directory).join(number.to_string());
                let directory = Directory(path.clone());
                let failed = |source| MakeError::File { path: path.clone(), source };
                fs::create_dir_all(&path).map_err(failed)?;
                let wanted = engine.catalogue.log_size()?.other_bytes;
                if store::free_bytes(&path).map_err(failed)? / FREE_PART < wanted {
                    return Err(MakeError::NoRoom);
                }
                Some(directory)
            }
        };
        Ok(Maker {
            instance: engine.instance,
            directory,
            change: 0,
            part: BasePartWriter::default(),
            rows_before: 0,
            made: Vec::new(),
            bytes: 0,
        })
    }

    fn add(&mut self, change: u64, row: BaseRow<'_>) -> Result<(), MakeError> {
        self.change = change;
        if self.part.add(row) {
            return Ok(());
        }
        self.close(false)?;
        if self.part.add(row) { Ok(()) } else { Err(MakeError::TooLarge) }
    }

    fn close(&mut self, is_last: bool) -> Result<(), MakeError> {
        let number = u32::try_from(self.made.len() + 1).unwrap_or(u32::MAX);
        if number > PARTS_MAX || self.part.rows() == 0 {
            return Err(MakeError::TooLarge);
        }
        let part = std::mem::take(&mut self.part);
        let rows = part.rows();
        let head = PartHead {
            instance: self.instance,
            format: store::FORMAT_VERSION,
            change: ChangeNumber(self.change),
            part: number,
            is_last,
            rows_before: self.rows_before,
        };
        let bytes = part.close(&head);
        self.rows_before += rows;
        self.bytes += bytes.len() as u64;
        let made = match &self.directory {
            None => MadePart::Memory(bytes),
            Some(Directory(directory)) => {
                let path = directory.join(format!("{number:06}.kcb"));
                write(directory, &path, &bytes)?;
                MadePart::File(path)
            }
        };
        self.made.push(made);
        Ok(())
    }

    fn end(mut self) -> Result<Made, MakeError> {
        self.close(true)?;
        let (bytes, parts) = (ByteCount(self.bytes), self.made);
        Ok(Made { change: self.change, bytes, parts, directory: self.directory })
    }
}

/// Writes a part, if that leaves the catalogue room to grow. It is not synced: what waits here does not
/// outlive the server.
fn write(directory: &Path, path: &Path, bytes: &[u8]) -> Result<(), MakeError> {
    let failed = |source| MakeError::File { path: path.to_owned(), source };
    let free = store::free_bytes(directory).map_err(failed)?;
    if free < KEPT_FREE.saturating_add(bytes.len() as u64) {
        return Err(MakeError::NoRoom);
    }
    fs::write(path, bytes).map_err(failed)
}

/// Where a base waits to be written.
fn spool(catalogue: &Path) -> PathBuf {
    let mut name = catalogue.file_name().unwrap_or_default().to_owned();
    name.push(".base");
    catalogue.with_file_name(name)
}

fn remove_spool(spool: &Path) {
    match fs::remove_dir_all(spool) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(path = %spool.display(), %error, "files of a base cannot be removed");
        }
        _ => {}
    }
}

/// Removes what a server that was killed has left beside its catalogue.
pub(crate) fn clean(catalogue: &Path) {
    remove_spool(&spool(catalogue));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each try may read the whole catalogue: it was made again every hour, for ever.
    #[test]
    fn what_failed_rests_for_twice_as_long_each_time() {
        let mut rest = Rest::default();
        let mut now = Duration::from_secs(5);
        assert!(rest.is_over(now));
        for seconds in [600, 1_200, 2_400, 4_800, 9_600, 19_200, 38_400, 76_800, 86_400, 86_400] {
            rest.failed(now);
            assert!(
                !rest.is_over(now + Duration::from_secs(seconds) - Duration::from_millis(1)),
                "{seconds}"
            );
            now += Duration::from_secs(seconds);
            assert!(rest.is_over(now), "{seconds}");
        }
    }

    /// The catalogue's disk was full, its puts were refused, and the files stayed.
    #[test]
    fn a_base_gives_way_when_the_catalogue_needs_its_room_and_nobody_writes_it() {
        let temp = tempfile::tempdir().unwrap();
        let made = Arc::new(Made::in_directory(temp.path().join("1")));
        let waiting = Waiting { made: Some(made.clone()), begun: 1 };
        assert!(!waiting.is_in_the_way(|_| Some(0)), "a session has it");
        drop(made);
        assert!(waiting.is_in_the_way(|_| Some(KEPT_FREE - 1)));
        assert!(!waiting.is_in_the_way(|_| Some(KEPT_FREE)) && !waiting.is_in_the_way(|_| None));
        assert!(!Waiting::default().is_in_the_way(|_| Some(0)));
    }

    /// A stop was told as a read of 15 minutes.
    #[test]
    fn a_stop_is_not_told_as_a_long_read() {
        assert!(matches!(MakeError::not_whole(true), MakeError::Stopped));
        assert!(matches!(MakeError::not_whole(false), MakeError::TooLong));
    }

    /// A backup that had never succeeded counted as one: for reclaiming tapes, and for how many must have a
    /// base.
    #[test]
    fn only_a_backup_that_succeeded_and_does_not_fail_counts() {
        let (bases, at) = (Bases::default(), Duration::from_secs);
        let counts = |now| (bases.backup_has(), bases.backup_counts(), bases.backup_may_count(at(now)));
        assert_eq!(counts(0), (None, false, false));
        bases.backup_begins();
        assert_eq!(counts(0), (Some(0), false, true));
        bases.backup_failed(at(10));
        bases.backup_failed(at(20));
        assert_eq!(counts(3_609), (Some(0), false, true));
        assert_eq!(counts(3_610), (Some(0), false, false), "it was waited for long enough");
        bases.shipped(7);
        assert_eq!(counts(3_610), (Some(7), true, true));
        bases.backup_failed(at(4_000));
        assert_eq!(counts(4_000), (Some(0), false, true));
    }

    #[test]
    fn a_tape_that_did_not_take_a_base_rests_and_others_do_not() {
        let bases = Bases::default();
        let (one, other) = (Vid::new("KT0001").unwrap(), Vid::new("KT0002").unwrap());
        let now = Duration::from_secs(100);
        bases.tried(one, false, now);
        assert!(!bases.may_write(one, now) && bases.may_write(other, now));
        assert!(bases.may_write(one, now + RETRY_AFTER));
        bases.tried(one, true, now);
        assert!(bases.may_write(one, now));
    }
}
