//! Trees that are removed at once: what is refused, what becomes of those who still know a directory in one,
//! and that batches lead to the same as removals name by name.

use crate::common::*;
use base::*;
use catalogue::*;
use proptest::prelude::*;

fn condemn(directory: DirId, parent: DirId, text: &str) -> Command {
    let owner = "alice".into();
    Command::CondemnTree { parent, name: name(text), directory, owner, with_lists: false }
}

/// Removes a condemned tree in batches of `most`; gives how many batches and files there were.
fn remove(bench: &mut Bench, tree: DirId, most: u32) -> (usize, Vec<FileId>) {
    let (mut batches, mut removed) = (0, Vec::new());
    loop {
        match bench.ok(Command::DoSome { work: Work::RemoveTree(tree), most }) {
            Outcome::TreeRemoved { files, more } => {
                assert!(files.len() <= most as usize);
                batches += 1;
                removed.extend(files.iter().map(|file| file.file));
                if !more {
                    return (batches, removed);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

fn put(bench: &mut Bench, parent: DirId, file: &str, content: &str) -> FileId {
    let put = bench.new_put(parent, file, content);
    match bench.ok(Command::PutFile(Box::new(put))) {
        Outcome::Put(PutOutcome { file, .. }) => file,
        other => panic!("{other:?}"),
    }
}

/// `/a` with a file, `/a/b` with two, an empty `/a/b/c`, and `/a/d` with a link.
fn tree(bench: &mut Bench) -> (DirId, Vec<DirId>, Vec<FileId>) {
    let a = bench.mkdir(DirId::ROOT, "a");
    let b = bench.mkdir(a, "b");
    let (c, d) = (bench.mkdir(b, "c"), bench.mkdir(a, "d"));
    let files = vec![
        put(bench, a, "x", "1"),
        put(bench, b, "y", "22"),
        put(bench, b, "z", "333"),
        put(bench, d, "e", ""),
    ];
    (a, vec![b, c, d], files)
}

#[test]
fn a_tree_is_gone_at_once_and_removed_behind() {
    let mut bench = Bench::new();
    let (a, below, files) = tree(&mut bench);
    bench.ok(condemn(a, DirId::ROOT, "a"));
    let path = ArchivePath::new("/a").unwrap();
    assert_eq!(bench.view().resolve(&path).unwrap(), None);
    assert_eq!(bench.view().resolve(&ArchivePath::new("/a/b/y").unwrap()).unwrap(), None);
    assert_eq!(bench.view().list(DirId::ROOT, None, 10).unwrap(), []);
    assert!(bench.view().is_in_condemned_tree(below[1]).unwrap());
    let class = Counter::Class(bench.class);
    assert_eq!(bench.view().tally(class).unwrap().files, 4, "they count until they are removed");

    // The name is free.
    let again = bench.mkdir(DirId::ROOT, "a");
    let kept = put(&mut bench, again, "x", "1");

    let (batches, removed) = remove(&mut bench, a, 3);
    assert_eq!((batches, removed.len()), (3, 4), "four files and four directories, three at a time");
    assert!(files.iter().all(|file| removed.contains(file)));
    assert!(files.iter().all(|file| bench.view().file(*file).unwrap().is_none()));
    assert!(below.iter().all(|id| bench.view().directory(*id).unwrap().is_none()));
    assert_eq!(bench.view().tally(class).unwrap(), Tally { files: 1, bytes: ByteCount(1) });
    assert_eq!(bench.view().resolve(&path).unwrap(), Some(Entry::Directory(again)));
    assert!(bench.file(kept).is_named());
    assert!(!bench.view().has_condemned_trees().unwrap());
    let record = bench.view().tree(a).unwrap().unwrap();
    let counts = (record.files, record.bytes, record.directories, record.path.as_str());
    assert_eq!(counts, (4, ByteCount(6), 4, "/a"));
    assert!(record.ended.is_some());
    let some = Command::DoSome { work: Work::RemoveTree(a), most: 3 };
    assert!(bench.rejected(some).contains("does not exist"), "it has ended");
    assert!(bench.replayed() == bench.store);
}

/// An upload, a rename, a hold or a bucket's settings that were on their way when the tree went must not be
/// acknowledged and then be removed with it.
#[test]
fn nothing_comes_into_a_condemned_tree_or_out_of_it() {
    let mut bench = Bench::new();
    let (a, below, files) = tree(&mut bench);
    let other = bench.mkdir(DirId::ROOT, "o");
    put(&mut bench, other, "f", "4");
    bench.ok(condemn(a, DirId::ROOT, "a"));
    let b = below[0];
    let late = bench.new_put(b, "late", "late");
    let clone = CloneFile {
        source: files[1],
        parent: b,
        name: name("clone"),
        attributes: None,
        class: bench.class,
        dataset: 1,
        replace: Replace::Refused,
        if_current: None,
        hold: None,
    };
    let hold = Hold { retention: None, legal: true };
    let rename = |from: DirId, from_name: &str, to: DirId| Command::Rename {
        from_parent: from,
        from_name: name(from_name),
        to_parent: to,
        to_name: name("moved"),
        replace: Replace::Refused,
    };
    let attributes = Attributes::default();
    for command in [
        Command::PutFile(Box::new(late)),
        Command::CloneFile(Box::new(clone)),
        Command::MakeDirectory { parent: b, name: name("new"), attributes, class: None },
        rename(b, "y", other),
        rename(other, "f", b),
        Command::RemoveFile { parent: b, name: name("y") },
        Command::RemoveDirectory { parent: b, name: name("c") },
        Command::SetHold { file: files[1], hold, bypass: false },
        Command::BeginUpload(new_upload(a, "b/part", "")),
        Command::SetBucket { dir: a, settings: Box::default() },
        Command::SetAcl { directory: b, entries: Some(Vec::new()) },
        Command::SetQuota {
            subject: QuotaSubject::Directory(b),
            limits: Some(QuotaLimits { bytes: None, files: Some(1) }),
        },
        condemn(b, a, "b"),
        condemn(a, DirId::ROOT, "a"),
    ] {
        let text = format!("{command:?}");
        assert!(bench.rejected(command).contains("does not exist"), "{text}");
    }
    remove(&mut bench, a, 400);
}

#[test]
fn what_must_stay_is_named_and_nothing_is_done() {
    let mut bench = Bench::new();
    let (a, below, files) = tree(&mut bench);
    let refused = |bench: &mut Bench, command: Command, why: &str| {
        let text = bench.rejected(command);
        assert!(text.contains("is not removed at once") && text.contains(why), "{text}");
    };
    let held = Hold { retention: None, legal: true };
    bench.ok(Command::SetHold { file: files[2], hold: held, bypass: false });
    refused(&mut bench, condemn(a, DirId::ROOT, "a"), "'z', has a retention or a legal hold");
    bench.ok(condemn(below[2], a, "d"));
    bench.ok(Command::SetHold { file: files[2], hold: Hold::default(), bypass: false });

    let entries = Some(vec![AclEntry { subject: "user:anna".into(), rights: 1 }]);
    bench.ok(Command::SetAcl { directory: below[0], entries: entries.clone() });
    refused(&mut bench, condemn(a, DirId::ROOT, "a"), "an access control list of its own");
    bench.ok(Command::SetAcl { directory: below[0], entries: None });
    bench.ok(Command::SetAcl { directory: a, entries });

    let upload = bench.open_upload(a, "part");
    refused(&mut bench, condemn(a, DirId::ROOT, "a"), "uploads in parts are open");
    bench.ok(Command::AbortUpload { upload });

    let settings = BucketSettings { versioning: Versioning::Suspended, ..Default::default() };
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let inner = bench.mkdir(bucket, "inner");
    bench.ok(Command::SetBucket { dir: bucket, settings: Box::new(settings) });
    refused(&mut bench, condemn(bucket, DirId::ROOT, "bucket"), "keeps versions");
    refused(&mut bench, condemn(inner, bucket, "inner"), "keeps versions");

    // Another directory than the one that was looked at.
    assert!(bench.rejected(condemn(below[0], DirId::ROOT, "a")).contains("changed meanwhile"));
    bench.ok(condemn(a, DirId::ROOT, "a"));
    assert_eq!(bench.view().acl(a).unwrap(), None, "nothing that was set of it is left");
    remove(&mut bench, a, 1);
}

/// At the limit all of them are looked at; with one more the tree is, if it has no more names than that. A
/// thousand held files anywhere had every tree go name by name.
#[test]
fn as_many_held_files_as_are_looked_at_and_one_more() {
    let mut bench = Bench::new();
    let (a, below, files) = tree(&mut bench);
    let held = Hold { retention: None, legal: true };
    // Without the check of the whole catalogue after each, which is quadratic.
    let hold_one = |bench: &mut Bench, number: usize| {
        let mut put = bench.new_put(DirId::ROOT, &format!("held-{number}"), "");
        put.data = None;
        let object = PutObject { put, if_current: None, hold: Some(held), always: false };
        let command = Command::PutObject(Box::new(object));
        apply(&mut bench.store, &Envelope { at: bench.at, command }).unwrap();
    };
    (0..TREE_ROWS_LOOKED_MAX).for_each(|number| hold_one(&mut bench, number));
    let store = bench.store.clone();
    bench.ok(condemn(a, DirId::ROOT, "a"));
    bench.store = store;
    hold_one(&mut bench, TREE_ROWS_LOOKED_MAX);
    let many = bench.store.clone();
    bench.ok(Command::SetHold { file: files[2], hold: held, bypass: false });
    let text = bench.rejected(condemn(a, DirId::ROOT, "a"));
    assert!(text.contains("'z', has a retention or a legal hold"), "{text}");
    bench.store = many;
    let has = bench.view().list(a, None, 10).unwrap().len() + 2 + 1 + 1;
    assert_eq!(has, 3 + 4, "the names of the tree");
    let put_one = |bench: &mut Bench, number: usize| {
        let put = bench.new_put(below[1], &format!("more-{number}"), "");
        let command = Command::PutFile(Box::new(PutFile { data: None, ..put }));
        apply(&mut bench.store, &Envelope { at: bench.at, command }).unwrap();
    };
    (has..TREE_ROWS_LOOKED_MAX).for_each(|number| put_one(&mut bench, number));
    let full = bench.store.clone();
    bench.ok(condemn(a, DirId::ROOT, "a"));
    bench.store = full;
    put_one(&mut bench, TREE_ROWS_LOOKED_MAX);
    let text = bench.rejected(condemn(a, DirId::ROOT, "a"));
    assert!(text.contains("more than 1000 names, and as many files of the archive are held"), "{text}");
    bench.ok(condemn(below[0], a, "b"));
}

#[test]
fn lists_elsewhere_do_not_keep_a_small_tree() {
    let mut bench = Bench::new();
    let (a, below, _) = tree(&mut bench);
    let entries = Some(vec![AclEntry { subject: "user:anna".into(), rights: 1 }]);
    let bare = |bench: &mut Bench, command: Command| {
        apply(&mut bench.store, &Envelope { at: bench.at, command }).unwrap()
    };
    for number in 0..=TREE_ROWS_LOOKED_MAX {
        let (parent, attributes) = (DirId::ROOT, Attributes::default());
        let name = name(&format!("o{number}"));
        let Outcome::Directory(directory) =
            bare(&mut bench, Command::MakeDirectory { parent, name, attributes, class: None })
        else {
            panic!()
        };
        bare(&mut bench, Command::SetAcl { directory, entries: entries.clone() });
    }
    bare(&mut bench, Command::SetAcl { directory: a, entries: entries.clone() });
    let store = bench.store.clone();
    bare(&mut bench, Command::SetAcl { directory: below[2], entries });
    let text = bench.rejected(condemn(a, DirId::ROOT, "a"));
    assert!(text.contains("an access control list of its own"), "{text}");
    bench.store = store;
    bench.ok(condemn(a, DirId::ROOT, "a"));
}

#[test]
fn as_many_trees_as_are_remembered_and_one_more() {
    let mut bench = Bench::new();
    let bare = |bench: &mut Bench, command: Command| {
        apply(&mut bench.store, &Envelope { at: bench.at, command }).unwrap()
    };
    let mut trees = Vec::new();
    for number in 0..=TREES_MAX {
        let text = format!("t{number}");
        let (parent, attributes) = (DirId::ROOT, Attributes::default());
        let make = Command::MakeDirectory { parent, name: name(&text), attributes, class: None };
        let Outcome::Directory(id) = bare(&mut bench, make) else { panic!() };
        trees.push((id, text));
    }
    let (last, rest) = trees.split_last().unwrap();
    for (id, text) in rest {
        bare(&mut bench, condemn(*id, DirId::ROOT, text));
    }
    let text = bench.rejected(condemn(last.0, DirId::ROOT, &last.1));
    assert!(text.contains("1000 trees are being removed"), "{text}");
    remove(&mut bench, rest[7].0, 400);
    bench.ok(condemn(last.0, DirId::ROOT, &last.1));
    assert_eq!(bench.view().tree(rest[7].0).unwrap(), None, "what ended is forgotten for it");
    assert_eq!(bench.view().trees().unwrap().len(), TREES_MAX);
}

#[test]
fn quotas_count_until_the_files_are_gone_and_the_directory_above_may_go() {
    let mut bench = Bench::new();
    let above = bench.mkdir(DirId::ROOT, "above");
    let group = bench.mkdir(above, "group");
    let a = bench.mkdir(group, "a");
    let inner = bench.mkdir(a, "inner");
    for (at, file) in [(a, "x"), (inner, "y"), (inner, "z")] {
        put(&mut bench, at, file, "12345");
    }
    let subjects = [above, group, a, inner].map(QuotaSubject::Directory);
    let limits = Some(QuotaLimits { bytes: Some(ByteCount(100)), files: None });
    for subject in &subjects {
        bench.ok(Command::SetQuota { subject: subject.clone(), limits });
        bench.ok(Command::CountQuota { subject: subject.clone() });
    }
    let used = |bench: &Bench, at: usize| bench.view().quota(&subjects[at]).unwrap().map(|q| q.used.bytes.0);
    bench.ok(condemn(a, group, "a"));
    assert_eq!([0, 1, 2, 3].map(|at| used(&bench, at)), [Some(15), Some(15), None, Some(15 - 5)]);
    // The directory that it stood in is empty now, and may go before the tree is gone.
    bench.ok(Command::RemoveDirectory { parent: above, name: name("group") });
    bench.ok(Command::DoSome { work: Work::RemoveTree(a), most: 1 });
    assert_eq!([0, 1].map(|at| used(&bench, at)), [Some(10), None]);
    // A tree in which a tree stands.
    bench.ok(condemn(above, DirId::ROOT, "above"));
    remove(&mut bench, above, 400);
    remove(&mut bench, a, 1);
    assert!(bench.replayed() == bench.store);
}

/// Parts that count for a directory of the tree count for the one above it when it goes, however many.
#[test]
fn uploads_that_count_in_a_tree_move_up() {
    let mut bench = Bench::new();
    let bucket = bench.mkdir(DirId::ROOT, "bucket");
    let a = bench.mkdir(bucket, "a");
    let quota = QuotaSubject::Directory(bucket);
    let limits = Some(QuotaLimits { bytes: Some(ByteCount(1000)), files: None });
    bench.ok(Command::SetQuota { subject: quota.clone(), limits });
    bench.ok(Command::CountQuota { subject: quota.clone() });
    let uploads: Vec<_> = (0..5).map(|n| bench.open_upload(bucket, &format!("a/{n}"))).collect();
    for upload in &uploads {
        bench.put_part(*upload, 1, b"part");
    }
    put(&mut bench, a, "x", "1");
    bench.ok(condemn(a, bucket, "a"));
    assert_eq!(remove(&mut bench, a, 2).0, 4, "a file, five uploads and a directory");
    assert_eq!(bench.view().quota(&quota).unwrap().unwrap().used.bytes.0, 20);
    assert_eq!(bench.view().upload_use(uploads[0]).unwrap().unwrap().directory, bucket);
}

#[test]
fn files_on_their_way_to_tape_and_back_end_as_by_a_delete() {
    let mut bench = Bench::new();
    let a = bench.mkdir(DirId::ROOT, "a");
    let [waiting, planned, on_tape, wanted, pinned] =
        ["1", "22", "333", "4444", "55555"].map(|content| put(&mut bench, a, content, content));
    let stays = bench.put("stays", "stays");
    for file in [on_tape, wanted] {
        let container = bench.pack(&[file]);
        bench.write_to(0, container);
        bench.write_to(1, container);
    }
    bench.evict(wanted).unwrap();
    let clone = CloneFile {
        source: pinned,
        parent: DirId::ROOT,
        name: name("clone"),
        attributes: None,
        class: bench.class,
        dataset: 1,
        replace: Replace::Refused,
        if_current: None,
        hold: None,
    };
    bench.ok(Command::CloneFile(Box::new(clone)));
    let request = bench.request(&[wanted, pinned]);
    let container = bench.pack(&[planned, stays]);
    let run = bench.begin(0);
    bench.append(run, container, 4);
    bench.ok(condemn(a, DirId::ROOT, "a"));
    // What is wanted may come back before its batch is there.
    let Outcome::TreeRemoved { files, more: false } =
        bench.ok(Command::DoSome { work: Work::RemoveTree(a), most: 400 })
    else {
        panic!()
    };
    let is_wanted = |id| files.iter().any(|file| file.file == id && file.wanted);
    assert!(is_wanted(wanted) && !is_wanted(on_tape));
    let record = bench.view().request(request).unwrap().unwrap();
    assert_eq!((record.state, record.done, record.failed), (RequestState::Completed, 1, 1));
    assert_eq!(bench.view().pins(pinned).unwrap(), []);
    assert!(matches!(bench.file(planned).state, FileState::Condemned(_)), "its container is written first");
    for gone in [waiting, on_tape, wanted, pinned] {
        assert_eq!(bench.view().file(gone).unwrap(), None);
    }
    bench.commit(run);
    bench.index(run);
    bench.end(run, TapeState::Active);
    bench.write_to(1, container);
    assert_eq!(bench.view().file(planned).unwrap(), None);
    assert!(bench.file(stays).is_named());
    assert!(bench.replayed() == bench.store);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any tree, in batches of any size: every file and directory of it goes, nothing else, and after each
    /// batch the catalogue agrees with itself.
    #[test]
    fn batches_of_any_size_remove_all_of_a_tree_and_nothing_else(
        shape in proptest::collection::vec((0usize..12, 0u8..3), 1..40),
        most in 1u32..9,
    ) {
        let mut bench = Bench::new();
        let top = bench.mkdir(DirId::ROOT, "top");
        let beside = bench.mkdir(DirId::ROOT, "beside");
        let kept = put(&mut bench, beside, "kept", "kept");
        let (mut directories, mut files) = (vec![top], 0);
        for (at, (parent, kind)) in shape.iter().enumerate() {
            let parent = directories[parent % directories.len()];
            // Files before and behind the directories of the same parent.
            let text = format!("{}{at}", ["d", "a", "z"][usize::from(*kind)]);
            if *kind == 0 {
                directories.push(bench.mkdir(parent, &text));
            } else {
                put(&mut bench, parent, &text, &text);
                files += 1;
            }
        }
        bench.ok(condemn(top, DirId::ROOT, "top"));
        let (batches, removed) = remove(&mut bench, top, most);
        prop_assert_eq!(removed.len(), files);
        prop_assert_eq!(batches, (files + directories.len()).div_ceil(most as usize));
        prop_assert!(directories.iter().all(|id| bench.view().directory(*id).unwrap().is_none()));
        prop_assert!(bench.file(kept).is_named());
        prop_assert_eq!(bench.view().tally(Counter::Class(bench.class)).unwrap().files, 1);
        prop_assert!(bench.replayed() == bench.store);
    }
}

/// Counts the names that are read.
struct CountingStore {
    store: MemoryStore,
    names: std::cell::Cell<usize>,
}

impl Snapshot for CountingStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        self.store.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        self.store.scan(table, from, to, &mut |key, value| {
            self.names.set(self.names.get() + usize::from(table == Table::Entry));
            visit(key, value)
        })
    }
}

impl Transaction for CountingStore {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.store.put(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, KvError> {
        self.store.delete(table, key)
    }
}

/// Story: files and directories took turns in a directory, and each file had the rest of it read, each
/// directory all that the batch had removed before.
#[test]
fn a_batch_reads_each_name_about_once() {
    const PAIRS: usize = 100;
    let mut bench = Bench::new();
    let a = bench.mkdir(DirId::ROOT, "a");
    for number in 0..PAIRS {
        bench.mkdir(a, &format!("{number:03}-directory"));
        put(&mut bench, a, &format!("{number:03}-file"), "1");
    }
    bench.ok(condemn(a, DirId::ROOT, "a"));
    let mut counting = CountingStore { store: bench.store.clone(), names: std::cell::Cell::new(0) };
    let command = Command::DoSome { work: Work::RemoveTree(a), most: 400 };
    let outcome = apply(&mut counting, &Envelope { at: bench.at, command }).unwrap();
    assert!(matches!(outcome, Outcome::TreeRemoved { files, more: false } if files.len() == PAIRS));
    let names = counting.names.get();
    assert!(names <= 3 * 2 * PAIRS, "{names} names were read to remove {}", 2 * PAIRS);
}
