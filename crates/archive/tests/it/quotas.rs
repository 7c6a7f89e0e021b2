//! Quotas over the whole engine: refused early and late, counted after a restart, for files on tape too.

use std::sync::Arc;

use archive::{
    AclEntry, Archive, ArchiveError, CompleteOptions, Machines, PutOptions, QuotaInfo, QuotaLimits, QuotaOf,
};
use base::{ByteCount, UploadId};
use catalogue::{Attributes, Command, Entry, QuotaSubject};

use crate::common::{Instance, SystemClock, all, bytes, get, migrate_all, path, put, put_with, wait_until};

fn of(text: &str) -> QuotaOf {
    QuotaOf::Directory(path(text))
}

fn limits(bytes: Option<u64>, files: Option<u64>) -> QuotaLimits {
    QuotaLimits { bytes: bytes.map(ByteCount), files }
}

fn quota(archive: &Archive, of: &QuotaOf) -> QuotaInfo {
    archive.quotas().unwrap().into_iter().find(|quota| quota.of == *of).unwrap()
}

fn used(archive: &Archive, of: &QuotaOf) -> (u64, u64) {
    let used = quota(archive, of).record.used;
    (used.files, used.bytes.0)
}

fn wait_counted(archive: &Archive, of: &QuotaOf) {
    wait_until("all is counted", || quota(archive, of).record.counting.is_none());
    assert!((quota(archive, of).counted() - 1.0).abs() < f64::EPSILON);
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ArchiveError>) -> (String, &'static str, u64, u64) {
    match result {
        Err(ArchiveError::QuotaExceeded { of, what, limit, used }) => (of, what, limit, used),
        other => panic!("{other:?}"),
    }
}

fn options(group: &str) -> PutOptions {
    let attributes = Attributes { group: group.to_owned(), ..Attributes::default() };
    PutOptions { make_parents: true, attributes, ..PutOptions::default() }
}

#[test]
fn puts_beyond_a_quota_are_refused_small_large_early_and_late() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    put(&archive, "/a/b/old", &bytes(1, 1_000_000));
    put(&archive, "/else/old", &bytes(2, 1_000));
    let a = of("/a");
    archive.set_quota(&a, limits(Some(1_500_000), Some(4))).unwrap();
    wait_counted(&archive, &a);
    assert_eq!(used(&archive, &a), (1, 1_000_000));
    let told = ("/a".to_owned(), "bytes", 1_500_000, 1_000_000);
    // Announced: before a byte is sent, even where directories are missing.
    let announced = PutOptions { length: Some(ByteCount(600_000)), ..options("") };
    let begun = archive.begin_put(&path("/a/new/x"), announced.clone()).map(drop);
    assert_eq!(refusal(begun), told);
    // Not announced: at the end, whether striped or not; nothing is left.
    assert_eq!(refusal(put_with(&archive, "/a/b/large", &bytes(3, 600_000), options(""))), told);
    put(&archive, "/a/b/small", &bytes(4, 250_000));
    put(&archive, "/a/c/small", &bytes(5, 240_000));
    let small = refusal(put_with(&archive, "/a/b/tiny", &bytes(6, 10_001), options("")));
    assert_eq!(small, ("/a".to_owned(), "bytes", 1_500_000, 1_490_000));
    put(&archive, "/a/b/tiny", &bytes(6, 10_000));
    let fifth = refusal(put_with(&archive, "/a/b/empty", b"", options("")));
    assert_eq!(fifth, ("/a".to_owned(), "files", 4, 4));
    // In the place of another one, as announced, it has room; elsewhere there is no quota.
    put_with(&archive, "/a/b/old", &bytes(7, 600_000), announced.clone()).unwrap();
    put_with(&archive, "/else/x", &bytes(8, 600_000), announced).unwrap();
    archive.rename(&path("/a/b/old"), &path("/else/moved"), false).unwrap();
    assert_eq!(used(&archive, &a), (3, 500_000));
    let back = refusal(
        archive
            .rename(&path("/else/old"), &path("/a/b/again"), false)
            .and_then(|()| put_with(&archive, "/a/b/fifth", b"1", options("")).map(drop)),
    );
    assert_eq!(back.1, "files");
    // Story: "directory 14 cannot be moved".
    let across = archive.rename(&path("/a/b"), &path("/else/b"), false).unwrap_err().to_string();
    assert!(across.starts_with("/a/b cannot be moved to /else/b, across the border"), "{across}");
    archive.remove_quota(&a).unwrap();
    assert!(matches!(archive.remove_quota(&a), Err(ArchiveError::NoSuchQuota(_))));
    assert!(matches!(archive.set_quota(&of("/none"), limits(None, None)), Err(ArchiveError::NotFound(_))));
    archive.rename(&path("/a/b"), &path("/else/b"), false).unwrap();
    archive.close();
}

#[test]
fn a_group_is_charged_for_what_is_on_tape_only_and_a_new_owner_takes_the_charge() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    let vo = QuotaOf::Group("cms".to_owned());
    archive.set_quota(&vo, limits(Some(7_000_000), None)).unwrap();
    put_with(&archive, "/x/one", &bytes(1, 3_000_000), options("cms")).unwrap();
    put_with(&archive, "/y/two", &bytes(2, 3_000_000), options("cms")).unwrap();
    put_with(&archive, "/y/other", &bytes(3, 3_000_000), options("atlas")).unwrap();
    wait_counted(&archive, &vo);
    migrate_all(&archive);
    assert_eq!(archive.evict(&all(&["/"])).unwrap().evicted, 3);
    assert_eq!(used(&archive, &vo), (2, 6_000_000));
    assert!(matches!(get(&archive, "/x/one"), Err(ArchiveError::Nearline { .. })));
    let taken = refusal(archive.set_owner(&path("/y/other"), Some("anna"), Some("cms")));
    assert_eq!((taken.0.as_str(), taken.3), ("group 'cms'", 6_000_000));
    archive.remove(&path("/x/one")).unwrap();
    archive.set_owner(&path("/y/other"), Some("anna"), Some("cms")).unwrap();
    assert_eq!(used(&archive, &vo), (2, 6_000_000));
    let chain = archive.access_chain(&path("/y/other")).unwrap();
    assert_eq!((chain.owner.as_str(), chain.group.as_str()), ("anna", "cms"));
    assert!(archive.verify_catalogue().unwrap().is_empty());
    archive.close();
}

#[test]
fn a_first_count_goes_on_after_a_restart() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    for n in 0..5 {
        put(&archive, &format!("/a/{n}"), &bytes(n, 1_000));
    }
    archive.close();
    drop(archive);
    // The quota is durable, but nothing was counted when the server died.
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let entry = machines.catalogue.read(|view| view.resolve(&path("/a"))).unwrap();
    let Some(Entry::Directory(directory)) = entry else { panic!("{entry:?}") };
    let subject = QuotaSubject::Directory(directory);
    let limits = Some(limits(None, Some(5)));
    machines.catalogue.execute(Command::SetQuota { subject: subject.clone(), limits }).unwrap();
    let uncounted = machines.catalogue.read(|view| view.uncounted_quota()).unwrap();
    assert_eq!(uncounted, Some(subject));
    let archive = Archive::open_on(machines, instance.settings.clone(), Arc::new(SystemClock)).unwrap();
    wait_counted(&archive, &of("/a"));
    assert_eq!(used(&archive, &of("/a")), (5, 5_000));
    assert_eq!(refusal(put_with(&archive, "/a/sixth", b"1", options(""))).1, "files");
    archive.close();
}

#[test]
fn lists_are_kept_over_a_restart_and_found_from_below() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    put(&archive, "/a/b/file", b"1");
    let list = vec![AclEntry { subject: "user:anna".to_owned(), rights: 7 }];
    archive.set_acl(&path("/a"), Some(list.clone())).unwrap();
    assert!(matches!(archive.set_acl(&path("/n"), None), Err(ArchiveError::NotFound(_))));
    assert!(matches!(archive.acl(&path("/a/b/file")), Err(ArchiveError::NotADirectory(_))));
    archive.close();
    drop(archive);
    let archive = instance.open();
    assert_eq!(archive.acl(&path("/a")).unwrap(), Some(list.clone()));
    assert_eq!(archive.acl(&path("/a/b")).unwrap(), None);
    let chain = archive.access_chain(&path("/a/b/new")).unwrap();
    assert_eq!((chain.exists, chain.acl, chain.acl_depth, chain.above.len()), (false, Some(list), 1, 3));
    archive.set_acl(&path("/a"), None).unwrap();
    assert_eq!(archive.access_chain(&path("/a/b/file")).unwrap().acl, None);
    archive.close();
}

fn part(archive: &Archive, upload: UploadId, number: u16, length: u64) -> Result<(), ArchiveError> {
    let mut part = archive.begin_part(upload, number, Some(ByteCount(length)))?;
    part.write(&bytes(u64::from(number), usize::try_from(length).unwrap()))?;
    part.finish(Vec::new()).map(drop)
}

/// Only the beginning of a part looked at quotas: what was refused there could be committed by one that began
/// before the quota was set, or before others had filled it.
#[test]
fn the_command_refuses_a_part_that_was_begun_while_there_was_room() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    put(&archive, "/b/old", &bytes(1, 1_000));
    let upload = archive.open_multipart(&path("/b/x/one"), options("")).unwrap();
    for length in [100_000u64, 1_000_000] {
        let mut late = archive.begin_part(upload, 1, Some(ByteCount(length))).unwrap();
        late.write(&bytes(3, usize::try_from(length).unwrap())).unwrap();
        // Set while the bytes come.
        archive.set_quota(&of("/b"), limits(Some(90_000), None)).unwrap();
        wait_counted(&archive, &of("/b"));
        assert_eq!(refusal(late.finish(Vec::new())).2, 90_000, "{length}");
        assert_eq!(used(&archive, &of("/b")), (1, 1_000));
        assert_eq!(archive.parts(upload, 0, 10).unwrap().0.len(), 0);
        archive.remove_quota(&of("/b")).unwrap();
    }
    archive.close();
}

/// Parts of uploads counted for no quota until they were a file, so that uploads that nobody completed filled
/// the pool.
#[test]
fn parts_of_uploads_count_before_they_are_a_file() {
    let instance = Instance::new(ByteCount::mib(128));
    let mut archive = instance.open();
    put(&archive, "/b/old", &bytes(1, 300_000));
    put(&archive, "/else/old", &bytes(2, 1_000));
    let first = archive.open_multipart(&path("/b/x/one"), options("cms")).unwrap();
    part(&archive, first, 1, 200_000).unwrap();
    archive.set_quota(&of("/b"), limits(Some(1_000_000), None)).unwrap();
    archive.set_quota(&QuotaOf::Group("cms".to_owned()), limits(Some(900_000), Some(1))).unwrap();
    wait_counted(&archive, &of("/b"));
    for start in ["as it was set", "after a restart"] {
        // 300,000 of a file and 200,000 of a part are used.
        let told = ("/b".to_owned(), "bytes", 1_000_000, 500_000);
        assert_eq!(refusal(part(&archive, first, 2, 500_001)), told, "{start}");
        let second = archive.open_multipart(&path("/b/two"), options("")).unwrap();
        assert_eq!(refusal(part(&archive, second, 1, 500_001)), told, "another upload, {start}");
        part(&archive, second, 1, 500_000).unwrap();
        // A part takes the place of one of its number, and what is on its way counts.
        part(&archive, second, 1, 400_000).unwrap();
        assert_eq!(used(&archive, &of("/b")), (1, 900_000), "{start}");
        let under_way = archive.begin_part(first, 2, Some(ByteCount(60_000))).unwrap();
        assert!(part(&archive, second, 2, 60_000).is_err(), "{start}");
        drop(under_way);
        part(&archive, second, 2, 60_000).unwrap();
        // One of unknown length is refused where it becomes too long.
        let mut unknown = archive.begin_part(second, 3, None).unwrap();
        unknown.write(&bytes(9, 40_000)).unwrap();
        assert_eq!(refusal(unknown.write(&[0])).2, 1_000_000, "{start}");
        drop(unknown);
        archive.abort_multipart(second).unwrap();
        archive.close();
        drop(archive);
        archive = instance.open();
    }
    // The group's quota counts wherever they are.
    let other = archive.open_multipart(&path("/else/three"), options("cms")).unwrap();
    let group = ("group 'cms'".to_owned(), "bytes", 900_000, 200_000);
    assert_eq!(refusal(part(&archive, other, 1, 700_001)), group);
    archive.abort_multipart(other).unwrap();
    // Complete, the file counts instead of its parts; what is replaced gives room back.
    archive.complete_multipart(first, &[1], CompleteOptions::default()).unwrap();
    assert_eq!(used(&archive, &of("/b")), (2, 500_000));
    let refused = archive.open_multipart(&path("/b/x/more"), options("cms")).map(drop);
    assert_eq!(refusal(refused), ("group 'cms'".to_owned(), "files", 1, 1));
    let again = archive.open_multipart(&path("/b/old"), options("")).unwrap();
    assert!(part(&archive, again, 1, 500_001).is_err(), "until it is complete both are kept");
    part(&archive, again, 1, 500_000).unwrap();
    assert_eq!(used(&archive, &of("/b")), (2, 1_000_000));
    archive.complete_multipart(again, &[1], CompleteOptions::default()).unwrap();
    assert_eq!(used(&archive, &of("/b")), (2, 700_000));
    archive.close();
}
