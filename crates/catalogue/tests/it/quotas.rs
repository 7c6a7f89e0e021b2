//! Quotas, owners and access control lists: single cases, and random histories against a naive recount.

use std::collections::BTreeMap;

use crate::common::*;
use base::*;
use catalogue::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

fn limits(bytes: Option<u64>, files: Option<u64>) -> QuotaLimits {
    QuotaLimits { bytes: bytes.map(ByteCount), files }
}

fn set(bench: &mut Bench, subject: QuotaSubject, bytes: Option<u64>, files: Option<u64>) {
    let limits = Some(limits(bytes, files));
    bench.ok(Command::SetQuota { subject, limits });
}

fn count_all(bench: &mut Bench, subject: &QuotaSubject) {
    while bench.ok(Command::CountQuota { subject: subject.clone() }) == Outcome::More(true) {}
}

fn used(bench: &Bench, subject: &QuotaSubject) -> (u64, u64) {
    let used = bench.view().quota(subject).unwrap().unwrap().used;
    (used.files, used.bytes.0)
}

fn put(bench: &mut Bench, parent: DirId, file: &str, content: &str) -> Result<FileId, Rejection> {
    let put = bench.new_put(parent, file, content);
    match bench.run(Command::PutFile(Box::new(put)))? {
        Outcome::Put(PutOutcome { file, .. }) => Ok(file),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_quota_counts_what_is_there_and_what_comes() {
    let mut bench = Bench::new();
    let (above, other) = (bench.mkdir(DirId::ROOT, "a"), bench.mkdir(DirId::ROOT, "b"));
    let below = bench.mkdir(above, "c");
    for (parent, file) in [(above, "x"), (below, "y"), (other, "z")] {
        put(&mut bench, parent, file, "12345").unwrap();
    }
    let quota = QuotaSubject::Directory(above);
    set(&mut bench, quota.clone(), Some(12), None);
    assert_eq!(used(&bench, &quota), (0, 0));
    put(&mut bench, below, "new", "1").unwrap();
    assert_eq!(used(&bench, &quota), (1, 1), "new files are counted at once");
    count_all(&mut bench, &quota);
    assert_eq!(used(&bench, &quota), (3, 11));
    assert_eq!(bench.ok(Command::CountQuota { subject: quota.clone() }), Outcome::More(false));
    let refused = put(&mut bench, below, "more", "12").unwrap_err();
    assert!(matches!(
        refused,
        Rejection::QuotaExceeded { what: "bytes", limit: 12, used: 11, ref subject } if *subject == quota
    ));
    put(&mut bench, below, "more", "1").unwrap();
    put(&mut bench, below, "empty", "").unwrap();
    put(&mut bench, other, "much", "123456789").unwrap();
    assert_eq!(used(&bench, &quota), (5, 12));
    bench.ok(Command::RemoveFile { parent: below, name: name("y") });
    assert_eq!(used(&bench, &quota), (4, 7));
    bench.ok(Command::SetQuota { subject: quota.clone(), limits: None });
    assert_eq!(bench.view().quota(&quota).unwrap(), None);
    assert!(!bench.view().has_quotas().unwrap());
    assert!(bench.replayed() == bench.store);
}

#[test]
fn what_takes_the_place_of_another_needs_room_for_the_difference() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "a");
    let quota = QuotaSubject::Directory(dir);
    set(&mut bench, quota.clone(), Some(10), Some(2));
    count_all(&mut bench, &quota);
    put(&mut bench, dir, "x", "12345678").unwrap();
    put(&mut bench, dir, "x", "1234567890").unwrap();
    assert_eq!(used(&bench, &quota), (1, 10));
    assert!(put(&mut bench, dir, "x", "12345678901").is_err());
    // Above a limit that was lowered, what frees room is taken, what needs room is not.
    set(&mut bench, quota.clone(), Some(5), Some(2));
    put(&mut bench, dir, "x", "123456789").unwrap();
    assert!(put(&mut bench, dir, "y", "1").is_err());
    put(&mut bench, dir, "y", "").unwrap();
    let refused = put(&mut bench, dir, "z", "").unwrap_err();
    assert!(matches!(refused, Rejection::QuotaExceeded { what: "files", limit: 2, used: 2, .. }));
    // A rename within the quota needs none, one over an existing file gives room back.
    let rename = |from: &str, to: &str| Command::Rename {
        from_parent: dir,
        from_name: name(from),
        to_parent: dir,
        to_name: name(to),
        replace: Replace::Allowed,
    };
    bench.ok(rename("x", "w"));
    bench.ok(rename("w", "y"));
    assert_eq!(used(&bench, &quota), (1, 9));
}

#[test]
fn files_take_their_charge_along_and_directories_stay_within_their_border() {
    let mut bench = Bench::new();
    let (a, b) = (bench.mkdir(DirId::ROOT, "a"), bench.mkdir(DirId::ROOT, "b"));
    let (deep, twin) = (bench.mkdir(a, "deep"), bench.mkdir(a, "twin"));
    put(&mut bench, deep, "x", "123").unwrap();
    let (of_a, of_b) = (QuotaSubject::Directory(a), QuotaSubject::Directory(b));
    set(&mut bench, of_a.clone(), None, None);
    set(&mut bench, of_b.clone(), Some(2), None);
    let rename = |from, from_name: &str, to, to_name: &str| Command::Rename {
        from_parent: from,
        from_name: name(from_name),
        to_parent: to,
        to_name: name(to_name),
        replace: Replace::Refused,
    };
    let text = bench.rejected(rename(a, "deep", b, "deep"));
    assert!(text.contains("across the border"), "{text}");
    bench.ok(rename(a, "deep", twin, "deep"));
    count_all(&mut bench, &of_a);
    count_all(&mut bench, &of_b);
    let text = bench.rejected(rename(deep, "x", b, "x"));
    assert!(text.contains("the quota of directory") && text.contains("2 bytes"), "{text}");
    bench.ok(rename(deep, "x", DirId::ROOT, "x"));
    assert_eq!((used(&bench, &of_a), used(&bench, &of_b)), ((0, 0), (0, 0)));
    bench.ok(Command::RemoveDirectory { parent: DirId::ROOT, name: name("b") });
    assert_eq!(bench.view().quota(&of_b).unwrap(), None, "the quota goes with its directory");
}

#[test]
fn a_group_is_counted_wherever_its_files_stand() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "a");
    let first = put(&mut bench, dir, "x", "123").unwrap();
    put(&mut bench, DirId::ROOT, "y", "45").unwrap();
    let (lofar, cms) = (QuotaSubject::Group("lofar".into()), QuotaSubject::Group("cms".into()));
    set(&mut bench, lofar.clone(), None, None);
    set(&mut bench, cms.clone(), Some(2), None);
    count_all(&mut bench, &lofar);
    count_all(&mut bench, &cms);
    assert_eq!(used(&bench, &lofar), (2, 5));
    let owned = |group: &str| Command::SetOwner {
        entry: Entry::File(first),
        owner: Some("bob".into()),
        group: Some(group.into()),
    };
    assert!(bench.rejected(owned("cms")).contains("group 'cms'"));
    set(&mut bench, cms.clone(), Some(3), None);
    bench.ok(owned("cms"));
    let attributes = bench.file(first).attributes;
    assert_eq!((attributes.owner.as_str(), attributes.group.as_str()), ("bob", "cms"));
    assert_eq!((used(&bench, &lofar), used(&bench, &cms)), ((1, 2), (1, 3)));
    let missing = QuotaSubject::Group("atlas".into());
    assert!(bench.rejected(Command::SetQuota { subject: missing.clone(), limits: None }).contains("atlas"));
    assert!(bench.rejected(Command::CountQuota { subject: missing }).contains("does not exist"));
    for subject in [QuotaSubject::Group(String::new()), QuotaSubject::Group("g".repeat(65))] {
        bench.rejected(Command::SetQuota { subject, limits: Some(limits(None, None)) });
    }
    let subject = QuotaSubject::Directory(DirId(99));
    bench.rejected(Command::SetQuota { subject, limits: Some(limits(None, None)) });
}

#[test]
fn a_count_goes_on_in_batches() {
    let mut store = MemoryStore::new();
    let mut batch = Batch::new(&mut store);
    let mut apply = |command| batch.apply(&Envelope { at: Timestamp(5), command });
    apply(Command::Initialise { instance: Uuid([7; 16]) }).unwrap();
    apply(Command::DefineClass { name: "disk".into(), copies: vec![] }).unwrap();
    let files = 2 * BATCH_FILES_MAX as u64 + 5;
    for number in 0..files {
        let put = PutFile {
            parent: DirId::ROOT,
            name: name(&format!("f{number}")),
            kind: FileKind::Symlink("x".into()),
            size: ByteCount(0),
            attributes: Attributes { group: "cms".into(), ..Default::default() },
            checksums: Checksums::of(b""),
            class: ClassId(1),
            dataset: 1,
            data: None,
            replace: Replace::Refused,
            idempotency: None,
        };
        apply(Command::PutFile(Box::new(put))).unwrap();
    }
    let subject = QuotaSubject::Group("cms".into());
    apply(Command::SetQuota { subject: subject.clone(), limits: Some(limits(None, Some(files))) }).unwrap();
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.push(apply(Command::CountQuota { subject: subject.clone() }).unwrap());
        // Some that were counted go, some that were not.
        for number in [10 + outcomes.len() as u64, files - outcomes.len() as u64] {
            let name = name(&format!("f{number}"));
            apply(Command::RemoveFile { parent: DirId::ROOT, name }).unwrap();
        }
    }
    assert_eq!(outcomes, [Outcome::More(true), Outcome::More(true), Outcome::More(false)]);
    batch.finish().unwrap();
    let view = View::new(&store);
    assert_eq!(view.quota(&subject).unwrap().unwrap().used.files, files - 6);
    assert_eq!(view.check().unwrap(), []);
}

#[test]
fn lists_of_access_are_kept_found_and_go_with_their_directory() {
    let mut bench = Bench::new();
    let dir = bench.mkdir(DirId::ROOT, "a");
    let below = bench.mkdir(dir, "b");
    put(&mut bench, below, "x", "1").unwrap();
    let entry = |subject: &str, rights| AclEntry { subject: subject.into(), rights };
    let set = |directory, entries| Command::SetAcl { directory, entries };
    let list = vec![entry("user:anna", 3), entry("group:cms", u32::MAX)];
    bench.ok(set(dir, Some(list.clone())));
    bench.ok(set(dir, Some(list.clone())));
    bench.ok(Command::SetOwner {
        entry: Entry::Directory(dir),
        owner: Some("anna".into()),
        group: Some("g".into()),
    });
    let chain =
        |bench: &Bench, path: &str| bench.view().access_chain(&ArchivePath::new(path).unwrap()).unwrap();
    let found = chain(&bench, "/a/b/x");
    assert!(found.exists && !found.is_directory);
    assert_eq!((found.owner.as_str(), found.group.as_str(), found.mode), ("alice", "lofar", 0o644));
    assert_eq!((found.acl.as_ref(), found.acl_depth), (Some(&list), 1));
    let owners: Vec<_> = found.above.iter().map(|above| above.owner.as_str()).collect();
    assert_eq!(owners, ["", "anna", ""], "from the nearest up to the root");
    let file = bench.view().entry(below, &name("x")).unwrap();
    assert_eq!((found.entry, found.directory), (file, Some(below)));
    let found = chain(&bench, "/a");
    assert!(found.exists && found.is_directory);
    assert_eq!((found.entry, found.directory), (Some(Entry::Directory(dir)), Some(DirId::ROOT)));
    assert_eq!((found.owner.as_str(), found.group.as_str()), ("anna", "g"));
    assert_eq!((found.acl.as_ref(), found.above.len()), (Some(&list), 1));
    let found = chain(&bench, "/a/none/below");
    assert!(!found.exists && !found.is_directory && found.owner.is_empty());
    assert_eq!((found.entry, found.directory), (None, None));
    assert_eq!(chain(&bench, "/a/none").directory, Some(dir), "where it would be");
    assert_eq!((found.acl.as_ref(), found.above.len()), (Some(&list), 2));
    let found = chain(&bench, "/a/b/x/y");
    assert!(!found.exists && found.owner.is_empty(), "nothing stands below a file");
    let root = chain(&bench, "/");
    assert!(root.is_directory && root.acl.is_none() && root.above.is_empty());
    bench.ok(set(below, Some(vec![])));
    assert_eq!(chain(&bench, "/a/b/x").acl, Some(vec![]), "an empty list ends what holds above");
    bench.ok(set(below, None));
    assert_eq!(chain(&bench, "/a/b/x").acl, Some(list));
    let many: Vec<_> = (0..=ACL_ENTRIES_MAX as u32).map(|n| entry(&n.to_string(), n)).collect();
    let twice = vec![entry("a", 1), entry("a", 2)];
    for bad in [many, twice, vec![entry("", 1)], vec![entry(&"a".repeat(257), 1)]] {
        bench.rejected(set(dir, Some(bad)));
    }
    bench.rejected(set(DirId(99), None));
    bench.rejected(Command::SetOwner { entry: Entry::Directory(DirId(99)), owner: None, group: None });
    bench.rejected(Command::SetOwner {
        entry: Entry::Directory(dir),
        owner: Some("o".repeat(65)),
        group: None,
    });
    bench.ok(Command::RemoveFile { parent: below, name: name("x") });
    bench.ok(Command::RemoveDirectory { parent: dir, name: name("b") });
    bench.ok(Command::RemoveDirectory { parent: DirId::ROOT, name: name("a") });
    assert_eq!(bench.view().acl(dir).unwrap(), None);
    assert!(bench.replayed() == bench.store);
}

fn begin(bench: &mut Bench, bucket: DirId, key: &str) -> UploadId {
    bench.open_upload_of(bucket, key, "cms")
}

/// Parts that were stored counted nowhere in the catalogue, only in the memory of a server that looked in
/// time: the command took any part, and nobody could say whether the sums were right.
#[test]
fn parts_count_when_they_are_stored_and_until_their_upload_ends() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "b");
    let below = bench.mkdir(bucket, "x");
    let (of_b, of_x, of_cms) =
        (QuotaSubject::Directory(bucket), QuotaSubject::Directory(below), QuotaSubject::Group("cms".into()));
    let early = begin(&mut bench, bucket, "x/deep/early");
    bench.put_part(early, 1, b"123");
    for subject in [&of_b, &of_x, &of_cms] {
        set(&mut bench, subject.clone(), Some(10), None);
        assert_eq!(used(&bench, subject), (0, 0));
        count_all(&mut bench, subject);
        assert_eq!(used(&bench, subject), (0, 3), "what was there before the quota");
    }
    let upload = begin(&mut bench, bucket, "x/whole");
    let first = bench.put_part(upload, 1, b"12345");
    let part = bench.new_part(upload, 2, b"123");
    let refused = bench.run(Command::PutPart(Box::new(part))).unwrap_err();
    assert!(matches!(refused, Rejection::QuotaExceeded { what: "bytes", limit: 10, used: 8, .. }));
    bench.put_part(upload, 2, b"12");
    let part = bench.new_part(upload, 2, b"123");
    assert!(bench.run(Command::PutPart(Box::new(part))).is_err(), "only the difference counts");
    let second = bench.put_part(upload, 2, b"1");
    bench.put_part(upload, 3, b"1");
    assert_eq!(used(&bench, &of_x), (0, 10));
    let parts = [(1, first), (2, second)];
    let done = complete(&bench, upload, below, &parts);
    bench.ok(done);
    for subject in [&of_b, &of_x] {
        assert_eq!(used(&bench, subject), (1, 9), "the file instead of its parts, the others given up");
    }
    assert_eq!(used(&bench, &of_cms), (0, 3), "the file's group is another here");
    let third = begin(&mut bench, bucket, "third");
    bench.put_part(third, 1, b"1");
    assert_eq!((used(&bench, &of_b), used(&bench, &of_x)), ((1, 10), (1, 9)));
    bench.ok(Command::AbortUpload { upload: third });
    bench.ok(Command::AbortUpload { upload: early });
    assert_eq!((used(&bench, &of_b), used(&bench, &of_cms)), ((1, 6), (0, 0)));
    assert!(bench.replayed() == bench.store);
}

/// The directory where parts count goes: they count above it then.
#[test]
fn parts_move_up_with_the_end_of_their_directory() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "b");
    let below = bench.mkdir(bucket, "x");
    let (of_b, of_x) = (QuotaSubject::Directory(bucket), QuotaSubject::Directory(below));
    for subject in [&of_b, &of_x] {
        set(&mut bench, subject.clone(), Some(10), None);
        count_all(&mut bench, subject);
    }
    let upload = begin(&mut bench, bucket, "x/whole");
    bench.put_part(upload, 1, b"12345");
    bench.ok(Command::RemoveDirectory { parent: bucket, name: name("x") });
    assert_eq!((bench.view().quota(&of_x).unwrap(), used(&bench, &of_b)), (None, (0, 5)));
    assert_eq!(bench.view().upload_use(upload).unwrap().unwrap().directory, bucket);
    bench.put_part(upload, 2, b"1");
    assert_eq!(used(&bench, &of_b), (0, 6));
    bench.ok(Command::AbortUpload { upload });
    assert_eq!(used(&bench, &of_b), (0, 0));
    bench.ok(Command::RemoveDirectory { parent: DirId::ROOT, name: name("b") });
}

/// A change log of before says that such a part was taken: it must be taken again when it is replayed.
#[test]
fn uploads_of_before_count_for_no_quota() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "b");
    let subject = QuotaSubject::Directory(bucket);
    set(&mut bench, subject.clone(), Some(2), None);
    let open = new_upload(bucket, "whole", "");
    let Outcome::Upload(upload) = bench.ok(Command::OpenUpload(open)) else { panic!() };
    let stamp = bench.put_part(upload, 1, b"12345");
    assert_eq!((used(&bench, &subject), bench.view().upload_use(upload).unwrap()), ((0, 0), None));
    let done = complete(&bench, upload, bucket, &[(1, stamp)]);
    assert!(matches!(bench.run(done), Err(Rejection::QuotaExceeded { limit: 2, used: 0, .. })));
    bench.ok(Command::AbortUpload { upload });
}

fn complete(bench: &Bench, upload: UploadId, parent: DirId, parts: &[(u16, u64)]) -> Command {
    let rows = bench.view().upload_parts(upload, 0, usize::MAX).unwrap();
    let named = rows.iter().filter(|(number, _)| parts.iter().any(|(named, _)| named == number));
    let size = named.map(|(_, part)| part.size.0).sum();
    let put = PutFile {
        parent,
        name: name("whole"),
        kind: FileKind::Regular,
        size: ByteCount(size),
        attributes: Attributes { group: "lofar".into(), ..Default::default() },
        checksums: Checksums::of(&upload.0.to_le_bytes()),
        class: bench.class,
        dataset: 1,
        data: None,
        replace: Replace::Allowed,
        idempotency: Some(completion_key(upload)),
    };
    let object = PutObject { put, if_current: None, hold: None, always: false };
    Command::CompleteUpload(Box::new(CompleteUpload { upload, parts: parts.to_vec(), object }))
}

/// What a naive observer counts: files of a subject, whatever the catalogue's own tallies say.
fn recount(bench: &Bench, subject: &QuotaSubject) -> (u64, u64) {
    fn walk(bench: &Bench, directory: DirId, is_in: bool, subject: &QuotaSubject, sum: &mut (u64, u64)) {
        let is_in = is_in || *subject == QuotaSubject::Directory(directory);
        for (_, entry) in bench.view().list(directory, None, usize::MAX).unwrap() {
            match entry {
                Entry::Directory(below) => walk(bench, below, is_in, subject, sum),
                Entry::File(id) => add(bench, id, is_in, subject, sum),
            }
        }
        // Versions that are not the current ones are kept, and so they count.
        for (_, id, version) in bench.view().versions_in(directory, None, usize::MAX).unwrap() {
            if version == Version::File {
                add(bench, id, is_in, subject, sum);
            }
        }
    }
    fn add(bench: &Bench, id: FileId, is_in: bool, subject: &QuotaSubject, sum: &mut (u64, u64)) {
        let file = bench.file(id);
        if is_in || *subject == QuotaSubject::Group(file.attributes.group) {
            *sum = (sum.0 + 1, sum.1 + file.size.0);
        }
    }
    let mut sum = (0, 0);
    walk(bench, DirId::ROOT, false, subject, &mut sum);
    // What is being removed with its tree counts where the tree stood.
    for (tree, record) in bench.view().trees().unwrap() {
        if record.ended.is_none() {
            let mut at = bench.view().directory(tree).unwrap().unwrap().parent;
            let mut is_in = false;
            while at != DirId::ROOT {
                is_in |= *subject == QuotaSubject::Directory(at);
                at = bench.view().directory(at).unwrap().unwrap().parent;
            }
            is_in |= *subject == QuotaSubject::Directory(DirId::ROOT);
            walk(bench, tree, is_in, subject, &mut sum);
        }
    }
    for (id, upload) in bench.view().uploads_before(Timestamp(i64::MAX), None, usize::MAX).unwrap() {
        let Some(usage) = bench.view().upload_use(id).unwrap() else { continue };
        let quotas = bench.view().quotas_of(usage.directory, &upload.plan.attributes.group).unwrap();
        if quotas.iter().any(|(known, _)| known == subject) {
            let parts = bench.view().upload_parts(id, 0, usize::MAX).unwrap();
            sum.1 += parts.iter().map(|(_, part)| part.size.0).sum::<u64>();
        }
    }
    sum
}

/// What happened in a history, so that nobody believes a campaign that never refused anything.
#[derive(Default, Debug)]
struct Seen(BTreeMap<&'static str, u64>);

fn step(bench: &mut Bench, picks: &[u8; 6], seen: &mut Seen) {
    let dirs: Vec<DirId> = std::iter::once(DirId::ROOT).chain((2..40).map(DirId)).collect();
    let dirs: Vec<DirId> =
        dirs.into_iter().filter(|id| bench.view().directory(*id).unwrap().is_some()).collect();
    let dir = |pick: u8| dirs[usize::from(pick) % dirs.len()];
    let names = ["p", "q", "r"];
    let a_name = |pick: u8| name(names[usize::from(pick) % 3]);
    let groups = ["lofar", "cms"];
    let subjects: Vec<_> = bench.view().quotas(None, 99).unwrap();
    let subject = match picks[1] % 3 {
        0 => QuotaSubject::Group(groups[usize::from(picks[2]) % 2].into()),
        _ => QuotaSubject::Directory(dir(picks[2])),
    };
    let set = subjects.get(usize::from(picks[1]) % subjects.len().max(1)).map(|(subject, _)| subject.clone());
    let uploads = bench.view().uploads_before(Timestamp(i64::MAX), None, usize::MAX).unwrap();
    let upload = uploads.get(usize::from(picks[1]) % uploads.len().max(1)).cloned();
    let trees = bench.view().trees().unwrap().into_iter().filter(|(_, tree)| tree.ended.is_none());
    let trees: Vec<DirId> = trees.map(|(id, _)| id).collect();
    let command = match picks[0] % 28 {
        25 => {
            let (parent, name) = (dir(picks[1]), a_name(picks[2]));
            let entry = bench.view().entry(parent, &name).unwrap();
            let Some(Entry::Directory(directory)) = entry else { return };
            let owner = "alice".into();
            Command::CondemnTree { parent, name, directory, owner, with_lists: false }
        }
        26 | 27 => {
            let Some(tree) = trees.get(usize::from(picks[1]) % trees.len().max(1)) else { return };
            Command::DoSome { work: Work::RemoveTree(*tree), most: 1 + u32::from(picks[2] % 3) }
        }
        20 => {
            let bucket = dir(picks[1]);
            let path = ["p", "p/q", "q/r/p"][usize::from(picks[2]) % 3];
            Command::BeginUpload(new_upload(bucket, path, groups[usize::from(picks[3]) % 2]))
        }
        21 | 22 => {
            let Some((upload, _)) = upload else { return };
            let content = "x".repeat(usize::from(picks[3] % 12));
            let part = bench.new_part(upload, 1 + u16::from(picks[2] % 3), content.as_bytes());
            Command::PutPart(Box::new(part))
        }
        23 => {
            let Some((upload, record)) = upload else { return };
            let parts = bench.view().upload_parts(upload, 0, 1 + usize::from(picks[2] % 3)).unwrap();
            let parts: Vec<_> = parts.into_iter().map(|(number, part)| (number, part.stamp)).collect();
            let parent = if picks[3].is_multiple_of(2) { record.bucket } else { dir(picks[3]) };
            complete(bench, upload, parent, &parts)
        }
        24 => {
            let Some((upload, _)) = upload else { return };
            Command::AbortUpload { upload }
        }
        16 => {
            let versioning = [Versioning::Enabled, Versioning::Suspended][usize::from(picks[2]) % 2];
            let settings = Box::new(BucketSettings { versioning, ..BucketSettings::default() });
            Command::SetBucket { dir: dir(picks[1]), settings }
        }
        17 => Command::RemoveObject { parent: dir(picks[1]), name: a_name(picks[2]), if_current: None },
        18 => {
            let parent = dir(picks[1]);
            let versions = bench.view().versions_in(parent, None, usize::MAX).unwrap();
            let Some((name, id, _)) = versions.get(usize::from(picks[2]) % versions.len().max(1)).cloned()
            else {
                return;
            };
            Command::RemoveVersion { parent, name, version: Some(id), bypass: false }
        }
        19 => {
            let entry = bench.view().entry(dir(picks[1]), &a_name(picks[2])).unwrap();
            let Some(Entry::File(source)) = entry else { return };
            Command::CloneFile(Box::new(CloneFile {
                source,
                parent: dir(picks[3]),
                name: a_name(picks[4]),
                attributes: None,
                class: bench.class,
                dataset: 1,
                replace: Replace::Allowed,
                if_current: None,
                hold: None,
            }))
        }
        0..5 => {
            let content = "x".repeat(usize::from(picks[3] % 12));
            let mut put = bench.new_put(dir(picks[1]), a_name(picks[2]).as_str(), &content);
            put.attributes.group = groups[usize::from(picks[4]) % 2].into();
            Command::PutFile(Box::new(put))
        }
        6 => Command::RemoveFile { parent: dir(picks[1]), name: a_name(picks[2]) },
        5 | 7 | 8 => Command::Rename {
            from_parent: dir(picks[1]),
            from_name: a_name(picks[2]),
            to_parent: dir(picks[3]),
            to_name: a_name(picks[4]),
            replace: Replace::Allowed,
        },
        9 => Command::MakeDirectory {
            parent: dir(picks[1]),
            name: a_name(picks[2]),
            attributes: Attributes::default(),
            class: None,
        },
        10 => Command::RemoveDirectory { parent: dir(picks[1]), name: a_name(picks[2]) },
        11 | 12 => {
            let bytes = (!picks[3].is_multiple_of(3)).then_some(ByteCount(u64::from(picks[3] % 60)));
            let files = (!picks[4].is_multiple_of(3)).then_some(u64::from(picks[4] % 8));
            Command::SetQuota { subject, limits: Some(QuotaLimits { bytes, files }) }
        }
        13 => Command::SetQuota { subject: set.unwrap_or(subject), limits: None },
        14 => Command::CountQuota { subject: set.unwrap_or(subject) },
        _ => {
            let entry = bench.view().entry(dir(picks[1]), &a_name(picks[2])).unwrap();
            let Some(entry) = entry else { return };
            let group = Some(groups[usize::from(picks[3]) % 2].to_owned());
            Command::SetOwner { entry, owner: None, group }
        }
    };
    let kind = match &command {
        Command::CloneFile(_) => Some("clone"),
        Command::RemoveVersion { .. } => Some("version"),
        Command::PutPart(_) => Some("part"),
        Command::CompleteUpload(_) => Some("whole"),
        Command::CondemnTree { .. } => Some("tree"),
        Command::DoSome { .. } => Some("batch"),
        _ => None,
    };
    match bench.run(command) {
        Ok(_) if kind.is_some() => *seen.0.entry(kind.unwrap_or_default()).or_default() += 1,
        Ok(_) => *seen.0.entry("done").or_default() += 1,
        Err(Rejection::QuotaExceeded { subject, .. }) => {
            let quota = bench.view().quota(&subject).unwrap().unwrap();
            let is_over = quota.excess(1, 12).is_some();
            assert!(is_over, "{subject} had room: {quota:?}");
            *seen.0.entry("exceeded").or_default() += 1;
        }
        Err(Rejection::AcrossQuota(_)) => *seen.0.entry("border").or_default() += 1,
        Err(_) => *seen.0.entry("other").or_default() += 1,
    }
}

#[test]
fn histories_agree_with_a_naive_recount() {
    let config =
        Config { cases: 640, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..Config::default() };
    let total = std::cell::RefCell::new(Seen::default());
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let steps = proptest::collection::vec(any::<[u8; 6]>(), 1..250);
    runner
        .run(&steps, |steps| {
            let mut bench = Bench::new();
            for step_ in &steps {
                // The bench checks the whole catalogue, partial counts among them, after each command.
                step(&mut bench, step_, &mut total.borrow_mut());
                for (subject, quota) in bench.view().quotas(None, 99).unwrap() {
                    let counted = (quota.used.files, quota.used.bytes.0);
                    let (files, bytes) = recount(&bench, &subject);
                    if quota.counting.is_none() {
                        prop_assert_eq!(counted, (files, bytes), "{}", subject);
                    } else {
                        prop_assert!(counted.0 <= files && counted.1 <= bytes, "{}", subject);
                    }
                }
            }
            prop_assert!(bench.replayed() == bench.store);
            Ok(())
        })
        .unwrap();
    let seen = total.into_inner().0;
    for what in ["done", "exceeded", "border", "other", "clone", "version", "part", "whole", "tree", "batch"]
    {
        assert!(seen.get(what).is_some_and(|count| *count > 20), "{what} was too rare: {seen:?}");
    }
}

proptest! {
    #[test]
    fn quotas_and_lists_have_one_form(
        bytes in any::<Option<u64>>(),
        files in any::<Option<u64>>(),
        group in "[a-zA-Zäöü/:.-]{1,30}",
        directory in any::<u64>(),
        entries in proptest::collection::vec((".{1,20}", any::<u32>()), 0..20),
    ) {
        let list = |(subject, rights)| AclEntry { subject, rights };
        let entries = Some(entries.into_iter().map(list).collect::<Vec<_>>());
        let limits = Some(limits(bytes, files));
        for command in [
            Command::SetQuota { subject: QuotaSubject::Group(group.clone()), limits },
            Command::CountQuota { subject: QuotaSubject::Directory(DirId(directory)) },
            Command::SetAcl { directory: DirId(directory), entries },
            Command::SetOwner { entry: Entry::File(FileId(directory)), owner: None, group: Some(group) },
        ] {
            let envelope = Envelope { at: Timestamp(-1), command };
            prop_assert_eq!(Envelope::decode(&envelope.encode()), Ok(envelope));
        }
    }
}
