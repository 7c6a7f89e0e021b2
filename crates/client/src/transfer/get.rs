//! Files of the archive to here.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use terminal::{Exit, Failure, Outcome, Progress, parallel, text};

use super::hashing::Hasher;
use super::put::hash_file;
use super::remote::{RemoteItem, RemoteKind};
use super::{CHUNK_BYTES, Tally, attributes};
use crate::request::{Attempt, Client, retry};

/// How often a temporary file is opened anew that got its name meanwhile.
const PART_ATTEMPTS: u32 = 3;

/// Something of the archive and where it goes.
#[derive(Clone, Debug)]
pub struct GetItem {
    /// What.
    pub remote: RemoteItem,
    /// Where.
    pub local: PathBuf,
}

/// A get of many files.
pub struct Getter<'a> {
    /// The server.
    pub client: &'a Client,
    /// Threads.
    pub jobs: usize,
    /// Fetch everything, whatever is there.
    pub again: bool,
    /// Shown meanwhile.
    pub progress: &'a Progress,
    /// Counted.
    pub tally: &'a Tally,
}

impl Getter<'_> {
    /// Makes the directories, parents first, open to us until the files are in them.
    pub fn make_directories(&self, directories: &[GetItem]) {
        for item in directories {
            if let Err(error) = fs::create_dir_all(&item.local) {
                let failure = Failure::io("making the directory", &item.local, &error);
                self.tally.add_failure(&item.remote.path, failure);
            }
        }
    }

    /// Gets files and links.
    pub fn files(&self, files: &[GetItem]) {
        parallel::each(files, self.jobs, &self.tally.stop, |item| {
            match self.file(item) {
                Ok(true) => self.tally.add_done(item.remote.size),
                Ok(false) => {
                    self.tally.add_skipped();
                    self.progress.add_bytes(item.remote.size);
                }
                Err(failure) => self.tally.add_failure(&item.remote.path, failure),
            }
            self.progress.add_files(1);
        });
    }

    /// Gives directories their modes and times, the deepest first.
    pub fn finish_directories(&self, directories: &[GetItem]) {
        for item in directories.iter().rev() {
            if let Err(error) =
                attributes::restore_directory(&item.local, &item.remote.mode, item.remote.mtime)
            {
                let failure = Failure::io("setting mode and time", &item.local, &error);
                self.tally.add_failure(&item.remote.path, failure);
            }
        }
    }

    /// Gets a file or link; `false` if it is here already.
    fn file(&self, item: &GetItem) -> Outcome<bool> {
        let local = &item.local;
        match &item.remote.kind {
            RemoteKind::Link(target) => {
                if !self.again
                    && fs::read_link(local).is_ok_and(|here| here.as_os_str().as_bytes() == target.as_bytes())
                {
                    return Ok(false);
                }
                make_link(target, local, item)?;
                Ok(true)
            }
            RemoteKind::Directory => Ok(false),
            RemoteKind::File if is_special(local) => {
                self.fetch_into(item)?;
                Ok(true)
            }
            RemoteKind::File => {
                if !self.again && self.is_here(item)? {
                    return Ok(false);
                }
                let (temporary, file) = open_part(local)?;
                let fetched = self.fetch(item, &temporary, file);
                if fetched.is_err() {
                    let _ = fs::remove_file(&temporary);
                }
                fetched?;
                Ok(true)
            }
        }
    }

    fn fetch(&self, item: &GetItem, temporary: &Path, mut file: File) -> Outcome {
        let failed = |error: std::io::Error| Failure::io("writing", &item.local, &error);
        retry(|_| {
            use std::io::Seek;
            let restart = file.set_len(0).and_then(|()| file.rewind());
            restart.map_err(|error| Attempt::last(failed(error)))?;
            download_to(self.client, &item.remote.path, &mut file, self.progress)
        })?;
        attributes::restore_file(&file, &item.remote.mode, item.remote.mtime).map_err(failed)?;
        // The file is locked until it has its name; see `open_part`.
        fs::rename(temporary, &item.local).map_err(failed)
    }

    /// Writes to a device or a pipe, which stays what it is.
    fn fetch_into(&self, item: &GetItem) -> Outcome {
        let opened = OpenOptions::new().write(true).open(&item.local);
        let mut file = opened.map_err(|error| Failure::io("writing", &item.local, &error))?;
        // Once only: what went into a pipe cannot be taken back.
        let fetched = download_to(self.client, &item.remote.path, &mut file, self.progress);
        fetched.map(drop).map_err(|attempt| attempt.failure)
    }

    fn is_here(&self, item: &GetItem) -> Outcome<bool> {
        let Some(theirs) = &item.remote.blake3 else { return Ok(false) };
        let same_size = fs::symlink_metadata(&item.local)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == item.remote.size);
        Ok(same_size && hash_file(&item.local)?.blake3().to_string() == *theirs)
    }
}

/// Streams a file of the archive to `output` and checks length and BLAKE3 against what the server announced.
pub fn download_to(
    client: &Client,
    path: &str,
    output: &mut dyn Write,
    progress: &Progress,
) -> Result<Hasher, Attempt> {
    let response = client.send_get(&format!("/data{}", text::encode_path(path)), &[])?;
    let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let (blake3, length) =
        (header("kist-blake3"), header("content-length").and_then(|v| v.parse::<u64>().ok()));
    let mut body = response.into_body().into_reader();
    let mut hasher = Hasher::new();
    let mut buffer = vec![0u8; CHUNK_BYTES];
    loop {
        let count = body.read(&mut buffer).map_err(|error| {
            progress.take_bytes(hasher.bytes());
            broken_off(path, hasher.bytes(), &error)
        })?;
        if count == 0 {
            break;
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        hasher.update(bytes);
        progress.add_bytes(count as u64);
        let written = output.write_all(bytes);
        written.map_err(|error| Attempt::last(Failure::internal(format!("{path}: writing: {error}"))))?;
    }
    let size = length.unwrap_or(hasher.bytes());
    if let Some(blake3) = blake3 {
        hasher.agrees(path, size, &blake3, None).map_err(Attempt::last)?;
    }
    Ok(hasher)
}

/// The server breaks the connection when what it reads fails its checksum; so does a network.
pub fn broken_off(path: &str, bytes: u64, error: &std::io::Error) -> Attempt {
    let message = format!(
        "{path}: the server broke off after {bytes} bytes ({error}): if that repeats, \
         see why in the server's log"
    );
    Attempt::after(std::time::Duration::from_millis(200), Failure::internal(message))
}

fn make_link(target: &str, local: &Path, item: &GetItem) -> Outcome {
    let failed = |error: std::io::Error| Failure::io("making the link", local, &error);
    let temporary = part_name(local);
    remove_if_there(&temporary).map_err(failed)?;
    std::os::unix::fs::symlink(target, &temporary).map_err(failed)?;
    let done =
        attributes::restore_link(&temporary, item.remote.mtime).and_then(|()| fs::rename(&temporary, local));
    done.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

/// The temporary name of `local`, in its directory, so that a rename brings the file there whole. It is the
/// same each time: a get after one that was killed takes up what that left behind.
fn part_name(local: &Path) -> PathBuf {
    let name = local.file_name().unwrap_or_default().as_bytes();
    let hash = base::Blake3::of(name);
    let digits = text::hex(hash.0.get(..8).unwrap_or_default());
    local.parent().unwrap_or(Path::new("")).join(format!(".kist-part-{digits}"))
}

/// Opens the temporary file of `local`, empty or with what an earlier get left, and locks it, so that two
/// gets of one file never write into each other's.
fn open_part(local: &Path) -> Outcome<(PathBuf, File)> {
    let path = part_name(local);
    let failed = |error: std::io::Error| Failure::io("writing", local, &error);
    for _ in 0..PART_ATTEMPTS {
        if fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            remove_if_there(&path).map_err(failed)?;
        }
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).custom_flags(flags);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => break,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The file may have got its name between opening and locking: then it is the target, not the part.
        let inode = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
        let ours = inode(&file.metadata().map_err(failed)?);
        if fs::symlink_metadata(&path).is_ok_and(|named| inode(&named) == ours) {
            return Ok((path, file));
        }
    }
    Err(Failure::new(Exit::Refused, format!("{}: another kist get writes this file now", local.display())))
}

/// Whether something other than a file, link or directory is there, such as /dev/null: a file that takes its
/// name would take its place.
fn is_special(local: &Path) -> bool {
    fs::metadata(local).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_get_left_is_taken_up_by_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let local = directory.path().join("f");
        let (path, first) = open_part(&local).unwrap();
        assert_eq!(open_part(&local).err().map(|failure| failure.exit), Some(Exit::Refused));
        assert_ne!(part_name(&directory.path().join("g")), path);
        drop(first);
        assert_eq!(open_part(&local).unwrap().0, path);
        // A link in its place is not followed.
        fs::remove_file(&path).unwrap();
        fs::write(&local, "kept").unwrap();
        std::os::unix::fs::symlink(&local, &path).unwrap();
        let (_, file) = open_part(&local).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(fs::read(&local).unwrap(), b"kept");
    }
}
