//! A catalogue in memory with two tape pools, one class with two copies and one of disk only, driven by
//! short commands.
#![allow(dead_code, reason = "each test uses a part of it")]

use base::*;
use catalogue::*;

/// Blocks of this size make addresses easy to follow in tests.
pub const SET: StripeSetId = StripeSetId(1);

#[derive(Clone)]
pub struct Bench {
    pub store: MemoryStore,
    pub at: Timestamp,
    /// All accepted changes, for a replay.
    pub log: Vec<Vec<u8>>,
    next_blob: u64,
    pub class: ClassId,
    pub disk_only: ClassId,
    pub pools: [TapePoolId; 2],
    pub tapes: [Vid; 2],
}

pub fn vid(text: &str) -> Vid {
    Vid::new(text).unwrap()
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn set(id: u32, width: u16) -> StripeSet {
    StripeSet { id: StripeSetId(id), drives: (0..width).map(DriveId).collect() }
}

pub fn striped(id: u64, length: u64) -> BlobDescription {
    let layout = Layout::Striped { code: StripeCode::reed_solomon(4, 2) };
    BlobDescription {
        id: BlobId(id),
        stands_as: None,
        layout,
        length: ByteCount(length),
        stripes: vec![set(1, 6)],
    }
}

pub fn segment(id: u64) -> BlobDescription {
    let layout = Layout::Segment { copies: 3 };
    BlobDescription {
        id: BlobId(id),
        stands_as: None,
        layout,
        length: ByteCount(0),
        stripes: vec![set(2, 3)],
    }
}

pub fn piece(blob: u64, offset: u64, length: u64) -> BlobPiece {
    BlobPiece { blob: BlobId(blob), offset: ByteCount(offset), length: ByteCount(length) }
}

/// The beginning of an upload in parts of this path below a directory of the root.
pub fn new_upload(bucket: DirId, key: &str, group: &str) -> Box<OpenUpload> {
    let attributes = Attributes { mode: 0o644, group: group.into(), ..Default::default() };
    let plan = UploadPlan { attributes, ..Default::default() };
    Box::new(OpenUpload { bucket, key: key.into(), owner: "alice".into(), plan })
}

impl Bench {
    pub fn empty() -> Bench {
        Bench {
            store: MemoryStore::new(),
            at: Timestamp(1_000_000_000_000),
            log: Vec::new(),
            next_blob: 1 << 40,
            class: ClassId(1),
            disk_only: ClassId(2),
            pools: [TapePoolId(1), TapePoolId(2)],
            tapes: [vid("AAA001"), vid("BBB001")],
        }
    }

    pub fn new() -> Bench {
        let mut bench = Bench::empty();
        bench.ok(Command::Initialise { instance: Uuid([7; 16]) });
        bench.ok(Command::OpenEpoch);
        for name in ["first", "second"] {
            bench.ok(Command::DefineTapePool { name: name.into() });
        }
        bench.ok(Command::DefineClass { name: "two".into(), copies: bench.pools.to_vec() });
        bench.ok(Command::DefineClass { name: "disk".into(), copies: vec![] });
        for (vid, pool) in bench.tapes.into_iter().zip(bench.pools) {
            bench.label(vid, pool);
        }
        bench
    }

    pub fn label(&mut self, vid: Vid, tape_pool: TapePoolId) {
        self.ok(Command::RegisterTape { vid, capacity: ByteCount(1 << 40) });
        self.ok(Command::AssignTape { vid, tape_pool, uuid: Uuid([9; 16]) });
        let (generation, index_block, end_of_data) = (Generation(1), BlockAddress(4), BlockAddress(7));
        self.ok(Command::TapeLabelled { vid, generation, index_block, end_of_data });
    }

    pub fn view(&self) -> View<'_> {
        View::new(&self.store)
    }

    /// Applies a command a second after the last one, and checks the whole catalogue.
    pub fn run(&mut self, command: Command) -> Result<Outcome, Rejection> {
        self.at = self.at.plus(Duration::from_secs(1));
        let before = self.store.clone();
        let envelope = Envelope { at: self.at, command };
        let result = apply(&mut self.store, &envelope);
        if result.is_err() {
            assert!(before == self.store, "a rejected command changed something: {envelope:?}");
        } else if before != self.store {
            self.log.push(envelope.encode());
        }
        let found = self.view().check().unwrap();
        assert!(found.is_empty(), "{found:?} after {envelope:?}");
        result
    }

    pub fn ok(&mut self, command: Command) -> Outcome {
        let text = format!("{command:?}");
        self.run(command).unwrap_or_else(|rejection| panic!("{rejection} for {text}"))
    }

    pub fn rejected(&mut self, command: Command) -> String {
        let text = format!("{command:?}");
        match self.run(command) {
            Ok(outcome) => panic!("{outcome:?} for {text}"),
            Err(rejection) => rejection.to_string(),
        }
    }

    pub fn new_blob(&mut self) -> u64 {
        self.next_blob += 1;
        self.next_blob
    }

    pub fn data(&mut self, size: u64) -> PoolData {
        let blob = self.new_blob();
        PoolData { blobs: vec![striped(blob, size)], pieces: vec![piece(blob, 0, size)] }
    }

    pub fn new_put(&mut self, parent: DirId, file: &str, content: &str) -> PutFile {
        let size = content.len() as u64;
        PutFile {
            parent,
            name: name(file),
            kind: FileKind::Regular,
            size: ByteCount(size),
            attributes: Attributes {
                owner: "alice".into(),
                group: "lofar".into(),
                mode: 0o644,
                ..Default::default()
            },
            checksums: Checksums::of(content.as_bytes()),
            class: self.class,
            dataset: parent.0,
            data: (size > 0).then(|| self.data(size)),
            replace: Replace::Allowed,
            idempotency: None,
        }
    }

    pub fn put(&mut self, file: &str, content: &str) -> FileId {
        let put = self.new_put(DirId::ROOT, file, content);
        match self.ok(Command::PutFile(Box::new(put))) {
            Outcome::Put(PutOutcome { file, created: true, .. }) => file,
            other => panic!("{other:?}"),
        }
    }

    pub fn mkdir(&mut self, parent: DirId, directory: &str) -> DirId {
        let attributes = Attributes::default();
        match self.ok(Command::MakeDirectory { parent, name: name(directory), attributes, class: None }) {
            Outcome::Directory(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Begins an upload in parts of this path below a directory of the root.
    pub fn open_upload(&mut self, bucket: DirId, key: &str) -> UploadId {
        self.open_upload_of(bucket, key, "")
    }

    /// The same for a group.
    pub fn open_upload_of(&mut self, bucket: DirId, key: &str, group: &str) -> UploadId {
        let open = new_upload(bucket, key, group);
        match self.ok(Command::BeginUpload(open)) {
            Outcome::Upload(id) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn new_part(&mut self, upload: UploadId, number: u16, content: &[u8]) -> PutPart {
        let size = ByteCount(content.len() as u64);
        PutPart {
            upload,
            number,
            size,
            checksums: StreamChecksums::of(content),
            hash: PartHash::of(ByteCount(u64::from(number - 1) * size.0), content),
            attributes: vec![("etag".into(), vec![number as u8])],
            data: (size.0 > 0).then(|| self.data(size.0)),
        }
    }

    /// Stores a part; gives its stamp.
    pub fn put_part(&mut self, upload: UploadId, number: u16, content: &[u8]) -> u64 {
        let part = self.new_part(upload, number, content);
        match self.ok(Command::PutPart(Box::new(part))) {
            Outcome::Part(stamp) => stamp,
            other => panic!("{other:?}"),
        }
    }

    pub fn file(&self, id: FileId) -> FileRecord {
        self.view().file(id).unwrap().unwrap()
    }

    /// What a file has in the pool now.
    pub fn pool_copy(&self, id: FileId) -> PoolCopy {
        PoolCopy::of(id, &self.file(id))
    }

    pub fn reserve(&mut self) -> ContainerId {
        match self.ok(Command::ReserveContainer) {
            Outcome::Container(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Whole files one behind the other, as members of a pack.
    pub fn members(&self, files: &[FileId]) -> Vec<MemberRecord> {
        let mut offset = 1024;
        let mut members = Vec::new();
        for &file in files {
            let length = self.file(file).size;
            members.push(MemberRecord {
                file,
                header_offset: ByteCount(offset),
                data_offset: ByteCount(offset + 512),
                length,
                file_offset: ByteCount(0),
            });
            offset += 512 + length.0;
        }
        members
    }

    /// Begins to seal a pack in pieces.
    pub fn open_pack(&mut self, members: u32) -> ContainerId {
        let (container, skeleton) = (self.reserve(), self.data(1024));
        self.ok(Command::OpenPack(Box::new(OpenPack {
            container,
            class: self.class,
            members,
            length: ByteCount(100_000),
            checksums: StreamChecksums::of(b"pack"),
            tape_path: format!("/.kist/packs/{container}.tar"),
            skeleton,
        })));
        container
    }

    /// Seals a pack of whole files with a skeleton.
    pub fn pack(&mut self, files: &[FileId]) -> ContainerId {
        let (container, members) = (self.reserve(), self.members(files));
        let offset = members.last().map_or(1024, |last| last.data_offset.0 + last.length.0);
        let skeleton = Some(self.data(1024));
        self.ok(Command::SealContainer(Box::new(SealContainer {
            container,
            kind: ContainerKind::Pack,
            class: self.class,
            members,
            length: ByteCount(offset + 1024),
            checksums: StreamChecksums::of(b"pack"),
            tape_path: format!("/.kist/packs/{container}.tar"),
            skeleton,
        })));
        container
    }

    pub fn begin(&mut self, tape: usize) -> RunId {
        let vid = self.tapes[tape];
        let start = self.view().tape(vid).unwrap().unwrap().end_of_data;
        match self.ok(Command::BeginRun { vid, drive: "drive0".into(), start }) {
            Outcome::Run(id) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn append(&mut self, run: RunId, container: ContainerId, blocks: u64) {
        let record = self.view().run(run).unwrap().unwrap();
        let tape = self.view().tape(record.vid).unwrap().unwrap();
        let last = self.view().run_items(run, 0, usize::MAX).unwrap().last().copied();
        let block = match last {
            Some(last) if record.planned > record.committed => BlockAddress(last.block.0 + last.blocks.0),
            _ => tape.end_of_data,
        };
        let containers = vec![PlannedContainer { container, block, blocks: BlockCount(blocks) }];
        self.ok(Command::AppendToRun { run, containers });
    }

    pub fn commit(&mut self, run: RunId) {
        let record = self.view().run(run).unwrap().unwrap();
        let last = self.view().run_items(run, record.planned - 1, 1).unwrap()[0];
        let end_of_data = BlockAddress(last.block.0 + last.blocks.0);
        let (committed, written) = (record.planned, ByteCount(5000));
        self.ok(Command::CommitRun { run, committed, end_of_data, written });
    }

    pub fn index(&mut self, run: RunId) {
        let vid = self.view().run(run).unwrap().unwrap().vid;
        let tape = self.view().tape(vid).unwrap().unwrap();
        self.ok(Command::IndexWritten {
            run,
            generation: Generation(tape.generation.0 + 1),
            index_block: BlockAddress(tape.end_of_data.0 + 1),
            end_of_data: BlockAddress(tape.end_of_data.0 + 3),
            written: ByteCount(700),
            changes: vec![(1, 3)],
        });
    }

    pub fn end(&mut self, run: RunId, tape_state: TapeState) {
        let (reason, end_of_data, torn) = (String::new(), None, ByteCount(0));
        self.ok(Command::EndRun { run, end: RunEnd::Finished, tape_state, reason, end_of_data, torn });
    }

    /// Writes a container to a tape and lays an index over it.
    pub fn write_to(&mut self, tape: usize, container: ContainerId) {
        let run = self.begin(tape);
        self.append(run, container, 3);
        self.commit(run);
        self.index(run);
        self.end(run, TapeState::Active);
    }

    pub fn evict(&mut self, file: FileId) -> Result<(), EvictRefusal> {
        match self.ok(Command::Evict { files: vec![file] }) {
            Outcome::Evicted(outcomes) => outcomes[0].clone(),
            other => panic!("{other:?}"),
        }
    }

    /// A closed request for some files.
    pub fn request(&mut self, files: &[FileId]) -> RequestId {
        let Outcome::Request(request) =
            self.ok(Command::OpenRequest { owner: "bob".into(), pin: Duration::from_secs(100) })
        else {
            panic!()
        };
        self.ok(Command::AddToRequest { request, files: files.to_vec() });
        self.ok(Command::CloseRequest { request });
        request
    }

    pub fn recall(&mut self, file: FileId) {
        let size = self.file(file).size.0;
        let data = self.data(size);
        let files = vec![(file, data.pieces)];
        self.ok(Command::RecallDone(Box::new(RecallDone { blobs: data.blobs, files })));
    }

    pub fn garbage_blobs(&self) -> Vec<u64> {
        let garbage = self.view().garbage(usize::MAX).unwrap();
        garbage.iter().filter_map(|g| if let Garbage::Blob(b) = g { Some(b.id.0) } else { None }).collect()
    }

    pub fn garbage_values(&self) -> Vec<(u64, u64)> {
        let garbage = self.view().garbage(usize::MAX).unwrap();
        let value = |g: &Garbage| match g {
            Garbage::Value(_, piece) => Some((piece.blob.0, piece.offset.0)),
            Garbage::Blob(_) => None,
        };
        garbage.iter().filter_map(value).collect()
    }

    /// Applies the log to an empty store.
    pub fn replayed(&self) -> MemoryStore {
        let mut store = MemoryStore::new();
        for change in &self.log {
            apply(&mut store, &Envelope::decode(change).unwrap()).unwrap();
        }
        store
    }
}
