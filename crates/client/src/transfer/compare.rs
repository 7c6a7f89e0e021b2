//! Local files against those of the archive, byte for byte.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use terminal::{Exit, Failure, Outcome, Progress, parallel, text};

use super::get::broken_off;
use super::local::{LocalItem, LocalKind};
use super::{CHUNK_BYTES, Tally};
use crate::request::{Attempt, Client, retry};

/// A local file or link and its counterpart.
#[derive(Clone, Debug)]
pub struct ComparePair {
    /// Here.
    pub local: PathBuf,
    /// In the archive.
    pub remote: String,
    /// Bytes.
    pub size: u64,
    /// The target if it is a symbolic link here.
    pub link: Option<String>,
}

impl ComparePair {
    /// A local item and the path of its counterpart.
    pub fn new(local: &LocalItem, remote: String) -> Self {
        let link = match &local.kind {
            LocalKind::Link(target) => Some(target.clone()),
            LocalKind::File | LocalKind::Directory => None,
        };
        ComparePair { local: local.path.clone(), remote, size: local.size, link }
    }
}

/// Compares all pairs; what differs is a failure with [`Exit::Differs`].
pub fn compare_all(client: &Client, pairs: &[ComparePair], jobs: usize, progress: &Progress, tally: &Tally) {
    parallel::each(pairs, jobs, &tally.stop, |pair| {
        match compare(client, pair, progress) {
            Ok(()) => tally.add_done(pair.size),
            Err(failure) => tally.add_failure(&pair.remote, failure),
        }
        progress.add_files(1);
    });
}

fn compare(client: &Client, pair: &ComparePair, progress: &Progress) -> Outcome {
    if let Some(link) = &pair.link {
        let stat = client.stat(&pair.remote)?;
        return match stat.target {
            Some(target) if target == *link => Ok(()),
            _ => Err(differs(pair, "the link's target is another")),
        };
    }
    let missing = |failure: Failure| match failure.exit {
        Exit::NotFound => differs(pair, "it is not in the archive"),
        _ => failure,
    };
    retry(|_| compare_bytes(client, pair, progress)).map_err(missing)
}

fn compare_bytes(client: &Client, pair: &ComparePair, progress: &Progress) -> Result<(), Attempt> {
    let mut file = open(&pair.local).map_err(Attempt::last)?;
    let response = client.send_get(&format!("/data{}", text::encode_path(&pair.remote)), &[])?;
    let mut body = response.into_body().into_reader();
    let (mut theirs, mut ours) = (vec![0u8; CHUNK_BYTES], vec![0u8; CHUNK_BYTES]);
    let mut at = 0u64;
    loop {
        let count = body.read(&mut theirs).map_err(|error| {
            progress.take_bytes(at);
            broken_off(&pair.remote, at, &error)
        })?;
        let here = read_up_to(&mut file, ours.get_mut(..count.max(1)).unwrap_or_default())
            .map_err(|error| Attempt::last(Failure::io("reading", &pair.local, &error)))?;
        if here != count {
            let what = format!("it has another length: they part at byte {}", at + here.min(count) as u64);
            return Err(Attempt::last(differs(pair, &what)));
        }
        if count == 0 {
            return Ok(());
        }
        let parts = theirs.iter().zip(&ours).take(count).position(|(a, b)| a != b);
        if let Some(position) = parts {
            let what = format!("they differ at byte {}", at + position as u64);
            return Err(Attempt::last(differs(pair, &what)));
        }
        at += count as u64;
        progress.add_bytes(count as u64);
    }
}

fn open(path: &Path) -> Outcome<File> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(Failure::new(Exit::Differs, format!("{}: it is a directory here", path.display())))
        }
        _ => File::open(path).map_err(|error| Failure::io("opening", path, &error)),
    }
}

/// Reads until the buffer is full or the file ends.
fn read_up_to(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

fn differs(pair: &ComparePair, what: &str) -> Failure {
    Failure::new(Exit::Differs, format!("{} and {} differ: {what}", pair.local.display(), pair.remote))
}
