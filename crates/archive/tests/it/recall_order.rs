//! What a recall brings back, and how urgent it is.

use crate::common::{Instance, all, bytes, get, migrate_all, path, put, stage, wait_for};
use archive::{Archive, ArchiveError, Locality, Stat};
use base::ByteCount;

const CARTRIDGE: ByteCount = ByteCount::mib(64);

fn small_files(archive: &Archive) -> Vec<(String, Vec<u8>)> {
    let files: Vec<_> = (0..20).map(|n| (format!("/p/small{n}"), bytes(n, 20_000))).collect();
    for (name, content) in &files {
        put(archive, name, content);
    }
    files
}

fn is_online(archive: &Archive, name: &str) -> bool {
    let Stat::File(stat) = archive.stat(&path(name)).unwrap() else { panic!("{name} is a file") };
    stat.locality == Locality::OnlineAndNearline
}

fn on_tape_only(instance: &Instance) -> (Archive, Vec<(String, Vec<u8>)>) {
    let archive = instance.open();
    let files = small_files(&archive);
    migrate_all(&archive);
    let evicted = archive.evict(&all(&["/p"])).unwrap();
    assert_eq!((evicted.evicted, evicted.refused_count), (20, 0), "{:?}", evicted.refused);
    (archive, files)
}

#[test]
fn a_class_may_recall_the_whole_pack_of_a_wanted_file() {
    let change = |settings: &mut archive::Settings| {
        for class in &mut settings.classes {
            // All files are there before the pack is sealed.
            class.pack_age = std::time::Duration::from_secs(3600);
            class.recall_packs = true;
        }
    };
    let instance = Instance::with(CARTRIDGE, change);
    let (archive, files) = on_tape_only(&instance);
    let request = stage(&archive, &["/p/small7"]);
    wait_for(&archive, request);
    for (name, content) in &files {
        assert!(is_online(&archive, name), "{name} came along");
        assert_eq!(get(&archive, name).unwrap(), *content);
    }
    // Only what was asked for is pinned.
    let evicted = archive.evict(&all(&["/p"])).unwrap();
    assert_eq!((evicted.evicted, evicted.refused_count), (19, 1), "{:?}", evicted.refused);
    archive.close();
}

#[test]
fn else_only_what_is_wanted_comes() {
    let instance = Instance::new(CARTRIDGE);
    let (archive, files) = on_tape_only(&instance);
    let request = stage(&archive, &["/p/small7", "/p/small11", "/p/small3"]);
    wait_for(&archive, request);
    for (number, (name, content)) in files.iter().enumerate() {
        assert_eq!(is_online(&archive, name), [3, 7, 11].contains(&number), "{name}");
        if is_online(&archive, name) {
            assert_eq!(get(&archive, name).unwrap(), *content);
        }
    }
    archive.close();
}

#[test]
fn a_request_has_a_priority_until_it_has_ended() {
    let instance = Instance::new(CARTRIDGE);
    let (archive, _) = on_tape_only(&instance);
    let options = archive::StageOptions {
        owner: "test".to_owned(),
        pin: std::time::Duration::from_secs(60),
        priority: 9,
    };
    let request = archive.stage(&all(&["/p/small1"]), options).unwrap();
    assert_eq!(archive.request(request).unwrap().priority, 9);
    wait_for(&archive, request);
    assert!(matches!(archive.set_priority(request, 1), Err(ArchiveError::Rejected(_))));
    let nobody = base::RequestId(request.0 + 1);
    assert!(matches!(archive.set_priority(nobody, 1), Err(ArchiveError::NoSuchRequest(_))));
    archive.close();
}
