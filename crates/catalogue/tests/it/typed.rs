//! Each command that has a type for its answer is answered so. The table of answers stands beside what is
//! done, and nothing but this test compares the two.

use crate::common::{Bench, name, new_upload};
use base::*;
use catalogue::typed::{self, Put, RemovedName, TypedCommand};
use catalogue::*;

fn ask<C: TypedCommand>(bench: &mut Bench, command: C) -> C::Answer {
    let command = command.into_command();
    let text = format!("{command:?}");
    C::answer(bench.ok(command)).unwrap_or_else(|other| panic!("{other:?} for {text}"))
}

#[test]
fn definitions_and_names_have_their_answers() {
    let mut bench = Bench::new();
    assert_eq!(ask(&mut bench, typed::OpenEpoch {}), Epoch(2));
    let pool = ask(&mut bench, typed::DefineTapePool { name: "third".into() });
    let class = ask(&mut bench, typed::DefineClass { name: "third".into(), copies: vec![pool] });
    assert_ne!(class, bench.class);
    let (parent, attributes) = (DirId::ROOT, Attributes::default());
    let make = typed::MakeDirectory { parent, name: name("d"), attributes, class: None };
    let directory = ask(&mut bench, make);
    let put = bench.new_put(directory, "a", "some bytes");
    let first = ask(&mut bench, Put::File(Box::new(put.clone())));
    assert!(first.created);
    let object = PutObject { put, if_current: None, hold: None, always: true };
    let second = ask(&mut bench, Put::Object(Box::new(object)));
    assert_eq!(second.replaced, Some(first.file));
    let clone = CloneFile {
        source: second.file,
        parent: directory,
        name: name("b"),
        attributes: None,
        class: bench.class,
        dataset: 1,
        replace: Replace::Refused,
        if_current: None,
        hold: None,
    };
    let clone = ask(&mut bench, Box::new(clone));
    let gone = ask(&mut bench, typed::RemoveFile { parent: directory, name: name("b") });
    assert_eq!(gone, RemovedName::Gone);
    assert_eq!(bench.view().file(clone.file).unwrap(), None);
    let removed =
        ask(&mut bench, typed::RemoveObject { parent: directory, name: name("a"), if_current: None });
    assert_eq!(removed, Removal { version: Some(second.file), marker: false, gone: Some(second.file) });
    let settings = BucketSettings { versioning: Versioning::Enabled, ..BucketSettings::default() };
    bench.ok(Command::SetBucket { dir: directory, settings: Box::new(settings) });
    let put = bench.new_put(directory, "c", "other bytes");
    let kept = ask(&mut bench, Put::File(Box::new(put)));
    let hidden = ask(&mut bench, typed::RemoveFile { parent: directory, name: name("c") });
    assert!(matches!(hidden, RemovedName::Version(Removal { marker: true, gone: None, .. })), "{hidden:?}");
    let (version, name) = (Some(kept.file), name("c"));
    let removed = ask(&mut bench, typed::RemoveVersion { parent: directory, name, version, bypass: false });
    assert_eq!(removed.gone, version);
}

#[test]
fn uploads_requests_and_copies_have_their_answers() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "b");
    let upload = ask(&mut bench, new_upload(bucket, "k", ""));
    let part = bench.new_part(upload, 1, b"part");
    let stamp = ask(&mut bench, Box::new(part));
    let mut put = bench.new_put(bucket, "k", "");
    put.size = ByteCount(4);
    put.checksums = Checksums::of(b"part");
    put.idempotency = Some(completion_key(upload));
    let object = PutObject { put, if_current: None, hold: None, always: false };
    let done = ask(&mut bench, Box::new(CompleteUpload { upload, parts: vec![(1, stamp)], object }));
    assert!(done.created);
    let upload = ask(&mut bench, new_upload(bucket, "k", ""));
    assert!(!ask(&mut bench, typed::AbortUpload { upload }));

    let file = bench.put("f", "the bytes of a file");
    let container = bench.pack(&[file]);
    assert_eq!(ask(&mut bench, typed::ReserveContainer {}).0, container.0 + 1);
    let start = bench.view().tape(bench.tapes[0]).unwrap().unwrap().end_of_data;
    let begin = typed::BeginRun { vid: bench.tapes[0], drive: "d".into(), start };
    let run = ask(&mut bench, begin);
    bench.append(run, container, 3);
    bench.commit(run);
    bench.index(run);
    bench.end(run, TapeState::Active);
    bench.write_to(1, container);
    assert_eq!(ask(&mut bench, typed::Evict { files: vec![file] }), vec![Ok(())]);
    let request = bench.request(&[file]);
    let data = bench.data(19);
    let recall = RecallDone { blobs: data.blobs, files: vec![(file, data.pieces)] };
    assert_eq!(ask(&mut bench, Box::new(recall)), 1);
    let copies = vec![bench.pool_copy(file)];
    assert_eq!(ask(&mut bench, typed::PoolCopiesLost { copies }), vec![PoolLoss::Nearline]);
    let vid = bench.tapes[0];
    assert_eq!(ask(&mut bench, typed::RequeueCopy { container, vid }), Requeue::Queued);
    assert!(!ask(&mut bench, typed::ForgetSome { request }));
    let pin = Duration::from_secs(1);
    let request = ask(&mut bench, typed::OpenRequest { owner: "bob".into(), pin });
    assert!(!ask(&mut bench, typed::CancelSome { request }));
}

#[test]
fn parts_of_work_have_their_answers() {
    let mut bench = Bench::new();
    assert!(!ask(&mut bench, typed::EvictSomeCold {}));
    assert_eq!(ask(&mut bench, typed::ExpireSomePins {}), 0);
    assert_eq!(ask(&mut bench, typed::ExpireSomeAnswers {}), 0);
    assert_eq!(ask(&mut bench, typed::TrimSome { through: 3, most: 2 }), 2);
    let file = bench.put("f", "the bytes of a file");
    let container = bench.pack(&[file]);
    while ask(&mut bench, typed::DissolveSome { container }) {}
    assert_eq!(bench.view().container(container).unwrap(), None);
    let subject = QuotaSubject::Group("lofar".into());
    let limits = Some(QuotaLimits { bytes: Some(ByteCount(100)), files: None });
    bench.ok(Command::SetQuota { subject: subject.clone(), limits });
    while ask(&mut bench, typed::CountQuota { subject: subject.clone() }) {}
    let directory = bench.mkdir(DirId::ROOT, "d");
    let (parent, owner) = (DirId::ROOT, "bob".to_owned());
    bench.ok(Command::CondemnTree { parent, name: name("d"), directory, owner, with_lists: false });
    assert_eq!(ask(&mut bench, typed::RemoveSomeOfTree { directory }), (vec![], false));
}

/// The outcome of another command is given back, not taken for an answer.
#[test]
fn an_outcome_of_another_command_is_no_answer() {
    let other = Outcome::Run(RunId(3));
    assert_eq!(typed::OpenRequest::answer(other.clone()), Err(other));
    assert_eq!(typed::RemoveFile::answer(Outcome::Done), Err(Outcome::Done));
}
