//! The drives of a pool: one thread for writing and one for reading each, bounded queues, health and
//! counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use threads::JoinHandle;
use threads::Mutex;
use threads::mpsc::{Receiver, SyncSender, sync_channel};

use base::{BlobId, ByteCount, DriveId};
use drive::{DriveError, ObjectDrive};

use crate::config::DRIVE_QUEUE_MAX;
use crate::gather::lock;
use crate::status::DriveHealth;

/// What runs on a drive's thread.
pub(crate) type Job = Box<dyn FnOnce(&Device) + Send>;

/// A drive that is there, with its counters.
pub(crate) struct Device {
    pub(crate) drive: Arc<dyn ObjectDrive>,
    pub(crate) counters: Counters,
    health: Mutex<DriveHealth>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) damaged: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Device {
    pub(crate) fn health(&self) -> DriveHealth {
        lock(&self.health).clone()
    }

    /// Takes note of a failed write: the drive gets no new data, what it holds is still read.
    pub(crate) fn write_failed(&self, error: &DriveError) {
        count(&self.counters.errors, 1);
        let health = if error.is_full() {
            DriveHealth::Full
        } else {
            DriveHealth::Suspect { reason: error.to_string() }
        };
        let mut now = lock(&self.health);
        if !matches!(*now, DriveHealth::Suspect { .. }) {
            tracing::warn!(drive = %self.drive.id(), %error, "drive takes no new data after a failed write");
            *now = health;
        }
    }

    pub(crate) fn read_failed(&self, blob: BlobId, error: &DriveError) {
        count(&self.counters.errors, 1);
        tracing::warn!(drive = %self.drive.id(), %blob, %error, "read failed");
    }

    /// Space came free: a full drive may be tried again.
    pub(crate) fn space_freed(&self) {
        let mut health = lock(&self.health);
        if *health == DriveHealth::Full {
            *health = DriveHealth::Up;
        }
    }

    /// Reads and counts.
    pub(crate) fn read(&self, id: drive::ExtentId, offset: u64, into: &mut [u8]) -> Result<(), DriveError> {
        self.drive.read_at(id, ByteCount(offset), into)?;
        count(&self.counters.bytes_read, into.len());
        Ok(())
    }
}

/// A place in the pool's drive list.
pub(crate) struct PoolDrive {
    pub(crate) id: DriveId,
    /// Cells that other drives had to stand in for; counted for missing drives too.
    pub(crate) reconstructions: Arc<AtomicU64>,
    /// `None` if the drive is missing.
    pub(crate) present: Option<Present>,
}

pub(crate) struct Present {
    pub(crate) device: Arc<Device>,
    writes: Option<SyncSender<Job>>,
    reads: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl PoolDrive {
    pub(crate) fn new(id: DriveId, drive: Option<Arc<dyn ObjectDrive>>) -> Self {
        let present = drive.map(|drive| {
            let device = Arc::new(Device {
                drive,
                counters: Counters::default(),
                health: Mutex::new(DriveHealth::Up),
            });
            let (writes, write_jobs) = sync_channel(DRIVE_QUEUE_MAX);
            let (reads, read_jobs) = sync_channel(DRIVE_QUEUE_MAX);
            let threads = [write_jobs, read_jobs].map(|jobs| spawn(Arc::clone(&device), jobs));
            Present { device, writes: Some(writes), reads: Some(reads), threads: threads.into() }
        });
        PoolDrive { id, reconstructions: Arc::default(), present }
    }

    pub(crate) fn device(&self) -> Option<&Arc<Device>> {
        self.present.as_ref().map(|present| &present.device)
    }

    pub(crate) fn health(&self) -> DriveHealth {
        self.device().map_or(DriveHealth::Missing, |device| device.health())
    }
}

impl Present {
    /// Queues a job behind all earlier writes of this drive; waits while the queue is full.
    pub(crate) fn write(&self, job: Job) {
        send(self.writes.as_ref(), job);
    }

    /// Queues a read.
    pub(crate) fn read(&self, job: Job) {
        send(self.reads.as_ref(), job);
    }
}

/// A dead thread drops the job, and with it the ticket that tells the waiter.
fn send(queue: Option<&SyncSender<Job>>, job: Job) {
    if let Some(queue) = queue {
        let _ = queue.send(job);
    }
}

fn spawn(device: Arc<Device>, jobs: Receiver<Job>) -> JoinHandle<()> {
    threads::spawn(move || {
        for job in jobs {
            job(&device);
        }
    })
}

impl Drop for Present {
    fn drop(&mut self) {
        self.writes = None;
        self.reads = None;
        for thread in self.threads.drain(..) {
            // A panic there has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}
