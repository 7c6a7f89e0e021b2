//! Uploads in parts: what they refer to, what becomes of it, and that every step leaves the catalogue whole.

use std::collections::BTreeMap;

use crate::common::*;
use base::*;
use catalogue::*;
use proptest::prelude::*;

/// The end of an upload, as the engine gives it.
fn complete(bench: &mut Bench, upload: UploadId, parent: DirId, parts: &[(u16, u64)]) -> CompleteUpload {
    let rows = bench.view().upload_parts(upload, 0, usize::MAX).unwrap();
    let rows: BTreeMap<u16, UploadPart> = rows.into_iter().collect();
    let (mut size, mut stream) = (0, StreamChecksums::of(b""));
    for (number, _) in parts {
        if let Some(part) = rows.get(number) {
            size += part.size.0;
            stream = stream.combine(part.checksums, part.size.0);
        }
    }
    let mut put = bench.new_put(parent, "whole", "");
    put.size = ByteCount(size);
    put.checksums.stream = stream;
    put.checksums.blake3 = Blake3::of(format!("{size} {stream:?}").as_bytes());
    put.idempotency = Some(completion_key(upload));
    let object = PutObject { put, if_current: None, hold: None, always: false };
    CompleteUpload { upload, parts: parts.to_vec(), object }
}

fn end(bench: &mut Bench, complete: &CompleteUpload) -> Result<PutOutcome, Rejection> {
    match bench.run(Command::CompleteUpload(Box::new(complete.clone())))? {
        Outcome::Put(outcome) => Ok(outcome),
        other => panic!("{other:?}"),
    }
}

fn abort(bench: &mut Bench, upload: UploadId) {
    while bench.ok(Command::AbortUpload { upload }) == Outcome::More(true) {}
}

fn garbage(bench: &Bench) -> usize {
    bench.view().garbage(usize::MAX).unwrap().len()
}

#[test]
fn the_file_has_the_pieces_of_the_named_parts_in_order() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let upload = bench.open_upload(bucket, "whole");
    let third = bench.put_part(upload, 3, b"three");
    let first = bench.put_part(upload, 1, b"first one");
    bench.put_part(upload, 2, b"not used");
    let replaced = bench.put_part(upload, 3, b"three again");
    assert!(replaced > third);
    assert_eq!(garbage(&bench), 1, "the part that was put again");
    let parts = bench.view().upload_parts(upload, 0, 10).unwrap();
    let pieces: Vec<BlobPiece> =
        [0, 2].into_iter().flat_map(|at: usize| parts[at].1.pieces.clone()).collect();

    let stale = complete(&mut bench, upload, bucket, &[(1, first), (3, third)]);
    assert!(end(&mut bench, &stale).unwrap_err().to_string().contains("put again meanwhile"));
    let done = complete(&mut bench, upload, bucket, &[(1, first), (3, replaced)]);
    let outcome = end(&mut bench, &done).unwrap();
    assert!(outcome.created);
    let file = bench.file(outcome.file);
    assert_eq!((file.size, &file.pieces), (ByteCount(20), &pieces));
    assert_eq!(garbage(&bench), 2, "and the part that was not named");
    assert_eq!(bench.view().upload(upload).unwrap(), None);
    assert_eq!(bench.view().tally(Counter::Uploads).unwrap().files, 0);

    // A repeat finds no upload, but the answer.
    assert!(matches!(end(&mut bench, &done), Err(Rejection::NotFound(Object::Upload(_)))));
    assert_eq!(bench.view().completed_upload(upload).unwrap(), Some(outcome.file));
    let part = bench.new_part(upload, 1, b"late");
    assert!(bench.run(Command::PutPart(Box::new(part))).is_err());
}

#[test]
fn small_parts_share_segments_with_files() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let upload = bench.open_upload(bucket, "whole");
    let log = bench.new_blob();
    let stamps: Vec<(u16, u64)> = (1..=3u16)
        .map(|number| {
            let mut part = bench.new_part(upload, number, b"small");
            let at = u64::from(number) * 4096;
            part.data = Some(PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, at, 5)] });
            let Outcome::Part(stamp) = bench.ok(Command::PutPart(Box::new(part))) else { panic!() };
            (number, stamp)
        })
        .collect();
    let first = complete(&mut bench, upload, bucket, &stamps[..2]);
    let file = end(&mut bench, &first).unwrap().file;
    assert_eq!(bench.file(file).pieces.len(), 2);
    assert_eq!(garbage(&bench), 1, "the value of the third part");
    bench.ok(Command::RemoveFile { parent: bucket, name: name("whole") });
    assert_eq!(garbage(&bench), 1, "the whole segment");
}

#[test]
fn the_same_bytes_under_the_name_give_up_the_parts() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let mut ends = Vec::new();
    for _ in 0..2 {
        let upload = bench.open_upload(bucket, "whole");
        let stamp = bench.put_part(upload, 1, b"the same");
        let done = complete(&mut bench, upload, bucket, &[(1, stamp)]);
        ends.push(end(&mut bench, &done).unwrap());
    }
    assert!(ends[0].created && !ends[1].created);
    assert_eq!(ends[0].file, ends[1].file);
    assert_eq!(garbage(&bench), 1);
}

#[test]
fn an_abort_in_batches_gives_up_everything() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let upload = bench.open_upload(bucket, "big");
    for number in 1..=ABORT_PARTS_MAX as u16 + 2 {
        // Checked at the end: the whole check after each would take minutes.
        let part = bench.new_part(upload, number, b"x");
        bench.at = bench.at.plus(Duration::from_secs(1));
        let command = Command::PutPart(Box::new(part));
        apply(&mut bench.store, &Envelope { at: bench.at, command }).unwrap();
    }
    let taken = Command::RemoveDirectory { parent: DirId::ROOT, name: name("bucket") };
    assert!(bench.rejected(taken.clone()).contains("not empty"));
    assert_eq!(bench.ok(Command::AbortUpload { upload }), Outcome::More(true));
    // Half way: it is listed no more, takes nothing, and goes on where it was.
    assert_eq!(bench.view().uploads(bucket, "", None, 10).unwrap(), []);
    assert!(bench.view().upload(upload).unwrap().unwrap().ending);
    let part = bench.new_part(upload, 1, b"late");
    assert!(bench.run(Command::PutPart(Box::new(part))).is_err());
    let stamp = bench.view().upload_parts(upload, 0, 1).unwrap()[0].1.stamp;
    let last = ABORT_PARTS_MAX as u16 + 1;
    let done = complete(&mut bench, upload, bucket, &[(last, stamp)]);
    assert!(end(&mut bench, &done).is_err());
    bench.ok(taken);
    assert_eq!(bench.ok(Command::AbortUpload { upload }), Outcome::More(false));
    assert_eq!(bench.view().upload(upload).unwrap(), None);
    assert_eq!(garbage(&bench), ABORT_PARTS_MAX + 2);
    assert!(bench.run(Command::AbortUpload { upload }).is_err());
}

#[test]
fn uploads_are_listed_by_path_and_id() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let other = bench.mkdir(DirId::ROOT, "other");
    let directory = ["d".repeat(200), "e".repeat(200), "f".repeat(50)].join("/");
    let mut keys: Vec<String> = ["b", "a", "a!", "a/b", "ab", "a", "\u{e9}"].map(str::to_owned).to_vec();
    // These differ behind what their keys hold.
    keys.extend(["z", "y", "x", "y"].map(|last| format!("{directory}/{last}")));
    let mut all: Vec<(String, UploadId)> =
        keys.iter().map(|key| (key.clone(), bench.open_upload(bucket, key))).collect();
    bench.open_upload(other, "a");
    all.sort();
    let listed = |prefix: &str, after: Option<(&str, UploadId)>, limit| -> Vec<(String, UploadId)> {
        let rows = bench.view().uploads(bucket, prefix, after, limit).unwrap();
        rows.into_iter().map(|(id, record)| (record.key, id)).collect()
    };
    assert_eq!(listed("", None, 100), all);
    for prefix in ["a", "a/", "d", &directory, &format!("{directory}/y"), "none"] {
        let expected: Vec<_> = all.iter().filter(|(key, _)| key.starts_with(prefix)).cloned().collect();
        assert_eq!(listed(prefix, None, 100), expected, "{prefix}");
    }
    for page in 1..4 {
        let mut found: Vec<(String, UploadId)> = Vec::new();
        loop {
            let after = found.last().cloned();
            let rows = listed("", after.as_ref().map(|(key, id)| (key.as_str(), *id)), page);
            assert!(rows.len() <= page);
            if rows.is_empty() {
                break;
            }
            found.extend(rows);
        }
        assert_eq!(found, all, "{page} a page");
    }
    let old = bench.view().uploads_before(bench.at, None, 100).unwrap();
    assert_eq!(old.len(), all.len(), "the last one is not older than now");
}

#[test]
fn what_is_no_upload_is_refused() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let below = bench.mkdir(bucket, "below");
    let open = |bucket, key: &str| {
        let plan = UploadPlan::default();
        Command::OpenUpload(Box::new(OpenUpload { bucket, key: key.into(), owner: "a".into(), plan }))
    };
    for (bucket, key) in [(below, "a"), (DirId::ROOT, "a"), (DirId(77), "a"), (bucket, ""), (bucket, "a/..")]
    {
        assert!(bench.run(open(bucket, key)).is_err(), "{bucket} {key}");
    }
    let upload = bench.open_upload(bucket, "a");
    for change in [
        |part: &mut PutPart| part.number = 0,
        |part: &mut PutPart| part.number = PARTS_MAX + 1,
        |part: &mut PutPart| part.size = ByteCount(3),
        |part: &mut PutPart| part.data = None,
        |part: &mut PutPart| part.hash.tail.push(1),
        |part: &mut PutPart| part.attributes.push(("x".repeat(5000), vec![])),
        |part: &mut PutPart| part.upload = UploadId(1),
    ] {
        let mut part = bench.new_part(upload, 1, b"good");
        change(&mut part);
        assert!(bench.run(Command::PutPart(Box::new(part))).is_err());
    }
    let stamp = bench.put_part(upload, 1, b"good");
    for parts in [&[][..], &[(1, stamp), (1, stamp)], &[(2, stamp)], &[(1, stamp), (2, stamp)]] {
        let done = complete(&mut bench, upload, bucket, parts);
        assert!(end(&mut bench, &done).is_err(), "{parts:?}");
    }
    let mut done = complete(&mut bench, upload, bucket, &[(1, stamp)]);
    done.object.if_current = Some(FileId(1));
    assert!(end(&mut bench, &done).is_err());
    done.object.if_current = None;
    done.object.put.idempotency = None;
    assert!(end(&mut bench, &done).is_err());
    assert_eq!(bench.view().upload_parts(upload, 0, 9).unwrap().len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Open(u8),
    Part(u8, u16, u8, bool),
    Complete(u8, u8),
    Abort(u8),
    Remove,
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => any::<u8>().prop_map(Step::Open),
        8 => (any::<u8>(), 1..6u16, 0..40u8, any::<bool>()).prop_map(|(a, b, c, d)| Step::Part(a, b, c, d)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Complete(a, b)),
        1 => any::<u8>().prop_map(Step::Abort),
        1 => Just(Step::Remove),
        1 => Just(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..60)
}

/// What is open, and the stamp and size of each part.
type Model = BTreeMap<UploadId, BTreeMap<u16, (u64, u64)>>;

fn step(bench: &mut Bench, model: &mut Model, bucket: DirId, log: u64, step: Step) {
    let pick = |model: &Model, at: u8| model.keys().nth(usize::from(at) % model.len().max(1)).copied();
    match step {
        Step::Open(key) => {
            let upload = bench.open_upload(bucket, ["a", "b", "c"][usize::from(key % 3)]);
            assert!(model.insert(upload, BTreeMap::new()).is_none());
        }
        Step::Part(at, number, size, small) => {
            let Some(upload) = pick(model, at) else { return };
            let content = vec![size; usize::from(size)];
            let mut part = bench.new_part(upload, number, &content);
            if small && size > 0 {
                let at = bench.view().last_change().unwrap() * 4096;
                let pieces = vec![piece(log, at, u64::from(size))];
                part.data = Some(PoolData { blobs: vec![segment(log)], pieces });
            }
            match bench.run(Command::PutPart(Box::new(part))) {
                Ok(Outcome::Part(stamp)) => {
                    model.get_mut(&upload).unwrap().insert(number, (stamp, u64::from(size)));
                }
                Err(Rejection::BlobIsGarbage(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        Step::Complete(at, skip) => {
            let Some(upload) = pick(model, at) else { return };
            let rows = model[&upload].iter().filter(|(number, _)| **number != u16::from(skip % 8));
            let parts: Vec<(u16, u64)> = rows.clone().map(|(number, (stamp, _))| (*number, *stamp)).collect();
            let size: u64 = rows.map(|(_, (_, size))| size).sum();
            let done = complete(bench, upload, bucket, &parts);
            if parts.is_empty() {
                assert!(end(bench, &done).is_err());
                return;
            }
            let outcome = end(bench, &done).unwrap();
            assert_eq!(bench.file(outcome.file).size.0, size);
            assert_eq!(bench.view().completed_upload(upload).unwrap(), Some(outcome.file));
            model.remove(&upload);
        }
        Step::Abort(at) => {
            let Some(upload) = pick(model, at) else { return };
            abort(bench, upload);
            model.remove(&upload);
        }
        Step::Remove => drop(bench.run(Command::RemoveFile { parent: bucket, name: name("whole") })),
        Step::Sweep => {
            let (mut blobs, mut values) = (Vec::new(), Vec::new());
            for garbage in bench.view().garbage(usize::MAX).unwrap() {
                match garbage {
                    Garbage::Blob(blob) => blobs.push(blob.id),
                    Garbage::Value(_, piece) => values.push(piece),
                }
            }
            bench.ok(Command::GarbageRemoved { blobs, values });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// The bench checks the whole catalogue after each step, references of blobs among it.
    #[test]
    fn any_history_leaves_the_catalogue_whole(steps in steps()) {
        let mut bench = Bench::new();
        let bucket = bench.mkdir(DirId::ROOT, "bucket");
        let log = bench.new_blob();
        let mut model = Model::new();
        for one in steps {
            step(&mut bench, &mut model, bucket, log, one);
            let open = bench.view().uploads(bucket, "", None, usize::MAX).unwrap();
            prop_assert_eq!(open.len(), model.len());
            for (upload, parts) in &model {
                let rows = bench.view().upload_parts(*upload, 0, usize::MAX).unwrap();
                let found: BTreeMap<u16, (u64, u64)> =
                    rows.iter().map(|(number, part)| (*number, (part.stamp, part.size.0))).collect();
                prop_assert_eq!(&found, parts);
            }
        }
        // Replayed from its log it is the same, byte for byte.
        let mut again = MemoryStore::new();
        for change in &bench.log {
            apply(&mut again, &Envelope::decode(change).unwrap()).unwrap();
        }
        prop_assert!(again == bench.store);
    }
}
