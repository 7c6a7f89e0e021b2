//! What the paths of a call are, opened: directories, files, devices.

use std::ops::Range;
use std::path::{Path, PathBuf};

use base::ByteCount;
use disk_load::{ALIGNMENT, LOOKED_AT, Target, TargetError, TargetKind};
use serde::Serialize;
use terminal::{Exit, Failure, Outcome};

use super::args::Plan;

/// A path of the call.
pub struct Place {
    /// The file or device.
    pub target: Target,
    /// Bytes of it that are read and written.
    pub length: ByteCount,
    /// Bytes of it that have no blocks on the disk, if it is only read.
    pub holes: ByteCount,
    /// Every block of it was written by this run, so that what is read can be checked.
    pub is_stamped: bool,
    /// All of it was written at some time: the first write of a place costs the file system more than others.
    pub is_laid_out: bool,
}

/// The same for reports.
#[derive(Clone, Debug, Serialize)]
pub struct PlaceShown {
    /// As it was named.
    pub path: PathBuf,
    /// What it is.
    pub kind: &'static str,
    /// The file system; `-` of a device.
    pub file_system: String,
    /// Bytes that are read and written.
    pub bytes: u64,
    /// Whether the kernel's cache is passed by.
    pub is_direct: bool,
    /// Whether it is in memory: no disk is measured.
    pub is_in_memory: bool,
}

impl Place {
    /// For reports.
    pub fn shown(&self) -> PlaceShown {
        PlaceShown {
            path: self.target.path().to_owned(),
            kind: self.target.kind().name(),
            file_system: self.target.file_system().to_owned(),
            bytes: self.length.0,
            is_direct: self.target.is_direct(),
            is_in_memory: self.target.is_in_memory(),
        }
    }

    /// The part of its first or last bytes, those that are looked at before it is written over, that was
    /// written to: never beyond what was to be measured.
    pub fn written_end(&self, at_end: bool) -> Range<u64> {
        written_end(self.target.length(), self.length, at_end)
    }

    /// What must be said of it before its figures are read.
    pub fn warnings(&self) -> Vec<String> {
        warning(&self.target).into_iter().chain(self.warning_of_holes()).collect()
    }

    /// What is written over is filled before it is read; what is only read is read as it is.
    fn warning_of_holes(&self) -> Option<String> {
        let (path, holes) = (self.target.path().display(), self.holes);
        (holes.0 > 0).then(|| {
            format!(
                "{path}: {holes} of its {} have no blocks on the disk: it has holes, or is compressed; \
                 reading them reaches no disk, and what is measured is too fast: write it full first",
                self.target.length()
            )
        })
    }
}

/// What must be said of a target before its figures are read.
pub fn warning(target: &Target) -> Option<String> {
    let (path, file_system) = (target.path().display(), target.file_system());
    if target.is_in_memory() {
        return Some(format!("{path} is in memory ({file_system}): no disk is measured"));
    }
    (!target.is_direct()).then(|| {
        format!(
            "{path}: {file_system} does not take direct I/O, or keeps what it reads in memory: what is \
             measured is that as well"
        )
    })
}

fn written_end(whole: ByteCount, measured: ByteCount, at_end: bool) -> Range<u64> {
    let down = |bytes: u64| bytes - bytes % ALIGNMENT.0;
    let looked_at = match at_end {
        false => 0..LOOKED_AT as u64,
        true => down(whole.0.saturating_sub(LOOKED_AT as u64))..whole.0,
    };
    let end = looked_at.end.min(down(measured.0));
    looked_at.start.min(end)..end
}

/// Opens all paths; each name in `destroy` must be that of one of them.
pub fn open(paths: &[PathBuf], destroy: &[String], plan: &Plan) -> Outcome<Vec<Place>> {
    let is_named = |path: &PathBuf| destroy.iter().any(|name| names(name, path));
    if let Some(name) = destroy.iter().find(|name| !paths.iter().any(|path| names(name, path))) {
        return Err(Failure::usage(format!(
            "--destroy {name} is none of the paths to be measured, and not the serial number of one: name it \
             as a PATH, too"
        )));
    }
    paths.iter().map(|path| one(path, is_named(path), plan)).collect()
}

fn one(path: &Path, is_to_be_destroyed: bool, plan: &Plan) -> Outcome<Place> {
    if path.is_dir() {
        if is_to_be_destroyed {
            return Err(Failure::usage(format!(
                "{}: a directory is not written over: only a file or a block device is",
                path.display()
            )));
        }
        let target = Target::temporary(path, plan.bytes).map_err(failed)?;
        let length = target.length();
        return Ok(Place { target, length, holes: ByteCount(0), is_stamped: false, is_laid_out: false });
    }
    let least = plan.least();
    let target = match (plan.has_writes(), is_to_be_destroyed) {
        (true, true) => Target::open_to_destroy(path, least),
        (writes, _) => Target::open(path, least).and_then(|target| match writes {
            true => Err(TargetError::ReadOnly { path: path.to_owned(), kind: target.kind() }),
            false => Ok(target),
        }),
    };
    let target = target.map_err(failed)?;
    let length = plan.part.unwrap_or(target.length()).min(target.length());
    let holes = if is_to_be_destroyed { ByteCount(0) } else { target.holes().map_err(failed)? };
    Ok(Place { target, length, holes, is_stamped: false, is_laid_out: true })
}

/// Whether a name is that of this path: the same file, or the serial number of the disk.
pub fn names(name: &str, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |other: &Path| {
        let about = |path: &Path| std::fs::metadata(path).map(|about| (about.dev(), about.ino())).ok();
        about(other).is_some() && about(other) == about(path)
    };
    if same(Path::new(name)) {
        return true;
    }
    let Ok(device) = std::fs::canonicalize(path) else { return false };
    let Some(block) = device.strip_prefix("/dev").ok().and_then(Path::to_str) else { return false };
    let machine = probe::live(false).machine;
    let found = machine.find(block);
    found.iter().any(|at| machine.disks.get(*at).is_some_and(|disk| disk.serial.as_deref() == Some(name)))
}

/// A target that cannot be measured, for people.
pub fn failed(error: TargetError) -> Failure {
    let exit = match &error {
        TargetError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Exit::NotFound,
        TargetError::Io { .. } => Exit::Internal,
        TargetError::Kind(_) => Exit::Usage,
        _ => Exit::Refused,
    };
    Failure::new(exit, error.to_string())
}

/// Whether anything that was written over stays: what a load leaves is known again, what fio leaves is not.
pub fn is_lasting(place: &Place) -> bool {
    place.target.kind() != TargetKind::Temporary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_whole_pages_within_what_was_measured() {
        const MIB: u64 = 1 << 20;
        let part = |whole, measured, at_end| written_end(ByteCount(whole), ByteCount(measured), at_end);
        assert_eq!(part(8 * MIB, 8 * MIB, false), 0..MIB);
        assert_eq!(part(8 * MIB, 8 * MIB, true), 7 * MIB..8 * MIB);
        assert_eq!(part(8 * MIB + 100, 8 * MIB + 100, true), 7 * MIB..8 * MIB);
        assert_eq!(part(8 * MIB, 2 * MIB, true), 2 * MIB..2 * MIB, "the end was not written");
        assert_eq!(part(8 * MIB, MIB / 2, false), 0..MIB / 2);
        assert_eq!(part(5_000, 5_000, true), 0..4096);
    }
}
