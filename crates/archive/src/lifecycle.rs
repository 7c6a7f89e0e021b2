//! What buckets have done with objects as time passes.
//!
//! Each rule has a cursor over all files in the order of their ids, which is that of their ingest: it goes on
//! as far as files are old enough, so that a rule looks at each file once, and a turn in which nothing came
//! of age reads one row a rule. What comes below a bucket later by a rename has been passed by.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration as Patience;

use base::{ArchivePath, Blake3, DirId, Duration, FileId, Name, Timestamp};
use catalogue::{Command, Entry, FileRecord, FileState, LifecycleCursor, ReadError, View};

use crate::{Archive, ArchiveError, BucketInfo, LifecycleRule, UploadError};
use ground::Worker;

/// Files looked at between two steps of a cursor.
const PAGE: usize = 1_000;
/// How often rules are looked at without being asked.
const LOOK_EVERY: Patience = Patience::from_secs(10);
/// Directories remembered within a step.
const DIRECTORIES_MAX: usize = 10_000;

/// What a rule does with one object; the number stands in the cursor's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Transition = 0,
    Expiration = 1,
}

/// A rule's action with all that it needs.
struct Task<'b> {
    bucket: &'b BucketInfo,
    dir: DirId,
    rule: &'b LifecycleRule,
    action: Action,
    age: Duration,
    class: &'b str,
}

/// The thread of the lifecycle rules.
pub(crate) fn run(archive: &Archive, me: &Worker) {
    let engine = &*archive.0.ground;
    while !engine.stop.load(Ordering::Relaxed) {
        me.does("carrying out rules");
        if !engine.settled.holds_pool()
            && let Err(error) = turn(archive)
        {
            tracing::error!(%error, "lifecycle rules were not carried out; they are tried again");
            me.failed(&error);
        }
        me.rests();
        if !engine.stop.load(Ordering::Relaxed) {
            engine.lifecycle.wait(LOOK_EVERY);
        }
    }
}

/// Carries out all that is due.
fn turn(archive: &Archive) -> Result<(), ArchiveError> {
    for bucket in archive.buckets()? {
        if !bucket.settings.lifecycle.iter().any(|rule| rule.enabled) {
            continue;
        }
        let dir = match archive.0.ground.read(|view| view.entry(DirId::ROOT, &bucket.name))? {
            Some(Entry::Directory(dir)) => dir,
            _ => continue,
        };
        for rule in bucket.settings.lifecycle.iter().filter(|rule| rule.enabled) {
            let task = |action, age, class| Task { bucket: &bucket, dir, rule, action, age, class };
            if let Some((age, class)) = &rule.transition {
                advance(archive, &task(Action::Transition, *age, class))?;
            }
            if let Some(age) = rule.expiration {
                advance(archive, &task(Action::Expiration, age, ""))?;
            }
        }
        give_up_uploads(archive, &bucket)?;
    }
    Ok(())
}

/// Gives up uploads in parts that were begun long ago: looks at those that are old enough, oldest first.
fn give_up_uploads(archive: &Archive, bucket: &BucketInfo) -> Result<(), ArchiveError> {
    let engine = &*archive.0.ground;
    let rules = bucket.settings.lifecycle.iter().filter(|rule| rule.enabled);
    for (rule, age) in rules.filter_map(|rule| rule.abort_uploads.map(|age| (rule, age))) {
        let before = earlier(engine.now(), age);
        let mut after = None;
        while !engine.stop.load(Ordering::Relaxed) {
            let page = archive.multiparts_before(before, after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(last.upload);
            for upload in page {
                let mine = upload.path.as_str().strip_prefix(&format!("/{}/", bucket.name));
                if mine.is_some_and(|key| key.starts_with(&rule.prefix)) {
                    match archive.abort_multipart(upload.upload) {
                        Ok(()) | Err(ArchiveError::Upload(UploadError::NoSuchUpload(_))) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
    Ok(())
}

fn earlier(now: Timestamp, age: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX)))
}

/// Goes on through the files as far as they are old enough.
fn advance(archive: &Archive, task: &Task<'_>) -> Result<(), ArchiveError> {
    let engine = &*archive.0.ground;
    let digest = task.digest();
    let (id, action) = (task.rule.id.as_str(), task.action as u8);
    let known = engine.read(|view| view.lifecycle_cursor(task.dir, id, action))?;
    let mut through = known.filter(|cursor| cursor.rule == digest).map(|cursor| cursor.through);
    while !engine.stop.load(Ordering::Relaxed) {
        let now = engine.now();
        let due = engine.read(|view| match task.stands(view)? {
            true => task.due(view, through, now),
            false => Ok((Vec::new(), None)),
        })?;
        let (mine, Some(last)) = due else { return Ok(()) };
        for file in mine {
            // The next start of the rule would be stopped by the same file.
            if let Err(error) = task.perform(archive, file) {
                let (bucket, rule) = (&task.bucket.name, &task.rule.id);
                tracing::warn!(%error, %bucket, rule, %file, "a lifecycle rule passes over this file");
            }
        }
        through = Some(last);
        let cursor = Some(LifecycleCursor { rule: digest, through: last });
        let rule = task.rule.id.clone();
        engine.execute(Command::SetLifecycleCursor { dir: task.dir, rule, action, cursor })?;
    }
    Ok(())
}

impl Task<'_> {
    /// What the rule says, in few bytes: another one begins anew.
    fn digest(&self) -> [u8; 16] {
        let text = format!("{}\0{}\0{}", self.age.as_nanos(), self.class, self.rule.prefix);
        let Blake3(hash) = Blake3::of(text.as_bytes());
        std::array::from_fn(|at| hash[at])
    }

    /// Whether the bucket has the rule yet: a pass over many files takes long, and whoever takes a rule back
    /// wants it to end.
    fn stands(&self, view: &View<'_>) -> Result<bool, ReadError> {
        let bucket = view.bucket(self.dir)?;
        Ok(bucket.is_some_and(|bucket| bucket.settings.lifecycle.contains(self.rule)))
    }

    /// Of the next files those that are old enough and the rule's, and the last one that was looked at;
    /// `None` if none is old enough.
    fn due(
        &self,
        view: &View<'_>,
        after: Option<FileId>,
        now: Timestamp,
    ) -> Result<(Vec<FileId>, Option<FileId>), ReadError> {
        let mut directories: HashMap<DirId, Option<String>> = HashMap::new();
        let (mut mine, mut last) = (Vec::new(), None);
        let clock = view.clock()?;
        for (id, record) in view.files(after, PAGE)? {
            if clock.age_from(id, record.created).plus(self.age) > now {
                break;
            }
            last = Some(id);
            if self.applies(view, &mut directories, &record)? {
                mine.push(id);
            }
        }
        Ok((mine, last))
    }

    fn applies(
        &self,
        view: &View<'_>,
        directories: &mut HashMap<DirId, Option<String>>,
        record: &FileRecord,
    ) -> Result<bool, ReadError> {
        if record.state != FileState::Live {
            return Ok(false);
        }
        if directories.len() > DIRECTORIES_MAX {
            directories.clear();
        }
        let above = match directories.get(&record.parent) {
            Some(above) => above.clone(),
            None => {
                let above = view.path_of_directory(record.parent)?;
                let above = above.and_then(|path| key_below(&path, &self.bucket.name));
                directories.insert(record.parent, above.clone());
                above
            }
        };
        Ok(above.is_some_and(|above| format!("{above}{}", record.name).starts_with(&self.rule.prefix)))
    }

    /// Does to a file what the rule says, if it still is what its name stands for.
    fn perform(&self, archive: &Archive, file: FileId) -> Result<(), ArchiveError> {
        let engine = &*archive.0.ground;
        let found = engine.read(|view| {
            let record = view.file(file)?.filter(|record| record.state == FileState::Live);
            let Some(record) = record else { return Ok(None) };
            let is_current = view.entry(record.parent, &record.name)? == Some(Entry::File(file));
            let is_cold = view.is_cold(record.class)?;
            Ok(view.path_of_file(file)?.filter(|_| is_current).map(|path| (path, record.class, is_cold)))
        })?;
        let Some((path, class, is_cold)) = found else { return Ok(()) };
        match self.action {
            Action::Transition => {
                let to = engine.classes.by_name(self.class)?.id;
                // Nothing is ever brought back by a rule.
                if class != to && !is_cold { archive.0.tape.change_class_of(file, to) } else { Ok(()) }
            }
            Action::Expiration => {
                let path = ArchivePath::new(&path)?;
                // By its id, since the name may stand for a younger file by now, and whether the bucket keeps
                // versions may have changed.
                match archive.0.namespace.remove_if_current(&path, file) {
                    Ok(_) | Err(ArchiveError::NotCurrent(_)) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// What keys of files in a directory begin with; `None` if it is not in the bucket.
fn key_below(path: &str, bucket: &Name) -> Option<String> {
    let rest = path.strip_prefix('/')?.strip_prefix(bucket.as_str())?;
    match rest.strip_prefix('/') {
        Some(below) => Some(format!("{below}/")),
        None => rest.is_empty().then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_bucket_only() {
        let bucket = Name::new("logs").expect("a name");
        for (path, key) in [
            ("/logs", Some("")),
            ("/logs/a/b", Some("a/b/")),
            ("/logs2/a", None),
            ("/", None),
            ("/other/logs", None),
        ] {
            assert_eq!(key_below(path, &bucket).as_deref(), key, "{path}");
        }
    }
}
