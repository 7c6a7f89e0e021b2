//! Random histories, restored to random points of themselves again and again: files are put, replaced,
//! removed, migrated, evicted and staged, pool drives lost, rebuilt and replaced, tapes repacked, reclaimed
//! and labelled anew; versions are put, held and deleted, and days pass, on which lifecycle rules go by
//! (`kept.rs`). After each restore every file and version of that point is there, but for those of which no
//! medium holds a byte, with the holds of the point.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::bases_often::changes_of_names;
use crate::common::{Instance, all, bytes, get, migrate_all, path, put, stage, wait_for, wait_until};
use crate::history::{Contents, destroy_catalogue, facts};
use crate::kept::{COLD, Days, Kept, Looked};
use crate::rebuild::try_rebuild;
use crate::restoring::{at_rest, check, give_up_the_past, open_trusting, replace_lost, restore_to, shipped};
use archive::{
    Archive, ArchiveError, ChangeLogSettings, ClassSettings, CloneOptions, CompleteOptions, Locality,
    PutOptions, Settings, Stat, TapeUse, Which,
};
use base::{ByteCount, Duration, UploadId};
use catalogue::TapeState;
use library::VirtualCartridgeOptions;
use memchr::memmem;

const RESTORES: usize = 5;
/// Steps before and between restores.
const STEPS: usize = 12;
/// The first bytes of a file, by which it is looked for on the media.
const MARK: usize = 48;

/// A small generator: one seed is one history.
pub struct Numbers(u64);

impl Numbers {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }
}

/// A point to which the catalogue can be restored, and what was in the archive then.
#[derive(Clone)]
struct Point {
    change: u64,
    contents: Contents,
    kept: Kept,
}

/// What has happened, for the line of figures.
#[derive(Default)]
pub struct Counts {
    pub happened: BTreeMap<&'static str, u64>,
    pub files: u64,
    pub gone: u64,
    pub looked: Looked,
}

struct History<'c> {
    instance: Instance,
    archive: Archive,
    numbers: Numbers,
    contents: Contents,
    kept: Kept,
    days: Days,
    points: Vec<Point>,
    next: u64,
    uploads: Vec<(UploadId, String, Vec<u8>)>,
    fates: Fates,
    counts: &'c mut Counts,
}

/// Files up to this size share no bytes with their copies.
const SMALL_MAX: usize = 256 << 10;

/// The first bytes of a file or version.
type Mark = Vec<u8>;

fn mark_of(content: &[u8]) -> Mark {
    content[..MARK.min(content.len())].to_vec()
}

/// Which bytes may be on no medium: what was deleted, and was younger than the newest restore or met no
/// quarantine. All else is kept for later points of the backup, unless its drives are lost.
#[derive(Default)]
pub struct Fates {
    /// How many restores came before a content was put.
    born: BTreeMap<Mark, usize>,
    may_be_gone: BTreeSet<Mark>,
    /// Small files that were copied: a copy has bytes of its own, by which the file cannot be told.
    copied: BTreeSet<Mark>,
    /// Larger ones: in the pool a copy has the same blob, on tape it stands by itself. What was removed in
    /// the line that a restore gave up, and never came to tape, may be there as a copy that the line made.
    shared: BTreeSet<Mark>,
    /// Files that were removed, or put anew, under these names.
    given_up: BTreeSet<(String, Mark)>,
    restores: usize,
}

impl Fates {
    fn step(&mut self, before: BTreeSet<Mark>, after: &BTreeSet<Mark>, quarantined: bool) {
        for mark in after {
            self.born.entry(mark.clone()).or_insert(self.restores);
        }
        let deleted = before.into_iter().filter(|mark| !after.contains(mark));
        let is_kept = |mark: &Mark| quarantined && self.born[mark] < self.restores;
        self.may_be_gone.extend(deleted.filter(|mark| !is_kept(mark)));
    }
}

impl<'c> History<'c> {
    fn begin(seed: u64, counts: &'c mut Counts) -> Self {
        // Tapes that were labelled since are not scratch any more, and each restore may leave some.
        let options = VirtualCartridgeOptions::default();
        let instance = Instance::with_many_tapes(60, ByteCount::mib(512), options, |settings| {
            at_rest_for_years(settings);
            if has_bases(seed) {
                settings.change_log = often_with_bases();
            }
        });
        let days = Days::new();
        let archive = open_trusting(&instance, days.clock.clone());
        let kept = Kept::begin(&archive);
        let numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ (seed + 1).wrapping_mul(0xd134_2543_de82_ef95));
        let (contents, points) = (Contents::new(), Vec::new());
        let (next, uploads, fates) = (seed << 20, Vec::new(), Fates::default());
        let mut this = History {
            instance,
            archive,
            numbers,
            contents,
            kept,
            days,
            points,
            next,
            uploads,
            fates,
            counts,
        };
        (0..8).for_each(|_| _ = this.numbers.below(2));
        (0..5).for_each(|_| this.put_some());
        (0..20).for_each(|_| this.step_of_buckets());
        this.fates.step(BTreeSet::new(), &this.alive(), false);
        this.mark();
        this
    }

    /// Counts what was done, and says it: the output of a history that fails tells how it came to it.
    fn count(&mut self, what: &'static str) {
        println!("  {what}");
        *self.counts.happened.entry(what).or_default() += 1;
    }

    fn put_some(&mut self) {
        for _ in 0..3 + self.numbers.below(8) {
            let length = [700, 5_000, 40_000, 300_000, 2_300_000][self.numbers.below(5)];
            let name = format!("/d{}/f{}", self.numbers.below(4), self.numbers.below(40));
            self.next += 1;
            let content = bytes(self.next, length + self.numbers.below(500));
            put(&self.archive, &name, &content);
            self.forget(&name);
            self.contents.insert(name, content);
        }
    }

    fn a_file(&mut self) -> Option<String> {
        let at = self.numbers.below(self.contents.len());
        self.contents.keys().nth(at).cloned()
    }

    fn mark(&mut self) {
        let change = shipped(&self.archive);
        self.points.push(Point { change, contents: self.contents.clone(), kept: self.kept.clone() });
    }

    /// A step, and what it deleted.
    fn step(self) -> Self {
        let before = self.alive();
        let mut this = self.any_step();
        this.note_fates(before);
        this
    }

    /// All that the archive is to have now.
    fn alive(&self) -> BTreeSet<Mark> {
        self.contents.values().map(Vec::as_slice).chain(self.kept.contents()).map(mark_of).collect()
    }

    fn note_fates(&mut self, before: BTreeSet<Mark>) {
        let quarantined = self.archive.quarantine().unwrap().is_some();
        let after = self.alive();
        self.fates.step(before, &after, quarantined);
    }

    /// Five of twelve are about what buckets keep.
    fn any_step(mut self) -> Self {
        match self.numbers.below(12) {
            0..=4 => {
                self.step_of_buckets();
                self
            }
            5 => self.restart(),
            _ => {
                self.step_of_files();
                self
            }
        }
    }

    fn step_of_buckets(&mut self) {
        let what = self.kept.step(&self.archive, &self.days, &mut self.numbers, &mut self.next);
        if !what.is_empty() {
            self.count(what);
        }
    }

    /// The server is down for days, or its clock is set wrong or right.
    fn restart(self) -> Self {
        let History { instance, archive, mut numbers, mut days, .. } = self;
        archive.close();
        drop(archive);
        days.pass(&mut numbers);
        let archive = open_trusting(&instance, days.clock.clone());
        let mut this = History { instance, archive, numbers, days, ..self };
        this.started();
        this
    }

    fn started(&mut self) {
        let what = self.kept.started(&self.archive, &self.days, &mut self.counts.looked);
        self.count(what);
    }

    fn step_of_files(&mut self) {
        let what = match self.numbers.below(23) {
            20 | 21 => self.step_of_uploads(),
            22 => self.copy(),
            1..=4 => {
                self.put_some();
                "put"
            }
            5 => {
                if let Some(name) = self.a_file() {
                    self.archive.remove(&path(&name)).unwrap();
                    self.forget(&name);
                }
                "remove"
            }
            6..=9 => {
                migrate_all(&self.archive);
                "migrate"
            }
            10..=13 => {
                self.archive.evict(&all(&["/"])).unwrap();
                "evict"
            }
            0 => {
                self.mark();
                "mark"
            }
            14 => {
                self.stage_all();
                "stage"
            }
            // What is lost for good stays degraded for good.
            15 | 16 if self.kept.holds_what_is_lost() => "",
            15 | 16 => {
                let drive = self.numbers.below(8) as u16;
                let round = self.counts.happened.values().sum::<u64>();
                replace_lost(&self.archive, &self.instance, drive, round);
                "replace"
            }
            17 | 18 => {
                self.repack();
                "repack"
            }
            _ => {
                self.mark();
                "mark"
            }
        };
        if !what.is_empty() {
            self.count(what);
        }
    }

    /// Begins an upload in parts, or completes one.
    fn step_of_uploads(&mut self) -> &'static str {
        if self.uploads.is_empty() || self.numbers.below(3) == 0 {
            self.next += 1;
            let length = [40_000, 300_000, 2_300_000][self.numbers.below(3)] + self.numbers.below(500);
            let (name, content) = (format!("/u/f{}", self.next), bytes(self.next, length));
            let upload = begin_upload(&self.archive, &name, &content);
            self.uploads.push((upload, name, content));
            return "upload";
        }
        let at = self.numbers.below(self.uploads.len());
        let (upload, name, content) = self.uploads.remove(at);
        self.archive.complete_multipart(upload, &[1], CompleteOptions::default()).unwrap();
        self.contents.insert(name, content);
        "upload completed"
    }

    /// A file is removed, or put anew.
    fn forget(&mut self, name: &str) {
        if let Some(content) = self.contents.remove(name) {
            self.fates.given_up.insert((name.to_owned(), mark_of(&content)));
        }
    }

    /// Another file with the same bytes.
    fn copy(&mut self) -> &'static str {
        let Some(from) = self.a_file() else { return "" };
        self.next += 1;
        let to = format!("/c/f{}", self.next);
        let (from_path, options) = (path(&from), CloneOptions::default());
        match self.archive.clone_object(&from_path, Which::Current, &path(&to), options) {
            Ok(_) => {
                let content = self.contents[&from].clone();
                let copies = match content.len() <= SMALL_MAX {
                    true => &mut self.fates.copied,
                    false => &mut self.fates.shared,
                };
                copies.insert(mark_of(&content));
                self.contents.insert(to, content);
                "copy"
            }
            Err(ArchiveError::Nearline { .. }) => "",
            Err(error) => panic!("{from}: {error}"),
        }
    }

    fn stage_all(&mut self) {
        if !self.contents.is_empty() {
            let request = stage(&self.archive, &["/"]);
            wait_for(&self.archive, request);
            self.archive.release(request, None).unwrap();
        }
    }

    /// A tape is emptied and, if nothing forbids it, made scratch.
    fn repack(&mut self) {
        migrate_all(&self.archive);
        let tapes = self.archive.tapes().unwrap();
        let labelled: Vec<_> = tapes.into_iter().filter(|tape| tape.containers > 0).collect();
        if labelled.is_empty() {
            return;
        }
        let vid = labelled[self.numbers.below(labelled.len())].vid;
        if self.numbers.below(2) == 0 && self.archive.quarantine().unwrap().is_some() {
            give_up_the_past(&self.archive, &self.instance);
            self.archive.end_quarantine().unwrap();
            self.count("quarantine ended");
            // Points of before cannot be gone back to any more.
            self.points.clear();
            self.mark();
        }
        self.archive.repack_tape(vid, "for the test").unwrap();
        let begin = std::time::Instant::now();
        while !self.archive.tape_repack(vid).unwrap().is_some_and(|repack| repack.done) {
            self.archive.migrate_now(None).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(begin.elapsed() < crate::common::PATIENCE, "{vid}: {}", self.state());
        }
        if self.archive.quarantine().unwrap().is_none() {
            wait_until("it can be reclaimed", || self.archive.reclaim_tape(vid).is_ok());
            self.count("reclaimed");
        }
    }

    /// For people, when something went wrong.
    fn state(&self) -> String {
        let tapes = self.archive.tapes().unwrap().into_iter();
        let tapes: Vec<_> = tapes
            .map(|tape| {
                let why = self.archive.tape_repack(tape.vid);
                format!("{} {:?} {} {} {why:?}", tape.vid, tape.state, tape.containers, tape.reason)
            })
            .collect();
        format!("{:?}\n{}", self.counts.happened, tapes.join("\n"))
    }

    /// Goes back to a random point and looks for every file of it.
    fn restore(self) -> Self {
        let History { instance, archive, mut numbers, mut days, points, .. } = self;
        // The newest as often as all others: it holds most.
        let at = numbers.below(2 * points.len()).min(points.len() - 1);
        let Point { change, contents, kept } = points[at].clone();
        restore_to(&instance, archive, change);
        days.pass(&mut numbers);
        let archive = open_trusting(&instance, days.clock.clone());
        let uploads = Vec::new();
        let mut this = History { instance, archive, numbers, contents, kept, days, points, uploads, ..self };
        this.fates.restores += 1;
        this.count("restores");
        let before = this.alive();
        this.started();
        check(&this.archive);
        this.compare();
        this.kept.check(&this.instance, &this.archive, &this.fates, &mut this.counts.looked);
        this.note_fates(before);
        // An operator has looked at them.
        for tape in this.archive.tapes().unwrap() {
            if tape.state == TapeState::ReadOnly {
                this.archive.set_tape(tape.vid, TapeUse::Active, "").unwrap();
            }
        }
        // The line that begins here is one to come back to as well.
        this.mark();
        this
    }

    /// Bases were written and the log trimmed behind them: the tapes alone give back what there is.
    fn rebuild(self) {
        let History { instance, archive, days, .. } = self;
        if archive.quarantine().unwrap().is_some() {
            give_up_the_past(&archive, &instance);
            archive.end_quarantine().unwrap();
        }
        put(&archive, "/n/name", &bytes(5, 90));
        changes_of_names(&archive, "/n/name", 2 * often_with_bases().base_changes);
        let last = archive.change_log().unwrap().last;
        migrate_all(&archive);
        wait_until("the tapes have a base", || archive.change_log().unwrap().base >= last);
        wait_until("the log is trimmed", || archive.change_log().unwrap().first > last / 2);
        migrate_all(&archive);
        let (before, base) = (facts(&archive), archive.change_log().unwrap().base);
        archive.close();
        drop(archive);
        destroy_catalogue(&instance);
        let rebuilt = try_rebuild(&instance).unwrap();
        let is_whole = (rebuilt.missing_from, rebuilt.inconsistencies) == (None, 0);
        assert!(is_whole && rebuilt.base.is_some_and(|found| found >= base), "{rebuilt:?}");
        let archive = open_trusting(&instance, days.clock.clone());
        assert_eq!(facts(&archive), before);
        archive.close();
    }

    /// Every file has the bytes that it had; one that is lost is on no medium.
    fn compare(&mut self) {
        self.stage_all();
        for (name, content) in self.contents.clone() {
            let Ok(Stat::File(stat)) = self.archive.stat(&path(&name)) else {
                panic!("{name} has no entry after the restore");
            };
            self.counts.files += 1;
            if stat.locality != Locality::Lost {
                let read = get(&self.archive, &name);
                let read = read.unwrap_or_else(|error| panic!("{name}: {error}; {stat:?}; {}", self.state()));
                assert!(read == content, "{name} differs");
                continue;
            }
            gone_from_all_media(&self.instance, &self.fates, &name, &content);
            self.counts.gone += 1;
            // What is lost is not looked for again.
            self.archive.remove(&path(&name)).unwrap();
            self.contents.remove(&name);
        }
    }
}

/// Begins an upload in parts of a file below `/u`, and puts its first part.
pub fn begin_upload(archive: &Archive, name: &str, content: &[u8]) -> UploadId {
    archive.make_directory(&path("/u"), Default::default(), None, true).unwrap();
    let upload = archive.open_multipart(&path(name), PutOptions::default()).unwrap();
    let mut part = archive.begin_part(upload, 1, Some(ByteCount(content.len() as u64))).unwrap();
    part.write(content).unwrap();
    part.finish(Vec::new()).unwrap();
    upload
}

/// What is said to be lost is on no medium, or of a stripe there are too few shards and lost drives have the
/// others. What nobody deleted with the right to is on lost drives.
pub fn gone_from_all_media(instance: &Instance, fates: &Fates, what: &str, content: &[u8]) {
    let mark = mark_of(content);
    if fates.copied.contains(&mark) {
        return;
    }
    let held = media_with(instance, &mark);
    if held.is_empty() && !fates.may_be_gone.contains(&mark) {
        let lost = lost_drives(instance).into_iter().map(|drive| drive.join("extents"));
        assert!(!files_with(lost, &mark).is_empty(), "{what} ({} bytes) was destroyed", content.len());
    }
    let cartridges = &instance.settings.library.files().unwrap().directory;
    let may_be_a_copy =
        fates.shared.contains(&mark) && fates.given_up.contains(&(what.to_owned(), mark.clone()));
    for place in held.into_iter().filter(|place| !(may_be_a_copy && place.starts_with(cartridges))) {
        let is_gone = Shard::at(&place).is_some_and(|shard| shard.is_of_lost_stripe(instance));
        assert!(is_gone, "{what} ({} bytes) is LOST and stands in {}", content.len(), place.display());
    }
}

/// A shard of a stripe, as its first cell and its name tell (docs/format/pool.md).
struct Shard {
    /// `<blob>.<stripe>.`: how the names of all shards of its stripe begin.
    stripe: String,
    /// How many shards give all bytes, and how many there were.
    data: usize,
    all: usize,
}

impl Shard {
    fn at(place: &Path) -> Option<Shard> {
        let head = fs::read(place).ok()?;
        let (name, _) = place.file_name()?.to_str()?.rsplit_once('.')?;
        let [data, parity] = [head.get(49)?, head.get(50)?].map(|&count| usize::from(count));
        head.starts_with(b"KISTCELL").then(|| Shard { stripe: format!("{name}."), data, all: data + parity })
    }

    /// Whether lost drives took so many shards that the others are not enough, and nobody else took any.
    fn is_of_lost_stripe(&self, instance: &Instance) -> bool {
        let here =
            self.numbers(instance.settings.pool.drives.iter().map(|drive| drive.at.directory().to_owned()));
        let lost = self.numbers(lost_drives(instance).into_iter());
        println!("stripe {}: shards {here:?} are here, {lost:?} on lost drives", self.stripe);
        here.len() < self.data && here.union(&lost).count() == self.all
    }

    /// The shards that stand on these drives.
    fn numbers(&self, drives: impl Iterator<Item = PathBuf>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        drives.for_each(|drive| {
            below(&drive.join("extents"), &mut |file| {
                let name = file.file_name().unwrap().to_string_lossy();
                found.extend(name.strip_prefix(&self.stripe).map(str::to_owned));
            });
        });
        found
    }
}

/// What was in the places of drives that were lost.
fn lost_drives(instance: &Instance) -> Vec<PathBuf> {
    let pool = instance.settings.pool.drives[0].at.directory().parent().unwrap();
    let drives = fs::read_dir(pool).unwrap().map(|drive| drive.unwrap().path());
    let is_lost =
        |path: &PathBuf| path.extension().is_some_and(|it| it.as_encoded_bytes().starts_with(b"gone"));
    drives.filter(is_lost).collect()
}

/// Nothing goes to tape unless it is asked for, whatever time passes.
fn at_rest_for_years(settings: &mut Settings) {
    // The last one, so that no size chooses it.
    let large = settings.classes.last().unwrap().clone();
    settings.classes.push(ClassSettings { name: COLD.to_owned(), cold: true, ..large });
    at_rest(settings);
    let years = Duration::from_secs(30 * 365 * 86_400);
    settings.classes.iter_mut().for_each(|class| class.pack_age = years);
    settings.tape_pools.iter_mut().for_each(|pool| pool.mount_age = years);
}

/// The files of pool drives and cartridges that hold these bytes.
fn media_with(instance: &Instance, mark: &[u8]) -> Vec<PathBuf> {
    let drives = instance.settings.pool.drives.iter().map(|drive| drive.at.directory().join("extents"));
    files_with(drives.chain([instance.settings.library.files().unwrap().directory.clone()]), mark)
}

fn files_with(places: impl Iterator<Item = PathBuf>, mark: &[u8]) -> Vec<PathBuf> {
    let mut held = Vec::new();
    places.for_each(|place| {
        below(&place, &mut |file| {
            let bytes = fs::read(file).unwrap_or_default();
            if memmem::find(&bytes, mark).is_some() {
                held.push(file.to_owned());
            }
        });
    });
    held
}

fn below(place: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => below(&entry.path(), visit),
            _ => visit(&entry.path()),
        }
    }
}

/// One history after another. One that fails ends none of the others; all that failed are named at the end.
pub fn run(histories: u64, first: u64) -> Counts {
    let mut counts = Counts::default();
    let mut failed = Vec::new();
    for seed in first..first + histories {
        println!("history {seed}");
        if catch_unwind(AssertUnwindSafe(|| run_one(seed, &mut counts))).is_err() {
            failed.push(seed);
        }
    }
    assert!(
        failed.is_empty(),
        "of {histories} histories these failed: {failed:?}; KIST_RESTORES_SEED repeats one"
    );
    counts
}

fn run_one(seed: u64, counts: &mut Counts) {
    let mut history = History::begin(seed, counts);
    for _ in 0..RESTORES {
        for _ in 0..STEPS {
            history = history.step();
        }
        history = history.restore();
    }
    if has_bases(seed) {
        history.count("rebuilds");
        history.rebuild();
    } else {
        history.archive.close();
    }
}

/// Every second history writes bases of its catalogue and trims the log behind them, between restores that
/// know nothing of either.
fn has_bases(seed: u64) -> bool {
    seed % 2 == 1
}

fn often_with_bases() -> ChangeLogSettings {
    let mut settings = ChangeLogSettings::default();
    (settings.base_changes, settings.base_log_percent) = (60, 0);
    (settings.keep_changes, settings.keep_age) = (20, Duration::ZERO);
    settings
}
