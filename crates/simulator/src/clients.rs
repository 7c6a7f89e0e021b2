//! What users do: each client owns a directory, does one thing after the other, and looks at what it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use archive::{
    Archive, ArchiveError, FileStat, PathSubmission, PutDone, PutOptions, Selection, StageOptions, Stat,
    SubmittedPath, TapeUse,
};
use base::{ArchivePath, ByteCount, ContainerId};
use catalogue::{ContainerKind, TapeState};
use threads::simulated;

use crate::content::Content;
use crate::faults::{Habit, Profile};
use crate::operator;
use crate::world::{Called, World, below, one_of};

/// Names that a client gives to files.
const NAMES: u64 = 12;
/// What Kist says of a tape that it does not label.
pub(crate) const NOT_BLANK: &str = "is not blank";
/// How long a client waits for an engine that is down.
const DOWN_PAUSE: Duration = Duration::from_millis(700);
/// How often a client repeats a put whose answer was lost.
const REPEATS_MAX: u32 = 40;

/// A client.
pub struct Client {
    world: World,
    number: u64,
    clients: u64,
    keys: u64,
    profile: Profile,
}

/// A file stands in one container, or in parts that each are one: none has more copies than are wanted.
///
/// # Panics
/// If it is otherwise.
pub(crate) fn check_copies(world: &World, path: &ArchivePath, stat: &FileStat) {
    let mut copies: BTreeMap<ContainerId, usize> = BTreeMap::new();
    for copy in &stat.copies {
        *copies.entry(copy.container).or_default() += 1;
        let is_part = matches!(copy.container_kind, ContainerKind::Segment { .. });
        assert!(is_part || copies.len() == 1, "I4: {path}: stands in two containers: {:?}", stat.copies);
    }
    if copies.len() > 1 {
        world.count(SEEN_IN_PARTS);
    }
    let most = copies.values().max().copied().unwrap_or(0);
    assert!(most <= stat.copies_wanted as usize, "I4: {path}: more copies than the class asks for");
}

/// What is counted when a file is seen that lies on tapes in parts.
pub const SEEN_IN_PARTS: &str = "looks at files in parts";

/// What a read gave.
type Read = Result<Vec<u8>, ArchiveError>;

impl Client {
    /// Client `number` of `clients`.
    #[must_use]
    pub fn new(world: &World, number: u64, clients: u64, profile: Profile) -> Self {
        Client { world: world.clone(), number, clients, keys: 0, profile }
    }

    /// Does so many operations, thinking for at most so long in between.
    pub fn work(&mut self, operations: u64, thinking: Duration) {
        for _ in 0..operations {
            self.step();
            self.world.count("client operations");
            simulated::pause(Duration::from_nanos(below(thinking.as_nanos() as u64)));
        }
    }

    fn step(&mut self) {
        match (self.profile.habit(), below(100)) {
            (Habit::Alike, 0..=44) => self.put_new(),
            (Habit::Alike, 45..=89) => self.get_own(),
            (Habit::Readers, 0..=24) => self.put_new(),
            (Habit::Readers, 25..=74) => self.get_other(),
            (Habit::Readers, 75..=84) => self.remove(),
            (Habit::Readers, 85..=89) => self.evict(),
            (Habit::Large, 0..=59) => self.put_new(),
            _ => self.usual_step(),
        }
    }

    fn usual_step(&mut self) {
        match below(100) {
            0..=29 => self.put_new(),
            30..=32 => self.put_again(),
            33..=34 => self.repeat_late(),
            35..=49 => self.get_own(),
            50..=59 => self.get_other(),
            60..=64 => self.stat(),
            65..=67 => self.list(),
            68..=72 => self.rename(),
            73..=77 => self.remove(),
            78..=84 => self.stage(),
            85..=92 => self.evict(),
            93..=95 => self.end_request(),
            96..=97 => self.migrate(),
            _ => self.operate(),
        }
    }

    fn path(&self, client: u64, name: u64) -> ArchivePath {
        path(&format!("/c{client}/f{name}"))
    }

    fn any_path(&self) -> ArchivePath {
        self.path(self.number, below(NAMES))
    }

    /// A path of which it is known that there is a file.
    fn full_path(&self) -> Option<(ArchivePath, Content)> {
        let start = below(NAMES);
        (0..NAMES).find_map(|step| {
            let path = self.path(self.number, (start + step) % NAMES);
            let known = self.world.oracle().possible(&path).known()??;
            Some((path, known))
        })
    }

    fn size(&self) -> usize {
        match self.profile.habit() {
            Habit::Alike => return 3_000,
            Habit::Large => return 262_145 + below(200_000) as usize,
            Habit::Huge if below(8) == 0 => return (6 << 20) + below(14 << 20) as usize,
            Habit::Usual | Habit::Readers | Habit::Huge => {}
        }
        let size = match below(20) {
            0 => 0,
            // Equal lengths, so that one value fits into the place of another.
            1..=8 => 3_000,
            9..=12 => 1 + below(6_000),
            13..=16 => 4_096 * (1 + below(12)),
            17 => 60_000 + below(100_000),
            _ => 262_145 + below(200_000),
        };
        usize::try_from(size).unwrap_or(0)
    }

    fn put_new(&mut self) {
        let path = self.any_path();
        if self.world.oracle().possible(&path).known().is_none() && !self.resolve(&path) {
            return;
        }
        let content = self.world.oracle().new_content(self.size());
        let key = (below(2) == 0).then(|| {
            self.keys += 1;
            (format!("key-{}", self.keys), format!("client-{}", self.number))
        });
        self.world.oracle().doubt(&path, Some(content));
        let mut first: Option<PutDone> = None;
        for _ in 0..REPEATS_MAX {
            match self.put(&path, content, key.clone()) {
                Called::Done(Ok(done)) => {
                    self.check_answer(&path, content, &done, first.as_ref());
                    first.get_or_insert(done);
                    let is_lost = !self.world.is_calm() && below(6) == 0;
                    if !is_lost {
                        break;
                    }
                    self.world.count("answers lost");
                }
                Called::Done(Err(error)) => {
                    if first.is_none() && error.is_certain_refusal() {
                        self.world.count("puts refused");
                        // Earlier tries of this put may have been carried out.
                        if !self.resolve(&path) {
                            return;
                        }
                        return;
                    }
                    self.world.count("puts in doubt");
                    simulated::pause(DOWN_PAUSE);
                }
                Called::Killed => self.world.count("puts cut off"),
                Called::Down => simulated::pause(DOWN_PAUSE),
            }
        }
        if first.is_none() {
            self.resolve(&path);
        }
    }

    /// The first answer makes the content the path's; a repeat has to name the same file.
    fn check_answer(&self, path: &ArchivePath, content: Content, done: &PutDone, first: Option<&PutDone>) {
        assert_eq!(done.checksums.blake3, content.blake3(), "{path}: the answer of a put has its checksum");
        if let Some(first) = first {
            assert_eq!(first.file, done.file, "I4: {path}: a repeat made another file");
        }
        self.world.oracle().know(path, Some(content));
    }

    fn put(
        &self,
        path: &ArchivePath,
        content: Content,
        key: Option<(String, String)>,
    ) -> Called<Result<PutDone, ArchiveError>> {
        let path = path.clone();
        self.world.ask("put", move |archive| put(archive, &path, content, key))
    }

    /// Puts what is there already: nothing new is made.
    fn put_again(&mut self) {
        let Some((path, content)) = self.full_path() else { return };
        match self.put(&path, content, None) {
            Called::Done(Ok(done)) => {
                assert!(!done.created, "I4: {path}: the same content made a new version");
                self.world.count("repeats");
            }
            Called::Done(Err(error)) => self.tolerate("repeat", &path, &error),
            Called::Killed | Called::Down => {}
        }
    }

    /// A put is replaced by another one, and only then its own late repeat arrives: it gets the first answer
    /// and changes nothing.
    fn repeat_late(&mut self) {
        let path = self.any_path();
        let (first, second) = {
            let mut oracle = self.world.oracle();
            if oracle.possible(&path).known().is_none() {
                return;
            }
            let pair = (oracle.new_content(1_000), oracle.new_content(2_000));
            oracle.doubt(&path, Some(pair.0));
            pair
        };
        self.keys += 1;
        let key = Some((format!("key-{}", self.keys), format!("client-{}", self.number)));
        let Called::Done(Ok(done)) = self.put(&path, first, key.clone()) else {
            self.resolve(&path);
            return;
        };
        self.world.oracle().know(&path, Some(first));
        self.world.oracle().doubt(&path, Some(second));
        let Called::Done(Ok(_)) = self.put(&path, second, None) else {
            self.resolve(&path);
            return;
        };
        self.world.oracle().know(&path, Some(second));
        match self.put(&path, first, key) {
            Called::Done(Ok(again)) => {
                assert_eq!(again.file, done.file, "I4: {path}: a late repeat made another file");
                self.world.count("late repeats");
            }
            Called::Done(Err(error)) => {
                self.world.count("late repeats refused");
                drop(error);
            }
            Called::Killed | Called::Down => {}
        }
    }

    fn get_own(&self) {
        let Some((path, content)) = self.full_path() else { return };
        match self.read(&path) {
            Called::Done(Ok(bytes)) => {
                assert!(bytes == content.bytes(), "I2: {path}: a get gave other bytes than were put");
                self.world.count("reads verified");
            }
            Called::Done(Err(ArchiveError::Nearline { .. } | ArchiveError::NearlineAway { .. })) => {
                self.world.count("reads of nearline files");
            }
            Called::Done(Err(error @ ArchiveError::NotFound(_))) => panic!("I1: {error}, but it was put"),
            Called::Done(Err(error)) => self.tolerate("get", &path, &error),
            Called::Killed | Called::Down => {}
        }
    }

    /// Reads a file of another client, who may change it meanwhile.
    fn get_other(&self) {
        let path = self.path(below(self.clients), below(NAMES));
        let since = self.world.oracle().moment();
        let read = self.read(&path);
        let oracle = self.world.oracle();
        match read {
            Called::Done(Ok(bytes)) => {
                let mut ever = oracle.ever(&path).into_iter();
                let content = ever.find(|content| content.length == bytes.len() && content.bytes() == bytes);
                let content = content.unwrap_or_else(|| panic!("I2: {path}: bytes that nobody ever put"));
                let fits = oracle.was_possible(&path, Some(content), since);
                assert!(fits, "I2: {path}: a get gave a version that was replaced before");
            }
            Called::Done(Err(ArchiveError::NotFound(_))) => {
                let fits = oracle.was_possible(&path, None, since);
                assert!(fits, "I1: {path} is not found although it was there all the time");
            }
            Called::Done(Err(ArchiveError::Nearline { .. } | ArchiveError::NearlineAway { .. }))
            | Called::Killed
            | Called::Down => {}
            Called::Done(Err(error)) => {
                drop(oracle);
                self.tolerate("get", &path, &error);
            }
        }
    }

    fn read(&self, path: &ArchivePath) -> Called<Read> {
        let path = path.clone();
        let slow = below(3) == 0 || self.profile.habit() == Habit::Readers;
        self.world.ask("get", move |archive| read(archive, &path, slow))
    }

    fn stat(&self) {
        let Some((path, content)) = self.full_path() else { return };
        let at = path.clone();
        match self.world.ask("stat", move |archive| archive.stat(&at)) {
            Called::Done(Ok(Stat::File(stat))) => {
                assert_eq!(stat.size, ByteCount(content.length as u64), "I1: {path}: its size");
                assert_eq!(stat.checksums.blake3, content.blake3(), "I1: {path}: its checksum");
                check_copies(&self.world, &path, &stat);
            }
            Called::Done(Ok(Stat::Directory(_))) => panic!("I1: {path} became a directory"),
            Called::Done(Err(error @ ArchiveError::NotFound(_))) => panic!("I1: {error}, but it was put"),
            Called::Done(Err(error)) => self.tolerate("stat", &path, &error),
            Called::Killed | Called::Down => {}
        }
    }

    fn list(&self) {
        let directory = path(&format!("/c{}", self.number));
        let at = directory.clone();
        let Called::Done(listed) = self.world.ask("list", move |archive| archive.list(&at, None, 1_000))
        else {
            return;
        };
        let listed: BTreeSet<String> = match listed {
            Ok((lines, _)) => lines.into_iter().map(|line| line.name.as_str().to_owned()).collect(),
            Err(ArchiveError::NotFound(_)) => BTreeSet::new(),
            Err(error) => return self.tolerate("list", &directory, &error),
        };
        for name in 0..NAMES {
            let possible = self.world.oracle().possible(&self.path(self.number, name));
            let is_there = listed.contains(&format!("f{name}"));
            let fits = possible.contents.iter().any(|content| content.is_some() == is_there);
            assert!(fits, "I1: the listing of {directory} is wrong about f{name}");
        }
    }

    fn rename(&self) {
        let Some((from, content)) = self.full_path() else { return };
        let to = self.any_path();
        let Some(before) = self.world.oracle().possible(&to).known().filter(|_| from != to) else { return };
        {
            let mut oracle = self.world.oracle();
            oracle.doubt(&from, None);
            oracle.doubt(&to, Some(content));
        }
        let (one, other) = (from.clone(), to.clone());
        let called = self.world.ask("rename", move |archive| archive.rename(&one, &other, true));
        let result = match called {
            Called::Done(result) => result,
            Called::Down => Err(ArchiveError::Stopping),
            Called::Killed => return self.resolve_rename(&from, &to, content, before),
        };
        match result {
            Ok(()) => {
                let mut oracle = self.world.oracle();
                oracle.know(&from, None);
                oracle.know(&to, Some(content));
            }
            Err(error) if error.is_certain_refusal() => {
                {
                    let mut oracle = self.world.oracle();
                    oracle.know(&from, Some(content));
                    oracle.know(&to, before);
                }
                self.tolerate("rename", &from, &error);
            }
            Err(_) => self.resolve_rename(&from, &to, content, before),
        }
    }

    /// Looks which way a rename went that nobody answered.
    fn resolve_rename(
        &self,
        from: &ArchivePath,
        to: &ArchivePath,
        content: Content,
        before: Option<Content>,
    ) {
        if self.resolve(from) && self.resolve(to) {
            let oracle = self.world.oracle();
            let (left, right) = (oracle.possible(from).known(), oracle.possible(to).known());
            let is_moved = left == Some(None) && right == Some(Some(content));
            // Both may have had the same content before: empty files are all alike.
            let is_not = left == Some(Some(content)) && right == Some(before);
            assert!(is_moved || is_not, "I1: half a rename from {from} to {to}: {left:?}, {right:?}");
        }
    }

    fn remove(&self) {
        let Some((path, content)) = self.full_path() else { return };
        self.world.oracle().doubt(&path, None);
        let at = path.clone();
        match self.world.ask("remove", move |archive| archive.remove(&at)) {
            Called::Done(Ok(())) => self.world.oracle().know(&path, None),
            Called::Done(Err(error)) if error.is_certain_refusal() => {
                self.world.oracle().know(&path, Some(content));
                assert!(!matches!(error, ArchiveError::NotFound(_)), "I1: {error}, but it was put");
                self.tolerate("remove", &path, &error);
            }
            Called::Done(Err(_)) | Called::Killed => drop(self.resolve(&path)),
            Called::Down => self.world.oracle().know(&path, Some(content)),
        }
    }

    /// Looks what a path holds of which that is not known; whether somebody answered.
    fn resolve(&self, path: &ArchivePath) -> bool {
        for _ in 0..REPEATS_MAX {
            let at = path.clone();
            match self.world.ask("resolve", move |archive| archive.stat(&at)) {
                Called::Done(Ok(Stat::File(stat))) => {
                    let mut oracle = self.world.oracle();
                    let possible = oracle.possible(path);
                    let found = possible.contents.iter().copied().flatten().find(|content| {
                        stat.size.0 == content.length as u64 && stat.checksums.blake3 == content.blake3()
                    });
                    let found = found.unwrap_or_else(|| panic!("I1: {path} holds none of {possible:?}"));
                    oracle.know(path, Some(found));
                    return true;
                }
                Called::Done(Ok(Stat::Directory(_))) => panic!("I1: {path} became a directory"),
                Called::Done(Err(ArchiveError::NotFound(_))) => {
                    let mut oracle = self.world.oracle();
                    let possible = oracle.possible(path);
                    assert!(possible.contents.contains(&None), "I1: {path} is gone: {possible:?}");
                    oracle.know(path, None);
                    return true;
                }
                _ => simulated::pause(DOWN_PAUSE),
            }
        }
        false
    }

    fn stage(&self) {
        let Some((path, _)) = self.full_path() else { return };
        let pin = Duration::from_secs(below(600));
        let options = StageOptions {
            owner: format!("client-{}", self.number),
            pin,
            priority: catalogue::PRIORITY_USUAL,
        };
        let (selection, at) = (selection(&path), path.clone());
        // Half of them as the Tape REST API does, beside a path that is not there.
        let by_paths = pin.as_secs().is_multiple_of(2);
        let stage = move |archive: &Archive| {
            if !by_paths {
                return archive.stage(&selection, options);
            }
            let texts = [format!("/{path}"), format!("{path}-none")];
            let paths = texts.map(|text| SubmittedPath::new(text, None)).into();
            let StageOptions { owner, pin, priority } = options;
            archive.stage_paths(PathSubmission { owner, pin, priority, paths })
        };
        match self.world.ask("stage", stage) {
            Called::Done(Ok(request)) => self.world.oracle().requests.push(request),
            Called::Done(Err(error)) => self.tolerate("stage", &at, &error),
            Called::Killed | Called::Down => {}
        }
    }

    fn evict(&self) {
        let (selection, at) = match below(3) {
            0 => {
                let directory = path(&format!("/c{}", self.number));
                (Selection { paths: vec![directory.clone()], recursive: true }, directory)
            }
            _ => {
                let Some((path, _)) = self.full_path() else { return };
                (selection(&path), path)
            }
        };
        match self.world.ask("evict", move |archive| archive.evict(&selection)) {
            Called::Done(Ok(done)) => {
                (0..done.evicted).for_each(|_| self.world.count("files evicted"));
                self.no_drive_erred();
            }
            Called::Done(Err(ArchiveError::NotFound(_) | ArchiveError::SomeNotFound { .. }))
                if at.components().count() == 1 => {}
            Called::Done(Err(error)) => self.tolerate("evict", &at, &error),
            Called::Killed | Called::Down => {}
        }
    }

    /// Nobody reads what was removed under it: drives that are well have no errors.
    fn no_drive_erred(&self) {
        if !self.profile.has_good_disks() {
            return;
        }
        let Called::Done(Ok(pool)) = self.world.ask("pool", |archive| archive.pool_info()) else { return };
        let erred: Vec<_> = pool.drives.iter().filter(|drive| drive.errors > 0).collect();
        assert!(erred.is_empty(), "I6: drives have errors though nothing is wrong with them: {erred:?}");
    }

    fn end_request(&self) {
        let requests = self.world.oracle().requests.clone();
        if requests.is_empty() {
            return;
        }
        let request = one_of(&requests);
        let cancels = below(2) == 0;
        let called = self.world.ask("release or cancel", move |archive| {
            let named = archive.path_request(request).map(|found| found.paths);
            let named = named.map(|paths| paths.into_iter().map(|(text, _)| SubmittedPath::new(text, None)));
            match named.map(Iterator::collect::<Vec<_>>) {
                Ok(paths) if cancels => archive.cancel_paths(request, &paths),
                _ if cancels => archive.cancel_request(request),
                _ => archive.release(request, None),
            }
        });
        if let Called::Done(Err(error @ ArchiveError::NoSuchRequest(_))) = called {
            panic!("I1: {error}, but it was acknowledged");
        }
    }

    fn migrate(&self) {
        let _ = self.world.ask("migrate", |archive| archive.migrate_now(None));
    }

    /// What an operator does every now and then: gives back drives and tapes that were set aside.
    fn operate(&self) {
        let _ = self.world.ask("operate", give_back);
        if self.profile.has_tape_operator() {
            operator::act(&self.world);
        }
    }

    /// Errors that a fault explains; in a calm world there is none.
    fn tolerate(&self, what: &'static str, path: &ArchivePath, error: &ArchiveError) {
        self.world.count("errors answered");
        if self.world.has_good_disks()
            && matches!(
                error,
                ArchiveError::Pool(_)
                    | ArchiveError::Blob(_)
                    | ArchiveError::PoolFull
                    | ArchiveError::RoomIsBeingMade { .. }
                    | ArchiveError::TooLittleRoom { .. }
                    | ArchiveError::DrivesAway { .. }
                    | ArchiveError::Corrupt { .. }
            )
        {
            panic!("I2: {what} of {path} fails although no disk does: {error}");
        }
        assert!(!self.world.is_calm(), "I7: {what} of {path} fails although nothing is wrong: {error}");
        assert!(!matches!(error, ArchiveError::Lost(_)), "I1: {what}: {error}");
        assert!(!matches!(error, ArchiveError::NotFound(_)), "I1: {what}: {error}, but it was put");
    }
}

/// A path.
#[must_use]
pub fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap_or_else(|error| unreachable!("{text} is a path: {error}"))
}

/// This one file.
#[must_use]
pub fn selection(path: &ArchivePath) -> Selection {
    Selection { paths: vec![path.clone()], recursive: false }
}

/// Puts a content, as a door does.
///
/// # Errors
/// Those of the engine.
pub fn put(
    archive: &Archive,
    path: &ArchivePath,
    content: Content,
    key: Option<(String, String)>,
) -> Result<PutDone, ArchiveError> {
    let length = ByteCount(content.length as u64);
    let options =
        PutOptions { length: Some(length), make_parents: true, idempotency: key, ..PutOptions::default() };
    let mut upload = archive.begin_put(path, options)?;
    for chunk in content.bytes().chunks(100_000) {
        upload.write(chunk)?;
    }
    upload.finish()
}

/// Reads a whole file; slowly, as somebody behind a bad line does.
///
/// # Errors
/// Those of the engine.
pub fn read(archive: &Archive, path: &ArchivePath, slow: bool) -> Read {
    let mut download = archive.open_read(path)?;
    let mut bytes = Vec::new();
    if slow {
        simulated::pause(Duration::from_secs(2));
    }
    while let Some(chunk) = download.next()? {
        bytes.extend_from_slice(chunk.as_ref());
        if slow {
            drop(chunk);
            simulated::pause(Duration::from_millis(300));
        }
    }
    Ok(bytes)
}

/// Gives back to use all drives and tapes that were set aside.
///
/// # Errors
/// Those of the engine.
pub fn give_back(archive: &Archive) -> Result<(), ArchiveError> {
    for drive in archive.tape_drives() {
        if drive.state == "down" {
            archive.drive_up(&drive.name)?;
        }
    }
    for tape in archive.tapes()? {
        // What is not blank is erased before.
        let is_refused = tape.generation == 0 && tape.reason.contains(NOT_BLANK);
        if matches!(tape.state, TapeState::Suspect | TapeState::Disabled) && !is_refused {
            // A tape in a run cannot be changed now; the next round comes.
            let _ = archive.set_tape(tape.vid, TapeUse::Active, "given back by the simulated operator");
        }
    }
    Ok(())
}
