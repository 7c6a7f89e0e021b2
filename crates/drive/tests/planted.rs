//! That the tests of the queue can catch a sync that is told of before it is done. In a program of its own:
//! what is planted is so in the whole process.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use base::planted::{Bug, plant};
use base::{BlobId, ByteCount, DriveId, Uuid};
use drive::{
    AlignedBuffer, DirectIo, DirectoryDrive, DriveError, DriveIo, ExtentId, ObjectDrive, PAGE,
    WriteOperation, WriteStep,
};

const INSTANCE: Uuid = Uuid([1; 16]);

struct Write {
    bytes: Option<AlignedBuffer>,
    told: Sender<Result<(), DriveError>>,
}

impl WriteOperation for Write {
    fn step(&self) -> WriteStep<'_> {
        self.bytes.as_ref().map_or(WriteStep::Sync, |bytes| WriteStep::Append(bytes.as_slice()))
    }

    fn done(self: Box<Self>, result: Result<(), DriveError>) {
        let _ = self.told.send(result);
    }
}

/// What is said of the sync of an extent that has lost its name meanwhile.
fn sync_without_a_name() -> Result<(), DriveError> {
    let directory = tempfile::tempdir().unwrap();
    DirectoryDrive::format(directory.path(), INSTANCE, DriveId(1)).unwrap();
    let drive = DirectoryDrive::open(directory.path(), INSTANCE, DriveId(1), DirectIo::Auto).unwrap();
    let drive = drive.driven_by(DriveIo::Uring).unwrap();
    let id = ExtentId { blob: BlobId(1), stripe: 0, shard: 0 };
    let mut extent = drive.queue().unwrap().extent(id, ByteCount(0), false);
    let (told, results) = mpsc::channel();
    let next = || results.recv_timeout(Duration::from_secs(120)).unwrap();
    extent.submit(Box::new(Write { bytes: Some(AlignedBuffer::new(PAGE)), told: told.clone() }));
    next().unwrap();
    std::fs::remove_file(directory.path().join(format!("extents/01/{id}"))).unwrap();
    extent.submit(Box::new(Write { bytes: None, told }));
    next()
}

#[test]
fn a_sync_that_is_not_awaited_is_caught() {
    if drive::io_uring().is_err() {
        return;
    }
    assert!(matches!(sync_without_a_name(), Err(DriveError::Io { operation: "sync", .. })));
    plant(Some(Bug::EarlyQueuedSync));
    assert!(sync_without_a_name().is_ok(), "planted, it acknowledges what is lost");
    plant(None);
}
