//! The bytes are a contract: golden files, damage, and decoders that take anything.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::common::*;
use base::*;
use catalogue::*;
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn tape_key(id: &str) -> TapeKey {
    TapeKey { id: KeyId::new(id).unwrap(), check: KeyCheck([0, 1, 2, 0xfd, 0xfe, 0xff]) }
}

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

/// Compares with the golden file; with `KIST_BLESS=1` writes it, which is right only for a new version of
/// the format.
fn check_golden(file: &str, found: &str) {
    if std::env::var_os("KIST_BLESS").is_some() {
        std::fs::write(golden(file), found).unwrap();
    }
    let expected = std::fs::read_to_string(golden(file)).unwrap();
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "{file}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{file}");
}

/// A catalogue in which every table has a row, with values that are not all zero.
fn full() -> Bench {
    let mut bench = Bench::new();
    let below = bench.mkdir(DirId::ROOT, "süd");
    let mut put = bench.new_put(below, "L2035_SAP001.h5", "content");
    put.attributes.mtime = Timestamp(-1_500_000_000);
    put.attributes.xattrs = vec![("user.note".into(), b"\x00\xff".to_vec())];
    put.idempotency = Some([5; 32]);
    bench.ok(Command::PutFile(Box::new(put)));
    let (one, two, three) = (bench.put("one", "1"), bench.put("two", "22"), bench.put("three", "333"));
    let mut link = bench.new_put(DirId::ROOT, "link", "");
    link.kind = FileKind::Symlink("süd/L2035_SAP001.h5".into());
    bench.ok(Command::PutFile(Box::new(link)));
    let log = bench.new_blob();
    for (file, content, offset) in [("small", "s", 0), ("gone", "g", 4096)] {
        let mut put = bench.new_put(DirId::ROOT, file, content);
        put.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, offset, 1)] });
        bench.ok(Command::PutFile(Box::new(put)));
    }
    bench.ok(Command::RemoveFile { parent: DirId::ROOT, name: name("gone") });
    let first = bench.pack(&[one]);
    bench.write_to(0, first);
    bench.write_to(1, first);
    let second = bench.pack(&[two]);
    let image = bench.data(bench.view().container(second).unwrap().unwrap().length.0);
    bench.ok(Command::StoreImage { container: second, image });
    let third = bench.pack(&[three]);
    let run = bench.begin(0);
    bench.append(run, third, 4);
    bench.request(&[one]);
    bench.ok(Command::Release { request: RequestId(1), files: None });
    bench.evict(one).unwrap();
    let request = bench.request(&[one, two]);
    bench.ok(Command::SetTapeState {
        vid: bench.tapes[1],
        state: TapeState::Repacking,
        reason: "worn".into(),
    });
    bench.ok(Command::RequeueCopy { container: first, vid: bench.tapes[1] });
    let reason = "block 9 is unreadable".to_owned();
    bench.ok(Command::TapeFailed {
        vid: bench.tapes[1],
        cause: FailureCause::Unknown,
        wrote: false,
        reason,
        retry: Some(Timestamp(2_000_000_000_000_000_000)),
    });
    bench.ok(Command::PoolCopyLost { files: vec![three] });
    bench.ok(Command::SetDriveDown { drive: "drive1".into(), down: Some("cleaning".into()) });
    bench.ok(Command::SetRequestPriority { request, priority: 9 });
    let open = new_upload(below, "2035/L2035_SAP002.h5", "");
    let Outcome::Upload(upload) = bench.ok(Command::OpenUpload(open)) else { panic!() };
    bench.put_part(upload, 1, &[7; 5000]);
    bench.put_part(upload, 2, b"the end");
    bucket(&mut bench);
    cold(&mut bench);
    let limits = QuotaLimits { bytes: Some(ByteCount(1 << 40)), files: Some(1_000) };
    for subject in [QuotaSubject::Directory(below), QuotaSubject::Group("lofar".into())] {
        bench.ok(Command::SetQuota { subject: subject.clone(), limits: Some(limits) });
        bench.ok(Command::CountQuota { subject });
    }
    let subject = QuotaSubject::Group("cms".into());
    bench.ok(Command::SetQuota { subject, limits: Some(QuotaLimits { bytes: None, files: None }) });
    let entry = |subject: &str, rights| AclEntry { subject: subject.into(), rights };
    let entries = Some(vec![entry("user:anna", 7), entry("group:lofar", 1)]);
    bench.ok(Command::SetAcl { directory: below, entries });
    let (owner, group) = (Some("anna".into()), None);
    bench.ok(Command::SetOwner { entry: Entry::Directory(below), owner, group });
    clock(&mut bench);
    bench.ok(Command::NoteLeap { by: Duration::from_secs(86_400) });
    let unknown = |shard| UnknownExtent { drive: DriveId(3), blob: BlobId(1 << 40 | 9), stripe: 2, shard };
    bench.ok(Command::NoteUnknown { found: vec![unknown(1), unknown(4)], gone: Vec::new() });
    bench.ok(Command::NoteUnknown { found: vec![unknown(4)], gone: vec![unknown(1)] });
    let upload = bench.open_upload_of(below, "L2035_SAP003.h5", "lofar");
    bench.put_part(upload, 1, &[8; 6000]);
    let log = bench.new_blob();
    for (name, at) in [("small", 0), ("smaller", 512)] {
        let mut put = bench.new_put(below, name, name);
        let length = name.len() as u64;
        put.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, at, length)] });
        bench.ok(Command::PutFile(Box::new(put)));
    }
    bench.ok(Command::RemoveFile { parent: below, name: name("small") });
    let pages = vec![UnneededSectors { blob: BlobId(log), page: 0, sectors: 1 }];
    bench.ok(Command::ValuesRemoved { values: vec![piece(log, 0, 5)], pages });
    let waiting = [bench.put("four", "4444"), bench.put("five", "55555")];
    let (container, members) = (bench.open_pack(2), bench.members(&waiting));
    bench.ok(Command::AddMembers { container, members: members[..1].to_vec() });
    condemned_tree(&mut bench);
    bench.ok(Command::TrimChanges { through: 2 });
    bench.ok(Command::BaseOnTape { vid: bench.tapes[0], change: 9, parts: 2, bytes: ByteCount(1 << 27) });
    waiting_for_tapes(&mut bench);
    drive_commands().into_iter().for_each(|command| drop(bench.ok(command)));
    bench.ok(Command::SetKeyAtHand { key: tape_key("vault-2026"), at_hand: true });
    bench.ok(Command::SetTapeLeaving { vid: bench.tapes[0], leaving: true });
    written_anew(&mut bench);
    used_later(&mut bench, &waiting);
    rebalance_commands().into_iter().for_each(|command| drop(bench.ok(command)));
    bench.ok(Command::SetRecoding { to: Some(StripeCode::reed_solomon(2, 1)) });
    disk_commands().into_iter().for_each(|command| drop(bench.ok(command)));
    named_paths(&mut bench, waiting[0]);
    bench
}

/// A blob whose extents have another id than itself.
fn written_anew(bench: &mut Bench) {
    bench.put("anew", "written anew");
    let view = bench.view();
    let mut blobs = view.blobs(None, 999).unwrap().into_iter().map(|(id, _)| view.blob(id).unwrap().unwrap());
    let blob = blobs.rfind(|blob| matches!(blob.layout, Layout::Striped { .. })).unwrap();
    let to = anew(blob, bench.new_blob());
    bench.ok(Command::BlobRecoded { from: None, to });
}

fn anew(blob: BlobDescription, extents: u64) -> BlobDescription {
    let layout = Layout::Striped { code: StripeCode::reed_solomon(2, 1) };
    let stripes = vec![set(310, 3)];
    BlobDescription { stands_as: Some(BlobId(extents)), layout, stripes, ..blob }
}

/// The commands of a change of code.
fn recode_commands() -> Vec<Command> {
    let local = StripeCode { data: 12, local: 2, global: 2 };
    let to = anew(striped(1 << 40 | 9, 80_000), 2 << 40 | 1);
    vec![
        Command::SetRecoding { to: None },
        Command::SetRecoding { to: Some(local) },
        Command::BlobRecoded { from: None, to: to.clone() },
        Command::BlobRecoded { from: Some(BlobId(1 << 40 | 7)), to },
    ]
}

/// Files that stand in the order of their use, which is younger than they are and not whole yet.
fn used_later(bench: &mut Bench, files: &[FileId]) {
    bench.ok(Command::AdoptRule { rule: Rule::OrderedByUse });
    bench.at = bench.at.plus(Duration::from_secs(7_200));
    bench.ok(Command::NoteUse { files: files.to_vec() });
    bench.ok(Command::DoSome { work: Work::OrderByUse, most: 3 });
}

/// A file of a cold class that nothing but its tapes keeps in the pool, which are disabled.
fn waiting_for_tapes(bench: &mut Bench) {
    bench.ok(Command::AdoptRule { rule: Rule::ReadableIfEvicted });
    let file = bench.put("stays", "until its tapes are back");
    let request = bench.request(&[file]);
    let pack = bench.pack(&[file]);
    for (at, tape) in ["EEE001", "FFF001"].into_iter().enumerate() {
        bench.label(vid(tape), bench.pools[at]);
        bench.tapes[at] = vid(tape);
        bench.write_to(at, pack);
        let reason = "in the safe".to_owned();
        bench.ok(Command::SetTapeState { vid: vid(tape), state: TapeState::Disabled, reason });
    }
    bench.ok(Command::Release { request, files: None });
}

/// A tree of which one file is gone.
fn condemned_tree(bench: &mut Bench) {
    let tree = bench.mkdir(DirId::ROOT, "tree");
    for file in ["a", "b"] {
        let put = bench.new_put(tree, file, "content of a tree");
        bench.ok(Command::PutFile(Box::new(put)));
    }
    let (parent, owner) = (DirId::ROOT, "alice".into());
    let name = name("tree");
    bench.ok(Command::CondemnTree { parent, name, directory: tree, owner, with_lists: true });
    bench.ok(Command::DoSome { work: Work::RemoveTree(tree), most: 1 });
}

/// Two leaps, a doubt and a plan.
fn clock(bench: &mut Bench) {
    bench.ok(Command::NoteTime { doubted: true });
    let to = bench.at.plus(Duration::from_secs(86_400));
    bench.ok(Command::MoveTimeForward { to });
    bench.at = to;
    bench.ok(Command::MoveTimeForward { to: to.plus(Duration::from_secs(3_600)) });
    bench.at = to.plus(Duration::from_secs(3_600));
    bench.ok(Command::NoteTime { doubted: true });
    bench.ok(Command::PlanTimeBack { to: Some(to) });
}

fn settings() -> BucketSettings {
    BucketSettings {
        versioning: Versioning::Enabled,
        object_lock: true,
        default_retention: Some((RetentionMode::Governance, Duration::from_secs(86_400))),
        lifecycle: vec![LifecycleRule {
            id: "cold".into(),
            enabled: true,
            prefix: "raw/".into(),
            transition: Some((Duration::from_secs(30 * 86_400), "two".into())),
            expiration: Some(Duration::from_secs(365 * 86_400)),
            abort_uploads: Some(Duration::from_secs(7 * 86_400)),
        }],
        documents: vec![("policy".into(), b"{}".to_vec())],
    }
}

/// A bucket with a name that was put twice and deleted.
fn bucket(bench: &mut Bench) {
    let settings = Box::new(settings());
    let attributes = Attributes { owner: "alice".into(), ..Attributes::default() };
    let Outcome::Directory(parent) =
        bench.ok(Command::MakeBucket { name: name("bucket"), attributes, settings })
    else {
        panic!()
    };
    for content in ["1", "22"] {
        let put = bench.new_put(parent, "key", content);
        bench.ok(Command::PutFile(Box::new(put)));
    }
    bench.ok(Command::RemoveFile { parent, name: name("key") });
}

/// A cold class, a container with members to evict, a rule that has come some way.
fn cold(bench: &mut Bench) {
    let file = bench.put("cold", "to tape");
    let class = bench.class;
    bench.ok(Command::SetResidency { class, cold: true });
    let pack = bench.pack(&[file]);
    for (at, tape) in ["CCC001", "DDD001"].into_iter().enumerate() {
        let pool = bench.pools[at];
        bench.label(vid(tape), pool);
        bench.tapes[at] = vid(tape);
        bench.write_to(at, pack);
    }
    let Some(Entry::Directory(dir)) = bench.view().entry(DirId::ROOT, &name("süd")).unwrap() else {
        panic!()
    };
    let cursor = Some(LifecycleCursor { rule: [9; 16], through: FileId(3) });
    bench.ok(Command::SetLifecycleCursor { dir, rule: "to tape".into(), action: 1, cursor });
}

/// The commands of cold classes and lifecycle rules.
fn cold_commands() -> Vec<Command> {
    let cursor = Some(LifecycleCursor { rule: [9; 16], through: FileId(1000) });
    vec![
        Command::SetResidency { class: ClassId(3), cold: true },
        Command::EvictCold,
        Command::ChangeClass { file: FileId(1000), class: ClassId(3) },
        Command::SetLifecycleCursor { dir: DirId(2), rule: "to tape".into(), action: 1, cursor },
    ]
}

#[test]
fn golden_records_are_readable() {
    let mut store = MemoryStore::new();
    for line in std::fs::read_to_string(golden("catalogue-v2.txt")).unwrap().lines() {
        let parts: Vec<_> = line.split(' ').collect();
        let table = Table::ALL.into_iter().find(|table| table.name() == parts[0]).unwrap();
        store.put(table, &from_hex(parts[1]), &from_hex(parts[2])).unwrap();
    }
    let view = View::new(&store);
    assert_eq!(view.check().unwrap(), []);
    let path = ArchivePath::new("/süd/L2035_SAP001.h5").unwrap();
    let Some(Entry::File(file)) = view.resolve(&path).unwrap() else { panic!() };
    let file = view.file(file).unwrap().unwrap();
    assert_eq!((file.size.0, file.attributes.mtime), (7, Timestamp(-1_500_000_000)));
}

#[test]
fn a_whole_catalogue_has_the_golden_bytes() {
    let bench = full();
    let mut text = String::new();
    for table in Table::ALL {
        assert!(bench.store.rows(table).next().is_some(), "no row of {} in this test", table.name());
        for (key, value) in bench.store.rows(table) {
            writeln!(text, "{} {} {}", table.name(), hex(key), hex(value)).unwrap();
        }
    }
    check_golden("catalogue-v2.txt", &text);
}

/// One of each command, each field with its own value.
fn commands() -> Vec<Command> {
    let vid = vid("KS0001");
    let (container, run, request, file) = (ContainerId(300), RunId(5), RequestId(6), FileId(1000));
    let data =
        PoolData { blobs: vec![striped(1 << 40 | 9, 70_000)], pieces: vec![piece(1 << 40 | 9, 0, 70_000)] };
    let attributes = Attributes {
        mtime: Timestamp(1),
        mode: 0o640,
        owner: "alice".into(),
        group: "lofar".into(),
        xattrs: vec![("user.a".into(), vec![1, 2])],
    };
    let member = MemberRecord {
        file,
        header_offset: ByteCount(1024),
        data_offset: ByteCount(2560),
        length: ByteCount(70_000),
        file_offset: ByteCount(0),
    };
    vec![
        Command::Initialise { instance: Uuid([0xab; 16]) },
        Command::OpenEpoch,
        Command::DefineTapePool { name: "first".into() },
        Command::DefineClass { name: "two".into(), copies: vec![TapePoolId(1), TapePoolId(2)] },
        Command::MakeDirectory {
            parent: DirId(1),
            name: name("d"),
            attributes: attributes.clone(),
            class: Some(ClassId(2)),
        },
        Command::PutFile(Box::new(PutFile {
            parent: DirId(2),
            name: name("file.h5"),
            kind: FileKind::Regular,
            size: ByteCount(70_000),
            attributes,
            checksums: Checksums::of(b"x"),
            class: ClassId(1),
            dataset: 77,
            data: Some(data.clone()),
            replace: Replace::Refused,
            idempotency: Some([0x5a; 32]),
        })),
        Command::Rename {
            from_parent: DirId(1),
            from_name: name("a"),
            to_parent: DirId(2),
            to_name: name("b"),
            replace: Replace::Allowed,
        },
        Command::RemoveFile { parent: DirId(2), name: name("b") },
        Command::RemoveDirectory { parent: DirId(1), name: name("d") },
        Command::ReserveContainer,
        Command::SealContainer(Box::new(SealContainer {
            container,
            kind: ContainerKind::Segment { file, file_offset: ByteCount(0) },
            class: ClassId(1),
            members: vec![member],
            length: ByteCount(80_000),
            checksums: StreamChecksums::of(b"y"),
            tape_path: "/d/file.h5".into(),
            skeleton: Some(data.clone()),
        })),
        Command::RegisterTape { vid, capacity: ByteCount(18_000_000_000_000) },
        Command::AssignTape { vid, tape_pool: TapePoolId(1), uuid: Uuid([0xcd; 16]) },
        Command::TapeLabelled {
            vid,
            generation: Generation(1),
            index_block: BlockAddress(4),
            end_of_data: BlockAddress(7),
        },
        Command::SetTapeState { vid, state: TapeState::Suspect, reason: "write error".into() },
        Command::CountMount { vid },
        Command::BeginRun { vid, drive: "drive0".into(), start: BlockAddress(7) },
        Command::AppendToRun {
            run,
            containers: vec![PlannedContainer { container, block: BlockAddress(7), blocks: BlockCount(2) }],
        },
        Command::CommitRun { run, committed: 1, end_of_data: BlockAddress(9), written: ByteCount(80_000) },
        Command::IndexWritten {
            run,
            generation: Generation(2),
            index_block: BlockAddress(10),
            end_of_data: BlockAddress(12),
            written: ByteCount(4000),
            changes: vec![(3, 98), (99, 99)],
        },
        Command::EndRun {
            run,
            end: RunEnd::TapeFull,
            tape_state: TapeState::Full,
            reason: "full".into(),
            end_of_data: Some(BlockAddress(12)),
            torn: ByteCount(3),
        },
        Command::OpenRequest { owner: "bob".into(), pin: Duration::new(3600, 5) },
        Command::AddToRequest { request, files: vec![file] },
        Command::CloseRequest { request },
        Command::CancelRequest { request },
        Command::Release { request, files: Some(vec![file]) },
        Command::ForgetRequest { request },
        Command::RecallDone(Box::new(RecallDone { blobs: data.blobs, files: vec![(file, data.pieces)] })),
        Command::RecallFailed { file, reason: "unreadable".into() },
        Command::RecallCopyFailed { file, vid, reason: "unreadable".into() },
        Command::Evict { files: vec![file] },
        Command::ExpirePins,
        Command::ExpireIdempotency,
        Command::GarbageRemoved { blobs: vec![BlobId(1 << 40)], values: vec![piece(1 << 40, 8192, 100)] },
        Command::TrimChanges { through: 12_345 },
    ]
}

/// The commands that came with format 2.
fn newer_commands() -> Vec<Command> {
    let vid = vid("KS0001");
    let (container, run, file) = (ContainerId(300), RunId(5), FileId(1000));
    let image =
        PoolData { blobs: vec![striped(1 << 40 | 9, 80_000)], pieces: vec![piece(1 << 40 | 9, 0, 80_000)] };
    let block = BlockAddress(77);
    let again = image.clone();
    vec![
        Command::MoveStripe { blob: BlobId(1 << 40 | 9), stripe: 3, from: StripeSetId(1), to: set(300, 6) },
        Command::PoolCopyLost { files: vec![file] },
        Command::PoolCopyFound { files: vec![file, FileId(5)] },
        Command::CopyDamaged { container, vid, block, reason: "read error".into() },
        Command::StoreImage { container, image },
        Command::DropImage { container },
        Command::RequeueCopy { container, vid },
        Command::CopyVerified { container, vid, block },
        Command::ReclaimTape { vid },
        Command::AdoptRun { run, committed: 1, end_of_data: BlockAddress(9) },
        Command::AcceptRestore { epoch: Epoch(12), after: 4_711, seen: 1 << 32 | 5 },
        Command::RestoreSettled,
        Command::EndQuarantine,
        Command::MendCopy { container, vid, block, reason: "read error".into(), image: again },
        Command::DissolvePack { container },
        Command::SetDriveDown { drive: "drive0".into(), down: Some("cleaning".into()) },
        Command::SetRequestPriority { request: RequestId(7), priority: 9 },
        Command::Unpin { request: RequestId(7), files: vec![file] },
    ]
}

/// The commands of cleaning, and of drives of the pool.
fn drive_commands() -> Vec<Command> {
    let (vid, drive) = (vid("CLN001"), "drive0".to_owned());
    vec![
        Command::CountCleaning { vid, anew: false },
        Command::CleaningEnded { vid, drive: drive.clone(), unfit: None },
        Command::CleaningEnded { vid, drive: drive.clone(), unfit: Some("used up".into()) },
        Command::SetDriveCleaning { drive, urgent: Some(true) },
        Command::SetPoolDrive { drive: DriveId(7), state: Some(PoolDriveState::Draining) },
        Command::SetPoolDrive { drive: DriveId(8), state: Some(PoolDriveState::Removed) },
        Command::SetPoolDrive { drive: DriveId(9), state: Some(PoolDriveState::Leaving) },
    ]
}

/// The commands that tell on which disks drives of the pool are.
fn disk_commands() -> Vec<Command> {
    let slot = DriveSlot { enclosure: 0x5000_ccab_0400_1000, number: 7 };
    let disk = DriveDisk {
        disk: "naa.5000c500a1b2c3d7".into(),
        slot: Some(slot),
        light: Some(slot),
        drained: Some("failure-expected".into()),
        kept: false,
    };
    let alone = DriveDisk { slot: None, light: None, drained: None, kept: true, ..disk.clone() };
    vec![
        Command::SetDriveDisk { drive: DriveId(1), disk: None },
        Command::SetDriveDisk { drive: DriveId(7), disk: Some(disk) },
        Command::SetDriveDisk { drive: DriveId(8), disk: Some(alone) },
    ]
}

/// A request that names paths, of which one has begun.
fn named_paths(bench: &mut Bench, online: FileId) {
    bench.ok(Command::AdoptRule { rule: Rule::RequestTimes });
    let pin = Duration::from_secs(3_600);
    let Outcome::Request(request) = bench.ok(Command::OpenPathRequest { owner: "anna".into(), pin }) else {
        panic!()
    };
    let Some(Entry::File(two)) = bench.view().entry(DirId::ROOT, &name("two")).unwrap() else { panic!() };
    let Some(Entry::File(one)) = bench.view().entry(DirId::ROOT, &name("one")).unwrap() else { panic!() };
    let file = |path: &str, file, pin| AskedPath { path: path.into(), file: AskedFor::File(file), pin };
    let paths = vec![
        file("//one", one, Some(Duration::from_secs(60))),
        file("/two", two, None),
        file("/süd/four", online, None),
        AskedPath { path: "none".into(), file: AskedFor::Refused(PathRefusal::NoPath), pin: None },
    ];
    bench.ok(Command::AddPaths { request, paths });
    // Before it is closed: behind that its submission would not find it any more.
    bench.ok(Command::CancelFiles { request, files: vec![online] });
    bench.ok(Command::ClosePathRequest { request, submission: Blake3([0xab; 32]) });
    bench.ok(Command::RecallStarted { files: vec![one] });
    // Two of the paths are counted, and two are older than the count.
    bench.ok(Command::AdoptRule { rule: Rule::PathsCounted });
    bench.ok(Command::DoSome { work: Work::CountPaths, most: 2 });
}

/// The commands of requests that name paths.
fn path_commands() -> Vec<Command> {
    let (request, file) = (RequestId(6), FileId(1000));
    let refusals = [
        PathRefusal::NotFound,
        PathRefusal::Directory,
        PathRefusal::NoData,
        PathRefusal::NoPath,
        PathRefusal::NotAllowed,
        PathRefusal::NeverFits,
    ];
    let refused =
        refusals.map(|why| AskedPath { path: "/a".into(), file: AskedFor::Refused(why), pin: None });
    let pin = Some(Duration::from_secs(60));
    let asked = AskedPath { path: "//b".into(), file: AskedFor::File(file), pin };
    vec![
        Command::AdoptRule { rule: Rule::RequestTimes },
        Command::OpenPathRequest { owner: "anna".into(), pin: Duration::from_secs(3_600) },
        Command::AddPaths { request, paths: refused.into_iter().chain([asked]).collect() },
        Command::ClosePathRequest { request, submission: Blake3([0xab; 32]) },
        Command::CancelFiles { request, files: vec![file, FileId(1001)] },
        Command::RecallStarted { files: vec![file] },
        Command::AdoptRule { rule: Rule::PathsCounted },
        Command::DoSome { work: Work::CountPaths, most: 400 },
    ]
}

/// The command by which a segment gets further copies, and a drive that is given up.
fn copy_commands() -> Vec<Command> {
    vec![
        Command::CopySegment { blob: BlobId(1 << 40 | 9), from: StripeSetId(1), to: set(301, 4) },
        Command::SetPoolDrive { drive: DriveId(10), state: Some(PoolDriveState::Lost) },
    ]
}

/// The commands that move what is stored between drives of the pool.
fn rebalance_commands() -> Vec<Command> {
    vec![Command::SetRebalance { to: None }, Command::SetRebalance { to: Some(PercentPoints(5)) }]
}

/// The commands by which a restored catalogue learns what tapes hold.
fn adoption_commands() -> Vec<Command> {
    let (vid, container, block) = (vid("KS0001"), ContainerId(300), BlockAddress(77));
    let member = MemberRecord {
        file: FileId(1000),
        header_offset: ByteCount(512),
        data_offset: ByteCount(2048),
        length: ByteCount(70_000),
        file_offset: ByteCount(0),
    };
    vec![
        Command::TapeFound(TapeFound {
            vid,
            uuid: Uuid([0xcd; 16]),
            tape_pool: TapePoolId(1),
            generation: Generation(5),
            index_block: BlockAddress(100),
            end_of_data: BlockAddress(103),
            reason: "written later".into(),
        }),
        Command::AdoptContainer(Box::new(AdoptContainer {
            container,
            kind: ContainerKind::Pack,
            class: ClassId(1),
            members: vec![member],
            length: ByteCount(80_000),
            checksums: StreamChecksums::of(b"y"),
            sealed: Timestamp(1_700_000_000_000_000_000),
            tape_path: "/.kist/packs/000000000000012c.tar".into(),
            places: vec![TapePlace { vid, block }],
        })),
    ]
}

/// The commands of buckets and their versions.
fn object_commands() -> Vec<Command> {
    let Some(Command::PutFile(put)) = commands().into_iter().nth(5) else { panic!() };
    let attributes = put.attributes.clone();
    let retention = Retention { mode: RetentionMode::Compliance, until: Timestamp(5_000_000_000) };
    let hold = Hold { retention: Some(retention), legal: true };
    let changes = vec![("kist.tag.a".into(), Some(b"b".to_vec())), ("user.note".into(), None)];
    vec![
        Command::SetBucket { dir: DirId(2), settings: Box::new(settings()) },
        Command::MakeBucket {
            name: name("bucket"),
            attributes: attributes.clone(),
            settings: Box::new(BucketSettings::default()),
        },
        Command::PutObject(Box::new(PutObject {
            put: *put,
            if_current: Some(FileId(7)),
            hold: Some(hold),
            always: true,
        })),
        Command::CloneFile(Box::new(CloneFile {
            source: FileId(1000),
            parent: DirId(2),
            name: name("copy"),
            attributes: Some(attributes),
            class: ClassId(2),
            dataset: 78,
            replace: Replace::Refused,
            if_current: Some(FileId(8)),
            hold: Some(Hold { retention: None, legal: true }),
        })),
        Command::RemoveObject { parent: DirId(2), name: name("b"), if_current: Some(FileId(7)) },
        Command::RemoveVersion { parent: DirId(2), name: name("b"), version: Some(FileId(9)), bypass: true },
        Command::SetHold { file: FileId(1000), hold, bypass: true },
        Command::SetXattrs { file: FileId(1000), changes: changes.clone() },
        Command::SetDirectoryXattrs { dir: DirId(2), changes },
    ]
}

/// The commands of uploads in parts.
fn upload_commands() -> Vec<Command> {
    let upload = UploadId(1001);
    let attributes = Attributes { owner: "alice".into(), mode: 0o644, ..Default::default() };
    let until = Timestamp(1_800_000_000_000_000_000);
    let retention = Some(Retention { mode: RetentionMode::Compliance, until });
    let hold = Some(Hold { retention, legal: true });
    let data =
        PoolData { blobs: vec![striped(1 << 40 | 9, 5000)], pieces: vec![piece(1 << 40 | 9, 0, 5000)] };
    vec![
        Command::OpenUpload(Box::new(OpenUpload {
            bucket: DirId(2),
            key: "a/b.h5".into(),
            owner: "alice".into(),
            plan: UploadPlan {
                attributes: attributes.clone(),
                class: Some(ClassId(1)),
                dataset: Some("run 7".into()),
                make_parents: true,
                implied_parents: true,
                keep_existing: false,
                hold,
            },
        })),
        Command::PutPart(Box::new(PutPart {
            upload,
            number: 300,
            size: ByteCount(5000),
            checksums: StreamChecksums::of(&[7; 5000]),
            hash: PartHash::of(ByteCount(100), &[7; 5000]),
            attributes: vec![("etag".into(), vec![1, 2])],
            data: Some(data),
        })),
        Command::CompleteUpload(Box::new(CompleteUpload {
            upload,
            parts: vec![(1, 700), (300, 701)],
            object: PutObject {
                put: PutFile {
                    parent: DirId(3),
                    name: name("b.h5"),
                    kind: FileKind::Regular,
                    size: ByteCount(10_000),
                    attributes,
                    checksums: Checksums::of(b"x"),
                    class: ClassId(1),
                    dataset: 3,
                    data: None,
                    replace: Replace::Allowed,
                    idempotency: Some(completion_key(upload)),
                },
                if_current: Some(FileId(999)),
                hold,
                always: true,
            },
        })),
        Command::AbortUpload { upload },
    ]
}

/// The commands of access and quotas.
fn access_commands() -> Vec<Command> {
    let subject = QuotaSubject::Group("cms".into());
    let limits = Some(QuotaLimits { bytes: Some(ByteCount(10_000_000_000_000)), files: None });
    let entries = Some(vec![AclEntry { subject: "user:anna".into(), rights: 0x8000_0003 }]);
    vec![
        Command::SetAcl { directory: DirId(7), entries },
        Command::SetOwner { entry: Entry::File(FileId(1000)), owner: Some("anna".into()), group: None },
        Command::SetQuota { subject, limits },
        Command::CountQuota { subject: QuotaSubject::Directory(DirId(7)) },
    ]
}

/// The commands about the time.
fn clock_commands() -> Vec<Command> {
    let to = Timestamp(1_800_000_000_000_000_000);
    vec![
        Command::NoteTime { doubted: true },
        Command::MoveTimeForward { to },
        Command::PlanTimeBack { to: Some(to) },
        Command::TimeMovedBack { from: to },
        Command::NoteLeap { by: Duration::from_secs(86_400) },
        Command::NoteUnknown {
            found: vec![UnknownExtent { drive: DriveId(3), blob: BlobId(70_000), stripe: 2, shard: 1 }],
            gone: vec![UnknownExtent { drive: DriveId(4), blob: BlobId(300), stripe: 5, shard: 6 }],
        },
        Command::DoSome { work: Work::CancelRequest(RequestId(300)), most: 400 },
        Command::DoSome { work: Work::ForgetRequest(RequestId(7)), most: 1 },
        Command::DoSome { work: Work::ExpirePins, most: 10_000 },
        Command::DoSome { work: Work::ExpireIdempotency, most: 400 },
        Command::DoSome { work: Work::EvictCold, most: 400 },
        Command::DoSome { work: Work::TrimChanges(12_345), most: 400 },
        Command::BeginUpload(new_upload(DirId(2), "a/c.h5", "lofar")),
        Command::RenameEntry {
            source: Entry::File(FileId(1000)),
            from_parent: DirId(1),
            from_name: name("a"),
            to_parent: DirId(2),
            to_name: name("b"),
            replace: Replace::Refused,
        },
        Command::ValuesRemoved {
            values: vec![piece(1 << 40, 8192, 100)],
            pages: vec![UnneededSectors { blob: BlobId(1 << 40), page: 300, sectors: 0x81 }],
        },
        Command::OpenPack(Box::new(OpenPack {
            container: ContainerId(300),
            class: ClassId(1),
            members: 20_000,
            length: ByteCount(1 << 32),
            checksums: StreamChecksums::of(&[7]),
            tape_path: "/.kist/300".into(),
            skeleton: PoolData { blobs: vec![striped(1 << 40, 700)], pieces: vec![piece(1 << 40, 0, 700)] },
        })),
        Command::AddMembers {
            container: ContainerId(300),
            members: vec![MemberRecord {
                file: FileId(1000),
                header_offset: ByteCount(512),
                data_offset: ByteCount(1024),
                length: ByteCount(5000),
                file_offset: ByteCount(0),
            }],
        },
        Command::ClosePack { container: ContainerId(300) },
        Command::DoSome { work: Work::DissolvePack(ContainerId(300)), most: 400 },
        Command::CondemnTree {
            parent: DirId(1),
            name: name("a"),
            directory: DirId(300),
            owner: "alice".into(),
            with_lists: true,
        },
        Command::DoSome { work: Work::RemoveTree(DirId(300)), most: 400 },
        Command::TapeFailed {
            vid: vid("KT0001"),
            cause: FailureCause::Cartridge,
            wrote: true,
            reason: "write error".into(),
            retry: Some(Timestamp(1_800_000_000_000_000_000)),
        },
        Command::ForgetTapeFailures { vid: vid("KT0001"), doubts: true },
        Command::BaseOnTape {
            vid: Vid::new("KS0001").unwrap(),
            change: 12_345,
            parts: 3,
            bytes: ByteCount(130 << 20),
        },
        Command::AdoptRule { rule: Rule::ReadableIfEvicted },
        Command::PoolCopiesLost {
            copies: vec![
                PoolCopy { file: FileId(1000), pieces: vec![piece(1 << 40, 0, 700), piece(9, 300, 5)] },
                PoolCopy { file: FileId(7), pieces: Vec::new() },
            ],
        },
        Command::PoolCopiesFound {
            copies: vec![PoolCopy { file: FileId(1000), pieces: vec![piece(1 << 40, 0, 700)] }],
        },
        Command::ImageLost { container: ContainerId(300), image: piece(1 << 40, 0, 80_000) },
        Command::KeepCopy { container: ContainerId(300), vid: vid("KS0300") },
        Command::DropUnneededCopies { container: ContainerId(300) },
        Command::PartsRecalled(Box::new(PartsRecalled {
            blobs: vec![striped(1 << 40 | 9, 80_000)],
            files: vec![(FileId(1000), vec![piece(1 << 40 | 9, 0, 700)])],
            parts: vec![(ContainerId(300), piece(1 << 40 | 9, 700, 79_300))],
        })),
        Command::RecallPlaceFailed {
            vid: vid("KS0300"),
            block: BlockAddress(300),
            reason: "unreadable".into(),
        },
        Command::BeginHistoryRun { vid: vid("KS0300"), drive: "drive1".into(), start: BlockAddress(300) },
        Command::SetTapeAway {
            vid: vid("KS0301"),
            kind: Some(AwayKind::OffSite),
            place: "vault 3, shelf 12".into(),
        },
        Command::RetireTape { vid: vid("KS0302") },
        Command::AddTape { vid: vid("KS0303") },
        Command::SetTapeKey { vid: vid("KS0304"), key: Some(tape_key("vault-2026")) },
        Command::SetKeyAtHand { key: tape_key("vault-2026"), at_hand: true },
        Command::GiveUpPlace {
            container: ContainerId(300),
            vid: vid("KS0300"),
            block: BlockAddress(300),
            reason: "read error".into(),
        },
    ]
}

fn envelopes() -> Vec<Envelope> {
    commands()
        .into_iter()
        .chain(newer_commands())
        .chain(upload_commands())
        .chain(object_commands())
        .chain(cold_commands())
        .chain(access_commands())
        .chain(adoption_commands())
        .chain(clock_commands())
        .chain(drive_commands())
        .chain([Command::UncountCleaning { vid: vid("CLN001") }])
        .chain([Command::SetTapeCapacity { vid: vid("KS0300"), capacity: ByteCount(100_000_000_000) }])
        .chain([Command::SetTapeLeaving { vid: vid("KS0300"), leaving: true }])
        .chain([Command::NoteUse { files: vec![FileId(7), FileId(300)] }])
        .chain([Command::DoSome { work: Work::OrderByUse, most: 400 }])
        .chain([Command::AdoptRule { rule: Rule::OrderedByUse }])
        .chain(rebalance_commands())
        .chain(recode_commands())
        .chain(disk_commands())
        .chain(copy_commands())
        .chain(path_commands())
        .map(|command| Envelope { at: Timestamp(1_795_292_940_000_000_000), command })
        .collect()
}

#[test]
fn envelopes_have_the_golden_bytes() {
    let envelopes = envelopes();
    let tags: BTreeMap<u8, String> =
        envelopes.iter().map(|e| (e.encode()[9], format!("{:?}", e.command))).collect();
    assert_eq!(tags.len(), 126, "one of each command");
    let mut text = String::new();
    for envelope in &envelopes {
        writeln!(text, "{}", hex(&envelope.encode())).unwrap();
    }
    check_golden("envelopes-v2.txt", &text);
    for (line, envelope) in text.lines().zip(envelopes) {
        assert_eq!(Envelope::decode(&from_hex(line)), Ok(envelope));
    }
}

#[test]
fn other_versions_and_lengths_are_refused() {
    let mut bytes = envelopes().remove(1).encode();
    bytes[0] = ENVELOPE_VERSION + 1;
    assert_eq!(Envelope::decode(&bytes), Err(DecodeError::UnknownVersion(3)));
    bytes[0] = ENVELOPE_VERSION;
    assert!(Envelope::decode(&bytes).is_ok());
    bytes.push(0);
    assert_eq!(Envelope::decode(&bytes), Err(DecodeError::Malformed));
    assert_eq!(Envelope::decode(&[]), Err(DecodeError::Malformed));
    assert!(matches!(Envelope::decode(&vec![1; ENVELOPE_BYTES_MAX + 1]), Err(DecodeError::TooLong(_))));
    for envelope in envelopes() {
        let bytes = envelope.encode();
        for length in 0..bytes.len() {
            assert!(Envelope::decode(&bytes[..length]).is_err(), "{envelope:?} cut at {length}");
        }
    }
}

/// Reads everything by way of the full check, which walks each table.
fn read_all(store: &MemoryStore) -> Result<usize, ReadError> {
    View::new(store).check().map(|found| found.len())
}

#[test]
fn every_flipped_bit_is_found_on_read() {
    let mut bench = full();
    let mut flips = 0;
    for table in Table::ALL {
        let rows: Vec<_> =
            bench.store.rows(table).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        for (key, value) in rows.iter().take(2) {
            for bit in 0..value.len() * 8 {
                let mut damaged = value.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                bench.store.put(table, key, &damaged).unwrap();
                match read_all(&bench.store) {
                    Err(ReadError::Damaged { table: at, key: found }) => {
                        assert_eq!((at, found), (table, hex(key)), "bit {bit}");
                    }
                    other => panic!("bit {bit} of {} {}: {other:?}", table.name(), hex(key)),
                }
                flips += 1;
            }
            bench.store.put(table, key, value).unwrap();
        }
    }
    assert!(flips > 10_000, "{flips}");
    assert_eq!(read_all(&bench.store).unwrap(), 0);
}

#[test]
fn a_record_under_another_key_or_table_is_found() {
    let mut bench = full();
    let rows: Vec<_> =
        bench.store.rows(Table::File).map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    bench.store.put(Table::File, &rows[0].0, &rows[1].1).unwrap();
    assert!(matches!(read_all(&bench.store), Err(ReadError::Damaged { table: Table::File, .. })));
    bench.store.put(Table::File, &rows[0].0, &rows[0].1).unwrap();
    let pin =
        bench.store.rows(Table::Want).next().map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap();
    bench.store.put(Table::Pin, &pin.0, &pin.1).unwrap();
    assert!(matches!(read_all(&bench.store), Err(ReadError::Damaged { table: Table::Pin, .. })));
}

#[test]
fn a_missing_row_is_found_by_the_check() {
    let bench = full();
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Garbage) {
        // The tallies of events have no records to be counted anew; the other rows each have a partner.
        let rows: Vec<_> = bench.store.rows(table).map(|(key, _)| key.to_vec()).collect();
        for key in rows.iter().filter(|key| !(table == Table::Counter && matches!(key[0], 5..=7))) {
            let mut store = bench.store.clone();
            store.delete(table, key).unwrap();
            let is_first_change = table == Table::Change && key == &rows[0];
            // A trimmed log is no damage.
            let found = View::new(&store).check();
            let is_found = found.map_or(true, |found| !found.is_empty());
            let has_no_partner = matches!(
                table,
                Table::Todo
                    | Table::Base
                    | Table::Trimmed
                    | Table::DriveDown
                    | Table::Clock
                    | Table::Unknown
                    | Table::Unneeded
                    | Table::Leaps
                    | Table::RequestPriority
                    | Table::Hold
                    | Table::Residency
                    | Table::Cold
                    | Table::Lifecycle
                    | Table::Rule
                    | Table::ColdWait
                    | Table::Cleaner
                    | Table::DriveCleaning
                    | Table::KeyAtHand
                    | Table::PoolDrive
                    | Table::DriveDisk
                    | Table::TapeLeaving
                    | Table::Rebalance
                    | Table::Recoding
            );
            assert!(is_found || is_first_change || has_no_partner, "{} {}", table.name(), hex(key));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = ENVELOPE_VERSION;
        }
        if let Some(tag) = bytes.get_mut(9) {
            // One in so many is a tag that no command has.
            *tag = Command::TAGS.get(usize::from(*tag) % (Command::TAGS.len() + 1)).copied().unwrap_or(*tag);
        }
        if let Ok(envelope) = Envelope::decode(&bytes) {
            prop_assert_eq!(envelope.encode(), bytes, "a change has one encoding");
        }
    }

    #[test]
    fn damaged_envelopes_are_decoded_or_refused(
        which in any::<proptest::sample::Index>(),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        let envelopes = envelopes();
        let mut bytes = which.get(&envelopes).encode();
        for (at, flip) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= flip;
        }
        if let Ok(envelope) = Envelope::decode(&bytes) {
            prop_assert_eq!(envelope.encode(), bytes);
        }
    }

    #[test]
    fn any_bytes_as_a_record_are_damage(
        table in 0..Table::COUNT,
        value in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut store = MemoryStore::new();
        store.put(Table::ALL[table], &[0; 16], &value).unwrap();
        let found = read_all(&store);
        // Without the record of meta the check looks no further than that there is a row.
        prop_assert!(matches!(found, Ok(1) | Err(ReadError::Damaged { .. })), "{found:?}");
    }
}
