//! Why something waits, in sentences, the nearest cause first.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base::{ArchivePath, ByteCount, ClassId, ContainerId, Count, FileId, RequestId, TapePoolId, Vid};
use catalogue::{
    ContainerKind, ContainerRecord, CopyState, EvictRefusal, Followed, ItemState, RequestState, TapeState,
};

use crate::operate::Queued;
use crate::reasons::{Waiting, is_to_reclaim};
use crate::room::Tape;
use ground::{About, ArchiveError, Cause, ItemFailure, Locality};
use scheduler::{Expected, Reason};

/// Waiting files of a request whose reasons are told.
const WAITING_TOLD_MAX: usize = 5;
/// Files of a request looked at for that.
const WAITING_LOOKED_AT_MAX: usize = 10_000;

impl Tape {
    /// What a file waits for on its way to tape or back.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`].
    pub fn why_path(&self, path: &ArchivePath) -> Result<Vec<String>, ArchiveError> {
        Ok(texts(self.causes_of_path(path)?))
    }

    /// What a request waits for.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn why_request(&self, request: RequestId) -> Result<Vec<String>, ArchiveError> {
        Ok(texts(self.causes_of_request(request)?))
    }

    /// Why a file, a request, a tape or a drive waits, the nearest cause first, and for how long.
    ///
    /// # Errors
    /// [`ArchiveError::NotFound`], [`ArchiveError::NoSuchRequest`], [`ArchiveError::NoSuchTape`],
    /// [`ArchiveError::NoSuchDrive`].
    pub fn explain(&self, about: &About) -> Result<Vec<Cause>, ArchiveError> {
        match about {
            About::Path(path) => self.causes_of_path(path),
            About::Request(request) => self.causes_of_request(*request),
            About::Tape(vid) => self.causes_of_tape(*vid),
            About::Drive(drive) => self.causes_of_drive(drive),
            About::TapePool(pool) => self.causes_of_tape_pool(pool),
            About::Class(class) => self.causes_of_class(class),
        }
    }

    fn causes_of_tape_pool(&self, name: &str) -> Result<Vec<Cause>, ArchiveError> {
        let pools = self.classes.tape_pools();
        let found = pools.iter().find(|(_, pool)| pool.name == name).map(|(id, _)| *id);
        let id = found.ok_or_else(|| ArchiveError::NoSuchTapePool(name.to_owned()))?;
        let causes = self.causes_in_queue(None, &[id])?;
        Ok(if causes.is_empty() {
            vec![said("nothing waits for tapes of this pool".to_owned())]
        } else {
            causes
        })
    }

    fn causes_of_class(&self, name: &str) -> Result<Vec<Cause>, ArchiveError> {
        let class = self.classes.by_name(name)?;
        let mut causes = self.recalls_of_class(class.id)?;
        causes.extend(self.causes_in_queue(Some(class.id), &class.copies)?);
        Ok(if causes.is_empty() {
            vec![said(
                "no file of this class waits to be gathered or recalled, nor anything for its tape pools"
                    .to_owned(),
            )]
        } else {
            causes
        })
    }

    /// What recalls of files of a class wait for: like ones together, the most first.
    fn recalls_of_class(&self, class: ClassId) -> Result<Vec<Cause>, ArchiveError> {
        let share = self.classes.share(class);
        let mut wanted = self.scheduler().wanted_of_share(share, WAITING_LOOKED_AT_MAX);
        wanted.sort_by_key(|waiting| std::cmp::Reverse(waiting.files));
        let further: u64 = wanted.iter().skip(WAITING_TOLD_MAX).map(|waiting| waiting.files).sum();
        let mut causes = Vec::new();
        for waiting in wanted.into_iter().take(WAITING_TOLD_MAX) {
            let reason = match waiting.example {
                Some(file) => self.reason(Waiting::Recall(file))?,
                // None of them is among those that were looked at: its tape says why.
                None => match waiting.group.taken_by().or(waiting.group.copies().first().copied()) {
                    Some(vid) => self.reason(Waiting::Tape(vid))?,
                    None => None,
                },
            };
            // Gone since they were counted.
            let Some(reason) = reason else { continue };
            let expected = waiting.example.and_then(|file| self.expected_of_file(file, Some(&reason)));
            let text = format!("recall: {} ({}): {reason}", files_text(waiting.files), waiting.bytes);
            causes.push(Cause { text, reason: Some(reason), expected });
        }
        if further > 0 {
            causes.push(said(format!("recall: {} more, see kist queue", files_text(further))));
        }
        Ok(causes)
    }

    /// What the queue says of a class and of tape pools.
    fn causes_in_queue(
        &self,
        class: Option<ClassId>,
        pools: &[TapePoolId],
    ) -> Result<Vec<Cause>, ArchiveError> {
        let mut causes = Vec::new();
        for (queued, line) in self.foretold_queue()? {
            let noun = match queued {
                Queued::Class(id) if class == Some(id) => "file",
                Queued::TapePool(id) | Queued::TooLarge(id) if pools.contains(&id) => "container copy",
                _ => continue,
            };
            let things = match (line.items, noun) {
                (1, noun) => format!("1 {noun}"),
                (items, "file") => format!("{} files", Count(items)),
                (items, _) => format!("{} container copies", Count(items)),
            };
            let text = format!("{}: {things} ({}): {}", line.what, line.bytes, line.reason);
            causes.push(Cause { text, reason: line.cause, expected: line.expected });
        }
        Ok(causes)
    }

    fn causes_of_tape(&self, vid: Vid) -> Result<Vec<Cause>, ArchiveError> {
        let tape = self.tape_info(vid)?;
        // Not what waits for it: nothing will come of that.
        if tape.unidentified {
            return Ok(vec![said(tape.reason)]);
        }
        let room = self;
        let reason = room.reason(Waiting::Tape(vid))?.unwrap_or(Reason::InSlot);
        let maintenance = room.reason(Waiting::Maintenance(vid))?.unwrap_or(Reason::NothingWaits);
        let wanted = tape.wanted;
        let mut causes = Vec::new();
        let looks = room.settling.looks(room.steady());
        if let Some(look) = looks.iter().find(|look| look.vid == vid) {
            let (drive, silent) = (&look.drive, look.silent.as_secs());
            causes.push(said(format!(
                "drive {drive} looks at it since the catalogue was restored, before any tape is written; it \
                 gave its last sign of life {silent} s ago"
            )));
        }
        let expected = match wanted.files {
            0 => None,
            _ => room.expected(Some(&reason), |forecast| forecast.of_tape(vid)),
        };
        let text = match wanted.files {
            0 => reason.to_string(),
            files => format!("{} files ({}) are wanted from it: {reason}", Count(files), wanted.bytes),
        };
        let is_idle = is_idle(&reason) && maintenance == Reason::NothingWaits;
        causes.push(Cause { text, reason: Some(reason), expected });
        if let Some(wait) = room.repack_waits_for(vid)? {
            causes.push(cause(format!("its repack: containers wait {wait}"), wait.reason));
        }
        if maintenance != Reason::NothingWaits {
            causes.push(cause(format!("work that nobody waits for: {maintenance}"), maintenance));
        }
        if is_to_reclaim(&self.tape(vid)?) {
            causes.push(said(match self.why_not_reclaimed(vid)? {
                None => format!("it is empty: kist tape reclaim {vid} makes it scratch"),
                Some(refused) => format!("it is empty, and not reclaimed yet: {refused}"),
            }));
        }
        let record = self.tape(vid)?;
        causes.extend(self.told_of_old_key(vid, &record).map(said));
        if is_idle {
            causes.extend(self.mounts.last_of_tape(vid).map(|last| said(format!("last: {last}"))));
        }
        if tape.state != TapeState::Active && tape.state != TapeState::Full {
            causes.push(said(match tape.reason.as_str() {
                "" => format!("its state is {}", tape.state.word()),
                why => format!("its state is {}: {why}", tape.state.word()),
            }));
        }
        Ok(causes)
    }

    fn causes_of_drive(&self, drive: &str) -> Result<Vec<Cause>, ArchiveError> {
        let room = self;
        let now = room.now();
        let name = drive.to_owned();
        let looks = room.settling.looks(room.steady());
        if let Some(look) = looks.iter().find(|look| look.drive == name) {
            let (vid, silent) = (look.vid, look.silent.as_secs());
            return Ok(vec![said(format!(
                "it looks at tape {vid} since the catalogue was restored, before any tape is written; it \
                 gave its last sign of life {silent} s ago"
            ))]);
        }
        let reason = room.reason(Waiting::Drive(&name))?;
        let reason = reason.ok_or_else(|| ArchiveError::NoSuchDrive(drive.to_owned()))?;
        let expected = room.forecast().of_drive(&name).map(|expected| expected.seen_at(now));
        let text = match reason {
            Reason::NothingWaits => "nothing is wanted of it, and no tape is in it".to_owned(),
            ref reason => reason.to_string(),
        };
        let last = is_idle(&reason).then(|| self.mounts.last_of_drive(&name)).flatten();
        let mut causes = vec![Cause { text, reason: Some(reason), expected }];
        causes.extend(last.map(|last| said(format!("last: {last}"))));
        Ok(causes)
    }

    fn causes_of_path(&self, path: &ArchivePath) -> Result<Vec<Cause>, ArchiveError> {
        let room = self;
        match room.read(|view| view.find(path))? {
            None => Err(ArchiveError::NotFound(path.clone())),
            Some(Followed::Directory(..)) => Ok(vec![said(format!(
                "{path} is a directory; ask about a file in it, or see 'kist queue' for everything that waits"
            ))]),
            Some(Followed::File(file, _)) => why_file(room, path, file),
        }
    }

    fn causes_of_request(&self, request: RequestId) -> Result<Vec<Cause>, ArchiveError> {
        let room = self;
        let record = self.request(request)?.record;
        let mut reasons = vec![said(format!(
            "request {request} is {}: {} of {} online, {} failed, {} cancelled",
            match record.state {
                RequestState::Filling => "still being filled",
                RequestState::Active => "waiting",
                RequestState::Completed => "complete",
                RequestState::Cancelled => "cancelled",
                RequestState::Cancelling => "being cancelled",
                RequestState::Forgetting => "being deleted",
            },
            Count(u64::from(record.done)),
            files_text(u64::from(record.files)),
            Count(u64::from(record.failed)),
            Count(u64::from(record.cancelled))
        ))];
        let has_ended = matches!(record.state, RequestState::Completed | RequestState::Cancelled);
        if has_ended && record.failed == 0 {
            return Ok(reasons);
        }
        let failed = self.failures_of_request(request)?;
        if has_ended {
            reasons.extend(failed);
            return Ok(reasons);
        }
        let mut in_request = room.reasons_in_request(request, &record);
        if let Some(first) = reasons.first_mut() {
            first.expected = self.outlook_of(request, &record, &mut in_request)?.expected;
        }
        let items = room.read(|view| view.request_items(request, 0, WAITING_LOOKED_AT_MAX))?;
        let mut told: Vec<Cause> = Vec::new();
        for (_, item) in items.iter().filter(|(_, item)| item.state.waits()) {
            let (text, reason) = match recall_reason(room, item.file)? {
                (_, Some(reason)) => {
                    let reason = in_request.of(reason)?;
                    (reason.to_string(), Some(reason))
                }
                unknown => unknown,
            };
            if told.iter().all(|cause| cause.text != text) {
                told.push(Cause { text, reason, expected: None });
            }
            if told.len() >= WAITING_TOLD_MAX {
                break;
            }
        }
        reasons.extend(told);
        reasons.extend(failed);
        Ok(reasons)
    }

    /// Why files of a request failed, like ones together.
    fn failures_of_request(&self, request: RequestId) -> Result<Vec<Cause>, ArchiveError> {
        let (files, _) = self.request_files(request, 0, WAITING_LOOKED_AT_MAX)?;
        let mut told: Vec<(Cause, String, u64)> = Vec::new();
        for file in files {
            let (ItemState::Failed(text), Some(failure)) = (file.state, file.failure) else { continue };
            let reason = (failure == ItemFailure::Lost).then_some(Reason::Lost);
            let is_alike =
                |(cause, ..): &&mut (Cause, String, u64)| cause.text == text && cause.reason == reason;
            if let Some((.., count)) = told.iter_mut().find(is_alike) {
                *count += 1;
            } else if told.len() < WAITING_TOLD_MAX {
                told.push((Cause { text, reason, expected: None }, file.path, 1));
            }
        }
        let in_words = |(cause, first, count): (Cause, String, u64)| {
            let what = match count {
                1 => format!("{first} failed"),
                count => format!("{} files failed, {first} among them", Count(count)),
            };
            Cause { text: format!("{what}: {}", cause.text), ..cause }
        };
        Ok(told.into_iter().map(in_words).collect())
    }
}

fn files_text(files: u64) -> String {
    match files {
        1 => "1 file".to_owned(),
        files => format!("{} files", Count(files)),
    }
}

/// Whether nothing is wanted of what is asked about.
fn is_idle(reason: &Reason) -> bool {
    matches!(reason, Reason::NothingWaits | Reason::InSlot | Reason::KeptMounted { .. })
}

fn texts(causes: Vec<Cause>) -> Vec<String> {
    causes.into_iter().map(|cause| cause.text).collect()
}

/// A reason in the scheduler's words and others.
fn cause(text: String, reason: Reason) -> Cause {
    Cause { text, reason: Some(reason), expected: None }
}

/// A reason that is none of the scheduler's.
fn said(text: String) -> Cause {
    Cause { text, reason: None, expected: None }
}

fn recall_reason(room: &Tape, file: FileId) -> Result<(String, Option<Reason>), ArchiveError> {
    let reason = room.reason(Waiting::Recall(file))?;
    Ok(match &reason {
        Some(known) => (known.to_string(), reason),
        None => ("the file has just come, or the scheduler is about to hear of it".to_owned(), None),
    })
}

fn why_file(room: &Tape, path: &ArchivePath, file: FileId) -> Result<Vec<Cause>, ArchiveError> {
    let silent = room.pool.silent_drives();
    let (record, stat, containers, wants, missing) = room.read(|view| {
        let record = view.file(file)?;
        let stat = match &record {
            Some(record) => Some(namespace::file_stat(room, view, path, file, record.clone())?),
            None => None,
        };
        let mut containers = Vec::new();
        for (id, _) in view.parts(file)? {
            containers.push((id, view.container(id)?));
        }
        let missing = match &record {
            Some(record) => namespace::missing_for(room, view, record, &silent)?,
            None => BTreeSet::new(),
        };
        Ok((record, stat, containers, view.wants(file)?, missing))
    })?;
    let (Some(record), Some(stat)) = (record, stat) else {
        return Err(ArchiveError::NotFound(path.clone()));
    };
    let mut reasons = Vec::new();
    if !missing.is_empty() {
        reasons.push(said(upkeep::refused(&stat, missing).to_string()));
    }
    if !wants.is_empty() {
        let (text, reason) = recall_reason(room, file)?;
        let expected = room.expected_of_file(file, reason.as_ref());
        let has_come = |container: &Option<ContainerRecord>| {
            let record = container.as_ref();
            record.is_some_and(|record| record.kind != ContainerKind::Pack && record.image.is_some())
        };
        let come = containers.iter().filter(|(_, container)| has_come(container)).count();
        let text = match (come, containers.len()) {
            (_, 0 | 1) => format!("recall: {text}"),
            (come, parts) => format!("recall: {come} of {parts} parts are in the pool; {text}"),
        };
        reasons.push(Cause { text, reason, expected });
    }
    let is_lost = record.is_lost();
    if is_lost {
        let expected = Some(Expected::Never(Reason::Lost));
        reasons.push(Cause { expected, ..cause(Reason::Lost.to_string(), Reason::Lost) });
    } else if containers.is_empty() && stat.copies_wanted > 0 && record.has_data() {
        let reason = room.reason(Waiting::Seal(record.class))?;
        let reason = reason.unwrap_or(Reason::NothingWaits);
        let expected = room.expected(Some(&reason), |forecast| forecast.of_class(record.class));
        let text = format!("not in a container yet: {reason}");
        reasons.push(Cause { text, reason: Some(reason), expected });
    }
    for (id, container) in containers {
        let Some(container) = container else { continue };
        // A pack is sealed anew without its lost members.
        if container.copies.is_empty() && !is_lost {
            reasons.push(said("being sealed into a pack".to_owned()));
        }
        for copy in &container.copies {
            let pool = room.classes.tape_pool_name(copy.tape_pool);
            reasons.extend(match copy.state {
                CopyState::Queued => {
                    let why = why_queued(room, id, container.length, copy.tape_pool, &pool)?;
                    // That it was tried in vain is true of a lost file too; that it goes to tape is not.
                    (!is_lost || matches!(why.reason, Some(Reason::Resting { .. }))).then_some(why)
                }
                CopyState::Planned { vid, .. } => Some(match room.reason(Waiting::Planned(vid))? {
                    Some(Reason::Writing { .. }) => said(format!("copy in {pool}: being written to {vid}")),
                    None => match room.why_not_closed(vid)? {
                        Reason::NothingWaits => said(format!(
                            "copy in {pool}: begun on {vid}, whose session was cut short: the tape is \
                             mounted next to see what of it is whole there"
                        )),
                        reason => cause(format!("copy in {pool}, begun on {vid}: {reason}"), reason),
                    },
                    Some(reason) => cause(format!("copy in {pool}, begun on {vid}: {reason}"), reason),
                }),
                CopyState::Flushed { vid, .. } => {
                    let text = format!(
                        "copy in {pool}: safe on {vid}, waits for the next index there, which comes by \
                         bytes, when the tape leaves its drive, or at once when something waits for room in \
                         the pool"
                    );
                    Some(said(text))
                }
                CopyState::Indexed { .. } => None,
            });
        }
    }
    if reasons.is_empty() {
        reasons.push(why_nothing(path, stat.locality));
    }
    Ok(reasons)
}

/// Nothing waits; what is there then.
fn why_nothing(path: &ArchivePath, locality: Locality) -> Cause {
    said(match locality {
        Locality::Nearline => format!("nothing waits: it is NEARLINE; to read it: kist stage {path}"),
        Locality::Lost => "no copy of it can be read".to_owned(),
        Locality::Online | Locality::OnlineAndNearline => "nothing waits: it is online".to_owned(),
    })
}

/// Why a container is not written to a tape of a pool yet.
fn why_queued(
    room: &Tape,
    id: ContainerId,
    length: ByteCount,
    tape_pool: TapePoolId,
    pool: &str,
) -> Result<Cause, ArchiveError> {
    let reason = room.reason(Waiting::Copy(id, length, tape_pool))?.unwrap_or(Reason::NothingWaits);
    let text = match &reason {
        Reason::Resting { until, cause } => format!("copy in {pool}: left alone until {until}: {cause}"),
        reason => format!("copy in {pool}: {reason}"),
    };
    let expected = match &reason {
        Reason::Resting { .. } | Reason::LargerThanTapes { .. } => None,
        _ => room.expected(Some(&reason), |forecast| forecast.of_tape_pool(tape_pool)),
    };
    Ok(Cause { text, reason: Some(reason), expected })
}

/// A refusal in words.
#[must_use]
pub fn refusal_text(refusal: &EvictRefusal) -> Cow<'static, str> {
    let text = match refusal {
        EvictRefusal::NotFound => "there is no such file",
        EvictRefusal::Lost => "it is lost: no copy of it can be read",
        EvictRefusal::NotOnline => "it is not in the pool",
        EvictRefusal::NoData => "it has no bytes and is always online",
        EvictRefusal::DiskOnly => "its class has no tape copies",
        EvictRefusal::NotSafeOnTape => {
            "not all of its tape copies are under a synced index yet: kist why tells"
        }
        EvictRefusal::Pinned => "a request holds it: release it first",
        EvictRefusal::NotSettled => {
            "the restore of the catalogue is not settled, not all tapes were looked at yet: see kist status"
        }
        EvictRefusal::TapesSetAside(vids) => {
            let vids: Vec<_> = vids.iter().map(Vid::to_string).collect();
            return Cow::Owned(format!(
                "its copies are on tapes that are suspect or disabled ({}): only the pool can give it now",
                vids.join(", ")
            ));
        }
        EvictRefusal::KeyMissing(vids) => {
            let vids: Vec<_> = vids.iter().map(Vid::to_string).collect();
            return Cow::Owned(format!(
                "its copies are on tapes whose key is missing ({}): only the pool can give it now; kist \
                 status names the key, give it where kist.toml says",
                vids.join(", ")
            ));
        }
        EvictRefusal::NotInLibrary(vids) => {
            let vids: Vec<_> = vids.iter().map(Vid::to_string).collect();
            return Cow::Owned(format!(
                "no library holds the tapes that have it ({}): only the pool can give it now",
                vids.join(", ")
            ));
        }
    };
    Cow::Borrowed(text)
}
