//! Local files into the archive.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::Timestamp;
use terminal::{Exit, Failure, Outcome, Progress, output, parallel, text};
use wire::{ListEntry, MakeDirectoryBody, PutReply};

use super::hashing::{Hasher, HashingReader};
use super::local::{LocalItem, LocalKind};
use super::{CHUNK_BYTES, IN_MEMORY_BYTES_MAX, Tally};
use crate::request::{Attempt, Client, retry_for_room};

/// How long a put waits for room that is being made, from the first refusal since a file found room.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(600);

/// The server's word for a class that there is not.
const NO_SUCH_CLASS: &str = "no-such-class";

/// What holds for all files of a put.
#[derive(Clone, Debug, Default)]
pub struct PutSettings {
    /// Threads.
    pub jobs: usize,
    /// The class; `None`: as the directory or the size says.
    pub class: Option<String>,
    /// What belongs together on tape.
    pub dataset: Option<String>,
    /// Refuse names that are taken.
    pub keep_existing: bool,
    /// Send everything, whatever is there.
    pub again: bool,
    /// Give up at once when the pool has no room, also if some is being made.
    pub no_wait: bool,
}

/// A local file, link or directory and where it goes.
#[derive(Clone, Debug)]
pub struct PutItem {
    /// What.
    pub local: LocalItem,
    /// Where.
    pub remote: String,
}

/// The names of a directory of the archive.
type Names = Arc<HashMap<String, ListEntry>>;

/// A put of many files.
pub struct Putter<'a> {
    client: &'a Client,
    settings: &'a PutSettings,
    progress: &'a Progress,
    tally: &'a Tally,
    /// What directories held before; one that is not here was made new and is empty.
    existing: Mutex<HashMap<String, Names>>,
    room: RoomWait,
}

impl<'a> Putter<'a> {
    /// A put that counts in `tally`.
    pub fn new(
        client: &'a Client,
        settings: &'a PutSettings,
        progress: &'a Progress,
        tally: &'a Tally,
    ) -> Self {
        Putter { client, settings, progress, tally, existing: Mutex::default(), room: RoomWait::default() }
    }

    /// Makes directories, parents first, and reads what those that were there hold.
    pub fn directories(&self, directories: &[PutItem]) {
        let depth = |item: &PutItem| item.remote.matches('/').count();
        let mut levels: Vec<Vec<&PutItem>> = Vec::new();
        for item in directories {
            let level = depth(item);
            if levels.len() <= level {
                levels.resize_with(level + 1, Vec::new);
            }
            levels[level].push(item);
        }
        for level in &levels {
            parallel::each(level, self.settings.jobs, &self.tally.stop, |item| {
                if let Err(failure) = self.directory(item) {
                    self.tally.add_failure(&item.remote, failure);
                }
            });
        }
    }

    /// Puts files and links.
    pub fn files(&self, files: &[PutItem]) {
        parallel::each(files, self.settings.jobs, &self.tally.stop, |item| {
            match self.file(item) {
                Ok(true) => self.tally.add_done(item.local.size),
                Ok(false) => {
                    self.tally.add_skipped();
                    self.progress.add_bytes(item.local.size);
                }
                // All are put with this class.
                Err(failure)
                    if self.settings.class.is_some() && failure.word.as_deref() == Some(NO_SUCH_CLASS) =>
                {
                    self.tally.add_failure_of_all(&item.remote, failure);
                }
                Err(failure) => self.tally.add_failure(&item.remote, failure),
            }
            self.progress.add_files(1);
        });
    }

    /// Reads the names of `directory`, so that files that are there already can be skipped.
    pub fn read_names(&self, directory: &str) -> Outcome {
        let mut names = HashMap::new();
        let listed = self.client.list(directory, |entry| {
            names.insert(entry.name.clone(), entry);
            Ok(())
        });
        match listed {
            Err(failure) if failure.exit == Exit::NotFound => return Ok(()),
            other => other?,
        }
        self.existing
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(directory.to_owned(), Arc::new(names));
        Ok(())
    }

    fn directory(&self, item: &PutItem) -> Outcome {
        if item.remote != "/" {
            let attributes = &item.local.attributes;
            let body = MakeDirectoryBody {
                path: item.remote.clone(),
                parents: true,
                mode: Some(attributes.mode_text()),
                mtime: Some(text::rfc3339(attributes.mtime)),
                owner: Some(attributes.owner.clone()),
                group: Some(attributes.group.clone()),
                class: None,
            };
            let (status, _) = self.client.post("/api/v1/mkdir", &body)?;
            if status == 201 {
                return Ok(());
            }
        }
        self.read_names(&item.remote)
    }

    /// Puts a file; `false` if it was there already.
    fn file(&self, item: &PutItem) -> Outcome<bool> {
        let path = self.remote_path(item)?;
        if !self.settings.again && self.is_there(item)? {
            return Ok(false);
        }
        let target = format!("/data{}", text::encode_path(&path));
        let mut headers = item.local.attributes.headers();
        headers.extend(self.settings.headers());
        headers.push(("idempotency-key", text::random_uuid()?.to_string()));
        match &item.local.kind {
            LocalKind::Link(link) => {
                headers.push(("kist-link-target", text::encode(link)));
                let put = || self.client.send_put(&target, &headers, Some(0), &mut std::io::empty());
                self.count_replaced(&read_reply(self.put_in_room(put)?)?);
                Ok(true)
            }
            LocalKind::File if item.local.size <= IN_MEMORY_BYTES_MAX => self.small(item, &target, headers),
            LocalKind::File => {
                // A refusal then comes before the bytes, not as a broken connection amid them.
                headers.push(("expect", "100-continue".to_owned()));
                self.large(item, &target, &headers)
            }
            LocalKind::Directory => Ok(false),
        }
    }

    fn remote_path(&self, item: &PutItem) -> Outcome<String> {
        crate::request::archive_path(&item.remote)
    }

    fn small(&self, item: &PutItem, target: &str, mut headers: Headers) -> Outcome<bool> {
        let path = &item.local.path;
        let failed = |error: std::io::Error| Failure::io("reading", path, &error);
        let mut bytes = Vec::with_capacity(item.local.size as usize + 1);
        File::open(path)
            .map_err(failed)?
            .take(IN_MEMORY_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > IN_MEMORY_BYTES_MAX {
            return Err(changed(item));
        }
        let mut hasher = Hasher::new();
        hasher.update(&bytes);
        headers.push(("kist-blake3", hasher.blake3().to_string()));
        headers.push(("digest", format!("adler32={}", hasher.adler32())));
        let length = Some(bytes.len() as u64);
        let response =
            self.put_in_room(|| self.client.send_put(target, &headers, length, &mut bytes.as_slice()))?;
        self.progress.add_bytes(bytes.len() as u64);
        self.count_replaced(&check_reply(item, response, &hasher)?);
        Ok(true)
    }

    /// Sends a put, again as long as the pool makes room for it.
    fn put_in_room<T>(&self, mut send: impl FnMut() -> Result<T, Attempt>) -> Outcome<T> {
        let put =
            retry_for_room(|refusal| self.room.waits(self.settings, self.progress, refusal), |_| send());
        if put.is_ok() {
            self.room.found(self.progress);
        }
        put
    }

    fn count_replaced(&self, reply: &PutReply) {
        if reply.replaced {
            self.tally.add_replaced();
        }
    }

    fn large(&self, item: &PutItem, target: &str, headers: &Headers) -> Outcome<bool> {
        let size = item.local.size;
        let path = &item.local.path;
        let (hasher, response) = self.put_in_room(|| {
            let file = File::open(path).map_err(|e| Attempt::last(Failure::io("opening", path, &e)))?;
            let mut hasher = Hasher::new();
            let mut body = HashingReader::new(file.take(size), &mut hasher, self.progress);
            let sent = self.client.send_put(target, headers, Some(size), &mut body);
            match sent {
                Ok(response) => Ok((hasher, response)),
                Err(attempt) => {
                    self.progress.take_bytes(hasher.bytes());
                    // A file that became shorter breaks the request too, and would again.
                    let short = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() < size);
                    Err(if short { Attempt::last(changed(item)) } else { attempt })
                }
            }
        })?;
        self.count_replaced(&check_reply(item, response, &hasher)?);
        Ok(true)
    }

    /// Whether the archive has this content under this name already, and has not lost it.
    fn is_there(&self, item: &PutItem) -> Outcome<bool> {
        let Some((directory, name)) = item.remote.rsplit_once('/') else { return Ok(false) };
        let directory = if directory.is_empty() { "/" } else { directory };
        let names = {
            let existing = self.existing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            existing.get(directory).cloned()
        };
        let Some(names) = names else { return Ok(false) };
        let Some(entry) = names.get(name) else { return Ok(false) };
        match &item.local.kind {
            LocalKind::Link(target) => Ok(entry.kind == "link" && entry.target.as_ref() == Some(target)),
            LocalKind::File if entry.locality.as_deref() == Some("LOST") => Ok(false),
            LocalKind::File if entry.kind == "file" && entry.size == item.local.size => {
                let Some(theirs) = &entry.blake3 else { return Ok(false) };
                let ours = hash_file(&item.local.path)?.blake3().to_string();
                Ok(*theirs == ours)
            }
            LocalKind::File | LocalKind::Directory => Ok(false),
        }
    }
}

/// How often it is told at most that a command waits for room.
const ROOM_TOLD_EVERY: Duration = Duration::from_secs(60);

/// That the puts of one command find no room, though some is being made.
#[derive(Default)]
struct RoomWait(Mutex<RoomWaitState>);

#[derive(Default)]
struct RoomWaitState {
    since: Option<Instant>,
    told: Option<Instant>,
}

impl RoomWait {
    /// A put was refused for want of room that is being made: whether it waits. Who looks on is told once.
    fn waits(&self, settings: &PutSettings, progress: &Progress, refusal: &Failure) -> bool {
        if settings.no_wait {
            return false;
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = state.told.is_none_or(|told| told.elapsed() >= ROOM_TOLD_EVERY);
        if state.since.is_none() && is_news && !progress.is_quiet() {
            state.told = Some(Instant::now());
            let most = text::span(ROOM_WAIT_MAX);
            output::note(&format!(
                "kist: waits for room in the pool, at most {most} (--no-wait gives up at once): {refusal}"
            ));
        }
        progress.note("waits for room in the pool");
        // How long it takes no rate of before says.
        progress.set_stuck(true);
        state.since.get_or_insert_with(Instant::now).elapsed() < ROOM_WAIT_MAX
    }

    /// A put found room.
    fn found(&self, progress: &Progress) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).since.take().is_some() {
            progress.set_stuck(false);
            progress.note("");
        }
    }
}

type Headers = Vec<(&'static str, String)>;

impl PutSettings {
    fn headers(&self) -> Headers {
        let mut headers = Vec::new();
        if let Some(class) = &self.class {
            headers.push(("kist-class", text::encode(class)));
        }
        if let Some(dataset) = &self.dataset {
            headers.push(("kist-dataset", text::encode(dataset)));
        }
        if self.keep_existing {
            headers.push(("if-none-match", "*".to_owned()));
        }
        headers
    }
}

/// The checksums of a local file.
pub fn hash_file(path: &std::path::Path) -> Outcome<Hasher> {
    let failed = |error: std::io::Error| Failure::io("reading", path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut buffer = vec![0u8; CHUNK_BYTES];
    let mut hasher = Hasher::new();
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok(hasher);
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
}

/// Puts standard input, whose length is not known and which cannot be read twice.
pub fn put_stream(
    client: &Client,
    settings: &PutSettings,
    input: &mut dyn Read,
    remote: &str,
    progress: &Progress,
) -> Outcome<PutReply> {
    put_input(client, settings, input, None, remote, progress)
}

/// Puts what cannot be read twice, and whose length may be known.
pub fn put_input(
    client: &Client,
    settings: &PutSettings,
    input: &mut dyn Read,
    length: Option<u64>,
    remote: &str,
    progress: &Progress,
) -> Outcome<PutReply> {
    let target = format!("/data{}", text::encode_path(remote));
    let mut headers = settings.headers();
    headers.push(("idempotency-key", text::random_uuid()?.to_string()));
    let mtime = text::now();
    headers.push(("kist-mtime", text::rfc3339(mtime)));
    let expect = [headers.as_slice(), &[("expect", "100-continue".to_owned())]].concat();
    let room = RoomWait::default();
    let (hasher, sent) = loop {
        let mut hasher = Hasher::new();
        let mut body = HashingReader::new(&mut *input, &mut hasher, progress);
        match client.send_put(&target, &expect, length, &mut body) {
            // What was read cannot be sent again.
            Err(attempt) if attempt.is_for_room() && hasher.bytes() == 0 => {
                if !room.waits(settings, progress, &attempt.failure) {
                    break (hasher, Err(attempt.failure));
                }
                std::thread::sleep(attempt.again.unwrap_or_default());
            }
            sent => break (hasher, sent.map_err(|attempt| attempt.failure)),
        }
    };
    let reply = match sent.and_then(read_reply) {
        Err(failure) if failure.exit == Exit::Unreachable => {
            // The file may be there, and only the answer lost: it would be taken for another one's.
            if let Some(reply) = own_file(client, remote, &hasher, mtime) {
                return Ok(reply);
            }
            let refusal = refusal_of(client, settings, &target, hasher.bytes());
            return Err(refusal.unwrap_or(failure));
        }
        reply => reply?,
    };
    hasher.agrees(remote, reply.size, &reply.blake3, Some(&reply.adler32))?;
    Ok(reply)
}

/// The answer to a put whose own answer was lost, if the archive has what was sent: the same bytes under the
/// same name, with the time to the nanosecond that this put alone has given it.
fn own_file(client: &Client, remote: &str, hasher: &Hasher, mtime: Timestamp) -> Option<PutReply> {
    let stat = client.find(remote).ok()??;
    let file = stat.file?;
    let is_own = stat.size == hasher.bytes()
        && file.blake3 == hasher.blake3().to_string()
        && text::parse_rfc3339(&stat.mtime) == Some(mtime);
    is_own.then(|| PutReply {
        file_id: file.file_id,
        created: true,
        // What it has replaced was in the answer only.
        replaced: false,
        size: stat.size,
        adler32: file.adler32,
        blake3: file.blake3,
        class: stat.class.unwrap_or_default(),
    })
}

/// Why a put whose connection broke after so many bytes is refused, if it is: a server that refuses amid a
/// body closes, and what it said is lost. It is asked once more, before any byte; nothing is put by that.
fn refusal_of(client: &Client, settings: &PutSettings, target: &str, bytes: u64) -> Option<Failure> {
    let mut headers = settings.headers();
    headers.push(("expect", "100-continue".to_owned()));
    let failure = client.send_put(target, &headers, Some(bytes.max(1)), &mut NoBody).err()?.failure;
    (failure.exit != Exit::Unreachable).then_some(failure)
}

/// Breaks a request off that the server would take.
struct NoBody;

impl Read for NoBody {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("nothing is sent: only whether it would be taken was asked"))
    }
}

fn check_reply(
    item: &PutItem,
    response: ureq::http::Response<ureq::Body>,
    hasher: &Hasher,
) -> Outcome<PutReply> {
    let reply = read_reply(response)?;
    hasher.agrees(&item.remote, reply.size, &reply.blake3, Some(&reply.adler32))?;
    Ok(reply)
}

fn read_reply(mut response: ureq::http::Response<ureq::Body>) -> Outcome<PutReply> {
    let broken = |error: ureq::Error| {
        let message =
            format!("the answer to a put broke off ({error}): repeat the put, it creates nothing twice");
        Failure::new(Exit::Unreachable, message)
    };
    let bytes = response.body_mut().read_to_vec().map_err(broken)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::internal(format!("the answer to a put is not what Kist answers: {error}")))
}

fn changed(item: &PutItem) -> Failure {
    let message = format!("{}: the file changed while it was read: put it again", item.local.path.display());
    Failure::new(Exit::Refused, message)
}
