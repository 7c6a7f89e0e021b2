//! How the operations of a directory drive are done, and how many at one time: by what its device is.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How the drives of a pool that are directories are read and written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DriveIo {
    /// As it is best for the device, as far as the kernel lets us.
    #[default]
    Auto,
    /// One read and one write at a time, each by a thread that waits for it.
    Threads,
    /// By the kernel's queues, `io_uring`, as deep as is best for the device.
    Uring,
}

/// A text that is no way to drive a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("give \"auto\", \"threads\" or \"uring\"")]
pub struct DriveIoError;

impl FromStr for DriveIo {
    type Err = DriveIoError;

    fn from_str(text: &str) -> Result<Self, DriveIoError> {
        let all = [DriveIo::Auto, DriveIo::Threads, DriveIo::Uring];
        all.into_iter().find(|io| io.to_string() == text).ok_or(DriveIoError)
    }
}

impl fmt::Display for DriveIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriveIo::Auto => "auto",
            DriveIo::Threads => "threads",
            DriveIo::Uring => "uring",
        })
    }
}

impl DriveIo {
    /// The depth of the queue that a directory gets; `None`: it is driven by threads.
    pub(crate) fn depth(self, directory: &Path) -> Option<usize> {
        let device = || Device::below(directory);
        match self {
            DriveIo::Threads => None,
            DriveIo::Uring => Some(device().depth()),
            DriveIo::Auto => Some(device()).filter(|device| device.gains()).map(Device::depth),
        }
    }
}

/// What is known of the block device below a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Device {
    kind: Kind,
    /// As many as it takes at one time.
    requests_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It has an arm.
    Rotational,
    SolidState,
    /// A file system in memory or over a network, or one that spans devices and does not say which.
    Unknown,
}

impl Device {
    const UNKNOWN: Device = Device { kind: Kind::Unknown, requests_max: usize::MAX };

    fn below(directory: &Path) -> Device {
        let Ok(found) = fs::metadata(directory) else { return Device::UNKNOWN };
        let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
        Device::read(&PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
    }

    /// Reads the directory of a device in `/sys`; that of a partition lies in the one of its disk.
    fn read(directory: &Path) -> Device {
        let Ok(own) = directory.canonicalize() else { return Device::UNKNOWN };
        let disk = if own.join("queue").exists() { own } else { own.join("..") };
        let number =
            |name: &str| -> Option<usize> { fs::read_to_string(disk.join(name)).ok()?.trim().parse().ok() };
        let Some(rotational) = number("queue/rotational") else { return Device::UNKNOWN };
        // A disk whose own queue is switched off says so here.
        let limits = [number("queue/nr_requests"), number("device/queue_depth")];
        let requests_max = limits.into_iter().flatten().min().unwrap_or(usize::MAX);
        let kind = if rotational == 0 { Kind::SolidState } else { Kind::Rotational };
        Device { kind, requests_max }
    }

    /// How many reads, and how many writes, it is handed at one time.
    fn depth(self) -> usize {
        let best = match self.kind {
            Kind::SolidState => 16,
            // The pool puts what waits into runs (`pool/src/order.rs`), which it cannot do with what a disk
            // has already.
            Kind::Rotational | Kind::Unknown => 4,
        };
        best.min(self.requests_max).max(1)
    }

    /// Whether more than one operation at a time is worth its costs there: measured on solid-state disks; in
    /// memory it is not, and of disks with an arm it is not known (docs/decisions/drive-queue.md).
    fn gains(self) -> bool {
        self.kind == Kind::SolidState && self.depth() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device as `/sys` shows it.
    fn device(files: &[(&str, &str)]) -> Device {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Device::read(&directory.path().join(if files.iter().any(|(name, _)| name.starts_with("p1/")) {
            "p1"
        } else {
            "."
        }))
    }

    #[test]
    fn a_queue_is_as_deep_as_is_best_for_the_device_and_no_deeper_than_its_own() {
        let nvme = device(&[("queue/rotational", "0\n"), ("queue/nr_requests", "1023\n")]);
        assert_eq!((nvme.depth(), nvme.gains()), (16, true));
        let partition =
            device(&[("queue/rotational", "0\n"), ("queue/nr_requests", "8\n"), ("p1/start", "1")]);
        assert_eq!((partition.depth(), partition.gains()), (8, true));
        let disk =
            [("queue/rotational", "1\n"), ("queue/nr_requests", "64\n"), ("device/queue_depth", "32\n")];
        assert_eq!((device(&disk).depth(), device(&disk).gains()), (4, false));
        let alone =
            [("queue/rotational", "1\n"), ("queue/nr_requests", "64\n"), ("device/queue_depth", "1\n")];
        assert_eq!(device(&alone).depth(), 1);
        assert_eq!((Device::UNKNOWN.depth(), Device::UNKNOWN.gains()), (4, false));
        assert_eq!(Device::read(Path::new("/nowhere")), Device::UNKNOWN);
    }

    #[test]
    fn its_words_are_those_of_the_setting() {
        for io in [DriveIo::Auto, DriveIo::Threads, DriveIo::Uring] {
            assert_eq!(io.to_string().parse(), Ok(io));
        }
        assert_eq!("aio".parse::<DriveIo>(), Err(DriveIoError));
    }
}
