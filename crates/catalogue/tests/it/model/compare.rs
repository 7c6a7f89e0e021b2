//! Every record and tally of the catalogue against what the reference counts.

use std::collections::{BTreeMap, BTreeSet};

use base::*;
use catalogue::*;

use super::reference::Model;

const ALL: usize = usize::MAX;

pub fn compare(store: &MemoryStore, model: &Model) {
    let view = View::new(store);
    assert_eq!(view.check().unwrap(), []);
    assert_eq!(view.epoch().unwrap(), Epoch(model.epoch));
    assert_eq!(
        (view.first_change().unwrap(), view.last_change().unwrap()),
        (model.kept.first().copied().unwrap_or(model.changes + 1), model.changes)
    );
    assert_eq!(rows(&view, Table::Change), model.kept.len());
    assert_eq!(view.quarantine().unwrap(), model.quarantine.map(Epoch));
    assert_eq!(view.is_restored().unwrap(), model.restored);
    let down: Vec<_> = model.drives_down.clone().into_iter().collect();
    assert_eq!(view.drives_down().unwrap(), down);
    let cleaners: Vec<_> = model.cleaners.clone().into_iter().collect();
    assert_eq!(view.cleaners().unwrap(), cleaners);
    let keys_at_hand: BTreeSet<_> = view.keys_at_hand().unwrap().into_iter().collect();
    assert_eq!(keys_at_hand, model.keys_at_hand);
    let tapes_leaving: BTreeSet<_> = view.tapes_leaving().unwrap().into_iter().collect();
    assert_eq!(tapes_leaving, model.tapes_leaving);
    let pool_drives: Vec<_> = model.pool_drives.clone().into_iter().collect();
    assert_eq!(view.pool_drives().unwrap(), pool_drives);
    let drive_disks: Vec<_> = model.drive_disks.clone().into_iter().collect();
    assert_eq!(view.drive_disks().unwrap(), drive_disks);
    assert_eq!(view.rebalance().unwrap(), model.rebalance);
    assert_eq!(view.recoding().unwrap(), model.recoding);
    let cleaning: Vec<_> = model.drives_cleaning.clone().into_iter().collect();
    assert_eq!(view.drives_cleaning().unwrap(), cleaning);
    let is_ordered = model.rules.contains(&Rule::OrderedByUse) && !model.by_use_behind;
    assert_eq!(view.is_ordered_by_use().unwrap(), is_ordered);
    for rule in Rule::ALL {
        assert_eq!(view.holds(rule).unwrap(), model.rules.contains(&rule));
    }
    namespace(&view, model);
    containers(&view, model);
    tapes(&view, model);
    requests(&view, model);
    pool(&view, model);
    tallies(&view, model);
}

fn rows(view: &View<'_>, table: Table) -> usize {
    view.size(table).unwrap().0 as usize
}

fn namespace(view: &View<'_>, model: &Model) {
    assert_eq!(rows(view, Table::Directory), model.dirs.len());
    for (id, dir) in &model.dirs {
        assert_eq!(view.directory(*id).unwrap().as_ref(), Some(dir));
        let mut names: Vec<(Name, Entry)> = Vec::new();
        for (below, record) in model.dirs.iter().filter(|(_, d)| d.parent == *id && d.name.is_some()) {
            names.push((record.name.clone().unwrap(), Entry::Directory(*below)));
        }
        for (file, record) in
            model.files.iter().filter(|(f, d)| d.parent == *id && model.named(**f).is_some())
        {
            names.push((record.name.clone(), Entry::File(*file)));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(view.list(*id, None, ALL).unwrap(), names);
        for (name, entry) in names {
            let path =
                format!("{}/{name}", view.path_of_directory(*id).unwrap().unwrap().trim_end_matches('/'));
            assert_eq!(view.resolve(&ArchivePath::new(&path).unwrap()).unwrap(), Some(entry));
        }
    }
    assert_eq!(rows(view, Table::File), model.files.len());
    for (id, file) in &model.files {
        assert_eq!(view.file(*id).unwrap().as_ref(), Some(file));
        assert_eq!(view.parts(*id).unwrap(), model.parts(*id));
    }
    let mut todo = BTreeSet::new();
    for class in 1..=model.classes.len() as u16 {
        for ((dataset, id), row) in view.todo(ClassId(class), None, ALL).unwrap() {
            let file = &model.files[&id];
            assert_eq!((file.class, file.dataset), (ClassId(class), dataset));
            assert_eq!(row, TodoFile { size: file.size, since: file.created });
            todo.insert(id);
        }
    }
    assert_eq!(todo, model.todo);
    let classes: Vec<_> = view.classes().unwrap().into_iter().map(|(_, class)| class).collect();
    assert_eq!(classes, model.classes);
    assert_eq!(rows(view, Table::Idempotency), model.answers.len());
}

fn containers(view: &View<'_>, model: &Model) {
    assert_eq!(rows(view, Table::Container), model.containers.len());
    let mut queues = BTreeMap::new();
    for (id, container) in &model.containers {
        let live: Vec<_> = container.members.iter().filter(|m| model.named(m.file).is_some()).collect();
        let record = ContainerRecord {
            kind: container.kind.clone(),
            class: container.class,
            length: container.length,
            checksums: container.checksums,
            sealed: container.sealed,
            tape_path: container.tape_path.clone(),
            skeleton: container.skeleton,
            image: container.image,
            copies: container.copies.clone(),
            live_members: live.len() as u32,
            live_bytes: ByteCount(live.iter().map(|member| member.length.0).sum()),
            condemned_members: (container.members.len() - live.len()) as u32,
        };
        assert_eq!(view.container(*id).unwrap(), Some(record));
        assert_eq!(container.copies.is_empty(), model.sealing.contains_key(id));
        assert_eq!(view.members(*id, None, ALL).unwrap(), container.members);
        for copy in container.copies.iter().filter(|copy| copy.state == CopyState::Queued) {
            let queued = QueuedContainer { length: container.length, since: container.sealed };
            queues.insert((copy.tape_pool, *id), queued);
        }
    }
    let sealing = view.sealing(ALL).unwrap().into_iter();
    let sealing = sealing.map(|(id, it)| (id, (it.members, it.added, it.end.0)));
    assert_eq!(sealing.collect::<BTreeMap<_, _>>(), model.sealing);
    let mut found = BTreeMap::new();
    for pool in 1..=model.pools.len() as u16 {
        for (id, queued) in view.queue(TapePoolId(pool), None, ALL).unwrap() {
            found.insert((TapePoolId(pool), id), queued);
        }
    }
    assert_eq!(found, queues);
}

fn tapes(view: &View<'_>, model: &Model) {
    assert_eq!(
        view.tapes().unwrap(),
        model.tapes.iter().map(|(vid, t)| (*vid, t.clone())).collect::<Vec<_>>()
    );
    for vid in model.tapes.keys() {
        let mut content = Vec::new();
        for (id, container) in &model.containers {
            let places = container.places().into_iter();
            content.extend(places.filter(|(on, _)| on == vid).map(|(_, block)| (block, *id)));
        }
        content.sort();
        assert_eq!(view.content(*vid, BlockAddress(0), ALL).unwrap(), content);
        let recalls: Vec<_> =
            model.recalls.iter().filter(|(k, _)| k.vid == *vid).map(|(k, i)| (*k, *i)).collect();
        assert_eq!(view.recall_set(*vid, None, ALL).unwrap(), recalls);
    }
    for vid in model.tapes.keys() {
        let segments = model.segments.iter().filter(|((on, _), _)| on == vid);
        let segments: Vec<_> = segments.map(|((_, first), last)| (*first, *last)).collect();
        assert_eq!(view.segments(*vid).unwrap(), segments);
    }
    assert_eq!(rows(view, Table::Run), model.runs.len());
    for (id, run) in &model.runs {
        assert_eq!(view.run(*id).unwrap().as_ref(), Some(&run.record));
        assert_eq!(view.run_items(*id, 0, ALL).unwrap(), run.items);
    }
    let open = model.runs.iter().filter(|(_, run)| run.record.ended.is_none());
    assert_eq!(
        view.open_runs().unwrap(),
        open.map(|(id, run)| (*id, run.record.clone())).collect::<Vec<_>>()
    );
}

fn requests(view: &View<'_>, model: &Model) {
    let mut expected = Vec::new();
    let mut wants: BTreeMap<FileId, Vec<Want>> = BTreeMap::new();
    assert_eq!(
        rows(view, Table::RequestPriority),
        model.requests.values().filter(|request| request.priority != 5).count()
    );
    for (id, request) in &model.requests {
        assert_eq!(view.priority(*id).unwrap(), request.priority);
        let count = |is: fn(&ItemState) -> bool| request.items.iter().filter(|i| is(&i.state)).count() as u32;
        let is_done = |state: &ItemState| matches!(state, ItemState::Done(_) | ItemState::Released);
        let sizes = request.items.iter().zip(&request.sizes);
        let record = RequestRecord {
            owner: request.owner.clone(),
            created: request.created,
            state: request.state,
            ended: request.ended,
            pin: request.pin,
            files: request.items.len() as u32,
            bytes: ByteCount(request.sizes.iter().sum()),
            done: count(is_done),
            done_bytes: ByteCount(sizes.filter(|(item, _)| is_done(&item.state)).map(|(_, size)| size).sum()),
            failed: count(|state| matches!(state, ItemState::Failed(_))),
            cancelled: count(|state| *state == ItemState::Cancelled),
            swept: 0,
            started: request.started,
            list: request.paths.as_ref().map(|paths| PathList {
                paths: paths.len() as u32,
                refused: paths.iter().filter(|path| matches!(path.target, PathTarget::Refused(_))).count()
                    as u32,
                submission: request.submission,
            }),
        };
        assert_eq!(view.request_paths(*id, 0, ALL).unwrap(), request.paths.clone().unwrap_or_default());
        expected.insert(0, (*id, record));
        let items: Vec<_> =
            request.items.iter().cloned().enumerate().map(|(n, item)| (n as u32, item)).collect();
        assert_eq!(view.request_items(*id, 0, ALL).unwrap(), items);
        for (item, RequestItem { file, .. }) in items.iter().filter(|(_, i)| i.state.waits()) {
            wants.entry(*file).or_default().push(Want { request: *id, item: *item });
        }
    }
    assert_eq!(view.requests(None, ALL).unwrap(), expected);
    assert_eq!(rows(view, Table::Want), wants.values().map(Vec::len).sum::<usize>());
    for (file, wants) in wants {
        assert_eq!(view.wants(file).unwrap(), wants);
    }
    let submitted = model.requests.iter().filter_map(|(id, request)| Some((*id, request.submission?)));
    for (id, submission) in submitted.clone() {
        assert_eq!(view.submitted(&submission).unwrap(), Some(id));
    }
    assert_eq!(rows(view, Table::Submission), submitted.count());
    for owner in ["o", "g"] {
        let open = model.requests.values().filter(|request| request.is_open_list(owner)).count();
        assert_eq!(view.open_requests(owner).unwrap(), open as u32);
    }
    let bytes = ["o", "g"].map(|owner| model.path_bytes(owner));
    assert_eq!(["o", "g"].map(|owner| view.path_bytes(owner).unwrap()), bytes);
    assert_eq!(rows(view, Table::PathBytes), bytes.iter().filter(|bytes| **bytes > 0).count());
    assert_eq!(view.has_uncounted_paths().unwrap(), model.paths_behind.is_some());
    assert_eq!(rows(view, Table::Pin), model.pins.len());
    for ((file, request), until) in &model.pins {
        assert!(view.pins(*file).unwrap().contains(&(*request, *until)));
    }
}

fn pool(view: &View<'_>, model: &Model) {
    assert_eq!(rows(view, Table::Blob), model.blobs.len());
    for (id, blob) in &model.blobs {
        assert_eq!(view.blob(*id).unwrap().as_ref(), Some(blob));
        let record = view.blob_record(*id).unwrap().unwrap();
        assert_eq!((record.references, record.live.0), model.references(*id));
    }
    assert_eq!(rows(view, Table::StandsAs), model.stands_as.len());
    for (extents, id) in &model.stands_as {
        assert_eq!(view.blob_named(*extents).unwrap(), *id);
        assert_eq!(view.blob_of_extents(*extents).unwrap().map(|blob| blob.id), Some(*id));
    }
    let place = |garbage: &Garbage| match garbage {
        Garbage::Blob(blob) => (blob.id, u64::MAX),
        Garbage::Value(_, piece) => (piece.blob, piece.offset.0),
    };
    // What is older than a restore is handed out when the quarantine has ended.
    let is_kept = |(blob, _): &(BlobId, u64)| view.quarantine().unwrap().is_some_and(|it| blob.epoch() <= it);
    let (kept, handed_out): (BTreeSet<_>, BTreeSet<_>) = model.garbage.iter().copied().partition(is_kept);
    assert_eq!(view.garbage(ALL).unwrap().iter().map(place).collect::<BTreeSet<_>>(), handed_out);
    assert_eq!(view.garbage_kept(None, ALL).unwrap().iter().map(place).collect::<BTreeSet<_>>(), kept);
    let groups: BTreeSet<_> = model.unneeded.keys().map(|(blob, page)| (*blob, page / 64)).collect();
    assert_eq!(rows(view, Table::Unneeded), groups.len());
    for ((blob, page), sectors) in &model.unneeded {
        assert_eq!(view.unneeded_sectors(*blob, *page).unwrap(), *sectors);
    }
}

fn tallies(view: &View<'_>, model: &Model) {
    let expect = |counter, sizes: Vec<u64>| {
        let tally = Tally { files: sizes.len() as u64, bytes: ByteCount(sizes.iter().sum()) };
        assert_eq!(view.tally(counter).unwrap(), tally, "{counter:?}");
    };
    for class in (1..=model.classes.len() as u16).map(ClassId) {
        let files = || model.files.values().filter(|f| f.class == class && f.is_named());
        expect(Counter::Class(class), files().map(|f| f.size.0).collect());
        expect(Counter::Online(class), files().filter(|f| f.is_online()).map(|f| f.size.0).collect());
        let by_use = model.by_use.iter().filter(|(id, _)| model.files[*id].class == class);
        let mut by_use: Vec<_> = by_use.map(|(id, hour)| (*hour, *id)).collect();
        by_use.sort_unstable();
        assert_eq!(view.by_use(class, None, ALL).unwrap(), by_use);
        let todo = model.todo.iter().map(|id| &model.files[id]).filter(|f| f.class == class);
        expect(Counter::Todo(class), todo.map(|f| f.size.0).collect());
    }
    for pool in (1..=model.pools.len() as u16).map(TapePoolId) {
        let waits = |c: &&super::reference::Container| {
            c.copies.iter().any(|copy| copy.tape_pool == pool && copy.state == CopyState::Queued)
        };
        expect(Counter::Queued(pool), model.containers.values().filter(waits).map(|c| c.length.0).collect());
    }
    for vid in model.tapes.keys() {
        let wanted = model.recalls.iter().filter(|(key, _)| key.vid == *vid);
        expect(Counter::Wanted(*vid), wanted.map(|(_, item)| item.length.0).collect());
    }
    assert_eq!(view.tally(Counter::PacksSealed).unwrap(), model.packs);
    assert_eq!(view.tally(Counter::Flushes).unwrap(), model.flushes);
    assert_eq!(view.tally(Counter::Indexes).unwrap(), model.indexes);
}
