//! Versions of buckets, what keeps them, and files that share bytes: each rule, and random histories against
//! a list of versions a name.

use std::collections::BTreeMap;

use crate::common::*;
use base::*;
use catalogue::*;
use proptest::prelude::*;

const DAY: Duration = Duration::from_secs(86_400);

/// What a bucket of the tests is set to.
fn set_to(versioning: Versioning, object_lock: bool) -> BucketSettings {
    BucketSettings { versioning, object_lock, ..BucketSettings::default() }
}

trait Objects {
    fn bucket(&mut self, called: &str, settings: BucketSettings) -> DirId;
    fn put_in(&mut self, parent: DirId, file: &str, content: &str) -> FileId;
    fn object(&mut self, parent: DirId, file: &str, content: &str) -> Command;
    fn removal(&mut self, command: Command) -> Removal;
    fn current(&self, parent: DirId, file: &str) -> Option<FileId>;
    fn rows_of(&self, parent: DirId, file: &str) -> Vec<(FileId, bool)>;
}

impl Objects for Bench {
    fn bucket(&mut self, called: &str, settings: BucketSettings) -> DirId {
        let settings = Box::new(settings);
        match self.ok(Command::MakeBucket { name: name(called), attributes: Attributes::default(), settings })
        {
            Outcome::Directory(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn put_in(&mut self, parent: DirId, file: &str, content: &str) -> FileId {
        let command = self.object(parent, file, content);
        match self.ok(command) {
            Outcome::Put(PutOutcome { file, created: true, .. }) => file,
            other => panic!("{other:?}"),
        }
    }

    fn object(&mut self, parent: DirId, file: &str, content: &str) -> Command {
        let put = self.new_put(parent, file, content);
        Command::PutObject(Box::new(PutObject { put, if_current: None, hold: None, always: true }))
    }

    fn removal(&mut self, command: Command) -> Removal {
        match self.ok(command) {
            Outcome::RemovedVersion(removal) => removal,
            other => panic!("{other:?}"),
        }
    }

    fn current(&self, parent: DirId, file: &str) -> Option<FileId> {
        match self.view().entry(parent, &name(file)).unwrap() {
            Some(Entry::File(id)) => Some(id),
            _ => None,
        }
    }

    /// Each with whether it is a marker, newest first.
    fn rows_of(&self, parent: DirId, file: &str) -> Vec<(FileId, bool)> {
        let rows = self.view().versions(parent, &name(file), None, usize::MAX).unwrap();
        rows.into_iter().map(|(id, version)| (id, version != Version::File)).collect()
    }
}

fn remove(parent: DirId, file: &str) -> Command {
    Command::RemoveObject { parent, name: name(file), if_current: None }
}

fn remove_version(parent: DirId, file: &str, version: Option<FileId>, bypass: bool) -> Command {
    Command::RemoveVersion { parent, name: name(file), version, bypass }
}

fn rename(from: (DirId, &str), to: (DirId, &str)) -> Command {
    Command::Rename {
        from_parent: from.0,
        from_name: name(from.1),
        to_parent: to.0,
        to_name: name(to.1),
        replace: Replace::Allowed,
    }
}

#[test]
fn a_bucket_that_keeps_versions_keeps_what_is_replaced_and_deleted() {
    let mut bench = Bench::new();
    let dir = bench.bucket("b", set_to(Versioning::Enabled, false));
    let one = bench.put_in(dir, "a", "one");
    let two = bench.put_in(dir, "a", "two");
    assert_eq!((bench.current(dir, "a"), bench.rows_of(dir, "a")), (Some(two), vec![(one, false)]));
    assert_eq!(bench.file(one).state, FileState::Live);
    assert_eq!(bench.view().path_of_file(one).unwrap().unwrap(), "/b/a");
    assert_eq!(bench.view().tally(Counter::Class(bench.class)).unwrap().files, 2, "both count");
    let Removal { version: Some(marker), marker: true, gone: None } = bench.removal(remove(dir, "a")) else {
        panic!()
    };
    assert_eq!(bench.current(dir, "a"), None);
    assert_eq!(bench.rows_of(dir, "a"), [(marker, true), (two, false), (one, false)]);
    // A marker more, even without a file; and the directory stays while they are there.
    let again = bench.removal(remove(dir, "a")).version.unwrap();
    let refused = bench.rejected(Command::RemoveDirectory { parent: DirId::ROOT, name: name("b") });
    assert!(refused.contains("not empty"), "{refused}");
    for marker in [again, marker] {
        let removal = bench.removal(remove_version(dir, "a", Some(marker), false));
        assert_eq!(removal, Removal { version: Some(marker), marker: true, gone: None });
    }
    assert_eq!((bench.current(dir, "a"), bench.rows_of(dir, "a")), (Some(two), vec![(one, false)]));
    let removal = bench.removal(remove_version(dir, "a", Some(two), false));
    assert_eq!(removal, Removal { version: Some(two), marker: false, gone: Some(two) });
    assert_eq!((bench.current(dir, "a"), bench.rows_of(dir, "a")), (Some(one), vec![]));
    assert_eq!(bench.removal(remove_version(dir, "a", Some(two), false)), Removal::default());
    bench.removal(remove_version(dir, "a", Some(one), false));
    bench.ok(Command::RemoveDirectory { parent: DirId::ROOT, name: name("b") });
    assert_eq!(bench.view().bucket(dir).unwrap(), None, "the settings went with it");
    assert_eq!(bench.replayed(), bench.store);
}

#[test]
fn what_was_put_without_versions_has_no_number_and_gives_way_when_suspended() {
    let mut bench = Bench::new();
    let dir = bench.bucket("b", set_to(Versioning::Off, false));
    let set = |versioning| Command::SetBucket { dir, settings: Box::new(set_to(versioning, false)) };
    let null = bench.put_in(dir, "a", "null");
    bench.ok(set(Versioning::Enabled));
    let one = bench.put_in(dir, "a", "one");
    assert_eq!(bench.rows_of(dir, "a"), [(null, false)]);
    bench.ok(set(Versioning::Suspended));
    // The one without a number goes, the numbered one stays.
    let two = bench.put_in(dir, "a", "two");
    assert_eq!((bench.current(dir, "a"), bench.rows_of(dir, "a")), (Some(two), vec![(one, false)]));
    assert!(bench.view().file(null).unwrap().is_none());
    let marker = bench.removal(remove(dir, "a"));
    assert_eq!(marker.gone, Some(two));
    assert_eq!(bench.rows_of(dir, "a"), [(marker.version.unwrap(), true), (one, false)]);
    assert_eq!(bench.removal(remove_version(dir, "a", None, false)).version, marker.version);
    assert_eq!(bench.current(dir, "a"), Some(one));
    assert!(bench.rejected(set(Versioning::Off)).contains("suspend"));
    bench.ok(set(Versioning::Enabled));
    let three = bench.put_in(dir, "a", "three");
    let bucket = bench.view().bucket(dir).unwrap().unwrap();
    assert_eq!([null, one, two, three].map(|id| bucket.is_null(id)), [true, false, true, false]);
    // To and fro without a put in between is nothing.
    for versioning in [Versioning::Suspended, Versioning::Enabled] {
        bench.ok(set(versioning));
    }
    assert_eq!(bench.view().bucket(dir).unwrap().unwrap(), bucket);
}

#[test]
fn versions_go_to_tape_and_back_like_any_file() {
    let mut bench = Bench::new();
    let dir = bench.bucket("b", set_to(Versioning::Enabled, false));
    let old = bench.put_in(dir, "a", "old");
    bench.put_in(dir, "a", "new");
    let container = bench.pack(&[old]);
    bench.write_to(0, container);
    bench.write_to(1, container);
    bench.evict(old).unwrap();
    bench.request(&[old]);
    bench.recall(old);
    assert!(bench.file(old).is_online());
    bench.removal(remove_version(dir, "a", Some(old), false));
    assert!(bench.view().file(old).unwrap().is_none());
}

#[test]
fn a_condition_holds_when_the_put_is_committed() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "d");
    let one = bench.put_in(dir, "a", "one");
    let mut conditional = |expected| {
        let put = bench.new_put(dir, "a", "one");
        let put = PutObject { put, if_current: Some(expected), hold: None, always: true };
        bench.run(Command::PutObject(Box::new(put)))
    };
    let wrong = conditional(FileId(999));
    assert!(matches!(wrong, Err(Rejection::NotCurrent { current: Some(id), .. }) if id == one), "{wrong:?}");
    let Ok(Outcome::Put(done)) = conditional(one) else { panic!() };
    assert_eq!((done.created, done.replaced), (true, Some(one)), "the same bytes, put anew");
    assert!(matches!(conditional(one), Err(Rejection::NotCurrent { .. })));
    bench.removal(remove(dir, "a"));
    assert!(bench.current(dir, "a").is_none());
    assert_eq!(bench.removal(remove(dir, "a")), Removal::default(), "what is not there is no error");
}

#[test]
fn a_delete_of_what_was_seen_spares_what_was_put_since() {
    for versioning in [Versioning::Off, Versioning::Enabled, Versioning::Suspended] {
        let mut bench = Bench::new();
        let dir = bench.bucket("b", set_to(versioning, false));
        let old = bench.put_in(dir, "a", "old");
        let delete = |file| Command::RemoveObject { parent: dir, name: name("a"), if_current: Some(file) };
        let young = bench.put_in(dir, "a", "young");
        let refused = bench.rejected(delete(old));
        assert!(!refused.is_empty());
        assert_eq!(bench.current(dir, "a"), Some(young), "{versioning:?}");
        assert_eq!(bench.file(young).state, FileState::Live);
        let keeps = versioning == Versioning::Enabled;
        let removal = bench.removal(delete(young));
        assert_eq!(removal.gone, (!keeps).then_some(young), "{versioning:?}");
        bench.rejected(delete(young));
        assert_eq!(bench.current(dir, "a"), None);
    }
}

#[test]
fn a_put_that_names_a_hold_is_held_even_if_the_bytes_are_there() {
    let mut bench = Bench::new();
    let dir = bench.bucket("b", set_to(Versioning::Enabled, false));
    let old = bench.put_in(dir, "a", "same");
    let put = bench.new_put(dir, "a", "same");
    let hold = Hold { retention: None, legal: true };
    let put = PutObject { put, if_current: None, hold: Some(hold), always: false };
    let Outcome::Put(done) = bench.ok(Command::PutObject(Box::new(put))) else { panic!() };
    assert!(done.created && done.file != old);
    assert_eq!(bench.view().hold(done.file).unwrap(), hold);
}

#[test]
fn settings_that_contradict_one_another_are_refused() {
    let mut bench = Bench::new();
    let below = bench.mkdir(DirId::ROOT, "d");
    let deep = bench.mkdir(below, "e");
    let retention = Some((RetentionMode::Governance, DAY));
    let rule = |id: String| LifecycleRule {
        id,
        enabled: true,
        prefix: String::new(),
        transition: None,
        expiration: Some(DAY),
        abort_uploads: None,
    };
    let ruled = |lifecycle| BucketSettings { lifecycle, ..Default::default() };
    let wrong = [
        (below, ruled(vec![rule("r".repeat(256))])),
        (below, ruled(vec![rule("same".into()), rule("same".into())])),
        (deep, set_to(Versioning::Enabled, false)),
        (DirId::ROOT, set_to(Versioning::Enabled, false)),
        (DirId(4711), set_to(Versioning::Enabled, false)),
        (below, set_to(Versioning::Off, true)),
        (below, set_to(Versioning::Suspended, true)),
        (below, BucketSettings { default_retention: retention, ..set_to(Versioning::Enabled, false) }),
        (below, BucketSettings { documents: vec![("a".into(), vec![0; 65_536])], ..Default::default() }),
    ];
    for (dir, settings) in wrong {
        bench.rejected(Command::SetBucket { dir, settings: Box::new(settings) });
    }
    let set = |settings| Command::SetBucket { dir: below, settings: Box::new(settings) };
    bench.ok(set(ruled(vec![rule("r".repeat(255)), rule("other".into())])));
    bench.ok(set(set_to(Versioning::Enabled, true)));
    bench.rejected(set(set_to(Versioning::Enabled, false)));
    bench.rejected(set(set_to(Versioning::Suspended, true)));
}

/// Everything that would destroy the held file `/b/a`, an older version of `/b/a`, or `/d/a` outside of any
/// bucket; each is refused, and the whole catalogue is as before.
#[test]
fn nothing_destroys_what_is_held() {
    let mut bench = Bench::new();
    let lock = bench.bucket("b", set_to(Versioning::Enabled, true));
    let below = bench.mkdir(lock, "below");
    let plain = bench.mkdir(DirId::ROOT, "d");
    let old = bench.put_in(lock, "a", "old");
    let new = bench.put_in(lock, "a", "new");
    let outside = bench.put_in(plain, "a", "outside");
    let other = bench.put_in(plain, "other", "other");
    let deep = bench.put_in(below, "deep", "deep");
    let legal = Hold { retention: None, legal: true };
    for mode in [Some(RetentionMode::Compliance), None, Some(RetentionMode::Governance)] {
        let until = bench.at.plus(DAY);
        let held =
            mode.map_or(legal, |mode| Hold { retention: Some(Retention { mode, until }), legal: false });
        for file in [old, new, outside, deep] {
            bench.ok(Command::SetHold { file, hold: held, bypass: true });
        }
        let may_bypass = held.retention.is_some_and(|r| r.mode == RetentionMode::Governance);
        let mut tries = vec![
            remove_version(lock, "a", Some(old), false),
            remove_version(lock, "a", Some(new), false),
            remove_version(plain, "a", None, false),
            remove_version(plain, "a", Some(outside), false),
            remove(plain, "a"),
            Command::RemoveFile { parent: plain, name: name("a") },
            rename((plain, "other"), (plain, "a")),
            rename((plain, "a"), (plain, "b")),
            rename((plain, "a"), (lock, "b")),
            rename((lock, "a"), (lock, "b")),
            rename((lock, "a"), (plain, "b")),
            rename((lock, "below"), (lock, "elsewhere")),
            rename((lock, "below"), (plain, "elsewhere")),
            rename((DirId::ROOT, "b"), (DirId::ROOT, "c")),
            rename((DirId::ROOT, "b"), (plain, "c")),
            Command::RemoveDirectory { parent: lock, name: name("below") },
            Command::RemoveDirectory { parent: DirId::ROOT, name: name("b") },
            Command::RemoveDirectory { parent: DirId::ROOT, name: name("d") },
            bench.object(plain, "a", "replaced"),
            Command::PutFile(Box::new(bench.new_put(plain, "a", "replaced"))),
            Command::CloneFile(Box::new(clone_of(other, plain, "a"))),
        ];
        if let Some(retention) = held.retention {
            for file in [old, new, outside, deep] {
                let earlier = Retention { until: Timestamp(until.0 - 1), ..retention };
                for hold in [Hold::default(), Hold { retention: Some(earlier), legal: true }] {
                    tries.push(Command::SetHold { file, hold, bypass: false });
                    if !may_bypass {
                        tries.push(Command::SetHold { file, hold, bypass: true });
                    }
                }
            }
        }
        if !may_bypass {
            tries.push(remove_version(lock, "a", Some(old), true));
            tries.push(remove_version(lock, "a", Some(new), true));
            tries.push(remove_version(plain, "a", None, true));
        }
        for command in tries {
            let refused = bench.rejected(command.clone());
            let says = ["held", "object lock", "not empty"].iter().any(|word| refused.contains(word));
            assert!(says, "{refused} for {command:?}");
        }
        if held.legal {
            for file in [old, new, outside, deep] {
                bench.ok(Command::SetHold { file, hold: Hold::default(), bypass: false });
            }
        } else if !may_bypass {
            // Compliance ends with its time and no sooner; the clock goes on for the next round.
            bench.rejected(Command::SetHold { file: old, hold: legal, bypass: true });
            bench.at = until;
        }
        if may_bypass {
            bench.removal(remove_version(lock, "a", Some(new), true));
            bench.removal(remove_version(plain, "a", None, true));
        }
    }
    assert_eq!(bench.current(lock, "a"), Some(old));
    assert_eq!(bench.replayed(), bench.store);
}

fn clone_of(source: FileId, parent: DirId, file: &str) -> CloneFile {
    CloneFile {
        source,
        parent,
        name: name(file),
        attributes: None,
        class: ClassId(1),
        dataset: parent.0,
        replace: Replace::Allowed,
        if_current: None,
        hold: None,
    }
}

#[test]
fn tapes_keep_what_is_held_and_what_is_an_older_version() {
    let mut bench = Bench::new();
    let dir = bench.bucket("b", set_to(Versioning::Enabled, true));
    let old = bench.put_in(dir, "a", "old");
    bench.put_in(dir, "a", "new");
    bench.ok(Command::SetHold { file: old, hold: Hold { retention: None, legal: true }, bypass: false });
    // A pack that is given up gives the file back to those that wait.
    let pack = bench.pack(&[old]);
    bench.ok(Command::DissolvePack { container: pack });
    let waiting = bench.view().todo(bench.class, None, usize::MAX).unwrap();
    assert!(waiting.iter().any(|((_, file), _)| *file == old));
    let pack = bench.pack(&[old]);
    bench.write_to(0, pack);
    bench.write_to(1, pack);
    bench.evict(old).unwrap();
    let [first, second] = bench.tapes;
    let state = |vid, state| Command::SetTapeState { vid, state, reason: String::new() };
    // A repack takes the copy off its tape, but does not drop it; and the tape is not reclaimed before.
    bench.ok(state(first, TapeState::Repacking));
    let requeued = bench.ok(Command::RequeueCopy { container: pack, vid: first });
    assert_eq!(requeued, Outcome::Requeued(Requeue::Queued));
    bench.rejected(Command::ReclaimTape { vid: first });
    // Both copies damaged: the file is lost, its name and its hold stay.
    for vid in [first, second] {
        let content = bench.view().content(vid, BlockAddress(0), usize::MAX).unwrap();
        let block = content.iter().find(|(_, container)| *container == pack).unwrap().0;
        bench.ok(Command::CopyDamaged { container: pack, vid, block, reason: "torn".into() });
    }
    assert!(bench.file(old).is_lost());
    assert!(bench.rejected(remove_version(dir, "a", Some(old), true)).contains("legal hold"));
    assert_eq!(bench.rows_of(dir, "a"), [(old, false)]);
}

#[test]
fn a_default_retention_counts_from_the_put() {
    let mut bench = Bench::new();
    let default_retention = Some((RetentionMode::Compliance, DAY));
    let settings = BucketSettings { default_retention, ..set_to(Versioning::Enabled, true) };
    let dir = bench.bucket("b", settings);
    let below = bench.mkdir(dir, "below");
    let file = bench.put_in(below, "a", "x");
    let until = bench.at.plus(DAY);
    let retention = Some(Retention { mode: RetentionMode::Compliance, until });
    assert_eq!(bench.view().hold(file).unwrap(), Hold { retention, legal: false });
    // A put that names one has that; a legal hold leaves the default.
    let put = bench.new_put(below, "b", "y");
    let hold = Hold { retention: None, legal: true };
    let put = PutObject { put, if_current: None, hold: Some(hold), always: true };
    let Outcome::Put(done) = bench.ok(Command::PutObject(Box::new(put))) else { panic!() };
    let found = bench.view().hold(done.file).unwrap();
    assert!(found.legal && found.retention.is_some_and(|r| r.until == bench.at.plus(DAY)));
    bench.rejected(remove_version(below, "a", Some(file), true));
    // Longer is allowed, and so is the end.
    let longer = Retention { mode: RetentionMode::Compliance, until: until.plus(DAY) };
    let hold = Hold { retention: Some(longer), legal: false };
    bench.ok(Command::SetHold { file, hold, bypass: false });
    let weaker = Retention { mode: RetentionMode::Governance, until: until.plus(DAY.saturating_mul(9)) };
    let weaker = Hold { retention: Some(weaker), legal: false };
    assert!(bench.rejected(Command::SetHold { file, hold: weaker, bypass: true }).contains("compliance"));
    bench.at = until.plus(DAY);
    bench.removal(remove_version(below, "a", Some(file), false));
    assert_eq!(bench.view().hold(file).unwrap(), Hold::default(), "forgotten with the file");
}

#[test]
fn a_clone_shares_the_bytes_until_the_last_of_them_goes() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "d");
    let source = bench.put_in(dir, "a", "bytes");
    let blob = bench.file(source).pieces[0].blob;
    let clone = |bench: &mut Bench, clone: CloneFile| match bench.ok(Command::CloneFile(Box::new(clone))) {
        Outcome::Put(PutOutcome { file, created: true, .. }) => file,
        other => panic!("{other:?}"),
    };
    let copy = clone(&mut bench, clone_of(source, dir, "b"));
    let (one, two) = (bench.file(source), bench.file(copy));
    assert_eq!((&one.pieces, one.checksums), (&two.pieces, two.checksums));
    assert_eq!(bench.view().blob_record(blob).unwrap().unwrap().references, 2);
    let waiting = bench.view().todo(bench.class, None, usize::MAX).unwrap();
    assert_eq!(waiting.len(), 2, "each goes to tape by itself");
    // Onto itself, with other attributes.
    let attributes = Attributes { owner: "carol".into(), ..Attributes::default() };
    let anew = clone(&mut bench, CloneFile { attributes: Some(attributes), ..clone_of(source, dir, "a") });
    assert!(bench.view().file(source).unwrap().is_none());
    assert_eq!(bench.file(anew).attributes.owner, "carol");
    for file in ["a", "b"] {
        assert_eq!(bench.garbage_blobs(), [0; 0]);
        bench.removal(remove(dir, file));
    }
    assert_eq!(bench.garbage_blobs(), [blob.0]);
    assert_eq!(bench.replayed(), bench.store);
}

#[test]
fn what_cannot_be_cloned_is_refused() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "d");
    let log = bench.new_blob();
    let mut small = bench.new_put(dir, "small", "s");
    small.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, 0, 1)] });
    let Outcome::Put(small) = bench.ok(Command::PutFile(Box::new(small))) else { panic!() };
    let refused = bench.rejected(Command::CloneFile(Box::new(clone_of(small.file, dir, "b"))));
    assert!(refused.contains("copy its bytes"), "{refused}");
    let far = bench.put_in(dir, "far", "far");
    let pack = bench.pack(&[far]);
    bench.write_to(0, pack);
    bench.write_to(1, pack);
    bench.evict(far).unwrap();
    let refused = bench.rejected(Command::CloneFile(Box::new(clone_of(far, dir, "b"))));
    assert!(refused.contains("stage it"), "{refused}");
    bench.rejected(Command::CloneFile(Box::new(clone_of(FileId(4711), dir, "b"))));
    let empty = bench.put_in(dir, "empty", "");
    bench.ok(Command::CloneFile(Box::new(clone_of(empty, dir, "b"))));
}

#[test]
fn attributes_change_and_have_limits() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "d");
    let file = bench.put_in(dir, "a", "x");
    let set = |changes: &[(&str, Option<&[u8]>)]| Command::SetXattrs {
        file,
        changes: changes.iter().map(|(name, value)| ((*name).into(), value.map(<[u8]>::to_vec))).collect(),
    };
    bench.ok(set(&[("kist.tag.a", Some(b"1")), ("user.b", Some(b"2"))]));
    bench.ok(set(&[("kist.tag.a", Some(b"3")), ("user.b", None), ("never", None)]));
    assert_eq!(bench.file(file).attributes.xattrs, [("kist.tag.a".to_owned(), b"3".to_vec())]);
    for wrong in [("", &b"1"[..]), ("a\0b", b"1"), ("big", &[0; 65_536]), (&"n".repeat(256), b"1")] {
        bench.rejected(set(&[(wrong.0, Some(wrong.1))]));
    }
    let changes = vec![("kist.s3.marker".to_owned(), Some(vec![]))];
    bench.ok(Command::SetDirectoryXattrs { dir, changes: changes.clone() });
    assert_eq!(bench.view().directory(dir).unwrap().unwrap().attributes.xattrs.len(), 1);
    bench.rejected(Command::SetDirectoryXattrs { dir: DirId(file.0), changes });
}

#[test]
fn a_rename_takes_the_current_version_and_leaves_a_marker() {
    let mut bench = Bench::new();
    let dir = bench.bucket("b", set_to(Versioning::Enabled, false));
    let other = bench.bucket("c", set_to(Versioning::Off, false));
    let one = bench.put_in(dir, "a", "one");
    let two = bench.put_in(dir, "a", "two");
    bench.ok(rename((dir, "a"), (dir, "b")));
    assert_eq!((bench.current(dir, "b"), bench.rows_of(dir, "b")), (Some(two), vec![]));
    assert!(matches!(bench.rows_of(dir, "a")[..], [(_, true), (id, false)] if id == one));
    // Neither back over the versions, nor over a file.
    assert!(bench.rejected(rename((dir, "b"), (dir, "a"))).contains("keeps versions"));
    bench.put_in(other, "x", "x");
    assert!(bench.rejected(rename((other, "x"), (dir, "b"))).contains("keeps versions"));
    bench.ok(rename((dir, "b"), (other, "b")));
    assert_eq!(bench.rows_of(dir, "b"), [], "nothing was left, so nothing is marked");
    // Directories stay in such a bucket, within which they may move.
    let below = bench.mkdir(dir, "below");
    bench.put_in(below, "f", "1");
    bench.put_in(below, "f", "2");
    bench.ok(rename((dir, "below"), (dir, "elsewhere")));
    assert!(bench.rejected(rename((dir, "elsewhere"), (other, "below"))).contains("stays in it"));
    assert!(bench.rejected(rename((DirId::ROOT, "b"), (other, "b"))).contains("of the root"));
    bench.ok(rename((DirId::ROOT, "b"), (DirId::ROOT, "renamed")));
    assert!(bench.view().bucket(dir).unwrap().is_some());
}

#[test]
fn a_version_does_not_take_the_name_of_a_directory() {
    let mut bench = Bench::new();
    let dir = bench.bucket("b", set_to(Versioning::Enabled, false));
    let one = bench.put_in(dir, "a", "one");
    let marker = bench.removal(remove(dir, "a")).version;
    bench.mkdir(dir, "a");
    assert!(bench.rejected(remove_version(dir, "a", marker, false)).contains("exists already"));
    assert!(bench.rejected(remove(dir, "a")).contains("is a directory"));
    bench.removal(remove_version(dir, "a", Some(one), false));
    bench.removal(remove_version(dir, "a", marker, false));
    assert_eq!(bench.rows_of(dir, "a"), []);
}

/// A version in the reference: what it is, whether it has no number, whether a legal hold keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    id: FileId,
    is_marker: bool,
    is_null: bool,
    is_held: bool,
}

/// The reference: for each name its versions, the newest first.
#[derive(Clone, Default, Debug)]
struct History {
    versioning: Versioning,
    names: BTreeMap<&'static str, Vec<Known>>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug)]
enum Step {
    Put(usize),
    Remove(usize),
    RemoveVersion(usize, usize),
    RemoveNull(usize),
    Rename(usize, usize),
    Hold(usize, usize, bool),
    Turn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..NAMES.len();
    let step = prop_oneof![
        4 => name.clone().prop_map(Step::Put),
        2 => name.clone().prop_map(Step::Remove),
        3 => (name.clone(), 0usize..6).prop_map(|(name, at)| Step::RemoveVersion(name, at)),
        1 => name.clone().prop_map(Step::RemoveNull),
        1 => (name.clone(), name.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => (name, 0usize..6, any::<bool>()).prop_map(|(name, at, legal)| Step::Hold(name, at, legal)),
        1 => Just(Step::Turn),
    ];
    proptest::collection::vec(step, 1..60)
}

/// What may not be done.
struct Refused;

impl History {
    fn of(&mut self, name: &'static str) -> &mut Vec<Known> {
        self.names.entry(name).or_default()
    }

    /// Makes room for a new version; whether it has no number.
    fn room(&mut self, name: &'static str) -> Result<bool, Refused> {
        let versioning = self.versioning;
        let versions = self.of(name);
        if versioning != Versioning::Enabled {
            let gives_way = |known: &Known| versioning == Versioning::Off || known.is_null;
            if versions.iter().any(|known| gives_way(known) && known.is_held) {
                return Err(Refused);
            }
            versions.retain(|known| !gives_way(known));
        }
        Ok(versioning != Versioning::Enabled)
    }

    fn push(&mut self, name: &'static str, id: FileId, is_marker: bool, is_null: bool) {
        self.of(name).insert(0, Known { id, is_marker, is_null, is_held: false });
    }

    fn take(&mut self, name: &'static str, at: impl Fn(usize, &Known) -> bool) -> Result<(), Refused> {
        let versions = self.of(name);
        let found = versions.iter().enumerate().position(|(index, known)| at(index, known));
        let Some(found) = found else { return Ok(()) };
        if versions[found].is_held {
            return Err(Refused);
        }
        versions.remove(found);
        Ok(())
    }

    fn rename(&mut self, from: &'static str, to: &'static str) -> Result<Option<bool>, Refused> {
        let moved = *self.of(from).first().filter(|known| !known.is_marker).ok_or(Refused)?;
        if from == to {
            return Ok(None);
        }
        let keeps = self.versioning != Versioning::Off;
        let rest_has_null = self.of(from)[1..].iter().any(|known| known.is_null);
        let is_second_null = self.versioning == Versioning::Suspended && rest_has_null;
        if moved.is_held || is_second_null || (keeps && !self.of(to).is_empty()) {
            return Err(Refused);
        }
        if self.of(to).iter().any(|known| known.is_held) {
            return Err(Refused);
        }
        self.of(from).remove(0);
        *self.of(to) = vec![moved];
        let leaves = !self.of(from).is_empty();
        Ok(leaves.then_some(self.versioning == Versioning::Suspended))
    }
}

/// Does a step on both; they must agree whether it may be done.
fn step(bench: &mut Bench, dir: DirId, history: &mut History, step: Step) {
    let before = history.clone();
    let id_at = |name: usize, at: usize| before.names.get(NAMES[name]).and_then(|v| v.get(at)).map(|k| k.id);
    let (command, expected) = match step {
        Step::Put(name) => {
            let content = format!("{:?}", bench.at);
            (bench.object(dir, NAMES[name], &content), history.room(NAMES[name]).map(drop))
        }
        Step::Remove(name) => (remove(dir, NAMES[name]), history.room(NAMES[name]).map(drop)),
        Step::RemoveVersion(name, at) => {
            let id = id_at(name, at).unwrap_or(FileId(1 << 50));
            let command = remove_version(dir, NAMES[name], Some(id), true);
            (command, history.take(NAMES[name], |index, _| index == at))
        }
        Step::RemoveNull(name) => {
            let command = remove_version(dir, NAMES[name], None, true);
            (command, history.take(NAMES[name], |_, known| known.is_null))
        }
        Step::Rename(from, to) => {
            let command = rename((dir, NAMES[from]), (dir, NAMES[to]));
            let marked = history.rename(NAMES[from], NAMES[to]);
            assert_eq!(bench.run(command).is_ok(), marked.is_ok(), "{step:?} {before:?}");
            match marked {
                Ok(Some(is_null)) => {
                    let marker = bench.rows_of(dir, NAMES[from])[0].0;
                    history.push(NAMES[from], marker, true, is_null);
                }
                Ok(None) => {}
                Err(Refused) => *history = before,
            }
            return;
        }
        Step::Hold(name, at, legal) => {
            let known = history.of(NAMES[name]).get_mut(at).filter(|known| !known.is_marker);
            let Some(known) = known else { return };
            known.is_held = legal;
            let hold = Hold { retention: None, legal };
            (Command::SetHold { file: known.id, hold, bypass: false }, Ok(()))
        }
        Step::Turn => {
            let is_on = history.versioning == Versioning::Enabled;
            history.versioning = if is_on { Versioning::Suspended } else { Versioning::Enabled };
            let settings = Box::new(set_to(history.versioning, false));
            (Command::SetBucket { dir, settings }, Ok(()))
        }
    };
    let is_null = history.versioning != Versioning::Enabled;
    let found = bench.run(command);
    assert_eq!(found.is_ok(), expected.is_ok(), "{step:?} {before:?} {found:?}");
    match (found, step) {
        (Err(_), _) => *history = before,
        (Ok(Outcome::Put(done)), Step::Put(name)) => history.push(NAMES[name], done.file, false, is_null),
        (Ok(Outcome::RemovedVersion(removal)), Step::Remove(name)) => {
            assert_eq!(removal.marker, history.versioning != Versioning::Off);
            if removal.marker {
                history.push(NAMES[name], removal.version.unwrap(), true, is_null);
            }
        }
        _ => {}
    }
}

fn compare(bench: &Bench, dir: DirId, history: &History) {
    let bucket = bench.view().bucket(dir).unwrap().unwrap();
    let mut held = 0;
    for (name, versions) in &history.names {
        let current = versions.first().filter(|known| !known.is_marker).map(|known| known.id);
        assert_eq!(bench.current(dir, name), current, "{name} {history:?}");
        let rows = versions.iter().skip(usize::from(current.is_some()));
        let rows: Vec<_> = rows.map(|known| (known.id, known.is_marker)).collect();
        assert_eq!(bench.rows_of(dir, name), rows, "{name} {history:?}");
        for known in versions {
            assert_eq!(bucket.is_null(known.id), known.is_null, "{known:?}");
            assert_eq!(bench.view().hold(known.id).unwrap().legal, known.is_held);
            held += u64::from(known.is_held);
        }
    }
    assert_eq!(bench.view().size(Table::Hold).unwrap().0, held);
    let files = history.names.values().flatten().filter(|known| !known.is_marker).count();
    assert_eq!(bench.view().tally(Counter::Class(bench.class)).unwrap().files, files as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn versions_agree_with_a_list_a_name(steps in steps()) {
        let mut bench = Bench::new();
        let dir = bench.bucket("bucket", set_to(Versioning::Off, false));
        let mut history = History::default();
        for next in steps {
            step(&mut bench, dir, &mut history, next);
            compare(&bench, dir, &history);
        }
        prop_assert!(bench.replayed() == bench.store);
    }
}
