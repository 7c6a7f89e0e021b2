//! An engine in memory, with faults on demand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use archive::*;
use authority::{Download, Upload, UsageSteps};
use base::{
    ArchivePath, BlockAddress, ByteCount, Checksums, ContainerId, DirId, Duration, FileId, Name,
    PercentPoints, RequestId, StripeCode, Timestamp, Uuid, Vid,
};
use bytes::Bytes;
use catalogue::{Attributes, ContainerKind, Entry, FileKind, RequestRecord, RequestState, TapeState};

/// What the engine tells the test.
#[derive(PartialEq, Debug)]
pub enum Event {
    Begun(String),
    Aborted(String),
    Closed(String),
}

type Files = Arc<Mutex<BTreeMap<String, FileStat>>>;

pub struct Fake {
    pub files: Files,
    pub bytes: Arc<Mutex<BTreeMap<String, Bytes>>>,
    pub options: Mutex<Option<PutOptions>>,
    pub selections: Mutex<Vec<(usize, Option<StageOptions>)>>,
    pub events: Mutex<Receiver<Event>>,
    tell: Sender<Event>,
    /// Uploads whose clients were found to send nothing.
    pub pauses: Mutex<Receiver<String>>,
    pause: Sender<String>,
    pub outstanding: Arc<AtomicUsize>,
    pub most: Arc<AtomicUsize>,
    next: Arc<AtomicUsize>,
    /// A stage of `/held` waits while somebody else has this.
    pub held: Mutex<()>,
    /// What keeps changes from being taken.
    pub problems: Mutex<Vec<archive::HealthProblem>>,
    /// Keep no bytes; for measurements.
    pub discard: bool,
    /// Size of the pieces of a download.
    pub piece: usize,
    /// If it is there, a report of usage takes [`STEPS`], and each waits for a word from here.
    pub usage_gate: Mutex<Option<Receiver<()>>>,
    /// Once the rights to the first path were looked at, the second gets its name.
    pub swap: Mutex<Option<(&'static str, &'static str)>>,
}

pub const PIECE: usize = 64 << 10;

/// Steps of a report of usage that waits for words.
pub const STEPS: u64 = 3;

/// A report that waits for a word before each step, if there is somebody to give it.
struct Gated {
    gate: Option<Receiver<()>>,
    tell: Sender<Event>,
    done: u64,
    report: UsageReport,
}

impl UsageSteps for Gated {
    fn step(&mut self) -> Option<UsageReport> {
        let Some(gate) = &self.gate else { return Some(self.report.clone()) };
        self.tell.send(Event::Begun(format!("step {}", self.done))).unwrap();
        gate.recv().unwrap();
        self.done += 1;
        (self.done == STEPS).then(|| self.report.clone())
    }

    fn progress(&self) -> (u64, u64) {
        (self.done, STEPS)
    }
}

impl Default for Fake {
    fn default() -> Self {
        let (tell, events) = channel();
        let (pause, pauses) = channel();
        Fake {
            files: Files::default(),
            bytes: Arc::default(),
            options: Mutex::default(),
            selections: Mutex::default(),
            events: Mutex::new(events),
            tell,
            pauses: Mutex::new(pauses),
            pause,
            outstanding: Arc::default(),
            problems: Mutex::default(),
            most: Arc::default(),
            next: Arc::new(AtomicUsize::new(7)),
            held: Mutex::default(),
            discard: false,
            piece: PIECE,
            usage_gate: Mutex::default(),
            swap: Mutex::default(),
        }
    }
}

pub fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap()
}

fn stat_of(at: &ArchivePath, file: u64, options: &PutOptions, bytes: &[u8], locality: Locality) -> FileStat {
    FileStat {
        path: at.clone(),
        file: FileId(file),
        kind: options.link_target.clone().map_or(FileKind::Regular, FileKind::Symlink),
        size: ByteCount(bytes.len() as u64),
        created: Timestamp(1_795_292_940_000_000_000),
        attributes: options.attributes.clone(),
        checksums: Checksums::of(bytes),
        class: options.class.clone().unwrap_or("standard".into()),
        locality,
        copies: vec![],
        copies_wanted: 1,
        pins: vec![],
    }
}

impl Fake {
    fn usage(&self, window: Duration, class: Option<&str>) -> Result<UsageReport, ArchiveError> {
        let until = Timestamp(0).plus(Duration::from_secs(10_000_000));
        let since = Timestamp(0).plus(Duration::from_secs(10_000_000) - window);
        let mut analysis = usage::Analysis::new(usage::Window { since, until }, class);
        let put = usage::Put { file: FileId(1), bytes: ByteCount(500), set: 1, took: window };
        let class = Some("standard".to_owned());
        analysis.add(&usage::Access { at: since, class, who: None, what: usage::What::Put(put) });
        Ok(UsageReport::of(Ok(archive::AccessLogRead::default()), analysis.end()))
    }

    pub fn event(&self) -> Event {
        self.events.lock().unwrap().recv_timeout(Duration::from_secs(20)).expect("the event")
    }

    /// The next event; `None` if there is none and `over` says that none will come.
    #[allow(dead_code)]
    pub fn event_unless(&self, mut over: impl FnMut() -> bool) -> Option<Event> {
        let events = self.events.lock().unwrap();
        for _ in 0..20_000 {
            // Asked before the look: what came before the end is still taken.
            let is_over = over();
            match events.recv_timeout(Duration::from_millis(1)) {
                Ok(event) => return Some(event),
                Err(_) if is_over => return None,
                Err(_) => {}
            }
        }
        panic!("neither an event nor the end");
    }

    /// Makes a file appear.
    pub fn add(&self, at: &str, bytes: &[u8], locality: Locality) {
        let options =
            PutOptions { attributes: Attributes { mode: 0o640, ..Default::default() }, ..Default::default() };
        let id = self.next.fetch_add(1, SeqCst) as u64;
        self.files.lock().unwrap().insert(at.into(), stat_of(&path(at), id, &options, bytes, locality));
        self.bytes.lock().unwrap().insert(at.into(), Bytes::copy_from_slice(bytes));
    }

    fn file(&self, at: &ArchivePath) -> Result<FileStat, ArchiveError> {
        if at.is_root() || at.as_str() == "/dir" {
            return Err(ArchiveError::IsADirectory(at.clone()));
        }
        self.files.lock().unwrap().get(at.as_str()).cloned().ok_or_else(|| ArchiveError::NotFound(at.clone()))
    }
}

pub struct FakeUpload {
    path: ArchivePath,
    options: PutOptions,
    bytes: Vec<u8>,
    files: Files,
    store: Arc<Mutex<BTreeMap<String, Bytes>>>,
    next: Arc<AtomicUsize>,
    tell: Option<Sender<Event>>,
    pause: Sender<String>,
    discarded: Option<u64>,
}

impl Upload for FakeUpload {
    fn attribute(&mut self, _name: String, _value: Vec<u8>) {}

    fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        assert!(!self.path.as_str().contains("panic"), "a fault of the engine");
        match &mut self.discarded {
            Some(count) => *count += bytes.len() as u64,
            None => self.bytes.extend_from_slice(bytes),
        }
        Ok(())
    }

    fn pause(&mut self) {
        let _ = self.pause.send(self.path.to_string());
    }

    fn finish(mut self: Box<Self>) -> Result<PutDone, ArchiveError> {
        self.tell = None;
        let checksums = Checksums::of(&self.bytes);
        let actual = self.discarded.unwrap_or(self.bytes.len() as u64);
        if let Some(expected) = self.options.length.map(|l| l.0).filter(|l| *l != actual) {
            return Err(ArchiveError::LengthMismatch { expected, actual });
        }
        if let Some(sum) = self.options.adler32.filter(|sum| *sum != checksums.stream.adler32) {
            let (expected, actual) = (sum.to_string(), checksums.stream.adler32.to_string());
            return Err(ArchiveError::DigestMismatch { kind: "adler32", expected, actual });
        }
        let mut files = self.files.lock().unwrap();
        let old = files.get(self.path.as_str()).cloned();
        let same = old.as_ref().filter(|old| old.checksums == checksums);
        let file = match same {
            Some(old) => old.file,
            None => FileId(self.next.fetch_add(1, SeqCst) as u64),
        };
        let created = same.is_none();
        let stat = stat_of(&self.path, file.0, &self.options, &self.bytes, Locality::Online);
        let class = stat.class.clone();
        files.insert(self.path.to_string(), stat);
        self.store
            .lock()
            .unwrap()
            .insert(self.path.to_string(), Bytes::from(std::mem::take(&mut self.bytes)));
        Ok(PutDone { file, created, replaced: old.is_some(), size: ByteCount(actual), checksums, class })
    }

    fn finish_then(self: Box<Self>, done: PutCallback) {
        done(self.finish());
    }
}

impl Drop for FakeUpload {
    fn drop(&mut self) {
        if let Some(tell) = &self.tell {
            let _ = tell.send(Event::Aborted(self.path.to_string()));
        }
    }
}

pub struct FakeDownload {
    stat: FileStat,
    bytes: Bytes,
    at: u64,
    end: u64,
    piece: usize,
    outstanding: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    tell: Sender<Event>,
}

struct Counted(Bytes, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

impl Download for FakeDownload {
    fn stat(&self) -> &FileStat {
        &self.stat
    }

    fn select(&mut self, offset: u64, length: u64) -> Result<(), ArchiveError> {
        (self.at, self.end) = (offset, offset + length);
        Ok(())
    }

    fn check_drives(&self) -> Result<(), ArchiveError> {
        let path = self.stat.path.clone();
        // Its second half is on drives that do not answer.
        if path.as_str().contains("away") && self.end > self.stat.size.0 / 2 {
            return Err(ArchiveError::DrivesAway { path, drives: vec![1, 3], vids: vec![] });
        }
        Ok(())
    }

    fn pause(&mut self) {}

    fn next(&mut self) -> Result<Option<Bytes>, ArchiveError> {
        let name = self.stat.path.as_str();
        let left = self.end - self.at;
        if name.contains("broken") && left <= PIECE as u64 {
            return Err(ArchiveError::Corrupt { path: self.stat.path.clone() });
        }
        assert!(!(name.contains("panic") && left <= PIECE as u64), "a fault of the engine");
        if left == 0 || (name.contains("short") && left <= PIECE as u64) {
            return Ok(None);
        }
        let take = left.min(self.piece as u64) as usize;
        let piece = if name.contains("endless") {
            self.bytes.slice(..take)
        } else {
            self.bytes.slice(self.at as usize..self.at as usize + take)
        };
        self.at += take as u64;
        let now = self.outstanding.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        Ok(Some(Bytes::from_owner(Counted(piece, self.outstanding.clone()))))
    }
}

impl Drop for FakeDownload {
    fn drop(&mut self) {
        let _ = self.tell.send(Event::Closed(self.stat.path.to_string()));
    }
}

impl authority::Access for Fake {
    fn access_chain(&self, at: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        let mut files = self.files.lock().unwrap();
        let below = format!("{}/", at.as_str().trim_end_matches('/'));
        let file = files.get(at.as_str());
        let is_directory = file.is_none() && files.keys().any(|path| path.starts_with(&below));
        let nobody = DirectoryOwner { owner: String::new(), group: String::new(), mode: 0o755 };
        let chain = AccessChain {
            exists: file.is_some() || is_directory,
            is_directory,
            entry: file.map(|file| Entry::File(file.file)),
            owner: file.map(|file| file.attributes.owner.clone()).unwrap_or_default(),
            above: vec![nobody; at.components().count()],
            directory: Some(DirId(1)),
            ..AccessChain::default()
        };
        let swap = self.swap.lock().unwrap().take_if(|(looked_at, _)| *looked_at == at.as_str());
        if let Some((first, second)) = swap
            && let Some(stat) = files.remove(second)
        {
            files.insert(first.to_owned(), stat);
        }
        Ok(chain)
    }
}

impl authority::Namespace for Fake {
    fn space_left(&self, _: &ArchivePath, _: &str) -> Result<archive::SpaceLeft, ArchiveError> {
        unreachable!("nobody asks for it here")
    }

    fn stat(&self, at: &ArchivePath) -> Result<Stat, ArchiveError> {
        match self.file(at) {
            Err(ArchiveError::IsADirectory(path)) => Ok(Stat::Directory(DirectoryStat {
                path,
                created: Timestamp(0),
                attributes: Attributes { mode: 0o755, ..Default::default() },
                class: None,
            })),
            other => other.map(|file| Stat::File(Box::new(file))),
        }
    }

    fn list(
        &self,
        _: &ArchivePath,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<(Vec<Listed>, bool), ArchiveError> {
        let files = self.files.lock().unwrap();
        let all: Vec<Listed> = files
            .values()
            .map(|stat| Listed {
                name: Name::new(stat.path.as_str().trim_start_matches('/')).unwrap(),
                what: ListedKind::File {
                    file: stat.file,
                    kind: stat.kind.clone(),
                    class: stat.class.clone(),
                    locality: stat.locality,
                    blake3: stat.checksums.blake3,
                },
                size: stat.size,
                attributes: stat.attributes.clone(),
            })
            .filter(|listed| after.is_none_or(|after| listed.name > *after))
            .collect();
        let more = all.len() > limit;
        Ok((all.into_iter().take(limit).collect(), more))
    }

    fn make_directory(
        &self,
        at: &ArchivePath,
        _: Attributes,
        class: Option<&str>,
        parents: bool,
    ) -> Result<(), ArchiveError> {
        match class {
            Some(name) if name != "standard" => {
                Err(ArchiveError::NoSuchClass { name: name.into(), known: "standard".into() })
            }
            _ if at.as_str() == "/dir" && !parents => Err(ArchiveError::Exists(at.clone())),
            _ => Ok(()),
        }
    }

    fn rename(&self, from: &ArchivePath, to: &ArchivePath, _: bool) -> Result<(), ArchiveError> {
        let mut stat = self.file(from)?;
        stat.path = to.clone();
        let mut files = self.files.lock().unwrap();
        files.remove(from.as_str());
        files.insert(to.to_string(), stat);
        Ok(())
    }

    fn rename_entry(&self, from: &ArchivePath, to: &ArchivePath, of: &RenameOf) -> Result<(), ArchiveError> {
        if of.source != Entry::File(self.file(from)?.file) {
            return Err(ArchiveError::TreeChanges);
        }
        self.rename(from, to, of.replace)
    }

    fn remove(&self, at: &ArchivePath) -> Result<(), ArchiveError> {
        self.files
            .lock()
            .unwrap()
            .remove(at.as_str())
            .map(|_| ())
            .ok_or_else(|| ArchiveError::NotFound(at.clone()))
    }
}

impl authority::Trees for Fake {
    fn remove_tree(&self, _: &ArchivePath, _: RemoveTree) -> Result<TreeRemoval, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn tree_removal(&self, _: DirId) -> Result<TreeRemoval, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError> {
        unreachable!("no test asks for this")
    }
}

impl authority::Owners for Fake {
    fn acl(&self, _: &ArchivePath) -> Result<Option<Vec<AclEntry>>, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn set_acl(&self, _: &ArchivePath, _: Option<Vec<AclEntry>>) -> Result<(), ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn set_acl_of(&self, _: &ArchivePath, _: DirId, _: Option<Vec<AclEntry>>) -> Result<(), ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn set_owner(&self, _: &ArchivePath, _: Option<&str>, _: Option<&str>) -> Result<(), ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn quotas(&self) -> Result<Vec<QuotaInfo>, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn set_quota(&self, _: &QuotaOf, _: QuotaLimits) -> Result<(), ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn remove_quota(&self, _: &QuotaOf) -> Result<(), ArchiveError> {
        unreachable!("no test asks for this")
    }
}

impl authority::Bytes for Fake {
    fn begin_put(&self, at: &ArchivePath, options: PutOptions) -> Result<Box<dyn Upload>, ArchiveError> {
        if options.keep_existing && self.file(at).is_ok() {
            return Err(ArchiveError::Exists(at.clone()));
        }
        *self.options.lock().unwrap() = Some(options.clone());
        let _ = self.tell.send(Event::Begun(at.to_string()));
        Ok(Box::new(FakeUpload {
            path: at.clone(),
            options,
            bytes: vec![],
            files: self.files.clone(),
            store: self.bytes.clone(),
            next: self.next.clone(),
            tell: Some(self.tell.clone()),
            pause: self.pause.clone(),
            discarded: self.discard.then_some(0),
        }))
    }

    fn upload_haste(&self, _: &str) -> u64 {
        1
    }

    fn open_read_for(&self, at: &ArchivePath, _: &str) -> Result<Box<dyn Download>, ArchiveError> {
        let mut stat = self.file(at)?;
        if stat.locality == Locality::Nearline {
            return Err(ArchiveError::Nearline {
                path: at.clone(),
                vids: vec![Vid::new("KS0001").unwrap()],
                recall: None,
            });
        }
        if at.as_str().contains("endless") {
            stat.size = ByteCount::gib(1 << 20);
        }
        let bytes = self.bytes.lock().unwrap()[at.as_str()].clone();
        Ok(Box::new(FakeDownload {
            end: stat.size.0,
            piece: self.piece,
            at: 0,
            bytes,
            stat,
            outstanding: self.outstanding.clone(),
            most: self.most.clone(),
            tell: self.tell.clone(),
        }))
    }

    fn verify(&self, path: &ArchivePath, _: u64, _: u64) -> Result<archive::VerifyDone, ArchiveError> {
        Err(ArchiveError::Lost(path.clone()))
    }
}

impl authority::Staging for Fake {
    fn stage_told(
        &self,
        selection: &Selection,
        options: StageOptions,
        _: &CallProgress,
    ) -> Result<RequestId, ArchiveError> {
        self.selections.lock().unwrap().push((selection.paths.len(), Some(options)));
        if selection.paths.first().is_some_and(|path| path.as_str() == "/held") {
            self.tell.send(Event::Begun("/held".into())).unwrap();
            drop(self.held.lock().unwrap());
        }
        if let Some(lost) = selection.paths.iter().find(|path| path.as_str() == "/lost") {
            return Err(ArchiveError::Lost(lost.clone()));
        }
        Ok(RequestId(42))
    }

    fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError> {
        if request != RequestId(42) {
            return Err(ArchiveError::NoSuchRequest(request));
        }
        let record = RequestRecord {
            owner: "anna".into(),
            created: Timestamp(0),
            state: RequestState::Active,
            swept: 0,
            ended: None,
            pin: Duration::from_secs(60),
            files: 2,
            bytes: ByteCount(10),
            done: 1,
            done_bytes: ByteCount(5),
            failed: 0,
            cancelled: 0,
            started: None,
            list: None,
        };
        Ok(RequestInfo { request, record, priority: 5 })
    }

    fn requests(&self, _: Option<RequestId>, _: usize) -> Result<Vec<RequestInfo>, ArchiveError> {
        Ok(vec![self.request(RequestId(42))?])
    }

    fn request_files(
        &self,
        _: RequestId,
        from: u32,
        _: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError> {
        let state = catalogue::ItemState::Failed("unreadable".into());
        Ok((
            vec![RequestFile {
                path: "/a".into(),
                size: ByteCount(1),
                state,
                failure: None,
                started: None,
                ended: Some(Timestamp(0)),
            }],
            Some(from + 1),
        ))
    }

    fn set_priority(&self, request: RequestId, _: u8) -> Result<(), ArchiveError> {
        self.request(request).map(|_| ())
    }

    fn cancel_request_told(&self, request: RequestId, _: &CallProgress) -> Result<(), ArchiveError> {
        self.request(request).map(|_| ())
    }

    fn release_told(
        &self,
        request: RequestId,
        paths: Option<&[ArchivePath]>,
        _: &CallProgress,
    ) -> Result<(), ArchiveError> {
        self.selections.lock().unwrap().push((paths.map_or(0, <[_]>::len), None));
        self.request(request).map(|_| ())
    }

    fn evict_told(&self, selection: &Selection, _: &CallProgress) -> Result<EvictDone, ArchiveError> {
        let refused = vec![(selection.paths[0].to_string(), catalogue::EvictRefusal::Pinned)];
        Ok(EvictDone {
            evicted: 1,
            bytes: ByteCount(5),
            already: 0,
            refused,
            refused_count: 1,
            ..EvictDone::default()
        })
    }

    fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError> {
        let (text, reason) = match about {
            About::Path(at) => (format!("{at} waits for a drive"), Reason::NoDriveKnown),
            About::Request(request) => {
                let waits = Reason::Sealing;
                (format!("request {request} waits for tape KS0001"), waits)
            }
            About::Tape(vid) if vid.as_str() != "KS0001" => return Err(ArchiveError::NoSuchTape(*vid)),
            About::Tape(vid) => (format!("tape {vid} is in its slot"), Reason::InSlot),
            About::Drive(drive) => return Err(ArchiveError::NoSuchDrive(drive.clone())),
            About::TapePool(pool) => return Err(ArchiveError::NoSuchTapePool(pool.clone())),
            About::Class(class) if class == "small" => ("seal small".to_owned(), Reason::Sealing),
            About::Class(class) => {
                return Err(ArchiveError::NoSuchClass { name: class.clone(), known: "small".into() });
            }
        };
        let at = |second: i64| Timestamp(second * 1_000_000_000);
        let range = TimeRange { earliest: at(60), likely: at(120), latest: at(300) };
        Ok(vec![Cause { text, reason: Some(reason), expected: Some(Expected::Within(range)) }])
    }

    fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError> {
        self.request(request)?;
        let reason = Reason::NoDriveKnown;
        let tail = TailFile {
            path: "/a/last".into(),
            size: ByteCount(5),
            tapes: vec![Vid::new("KS0001").unwrap()],
            expected: Some(Expected::Never(reason.clone())),
            reason: reason.clone(),
        };
        let expected = Some(Expected::Never(reason));
        Ok(RequestOutlook { waiting: 1, looked_at: 2, rate: 2.5, expected, tail: vec![tail] })
    }
}

impl authority::Operation for Fake {
    fn instance(&self) -> Uuid {
        Uuid([7; 16])
    }

    fn may_look(&self) -> Result<(), ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn may_administrate(&self) -> Result<(), ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn health(&self) -> Vec<archive::HealthProblem> {
        self.problems.lock().unwrap().clone()
    }

    fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError> {
        Ok(vec![self.tape(Vid::new("KS0001").unwrap())?])
    }

    fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError> {
        if vid.as_str() != "KS0001" {
            return Err(ArchiveError::NoSuchTape(vid));
        }
        Ok(TapeInfo {
            vid,
            state: TapeState::ReadOnly,
            unidentified: false,
            reason: "worn".into(),
            tape_pool: Some("first".into()),
            library: "near".into(),
            uuid: Some(Uuid([1; 16])),
            capacity: ByteCount::gib(12),
            written: ByteCount(1),
            committed: ByteCount(1),
            torn: ByteCount(0),
            containers: 1,
            generation: 3,
            end_of_data: BlockAddress(9),
            mounts: 2,
            drive: None,
            away: false,
            leaving: false,
            away_as: None,
            element: None,
            key: None,
            key_at_hand: false,
            key_outdated: false,
            wanted: Default::default(),
            changes_through: 8,
            history: None,
        })
    }

    fn tape_content(
        &self,
        _: Vid,
        from: BlockAddress,
        _: usize,
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError> {
        let content = TapeContent {
            block: from,
            container: ContainerId(5),
            kind: ContainerKind::Pack,
            length: ByteCount(100),
            tape_path: "/.kist/5".into(),
            live_members: 3,
            live_bytes: ByteCount(50),
        };
        Ok((vec![content], None))
    }

    fn tape_drives(&self) -> Vec<TapeDriveInfo> {
        vec![TapeDriveInfo {
            name: "drive0".into(),
            state: "idle".into(),
            vid: None,
            tape_pool: None,
            library: "library".into(),
            since: Some(Timestamp(0)),
            files: 0,
            bytes: ByteCount(0),
            rate: f64::NAN,
            reason: String::new(),
            cause: None,
            expected: None,
            motion: None,
            place: library::DrivePlace { element: Some(256), abilities: vec!["locate"], product: None },
        }]
    }

    fn pool_info(&self) -> Result<PoolInfo, ArchiveError> {
        Ok(PoolInfo {
            data: 4,
            local_parity: 0,
            parity: 2,
            segment_copies: 3,
            refuses: None,
            drives: vec![],
            online: Default::default(),
            reconstructed: 0,
            garbage: 0,
            small: Some(archive::SegmentUse {
                segments: 2,
                values: 10,
                bytes: ByteCount(10_800),
                copied: ByteCount(32_400),
                taken: ByteCount(122_880),
                at: Timestamp(0),
            }),
            evictor: archive::EvictorInfo::default(),
            groups: vec![],
            recoding: Some(archive::RecodingInfo::of(StripeCode::reed_solomon(16, 4), Timestamp(0))),
            rebuild: Some(archive::RebuildInfo { stripes: 12, stripes_total: 400, ..Default::default() }),
            rebalance: Some(archive::RebalanceInfo {
                state: archive::PoolWork::Waiting("drives are being emptied first".into()),
                to: PercentPoints(5),
                moved: 3,
                ..archive::RebalanceInfo::default()
            }),
        })
    }

    fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError> {
        Ok(vec![])
    }

    fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError> {
        let line = QueueLine {
            what: "seal standard".into(),
            items: 1,
            bytes: ByteCount(2),
            oldest: Some(Timestamp(0)),
            age: Some(Duration::from_secs(9)),
            reason: "young".into(),
            cause: Some(Reason::Sealing),
            expected: Some(Expected::NotWithin(Duration::from_secs(60))),
        };
        Ok(vec![line])
    }

    fn totals(&self) -> Result<Totals, ArchiveError> {
        Ok(Totals { mounts: 77, problems: self.health(), ..Default::default() })
    }

    fn set_tape(&self, vid: Vid, _: TapeUse, _: &str) -> Result<(), ArchiveError> {
        Err(ArchiveError::NoSuchTape(vid))
    }

    fn drive_up(&self, drive: &str) -> Result<(), ArchiveError> {
        if drive == "vdrive0" { Ok(()) } else { Err(ArchiveError::NoSuchDrive(drive.to_owned())) }
    }

    fn drive_down(&self, drive: &str, _: &str) -> Result<(), ArchiveError> {
        self.drive_up(drive)
    }

    fn clean_drive(&self, drive: &str, with: Option<Vid>) -> Result<(), ArchiveError> {
        self.drive_up(drive)?;
        let drive = drive.to_owned();
        match with {
            Some(vid) if vid.as_str() != "CLN001" => Err(ArchiveError::NoSuchCleaner { vid, drive }),
            _ => Ok(()),
        }
    }

    fn cleaning(&self) -> Result<archive::CleaningInfo, ArchiveError> {
        let cleaner = archive::CleaningCartridgeInfo {
            vid: Vid::new("CLN001").unwrap(),
            library: "library".to_owned(),
            drive: None,
            slot: Some(7),
            uses: 3,
            uses_max: Some(50),
            unfit: None,
        };
        Ok(archive::CleaningInfo { cleaners: vec![cleaner], drives: Vec::new() })
    }

    fn check_tapes(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        vids.iter().try_for_each(|vid| Err(ArchiveError::NoSuchTape(*vid)))
    }

    fn stop_checks(&self, vids: &[Vid]) -> Result<(), ArchiveError> {
        self.check_tapes(vids)
    }

    fn tape_check(&self, vid: Vid) -> Result<Option<archive::TapeCheck>, ArchiveError> {
        Err(ArchiveError::NoSuchTape(vid))
    }

    fn repack_tape(&self, vid: Vid, _: &str) -> Result<(), ArchiveError> {
        Err(ArchiveError::TapeInUse(vid))
    }

    fn tape_repack(&self, _: Vid) -> Result<Option<archive::TapeRepack>, ArchiveError> {
        Ok(None)
    }

    fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError> {
        Err(ArchiveError::SegmentsOwed { vid, other: None, full: Vec::new() })
    }

    fn export_tape(&self, vid: Vid) -> Result<archive::TapeExport, ArchiveError> {
        match vid.as_str() {
            "KS0001" => Ok(archive::TapeExport::Done { library: "library".to_owned(), element: 16 }),
            "KS0002" => {
                Ok(archive::TapeExport::Waiting { reason: "drive vdrive0 has it".to_owned(), begins: true })
            }
            _ => Err(ArchiveError::NoSuchTape(vid)),
        }
    }

    fn import_tapes(&self, element: Option<u32>) -> Result<Vec<archive::TapeImport>, ArchiveError> {
        let import = |element, slot| archive::TapeImport {
            vid: Vid::new("KS0001").unwrap(),
            library: "library".to_owned(),
            element,
            slot,
        };
        let all = vec![import(16, Ok(1024)), import(17, Err("no slot is free".to_owned()))];
        Ok(all.into_iter().filter(|one| element.is_none_or(|element| element == one.element)).collect())
    }

    fn set_tape_off_site(&self, vid: Vid, _: &str) -> Result<(), ArchiveError> {
        Err(ArchiveError::NoSuchTape(vid))
    }

    fn add_tape(&self, _: Vid) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn retire_tape(&self, vid: Vid, _: &str) -> Result<(), ArchiveError> {
        Err(ArchiveError::TapeInUse(vid))
    }

    fn refresh_inventory(&self, _: bool) -> Result<std::collections::BTreeSet<Vid>, ArchiveError> {
        Ok([Vid::new("KS0001").unwrap()].into())
    }

    fn machine_health(&self) -> Result<Arc<HealthReport>, ArchiveError> {
        let sample = self.drive_mounts("drive0")?;
        let samples: Vec<&MountSample> = sample.iter().collect();
        Ok(Arc::new(HealthReport::of(&samples, &archive::HealthRules::default())))
    }

    fn drive_mounts(&self, drive: &str) -> Result<Vec<MountSample>, ArchiveError> {
        let at = Timestamp(0).plus(Duration::from_secs(1_000_000));
        let mut record = MountRecord::ordered(drive, Vid::new("KS0001").unwrap(), MountKind::Recall, at);
        (record.loaded, record.unmounted) = (Some(at), Some(at));
        record.alerts = vec![3];
        let (own, drive) = (Duration::from_secs(60), Duration::from_secs(50));
        record.order = Some(archive::OrderRecord { compared: 2, drives: 1, own, drive, failed: 0 });
        record.failed = Some("the label is unreadable".to_owned());
        let reading = archive::ErrorRecord { uncorrected: Some(2), ..archive::ErrorRecord::default() };
        record.counted = Some(archive::CounterRecord { reading, ..archive::CounterRecord::default() });
        Ok(MountSample::of(&record).into_iter().collect())
    }

    fn drive_fits(&self, _: &str) -> Result<Vec<archive::DriveFitRecord>, ArchiveError> {
        let at = Timestamp(0).plus(Duration::from_secs(1_000_000));
        Ok(vec![archive::DriveFitRecord {
            serial: "1".to_owned(),
            drive: "LTO-9".to_owned(),
            medium: "LTO-9".to_owned(),
            at,
            samples: 120,
            fixed_millionths: 1_600_000,
            way_millionths: 700_000,
            error_millionths: 30_000,
        }])
    }

    fn tape_report(&self, window: Duration, by: ReportBy) -> Result<TapeReport, ArchiveError> {
        let until = Timestamp(0).plus(Duration::from_secs(1_000_000));
        let since = Timestamp(0).plus(Duration::from_secs(1_000_000) - window);
        let mut report = MountReport::new(by, since, until);
        let mut record =
            MountRecord::ordered("vdrive0", Vid::new("KS0001").unwrap(), MountKind::Recall, since);
        record.loaded = Some(since);
        report.add(&record);
        let (rows, total) = report.end();
        Ok(TapeReport { since, until, by, is_logged: true, trouble: None, rows, total, ages: Vec::new() })
    }

    fn begin_usage(
        &self,
        window: Duration,
        class: Option<&str>,
    ) -> Result<Box<dyn UsageSteps>, ArchiveError> {
        let report = self.usage(window, class)?;
        let gate = self.usage_gate.lock().unwrap().take();
        Ok(Box::new(Gated { gate, tell: self.tell.clone(), done: 0, report }))
    }

    fn migrate_now(&self, _: Option<&str>) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn backup_status(&self) -> Option<BackupStatus> {
        None
    }

    fn backup_now(&self) -> Option<u64> {
        unreachable!("no test asks for this")
    }

    fn change_log(&self) -> Result<Option<ChangeLogInfo>, ArchiveError> {
        Ok(None)
    }

    fn quarantined(&self) -> Result<Option<KeptExtents>, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn unknown_kept(&self) -> Result<UnknownKept, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn end_quarantine(&self) -> Result<archive::QuarantineEnded, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn clock_info(&self) -> Result<ClockInfo, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn accept_time(&self, _: Timestamp, _: bool) -> Result<ClockInfo, ArchiveError> {
        unreachable!("no test asks for this")
    }

    fn pool_health(&self) -> Result<archive::PoolHealth, ArchiveError> {
        Ok(archive::PoolHealth { stripes: 10, degraded: 2, ..Default::default() })
    }

    fn scrub_info(&self) -> archive::ScrubInfo {
        archive::ScrubInfo { phase: "idle".into(), passes: 3, ..Default::default() }
    }

    fn scrub_now(&self) {}

    fn verify_catalogue(&self) -> Result<Vec<archive::CatalogueFinding>, ArchiveError> {
        Ok(vec![archive::CatalogueFinding { what: "table file, key 01: wrong".into() }])
    }

    fn pool_rebuild(&self, _: Option<u16>, _: bool) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn pool_drive_lost(&self, drive: u16, _: bool) -> Result<(), ArchiveError> {
        Err(ArchiveError::NoSuchPoolDrive(drive))
    }

    fn pool_rebalance(&self, _: PercentPoints) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn pool_rebalance_end(&self) -> Result<bool, ArchiveError> {
        Ok(true)
    }

    fn pool_recode(&self) -> Result<StripeCode, ArchiveError> {
        Ok(StripeCode::reed_solomon(16, 4))
    }

    fn pool_recode_end(&self) -> Result<bool, ArchiveError> {
        Ok(true)
    }

    fn pool_drive_drain(&self, drive: u16) -> Result<(), ArchiveError> {
        Err(ArchiveError::NoSuchPoolDrive(drive))
    }

    fn pool_drive_keep(&self, drive: u16) -> Result<(), ArchiveError> {
        Err(ArchiveError::NoSuchPoolDrive(drive))
    }

    fn pool_drive_remove(&self, drive: u16) -> Result<(), ArchiveError> {
        Err(ArchiveError::NoSuchPoolDrive(drive))
    }

    fn pool_drive_add(&self, wanted: &archive::NewDrive) -> Result<archive::AddedDrive, ArchiveError> {
        let at = wanted.at.clone();
        match wanted.make {
            true => Ok(archive::AddedDrive { id: 8, what: archive::AddedWhat::New }),
            false => Err(ArchiveError::NoNewDrive { at, reason: "the directory is not there".into() }),
        }
    }

    fn disk_watch(&self) -> Result<archive::DiskWatch, ArchiveError> {
        Err(ArchiveError::NoSuchPoolDrive(9))
    }

    fn disks_found(&self, reports: Vec<archive::DiskReport>) -> Result<Option<u16>, ArchiveError> {
        Ok(reports.first().map(|report| report.drive))
    }

    fn drive_light(&self, drive: u16, _: Option<catalogue::DriveSlot>) -> Result<(), ArchiveError> {
        Err(ArchiveError::NoSuchPoolDrive(drive))
    }

    fn drive_taken_over(
        &self,
        drive: u16,
        _: &archive::TakeOver,
    ) -> Result<archive::ReplacedDrive, ArchiveError> {
        Err(ArchiveError::NoSuchPoolDrive(drive))
    }

    fn pool_drive_replace(
        &self,
        drive: u16,
        new: bool,
        _: bool,
    ) -> Result<archive::ReplacedDrive, ArchiveError> {
        let at = archive::DriveLocation::Directory("/mnt/none".into());
        if new { Ok(archive::ReplacedDrive::New) } else { Err(ArchiveError::NoDriveDirectory { drive, at }) }
    }
}
