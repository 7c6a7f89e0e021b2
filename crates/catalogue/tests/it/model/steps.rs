//! Random numbers become a command that suits the state; now and then one that does not.

use base::*;
use catalogue::*;

use super::reference::{Model, Request};

/// Drawn blindly; what it means depends on the state, so that a shorter history still makes sense.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: u8,
    pub picks: [u16; 6],
    pub pause: u8,
}

pub const KINDS: u8 = 143;

pub fn among<T: Clone>(items: &[T], pick: u16) -> Option<T> {
    (!items.is_empty()).then(|| items[usize::from(pick) % items.len()].clone())
}

fn a_name(pick: u16) -> Name {
    Name::new(["a", "b", "c", "d"][usize::from(pick) % 4]).unwrap()
}

fn a_vid(pick: u16) -> Vid {
    Vid::new(["AAA001", "AAA002", "BBB001", "BBB002"][usize::from(pick) % 4]).unwrap()
}

/// Ranges of changes that are in the log, now and then one that is not.
fn ranges(model: &Model, pick: u16) -> Vec<(u64, u64)> {
    let last = model.changes + u64::from(pick % 40 == 39);
    let first = last.saturating_sub(u64::from(pick / 64 % 8)).max(1);
    match pick % 4 {
        0 => vec![],
        1 if first > 3 => vec![(1, 2), (first, last)],
        _ => vec![(first, last)],
    }
}

pub fn pause(step: &Step) -> Duration {
    match step.pause {
        0 => Duration::from_secs(8 * 86_400),
        1..20 => Duration::from_secs(60),
        20..30 => Duration::ZERO,
        _ => Duration::from_secs(1),
    }
}

pub fn striped(id: u64, length: u64) -> BlobDescription {
    let drives = (0..6).map(DriveId).collect();
    let stripes = vec![StripeSet { id: StripeSetId(1), drives }];
    let layout = Layout::Striped { code: StripeCode::reed_solomon(4, 2) };
    BlobDescription { id: BlobId(id), stands_as: None, layout, length: ByteCount(length), stripes }
}

pub fn segment(id: u64) -> BlobDescription {
    let stripes = vec![StripeSet { id: StripeSetId(2), drives: vec![DriveId(1), DriveId(2)] }];
    BlobDescription {
        id: BlobId(id),
        stands_as: None,
        layout: Layout::Segment { copies: 2 },
        length: ByteCount(0),
        stripes,
    }
}

pub fn piece(blob: u64, offset: u64, length: u64) -> BlobPiece {
    BlobPiece { blob: BlobId(blob), offset: ByteCount(offset), length: ByteCount(length) }
}

/// Blobs are numbered by the changes so far, which only rise; half of the small ones share a log that
/// changes slowly.
pub fn data(model: &Model, length: u64, pick: u16) -> PoolData {
    let fresh = 1_000_000 + model.changes * 10;
    match pick % 3 {
        0 => PoolData { blobs: vec![striped(fresh, length)], pieces: vec![piece(fresh, 0, length)] },
        1 if length > 2 => PoolData {
            blobs: vec![striped(fresh, 2), striped(fresh + 1, length)],
            pieces: vec![piece(fresh, 0, 2), piece(fresh + 1, 1, length - 2)],
        },
        _ => {
            let log = 500 + model.changes / 40;
            PoolData { blobs: vec![segment(log)], pieces: vec![piece(log, model.changes * 4096, length)] }
        }
    }
}

fn put(model: &Model, picks: &[u16; 6]) -> PutFile {
    let dirs: Vec<_> = model.dirs.keys().copied().collect();
    let content = ["", "abc", "12345678", "xyz"][usize::from(picks[1]) % 4];
    let size = content.len() as u64;
    let is_link = picks[2] % 16 == 0;
    let is_link = is_link && size == 0;
    PutFile {
        parent: if picks[0] % 50 == 49 { DirId(99_999) } else { among(&dirs, picks[0]).unwrap() },
        name: a_name(picks[3]),
        kind: if is_link { FileKind::Symlink("t".into()) } else { FileKind::Regular },
        size: ByteCount(size),
        attributes: Attributes { mode: u32::from(picks[2] % 512), ..Default::default() },
        checksums: Checksums::of(content.as_bytes()),
        class: ClassId([1, 1, 1, 2, 3, 1, 1, 9][usize::from(picks[4]) % 8]),
        dataset: u64::from(picks[4] % 2),
        data: (size > 0).then(|| data(model, size, picks[2] / 4)),
        replace: if picks[5] % 5 == 0 { Replace::Refused } else { Replace::Allowed },
        idempotency: (picks[5] % 4 == 1).then(|| [(picks[5] / 4 % 3) as u8; 32]),
    }
}

pub fn some_files(model: &Model, picks: &[u16; 6]) -> Vec<FileId> {
    let all: Vec<_> = model.files.keys().copied().collect();
    let count = 1 + usize::from(picks[5] % 3);
    let mut files: Vec<_> = picks[..count].iter().filter_map(|pick| among(&all, *pick)).collect();
    if picks[5] % 40 == 39 {
        files.push(FileId(88_888));
    }
    files
}

fn seal(model: &Model, picks: &[u16; 6]) -> SealContainer {
    let reserved: Vec<_> = model.reserved.iter().copied().collect();
    let container = among(&reserved, picks[0]).unwrap_or(ContainerId(model.next_container));
    let class = ClassId(1 + picks[1] % 2);
    let todo: Vec<_> = model.todo.iter().copied().filter(|id| model.files[id].class == class).collect();
    let file = among(&todo, picks[2]).unwrap_or(FileId(77_777));
    let size = model.files.get(&file).map_or(1, |record| record.size.0);
    let sealed: u64 = model.parts(file).iter().map(|(_, part)| part.length.0).sum();
    let member = |file, at: u64, data: u64, length, file_offset| MemberRecord {
        file,
        header_offset: ByteCount(at),
        data_offset: ByteCount(data),
        length: ByteCount(length),
        file_offset: ByteCount(file_offset),
    };
    let (kind, members, skeleton) = match picks[3] % 4 {
        0 => (ContainerKind::File(file), vec![member(file, 0, 0, size, 0)], None),
        1 => {
            let length = if picks[4] % 2 == 0 { size - sealed } else { (size - sealed).min(2) };
            let file_offset = ByteCount(sealed);
            (ContainerKind::Segment { file, file_offset }, vec![member(file, 0, 0, length, sealed)], None)
        }
        _ => {
            let mut at = 512;
            let start = usize::from(picks[2]) % todo.len().max(1);
            let mut members = Vec::new();
            for file in todo.iter().skip(start).take(1 + usize::from(picks[4] % 3)) {
                let size = model.files[file].size.0;
                members.push(member(*file, at, at + 512, size, 0));
                at += 512 + size;
            }
            if members.is_empty() {
                members.push(member(file, 0, 512, 1, 0));
            }
            (ContainerKind::Pack, members, (picks[5] % 3 > 0).then(|| data(model, 700, picks[5])))
        }
    };
    let skeleton = skeleton.filter(|data| data.pieces.len() == 1);
    // A part of a file is all that its container holds.
    let length = match (&kind, members.first()) {
        (ContainerKind::Segment { .. }, Some(part)) if picks[5] % 20 < 19 => part.length,
        _ => ByteCount(20_000),
    };
    SealContainer {
        container,
        kind,
        class,
        members,
        length,
        checksums: StreamChecksums::of(&[1]),
        tape_path: format!("/.kist/{container}"),
        skeleton,
    }
}

pub fn an_open_run(model: &Model, pick: u16) -> RunId {
    let open: Vec<_> =
        model.runs.iter().filter(|(_, run)| run.record.ended.is_none()).map(|(id, _)| *id).collect();
    among(&open, pick).unwrap_or(RunId(1 + u64::from(pick % 3)))
}

fn run(model: &Model, kind: u8, picks: &[u16; 6]) -> Command {
    let id = an_open_run(model, picks[0]);
    let Some(open) = model.runs.get(&id) else { return Command::OpenEpoch };
    let tape = &model.tapes[&open.record.vid];
    let off = u64::from(picks[5] % 20 == 19);
    match kind {
        0 => {
            let pool = open.record.tape_pool;
            let queued = model.containers.iter().filter(|(_, container)| {
                container.copies.iter().any(|c| c.tape_pool == pool && c.state == CopyState::Queued)
            });
            let queued: Vec<_> = queued.map(|(id, _)| *id).collect();
            let container = among(&queued, picks[1]).unwrap_or(ContainerId(1 + u64::from(picks[1] % 4)));
            let last = open.items.last().filter(|_| open.record.planned > open.record.committed);
            let next = last.map_or(tape.end_of_data.0, |last| last.block.0 + last.blocks.0);
            let (block, blocks) = (BlockAddress(next + off), BlockCount(1 + u64::from(picks[2] % 3)));
            Command::AppendToRun { run: id, containers: vec![PlannedContainer { container, block, blocks }] }
        }
        1 => {
            let more = u32::from(picks[1]) % (open.record.planned - open.record.committed + 1);
            let committed = open.record.committed + more + off as u32;
            let last = open.items[..(committed as usize).min(open.items.len())].last();
            let end = last.map_or(0, |last| last.block.0 + last.blocks.0).max(tape.end_of_data.0);
            let end_of_data = BlockAddress(end.saturating_sub(u64::from(picks[4] % 30 == 29)));
            Command::CommitRun { run: id, committed, end_of_data, written: ByteCount(u64::from(picks[2])) }
        }
        2 => {
            let last = open.items.last().map_or(0, |last| last.block.0 + last.blocks.0);
            let behind = if picks[3] % 8 == 0 { tape.end_of_data.0 } else { last.max(tape.end_of_data.0) };
            Command::IndexWritten {
                run: id,
                generation: Generation(tape.generation.0 + 1 - off),
                index_block: BlockAddress(behind + 1),
                end_of_data: BlockAddress(behind + 3),
                written: ByteCount(u64::from(picks[2])),
                changes: ranges(model, picks[4]),
            }
        }
        _ => Command::EndRun {
            run: id,
            end: [RunEnd::Finished, RunEnd::TapeFull, RunEnd::Failed, RunEnd::Torn]
                [usize::from(picks[1]) % 4],
            tape_state: if picks[2] % 6 == 0 { TapeState::Suspect } else { TapeState::Active },
            reason: "r".into(),
            end_of_data: (picks[3] % 3 == 0).then(|| BlockAddress(tape.end_of_data.0 + 2)),
            torn: ByteCount(u64::from(picks[3])),
        },
    }
}

fn tape(model: &Model, kind: u8, picks: &[u16; 6]) -> Command {
    let vid = a_vid(picks[0]);
    let by_state =
        |state| model.tapes.iter().filter(|(_, t)| t.state == state).map(|(vid, _)| *vid).collect::<Vec<_>>();
    match kind {
        0 => Command::RegisterTape { vid, capacity: ByteCount(1 << 40) },
        1 => {
            let vid = among(&by_state(TapeState::Scratch), picks[1]).unwrap_or(vid);
            Command::AssignTape { vid, tape_pool: TapePoolId(1 + picks[2] % 2), uuid: Uuid([4; 16]) }
        }
        2 => {
            let vid = among(&by_state(TapeState::Labelling), picks[1]).unwrap_or(vid);
            let (index_block, end_of_data) = (BlockAddress(4), BlockAddress(7));
            Command::TapeLabelled { vid, generation: Generation(1), index_block, end_of_data }
        }
        3 => Command::CountMount { vid },
        4 if picks[2] % 4 == 0 => {
            let retry = (picks[3] % 2 == 0).then_some(Timestamp(i64::from(picks[3])));
            let (cause, wrote) = (FailureCause::Unknown, picks[1] % 3 == 0);
            Command::TapeFailed { vid, cause, wrote, reason: "f".into(), retry }
        }
        4 if picks[2] % 4 == 1 => Command::ForgetTapeFailures { vid, doubts: picks[1] % 2 == 0 },
        4 => {
            use TapeState::{Active, Disabled, Full, Labelling, ReadOnly, Repacking, Scratch, Suspect};
            let states = [
                Active, Active, Active, Scratch, Labelling, Full, ReadOnly, Suspect, Disabled, Active,
                Repacking,
            ];
            let state = states[usize::from(picks[1]) % states.len()];
            Command::SetTapeState { vid, state, reason: "s".into() }
        }
        _ if picks[3] % 4 == 0 => {
            let state = if picks[4] % 2 == 0 { TapeState::Full } else { TapeState::Repacking };
            let vid = among(&by_state(state), picks[1]).unwrap_or(vid);
            let end = model.tapes.get(&vid).map_or(0, |tape| tape.end_of_data.0);
            let start = BlockAddress(end + u64::from(picks[2] % 20 == 19));
            Command::BeginHistoryRun { vid, drive: "h".into(), start }
        }
        _ => {
            let vid = among(&by_state(TapeState::Active), picks[1]).unwrap_or(vid);
            let end = model.tapes.get(&vid).map_or(0, |tape| tape.end_of_data.0);
            let start = BlockAddress(end + u64::from(picks[2] % 20 == 19));
            Command::BeginRun { vid, drive: "d".into(), start }
        }
    }
}

fn request(model: &Model, kind: u8, picks: &[u16; 6]) -> Command {
    let in_state = |state: Option<RequestState>| {
        let all = model.requests.iter().filter(|(_, r)| state.is_none_or(|state| r.state == state));
        all.map(|(id, _)| *id).collect::<Vec<_>>()
    };
    let any = among(&in_state(None), picks[0]).unwrap_or(RequestId(1));
    let filling = among(&in_state(Some(RequestState::Filling)), picks[0]).unwrap_or(any);
    if picks[4] % 3 == 0
        && let Some(command) = path_request(model, kind, picks, (any, filling))
    {
        return command;
    }
    match kind {
        0 => {
            Command::OpenRequest { owner: "o".into(), pin: Duration::from_secs(u64::from(picks[0] % 3) * 20) }
        }
        1 => Command::AddToRequest { request: filling, files: some_files(model, picks) },
        2 => Command::CloseRequest { request: if picks[1] % 4 == 0 { any } else { filling } },
        3 => Command::CancelRequest { request: any },
        4 => {
            let files =
                model.requests.get(&any).map(|r| r.items.iter().map(|item| item.file).collect::<Vec<_>>());
            let files = files.unwrap_or_default();
            let files =
                (picks[1] % 2 == 0).then(|| files.into_iter().take(1 + usize::from(picks[2] % 2)).collect());
            match files {
                Some(files) if picks[3] % 2 == 0 => Command::Unpin { request: any, files },
                files => Command::Release { request: any, files },
            }
        }
        5 if picks[2] % 2 == 0 => {
            let request = if picks[1] % 4 == 0 { any } else { filling };
            Command::SetRequestPriority { request, priority: (picks[3] % 11) as u8 }
        }
        _ => Command::ForgetRequest { request: any },
    }
}

/// The same of requests that name paths.
fn path_request(
    model: &Model,
    kind: u8,
    picks: &[u16; 6],
    (any, filling): (RequestId, RequestId),
) -> Option<Command> {
    let pin = |pick: u16| (pick % 3 > 0).then(|| Duration::from_secs(u64::from(pick % 5) * 20));
    let is_filling = |request: &Request| request.paths.is_some() && request.state == RequestState::Filling;
    let lists: Vec<_> = model.requests.iter().filter(|(_, r)| is_filling(r)).map(|(id, _)| *id).collect();
    let filling = among(&lists, picks[5]).unwrap_or(filling);
    Some(match kind {
        0 => {
            let owner = if picks[1] % 4 == 0 { "g" } else { "o" };
            Command::OpenPathRequest { owner: owner.into(), pin: Duration::from_secs(30) }
        }
        1 => {
            let refusals = [PathRefusal::NotFound, PathRefusal::NoData, PathRefusal::NotAllowed];
            let mut paths: Vec<_> = refusals
                .into_iter()
                .take(usize::from(picks[1] % 4))
                .map(|why| AskedPath { path: format!("//{why:?}"), file: AskedFor::Refused(why), pin: None })
                .collect();
            for (at, file) in some_files(model, picks).into_iter().enumerate() {
                let pin = pin(picks[2].wrapping_add(at as u16));
                paths.push(AskedPath { path: format!("/{file}"), file: AskedFor::File(file), pin });
            }
            Command::AddPaths { request: filling, paths }
        }
        2 => {
            let request = if picks[1] % 4 == 0 { any } else { filling };
            Command::ClosePathRequest { request, submission: Blake3([(picks[2] % 3) as u8; 32]) }
        }
        3 | 4 => {
            let files = model.requests.get(&any)?.items.iter().map(|item| item.file);
            let mut files: Vec<_> = files.take(1 + usize::from(picks[2] % 3)).collect();
            if picks[3] % 16 == 0 {
                files.push(FileId(66_666));
            }
            Command::CancelFiles { request: any, files }
        }
        5 => {
            let wanted: Vec<_> = model.recalls.keys().map(|key| key.file).collect();
            let files = picks[..2].iter().filter_map(|pick| among(&wanted, *pick));
            Command::RecallStarted { files: files.chain([FileId(66_666)]).collect() }
        }
        _ => return None,
    })
}

fn recall(model: &Model, picks: &[u16; 6]) -> Command {
    let wanted: Vec<_> = model.recalls.keys().map(|key| key.file).collect();
    let all: Vec<_> = model.files.keys().copied().collect();
    let first = if picks[0] % 5 == 0 { among(&all, picks[1]) } else { among(&wanted, picks[1]) };
    let mut files: Vec<_> = first.into_iter().chain(among(&wanted, picks[2])).collect();
    files.sort();
    files.dedup();
    if picks[3] % 30 == 0 {
        files.push(FileId(66_666));
    }
    let blob = 2_000_000 + model.changes * 10;
    let mut at = 0;
    let mut parts = Vec::new();
    if picks[5] % 2 == 0 {
        let is_part = |id: &ContainerId| {
            let kind = model.containers.get(id).map(|container| container.kind.clone());
            matches!(kind, Some(ContainerKind::Segment { .. }))
        };
        let asked: Vec<_> = model.recalls.values().map(|item| item.container).filter(is_part).collect();
        let any: Vec<_> =
            model.containers.keys().copied().filter(|id| picks[4] % 8 < 2 || is_part(id)).collect();
        for container in among(&asked, picks[3]).into_iter().chain(among(&any, picks[4])) {
            let length = model.containers[&container].length.0 + u64::from(picks[2] % 60 == 59);
            parts.push((container, piece(blob, at, length)));
            at += length;
        }
        files.retain(|file| !parts.iter().any(|(id, _)| model.parts(*file).iter().any(|part| part.0 == *id)));
    }
    let mut done = Vec::new();
    for file in files {
        let size = model.files.get(&file).map_or(3, |record| record.size.0);
        if size > 0 {
            done.push((file, vec![piece(blob, at, size)]));
            at += size;
        }
    }
    let blobs = if at == 0 {
        vec![]
    } else if picks[4] % 2 == 0 {
        vec![striped(blob, at)]
    } else {
        vec![segment(blob)]
    };
    if parts.is_empty() {
        return Command::RecallDone(Box::new(RecallDone { blobs, files: done }));
    }
    Command::PartsRecalled(Box::new(PartsRecalled { blobs, files: done, parts }))
}

fn garbage(model: &Model, picks: &[u16; 6]) -> Command {
    let all: Vec<_> = model.garbage.iter().copied().collect();
    let chosen: Vec<_> = picks[..3].iter().filter_map(|pick| among(&all, *pick)).collect();
    let (whole, single): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(_, offset)| *offset == u64::MAX);
    let mut values: Vec<_> = single.into_iter().map(|(blob, offset)| piece(blob.0, offset, 1)).collect();
    values.push(piece(3, 3, 3));
    if whole.is_empty() {
        let segments: Vec<_> = model.blobs.keys().copied().collect();
        let pages = picks[3..].iter().filter_map(|pick| {
            let page = u32::from(pick / 8 % 130);
            Some(UnneededSectors { blob: among(&segments, *pick)?, page, sectors: (pick % 4) as u8 })
        });
        return Command::ValuesRemoved { values, pages: pages.collect() };
    }
    Command::GarbageRemoved { blobs: whole.into_iter().map(|(blob, _)| blob).collect(), values }
}

pub fn command(model: &Model, step: &Step) -> Command {
    let picks = &step.picks;
    let dirs: Vec<_> = model.dirs.keys().copied().collect();
    let dir = |pick| among(&dirs, pick).unwrap();
    let any_file = |pick| among(&model.files.keys().copied().collect::<Vec<_>>(), pick).unwrap_or(FileId(5));
    match step.kind % KINDS {
        kind @ 120.. => super::repair::command(model, kind - 120, picks),
        62.. => guided(model, picks),
        0..14 => Command::PutFile(Box::new(put(model, picks))),
        14 | 15 => Command::MakeDirectory {
            parent: dir(picks[0]),
            name: a_name(picks[1]),
            attributes: Attributes::default(),
            class: (picks[2] % 3 == 0).then_some(ClassId(1 + picks[3] % 4)),
        },
        16 | 17 => Command::Rename {
            from_parent: dir(picks[0]),
            from_name: a_name(picks[1]),
            to_parent: dir(picks[2]),
            to_name: a_name(picks[3]),
            replace: if picks[4] % 3 == 0 { Replace::Refused } else { Replace::Allowed },
        },
        18 | 19 => Command::RemoveFile { parent: dir(picks[0]), name: a_name(picks[1]) },
        20 | 21 if picks[2] % 4 > 0 => {
            let is_parent = |id: &DirId| model.dirs.values().any(|d| d.parent == *id && d.name.is_some());
            let leaves: Vec<_> =
                model.dirs.iter().filter(|(id, d)| d.name.is_some() && !is_parent(id)).collect();
            let leaf = among(&leaves, picks[0]);
            let (parent, name) =
                leaf.map_or((DirId::ROOT, a_name(0)), |(_, d)| (d.parent, d.name.clone().unwrap()));
            Command::RemoveDirectory { parent, name }
        }
        20 => Command::RemoveDirectory { parent: dir(picks[0]), name: a_name(picks[1]) },
        21 => Command::ReserveContainer,
        22 => super::sealing::command(model, &seal(model, picks), picks),
        23..27 => Command::SealContainer(Box::new(seal(model, picks))),
        kind @ 27..33 => tape(model, kind - 27, picks),
        33 | 34 => tape(model, 5, picks),
        kind @ 35..39 => run(model, kind - 35, picks),
        39 | 40 => run(model, 0, picks),
        41 | 42 => run(model, 1, picks),
        43 | 44 => run(model, 2, picks),
        kind @ 45..51 => request(model, kind - 45, picks),
        51 if picks[0] % 2 == 0 && !used_before(model).is_empty() => {
            Command::NoteUse { files: used_before(model) }
        }
        51 | 52 => Command::Evict { files: model.files.keys().copied().collect() },
        53 if picks[0] % 3 == 0 => Command::NoteUse { files: some_files(model, picks) },
        53 if picks[0] % 6 == 1 => Work::OrderByUse.some(),
        53 if picks[0] % 6 == 4 => {
            let most = if picks[1] % 4 == 0 { 400 } else { 1 + u32::from(picks[1] % 3) };
            Command::DoSome { work: Work::CountPaths, most }
        }
        53 => Command::Evict { files: some_files(model, picks) },
        54 | 55 => recall(model, picks),
        56 => match picks[0] % 2 {
            0 => Command::RecallFailed { file: any_file(picks[1]), reason: "f".into() },
            _ => {
                let wanted: Vec<_> = model.recalls.keys().copied().collect();
                let (file, vid) =
                    among(&wanted, picks[1]).map_or((any_file(picks[1]), a_vid(0)), |k| (k.file, k.vid));
                Command::RecallCopyFailed { file, vid, reason: "c".into() }
            }
        },
        57 if picks[0] % 2 == 0 => Work::ExpirePins.some(),
        57 => Command::ExpirePins,
        58 if picks[0] % 2 == 0 => Work::ExpireIdempotency.some(),
        58 => Command::ExpireIdempotency,
        59 => garbage(model, picks),
        60 if picks[1] % 2 == 0 => {
            Work::TrimChanges(model.changes.saturating_sub(u64::from(picks[0] % 40))).some()
        }
        60 => Command::TrimChanges { through: model.changes.saturating_sub(u64::from(picks[0] % 40)) },
        _ => match picks[0] % 5 {
            4 => {
                // More often those on which other commands depend.
                let rules = Rule::ALL.into_iter().chain([Rule::OrderedByUse, Rule::PathsCounted]);
                let rule = among(&rules.collect::<Vec<_>>(), picks[1]).unwrap_or(Rule::OrderedByUse);
                Command::AdoptRule { rule }
            }
            0 => Command::OpenEpoch,
            1 => Command::DefineTapePool { name: ["p1", "p2", "p3"][usize::from(picks[1]) % 3].into() },
            2 => Command::Initialise { instance: Uuid([1; 16]) },
            _ => {
                let copies =
                    [vec![1, 2], vec![1], vec![2, 1], vec![], vec![1, 9]][usize::from(picks[2]) % 5].clone();
                let copies = copies.into_iter().map(TapePoolId).collect();
                Command::DefineClass { name: ["two", "one"][usize::from(picks[1]) % 2].into(), copies }
            }
        },
    }
}

/// Files that were used last before this hour.
fn used_before(model: &Model) -> Vec<FileId> {
    let now = UseHour::of(model.at);
    model.by_use.iter().filter(|(_, hour)| **hour < now).map(|(id, _)| *id).collect()
}

/// The next command on some file's way to tape and back; blind choice alone seldom gets that far.
fn guided(model: &Model, picks: &[u16; 6]) -> Command {
    const STAGES: u16 = 12;
    let stages = (0..STAGES).map(|stage| (picks[0] % STAGES + stage) % STAGES);
    // A copy that waits to be verified is rare, so it has a chance of its own.
    let rare = picks[5].is_multiple_of(4).then_some(10);
    rare.into_iter().chain(stages).find_map(|at| stage(model, at, picks)).unwrap_or(Command::ExpirePins)
}

fn stage(model: &Model, stage: u16, picks: &[u16; 6]) -> Option<Command> {
    let open = |wanted: fn(&RunRecord) -> bool| {
        let open = model.runs.iter().filter(|(_, run)| run.record.ended.is_none() && wanted(&run.record));
        open.map(|(id, _)| *id).collect::<Vec<_>>()
    };
    let with = |run: RunId, kind| {
        let open: Vec<_> =
            model.runs.iter().filter(|(_, r)| r.record.ended.is_none()).map(|(id, _)| *id).collect();
        let at = open.iter().position(|id| *id == run)? as u16;
        Some(self::run(model, kind, &[at, picks[1], picks[2], 1, 0, 0]))
    };
    let near: Vec<_> = model.files.iter().filter(|(_, f)| !f.is_online()).map(|(id, _)| *id).collect();
    let filling =
        model.requests.iter().find(|(_, r)| r.state == RequestState::Filling).map(|(id, r)| (*id, r));
    match stage {
        0 if !model.todo.is_empty() => {
            let reserved = !model.reserved.is_empty();
            let class = model.todo.iter().next().map(|id| model.files[id].class)?;
            let picks = &[picks[0], class.0 - 1, picks[2], picks[3], picks[4], picks[5]];
            let seal = seal(model, picks);
            Some(match (reserved, picks[5] % 3) {
                (false, _) => Command::ReserveContainer,
                (true, 0) => super::sealing::command(model, &seal, picks),
                (true, _) => Command::SealContainer(Box::new(seal)),
            })
        }
        1 => {
            let idle = model.tapes.iter().find(|(_, t)| t.state == TapeState::Active && t.run.is_none())?;
            let (vid, start) = (*idle.0, idle.1.end_of_data);
            Some(Command::BeginRun { vid, drive: "g".into(), start })
        }
        2 => {
            let active = |run: &&RunId| {
                let record = &model.runs[run].record;
                let queued =
                    |c: &ContainerCopy| c.tape_pool == record.tape_pool && c.state == CopyState::Queued;
                model.tapes[&record.vid].state == TapeState::Active
                    && model.containers.values().any(|c| c.copies.iter().any(queued))
            };
            with(*open(|_| true).iter().find(active)?, 0)
        }
        3 => with(among(&open(|run| run.planned > run.committed), picks[3])?, 1),
        4 => with(among(&open(|run| run.committed > run.indexed), picks[3])?, 2),
        5 => Some(Command::Evict { files: model.files.keys().copied().collect() }),
        6 if !near.is_empty() => Some(match filling {
            None => {
                Command::OpenRequest { owner: "g".into(), pin: Duration::from_secs(u64::from(picks[1] % 30)) }
            }
            Some((request, r)) if r.items.is_empty() => Command::AddToRequest { request, files: near },
            Some((request, _)) => Command::CloseRequest { request },
        }),
        7 if !model.recalls.is_empty() => {
            let keys: Vec<_> = model.recalls.keys().copied().collect();
            let RecallKey { file, vid, block, .. } = among(&keys, picks[1])?;
            let reason = "g".to_owned();
            Some(match picks[2] % 8 {
                0 | 1 if picks[3] % 3 == 0 => Command::RecallPlaceFailed { vid, block, reason },
                0 => Command::RecallFailed { file, reason },
                1 | 2 => Command::RecallCopyFailed { file, vid, reason },
                3 => Command::RemoveFile {
                    parent: model.files[&file].parent,
                    name: model.files[&file].name.clone(),
                },
                _ => recall(model, &[1, picks[1], picks[3], picks[4], picks[5], 0]),
            })
        }
        8 => {
            let aside =
                model.tapes.iter().find(|(_, t)| t.generation.0 > 0 && t.state != TapeState::Active)?;
            if aside.1.state == TapeState::Repacking && picks[1] % 8 > 0 {
                return None;
            }
            Some(Command::SetTapeState { vid: *aside.0, state: TapeState::Active, reason: String::new() })
        }
        9..12 => super::repair::guided(model, stage, picks),
        _ => None,
    }
}
