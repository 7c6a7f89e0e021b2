//! Of random histories the part with buckets: versions and markers, holds and retentions, lifecycle rules,
//! and days that pass while no engine runs, vouched for or not. Bucket `v` keeps versions, `p` does not; both
//! have one rule for what is below `e/`.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use archive::{
    Archive, ArchiveError, BucketSettings, Hold, KeyLine, KeyQuery, LifecycleRule, Locality, ObjectLine,
    PutOptions, Retention, RetentionMode, StageOptions, VersionQuery, Versioning, Which,
};
use base::{ByteCount, Clock, Duration, FileId, Name, Timestamp};

use crate::common::{Instance, SystemClock, bytes, path, put_with, wait_until};
use crate::histories::{Numbers, gone_from_all_media};

const DAY: Duration = Duration::from_secs(86_400);
/// Days pass in twos and ages are odd, so that the seconds that a test takes decide nothing.
const RULE_AGE_DAYS: i64 = 3;
/// A start believes the system's clock up to a week.
const BELIEVED_DAYS: i64 = 7;
/// How far a clock is ahead that is wrong.
const FAR_DAYS: i64 = 4_000;

/// The system's clock, so many days ahead; set only while no engine runs.
pub struct DayClock {
    days: AtomicI64,
    began: std::time::Instant,
}

impl DayClock {
    pub fn new() -> Arc<Self> {
        Arc::new(DayClock { days: AtomicI64::new(0), began: std::time::Instant::now() })
    }
}

impl Clock for DayClock {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.days.load(Ordering::Relaxed) * 86_400_000_000_000)
    }

    fn steady(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The days as they are in the world, whatever the catalogue knows of them.
pub struct Days {
    pub clock: Arc<DayClock>,
    true_day: i64,
    is_far: bool,
}

impl Days {
    pub fn new() -> Self {
        Days { clock: DayClock::new(), true_day: 0, is_far: false }
    }

    /// Some days pass, or the clock is set far ahead, or right again; the engine does not run.
    pub fn pass(&mut self, numbers: &mut Numbers) {
        match numbers.below(6) {
            0 => self.is_far = true,
            1 | 2 => self.is_far = false,
            _ => self.true_day += 2 * (1 + numbers.below(3) as i64),
        }
        self.clock.days.store(self.shown(), Ordering::Relaxed);
    }

    fn shown(&self) -> i64 {
        self.true_day + if self.is_far { FAR_DAYS } else { 0 }
    }
}

/// A version or, without bytes, a delete marker.
#[derive(Clone)]
struct Version {
    id: FileId,
    content: Option<Vec<u8>>,
    hold: Hold,
    /// The day from which its age counts, and whether that was in doubt when it was put.
    day: i64,
    in_doubt: bool,
    /// Whether the rule has gone by: it looks at each file once.
    passed: bool,
}

/// What stands in the buckets at a moment, and what the catalogue knows of the time then.
#[derive(Clone, Default)]
pub struct Kept {
    /// All versions of a path, the newest last.
    keys: BTreeMap<String, Vec<Version>>,
    rule_on: bool,
    day: i64,
    doubted: bool,
    /// Days that starts have believed on nobody's word, and that have not passed since.
    believed: i64,
    /// Versions that are on no medium and stay all the same, since they are held.
    lost: BTreeSet<FileId>,
}

/// What was looked at, for the line of figures.
#[derive(Default)]
pub struct Looked {
    pub versions: u64,
    pub gone: u64,
    pub holds: u64,
    pub expired: u64,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn keeps_versions(at: &str) -> bool {
    at.starts_with("/v/")
}

fn settings(bucket: &str, rule_on: bool) -> BucketSettings {
    let (prefix, age) = match bucket {
        "a" | "z" => ("", Duration::from_nanos(1)),
        _ => ("e/", DAY * RULE_AGE_DAYS as u32),
    };
    let rule = LifecycleRule {
        id: "expire".to_owned(),
        enabled: rule_on,
        prefix: prefix.to_owned(),
        transition: None,
        expiration: Some(age),
        abort_uploads: None,
    };
    let keeps = bucket == "v";
    let versioning = if keeps { Versioning::Enabled } else { Versioning::Off };
    BucketSettings { versioning, object_lock: keeps, lifecycle: vec![rule], ..BucketSettings::default() }
}

fn trusted(archive: &Archive) -> Timestamp {
    archive.clock_info().unwrap().standing.trusted
}

fn is_held(hold: Hold, now: Timestamp) -> bool {
    hold.legal || hold.retention.is_some_and(|retention| retention.until > now)
}

/// Lets a turn of the rules go by that began after this was called. Each turn reads which buckets there are,
/// then takes them by name: `z` ends one that may have begun before, `a` begins another, `z` ends it.
fn let_a_turn_go_by(archive: &Archive) {
    for bucket in ["z", "a", "z"] {
        let at = format!("/{bucket}/now");
        put_with(archive, &at, b"now", PutOptions::default()).unwrap();
        archive.set_bucket(&name(bucket), &settings(bucket, true)).unwrap();
        wait_until("the rules were looked at", || archive.stat(&path(&at)).is_err());
    }
}

impl Kept {
    pub fn begin(archive: &Archive) -> Self {
        for bucket in ["a", "p", "v", "z"] {
            archive.make_bucket(&name(bucket), "ada", &settings(bucket, true)).unwrap();
        }
        Kept { rule_on: true, ..Kept::default() }
    }

    /// A step; what was done.
    pub fn step(
        &mut self,
        archive: &Archive,
        days: &Days,
        numbers: &mut Numbers,
        next: &mut u64,
    ) -> &'static str {
        match numbers.below(12) {
            0..=4 => self.put_some(archive, numbers, next),
            5 => self.remove(archive, numbers),
            6 => self.remove_version(archive, numbers),
            7 => self.hold(archive, numbers, true),
            8 | 9 => self.hold(archive, numbers, false),
            10 => {
                self.rule_on = !self.rule_on;
                for bucket in ["p", "v"] {
                    archive.set_bucket(&name(bucket), &settings(bucket, self.rule_on)).unwrap();
                }
                self.run_rules(archive, &mut Looked::default());
                "rule turned"
            }
            _ if days.is_far || !self.doubted => "",
            _ => {
                archive.accept_time(days.clock.now(), false).unwrap();
                self.leap(days.shown());
                self.run_rules(archive, &mut Looked::default());
                "time accepted"
            }
        }
    }

    fn put_some(&mut self, archive: &Archive, numbers: &mut Numbers, next: &mut u64) -> &'static str {
        for _ in 0..2 + numbers.below(5) {
            let (bucket, below) = (["v", "v", "p"][numbers.below(3)], ["e", "k"][numbers.below(2)]);
            let at = format!("/{bucket}/{below}/o{}", numbers.below(5));
            *next += 1;
            let length = [700, 40_000, 300_000, 2_300_000][numbers.below(4)] + numbers.below(500);
            let content = bytes(*next, length);
            let length = Some(ByteCount(content.len() as u64));
            let options = PutOptions { length, make_parents: true, ..PutOptions::default() };
            let id = put_with(archive, &at, &content, options).unwrap().file;
            let versions = self.keys.entry(at.clone()).or_default();
            if !keeps_versions(&at) {
                versions.clear();
            }
            let (content, hold, passed) = (Some(content), Hold::default(), false);
            versions.push(Version { id, content, hold, day: self.day, in_doubt: self.doubted, passed });
        }
        "put versions"
    }

    fn a_key(&self, numbers: &mut Numbers) -> Option<String> {
        let at = numbers.below(self.keys.len());
        self.keys.keys().nth(at).cloned()
    }

    fn remove(&mut self, archive: &Archive, numbers: &mut Numbers) -> &'static str {
        let Some(at) = self.a_key(numbers) else { return "" };
        let removed = archive.remove_object(&path(&at), Which::Current, false).unwrap();
        assert_eq!(removed.marker, keeps_versions(&at), "{at}");
        if removed.marker {
            self.marked(&at, removed.version.unwrap())
        } else {
            drop(self.keys.remove(&at))
        }
        "delete"
    }

    fn marked(&mut self, at: &str, id: FileId) {
        let (hold, day, in_doubt) = (Hold::default(), self.day, self.doubted);
        let marker = Version { id, content: None, hold, day, in_doubt, passed: false };
        self.keys.get_mut(at).unwrap().push(marker);
    }

    /// A version or marker of bucket `v`: its path and its place among those.
    fn a_version(&self, numbers: &mut Numbers) -> Option<(String, usize)> {
        let keys: Vec<&String> = self.keys.keys().filter(|at| keeps_versions(at)).collect();
        let at = (*keys.get(numbers.below(keys.len()))?).clone();
        let place = numbers.below(self.keys[&at].len());
        Some((at, place))
    }

    fn remove_version(&mut self, archive: &Archive, numbers: &mut Numbers) -> &'static str {
        let Some((at, place)) = self.a_version(numbers) else { return "" };
        let versions = self.keys.get_mut(&at).unwrap();
        let which = Which::Version(versions[place].id);
        let removed = archive.remove_object(&path(&at), which, false);
        if is_held(versions[place].hold, trusted(archive)) {
            assert!(matches!(removed, Err(ArchiveError::Held { .. })), "{at}: {removed:?}");
            return "delete of what is held";
        }
        removed.unwrap();
        versions.remove(place);
        if versions.is_empty() {
            self.keys.remove(&at);
        }
        "delete version"
    }

    /// Sets or releases a legal hold, or sets or prolongs a retention.
    fn hold(&mut self, archive: &Archive, numbers: &mut Numbers, legal: bool) -> &'static str {
        let Some((at, place)) = self.a_version(numbers) else { return "" };
        let now = trusted(archive);
        let version = &mut self.keys.get_mut(&at).unwrap()[place];
        if version.content.is_none() {
            return "";
        }
        let mut hold = version.hold;
        if legal {
            hold.legal = !hold.legal;
        } else {
            let old = hold.retention.filter(|retention| retention.until > now);
            let until = now.plus(DAY * (1 + 2 * numbers.below(8) as u32));
            let mode = [RetentionMode::Governance, RetentionMode::Compliance][numbers.below(2)];
            let mode = old.map_or(mode, |old| if numbers.below(2) == 0 { old.mode } else { mode });
            let is_weaker = old.is_some_and(|old| old.mode == RetentionMode::Compliance);
            let mode = if is_weaker { RetentionMode::Compliance } else { mode };
            let until = old.map_or(until, |old| until.max(old.until));
            hold.retention = Some(Retention { mode, until });
        }
        // To make it harder to undo is the word of whoever may undo it.
        let mode = |hold: Hold| hold.retention.filter(|retention| retention.until > now).map(|it| it.mode);
        let is_harder = mode(version.hold) == Some(RetentionMode::Governance)
            && mode(hold) == Some(RetentionMode::Compliance);
        archive.set_hold(&path(&at), Which::Version(version.id), hold, is_harder).unwrap();
        version.hold = hold;
        match (legal, hold.legal) {
            (true, true) => "legal hold",
            (true, false) => "legal hold released",
            (false, _) => "retention",
        }
    }

    /// The engine has started: what the catalogue believes of the time, and what its rules do then.
    pub fn started(&mut self, archive: &Archive, days: &Days, looked: &mut Looked) -> &'static str {
        let ahead = days.shown() - self.day;
        let what = if ahead > BELIEVED_DAYS - self.believed {
            self.doubted = true;
            "start unvouched"
        } else if ahead > 0 {
            let believed = self.believed + ahead;
            self.leap(days.shown());
            self.believed = believed;
            "start days later"
        } else {
            self.doubt_ended();
            "start"
        };
        let standing = archive.clock_info().unwrap();
        assert_eq!(standing.doubted.is_some(), self.doubted, "{what}: {standing:?}");
        self.run_rules(archive, looked);
        what
    }

    fn leap(&mut self, day: i64) {
        for version in self.keys.values_mut().flatten().filter(|version| version.in_doubt) {
            version.day = day;
        }
        self.believed = (self.believed - (day - self.day)).max(0);
        self.day = day;
        self.doubt_ended();
    }

    fn doubt_ended(&mut self) {
        self.doubted = false;
        self.keys.values_mut().flatten().for_each(|version| version.in_doubt = false);
    }

    /// What is of age now goes, and nothing else does.
    fn run_rules(&mut self, archive: &Archive, looked: &mut Looked) {
        let_a_turn_go_by(archive);
        if !self.rule_on {
            return;
        }
        let (day, mut due) = (self.day, Vec::new());
        for (at, versions) in self.keys.iter_mut().filter(|(at, _)| at.as_bytes()[3] == b'e') {
            let current = versions.len() - 1;
            for (place, version) in versions.iter_mut().enumerate() {
                let is_due =
                    !version.passed && version.content.is_some() && day - version.day > RULE_AGE_DAYS;
                version.passed |= is_due;
                if is_due && place == current {
                    due.push((at.clone(), version.id));
                }
            }
        }
        for (at, id) in due {
            match archive.object(&path(&at), Which::Current) {
                Err(ArchiveError::DeleteMarker { version, .. }) if keeps_versions(&at) => {
                    self.marked(&at, version)
                }
                Err(ArchiveError::NotFound(_)) if !keeps_versions(&at) => drop(self.keys.remove(&at)),
                // No rule looks at what is lost.
                Ok(stat) if stat.file.file == id && stat.file.locality == Locality::Lost => continue,
                other => panic!("{at} is of age on day {day}: {other:?}"),
            }
            looked.expired += 1;
        }
    }

    /// Every version is listed and has the bytes and the hold that it had; what is held is refused.
    pub fn check(&mut self, instance: &Instance, archive: &Archive, looked: &mut Looked) {
        self.check_listed(archive);
        for bucket in ["p", "v"] {
            let found = archive.bucket(&name(bucket)).unwrap().settings;
            assert_eq!(found, settings(bucket, self.rule_on), "bucket {bucket}");
        }
        let mut lost: Vec<(String, FileId)> = Vec::new();
        for (at, versions) in &self.keys {
            for version in versions {
                let Some(content) = &version.content else { continue };
                looked.versions += 1;
                check_hold(archive, at, version, looked);
                if !check_bytes(instance, archive, at, (version.id, content)) {
                    looked.gone += 1;
                    lost.push((at.clone(), version.id));
                }
            }
        }
        self.forget_lost(archive, lost);
        let_a_turn_go_by(archive);
        self.check_listed(archive);
    }

    /// What is lost is not looked for again, if it may be removed.
    fn forget_lost(&mut self, archive: &Archive, lost: Vec<(String, FileId)>) {
        self.lost.clear();
        let now = trusted(archive);
        for (at, id) in lost {
            let versions = self.keys.get_mut(&at).unwrap();
            let place = versions.iter().position(|version| version.id == id).unwrap();
            if is_held(versions[place].hold, now) {
                self.lost.insert(id);
                continue;
            }
            archive.remove_object(&path(&at), Which::Version(id), true).unwrap();
            versions.remove(place);
            if versions.is_empty() {
                self.keys.remove(&at);
            }
        }
    }

    /// Whether something is kept that no rebuild brings back.
    pub fn holds_what_is_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    fn check_listed(&self, archive: &Archive) {
        let mut wanted = Vec::new();
        for (at, versions) in &self.keys {
            for (place, version) in versions.iter().enumerate().rev() {
                let is_current = place + 1 == versions.len();
                wanted.push((at.clone(), version.id, is_current, version.content.is_none()));
            }
        }
        let found = [listed(archive, "/p"), listed(archive, "/v")].concat();
        assert_eq!(found, wanted, "path, version, current, marker");
    }
}

/// All versions of a bucket: path, id, whether it is current, whether it is a marker.
fn listed(archive: &Archive, bucket: &str) -> Vec<(String, FileId, bool, bool)> {
    let (prefix, after) = (String::new(), String::new());
    let keys = KeyQuery { bucket: path(bucket), prefix, delimiter: None, after, limit: 1_000 };
    let page = archive.list_versions(&VersionQuery { keys, after_version: None }).unwrap();
    assert!(page.next.is_none(), "more versions than a page takes");
    let of = |line: Box<ObjectLine>| {
        (format!("{bucket}/{}", line.key), line.file, line.is_current, line.is_marker)
    };
    let lines = page.lines.into_iter().map(|line| match line {
        KeyLine::Object(line) => of(line),
        KeyLine::Prefix(prefix) => panic!("no delimiter was asked for: {prefix}"),
    });
    lines.collect()
}

fn check_hold(archive: &Archive, at: &str, version: &Version, looked: &mut Looked) {
    let which = Which::Version(version.id);
    let hold = archive.object(&path(at), which).unwrap().hold;
    assert_eq!(hold, version.hold, "{at}, version {}", version.id);
    let now = trusted(archive);
    if !is_held(hold, now) {
        return;
    }
    looked.holds += 1;
    let governance = |retention: Retention| retention.mode == RetentionMode::Governance;
    let may_bypass = !hold.legal && hold.retention.is_some_and(governance);
    for bypass in [false, true].into_iter().filter(|bypass| !(*bypass && may_bypass)) {
        let removed = archive.remove_object(&path(at), which, bypass);
        assert!(matches!(removed, Err(ArchiveError::Held { .. })), "{at}: {hold:?} at {now}: {removed:?}");
    }
}

/// Whether any medium has the version; then its bytes are what they were.
fn check_bytes(instance: &Instance, archive: &Archive, at: &str, (id, content): (FileId, &[u8])) -> bool {
    let (path, which) = (path(at), Which::Version(id));
    let locality = || archive.object(&path, which).unwrap().file.locality;
    if locality() == Locality::Nearline {
        // A stage by path means the current versions only.
        let options = StageOptions { owner: "test".to_owned(), pin: Duration::from_secs(60), priority: 5 };
        archive.restore_object(&path, which, options).unwrap();
        wait_until("the version is back", || locality() != Locality::Nearline);
    }
    if locality() == Locality::Lost {
        gone_from_all_media(instance, &format!("{at}, version {id}"), content);
        return false;
    }
    let mut download = archive.open_object(&path, which, "ada").unwrap();
    let mut read = Vec::with_capacity(content.len());
    while let Some(chunk) = download.next().unwrap() {
        read.extend_from_slice(chunk.as_ref());
    }
    assert!(read == content, "{at}, version {id} differs");
    true
}
