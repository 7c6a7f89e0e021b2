//! Of random histories the part with buckets: versions and markers, holds and retentions, lifecycle rules,
//! and days that pass while no engine runs, vouched for or not. Bucket `v` keeps versions, `p` does not, `s`
//! does but for the times in which that is suspended; all have a rule by which what is below `e/` expires,
//! and one that moves what is below `k/` to a cold class.

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
use crate::histories::{Fates, Numbers, gone_from_all_media};

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

    /// So many days pass.
    pub fn pass_days(&self, days: i64) {
        self.days.fetch_add(days, Ordering::Relaxed);
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
    /// Whether it was made while versions were suspended: the next such one takes its place.
    null: bool,
    /// Whether the rule has gone by: it looks at each file once.
    passed: bool,
    /// Whether a rule has moved it to the cold class.
    moved: bool,
}

/// What stands in the buckets at a moment, and what the catalogue knows of the time then.
#[derive(Clone, Default)]
pub struct Kept {
    /// All versions of a path, the newest last.
    keys: BTreeMap<String, Vec<Version>>,
    rule_on: bool,
    /// Whether bucket `s` keeps no versions at the moment.
    suspended: bool,
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
    pub moved: u64,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn keeps_versions(at: &str) -> bool {
    at.starts_with("/v/") || at.starts_with("/s/")
}

/// The class of a path's files that rules move.
pub const COLD: &str = "cold";

fn settings(bucket: &str, rule_on: bool, suspended: bool) -> BucketSettings {
    let (prefix, age) = match bucket {
        "a" | "z" => ("", Duration::from_nanos(1)),
        _ => ("e/", DAY * RULE_AGE_DAYS as u32),
    };
    let rule = |id: &str, prefix: &str, transition, expiration| LifecycleRule {
        id: id.to_owned(),
        enabled: rule_on,
        prefix: prefix.to_owned(),
        transition,
        expiration,
        abort_uploads: None,
    };
    let mut lifecycle = vec![rule("expire", prefix, None, Some(age))];
    if matches!(bucket, "p" | "s" | "v") {
        lifecycle.push(rule("move", "k/", Some((age, COLD.to_owned())), None));
    }
    let versioning = match bucket {
        "s" if suspended => Versioning::Suspended,
        "s" | "v" => Versioning::Enabled,
        _ => Versioning::Off,
    };
    BucketSettings { versioning, object_lock: bucket == "v", lifecycle, ..BucketSettings::default() }
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
        archive.set_bucket(&name(bucket), &settings(bucket, true, false)).unwrap();
        wait_until("the rules were looked at", || archive.stat(&path(&at)).is_err());
    }
}

impl Kept {
    pub fn begin(archive: &Archive) -> Self {
        for bucket in ["a", "p", "s", "v", "z"] {
            archive.make_bucket(&name(bucket), "ada", &settings(bucket, true, false)).unwrap();
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
        match numbers.below(13) {
            0..=4 => self.put_some(archive, numbers, next),
            5 => self.remove(archive, numbers),
            6 => self.remove_version(archive, numbers),
            7 => self.hold(archive, numbers, true),
            8 | 9 => self.hold(archive, numbers, false),
            10 => {
                self.rule_on = !self.rule_on;
                self.set_buckets(archive);
                self.run_rules(archive, &mut Looked::default());
                "rule turned"
            }
            11 => {
                self.suspended = !self.suspended;
                self.set_buckets(archive);
                if self.suspended { "versions suspended" } else { "versions kept again" }
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

    fn settings(&self, bucket: &str) -> BucketSettings {
        settings(bucket, self.rule_on, self.suspended)
    }

    fn set_buckets(&self, archive: &Archive) {
        for bucket in ["p", "s", "v"] {
            archive.set_bucket(&name(bucket), &self.settings(bucket)).unwrap();
        }
    }

    fn put_some(&mut self, archive: &Archive, numbers: &mut Numbers, next: &mut u64) -> &'static str {
        for _ in 0..2 + numbers.below(5) {
            let (bucket, below) = (["v", "v", "s", "p"][numbers.below(4)], ["e", "k"][numbers.below(2)]);
            let at = format!("/{bucket}/{below}/o{}", numbers.below(5));
            *next += 1;
            let length = [700, 40_000, 300_000, 2_300_000][numbers.below(4)] + numbers.below(500);
            let content = bytes(*next, length);
            let length = Some(ByteCount(content.len() as u64));
            let options = PutOptions { length, make_parents: true, ..PutOptions::default() };
            let id = put_with(archive, &at, &content, options).unwrap().file;
            self.add(&at, id, Some(content));
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
            self.marked(&at, removed.version.unwrap());
        } else {
            drop(self.keys.remove(&at));
        }
        "delete"
    }

    fn marked(&mut self, at: &str, id: FileId) {
        self.add(at, id, None);
    }

    /// A new version, or marker, and what gives way to it.
    fn add(&mut self, at: &str, id: FileId, content: Option<Vec<u8>>) {
        let null = self.suspended && at.starts_with("/s/");
        let versions = self.keys.entry(at.to_owned()).or_default();
        versions.retain(|version| keeps_versions(at) && !(null && version.null));
        let (hold, day, in_doubt) = (Hold::default(), self.day, self.doubted);
        versions.push(Version { id, content, hold, day, in_doubt, null, passed: false, moved: false });
    }

    /// A version or marker of a key that matches: its path and its place among those.
    fn a_version(&self, numbers: &mut Numbers, matches: impl Fn(&str) -> bool) -> Option<(String, usize)> {
        let keys: Vec<&String> = self.keys.keys().filter(|at| matches(at)).collect();
        let at = (*keys.get(numbers.below(keys.len()))?).clone();
        let place = numbers.below(self.keys[&at].len());
        Some((at, place))
    }

    fn remove_version(&mut self, archive: &Archive, numbers: &mut Numbers) -> &'static str {
        let Some((at, place)) = self.a_version(numbers, keeps_versions) else { return "" };
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
        let Some((at, place)) = self.a_version(numbers, |at| at.starts_with("/v/")) else { return "" };
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

    /// What is of age now goes or is moved, and nothing else is.
    fn run_rules(&mut self, archive: &Archive, looked: &mut Looked) {
        let_a_turn_go_by(archive);
        if !self.rule_on {
            return;
        }
        let (day, mut due) = (self.day, Vec::new());
        for (at, versions) in &mut self.keys {
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
            let found = archive.object(&path(&at), Which::Current);
            // No rule looks at what is lost.
            if matches!(&found, Ok(stat) if stat.file.file == id && stat.file.locality == Locality::Lost) {
                continue;
            }
            match (at.as_bytes()[3], found) {
                (b'e', Err(ArchiveError::DeleteMarker { version, .. })) if keeps_versions(&at) => {
                    looked.expired += 1;
                    self.marked(&at, version);
                }
                (b'e', Err(ArchiveError::NotFound(_))) if !keeps_versions(&at) => {
                    looked.expired += 1;
                    drop(self.keys.remove(&at));
                }
                (b'k', Ok(stat)) if stat.file.file == id && stat.file.class == COLD => {
                    looked.moved += 1;
                    let versions = self.keys.get_mut(&at).unwrap();
                    versions.last_mut().unwrap().moved = true;
                }
                (_, other) => panic!("{at} is of age on day {day}: {other:?}"),
            }
        }
    }

    /// The bytes of all versions.
    pub fn contents(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.values().flatten().filter_map(|version| version.content.as_deref())
    }

    /// Every version is listed and has the bytes and the hold that it had; what is held is refused.
    pub fn check(&mut self, instance: &Instance, archive: &Archive, fates: &Fates, looked: &mut Looked) {
        self.check_listed(archive);
        for bucket in ["p", "s", "v"] {
            let found = archive.bucket(&name(bucket)).unwrap().settings;
            assert_eq!(found, self.settings(bucket), "bucket {bucket}");
        }
        let mut lost: Vec<(String, FileId)> = Vec::new();
        for (at, versions) in &self.keys {
            for version in versions {
                let Some(content) = &version.content else { continue };
                looked.versions += 1;
                check_hold(archive, at, version, looked);
                let class = archive.object(&path(at), Which::Version(version.id)).unwrap().file.class;
                assert_eq!(class == COLD, version.moved, "{at}, version {}: class {class}", version.id);
                if !check_bytes((instance, archive, fates), at, (version.id, content)) {
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
        let found = ["/p", "/s", "/v"].map(|bucket| listed(archive, bucket)).concat();
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
fn check_bytes(
    (instance, archive, fates): (&Instance, &Archive, &Fates),
    at: &str,
    (id, content): (FileId, &[u8]),
) -> bool {
    let (path, which) = (path(at), Which::Version(id));
    let locality = || archive.object(&path, which).unwrap().file.locality;
    if locality() == Locality::Nearline {
        // A stage by path means the current versions only.
        let options = StageOptions { owner: "test".to_owned(), pin: Duration::from_secs(60), priority: 5 };
        archive.restore_object(&path, which, options).unwrap();
        wait_until("the version is back", || locality() != Locality::Nearline);
    }
    if locality() == Locality::Lost {
        gone_from_all_media(instance, fates, &format!("{at}, version {id}"), content);
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
