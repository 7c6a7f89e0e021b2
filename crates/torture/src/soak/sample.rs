//! Samples of the server's memory and of the disk, taken while the load runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::world::World;
use crate::server::{anonymous_memory, disk_use};

/// How things stand at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Seconds since the beginning.
    pub at: f64,
    /// Which life of the server.
    pub life: u64,
    /// Anonymous memory in bytes.
    pub memory: u64,
    /// Bytes of the catalogue's file on disk.
    pub catalogue: u64,
    /// Bytes of the whole instance on disk, looked at seldom.
    pub disk: u64,
    /// Requests under way.
    pub in_flight: u64,
}

const EVERY: Duration = Duration::from_secs(1);
/// Samples between two looks at the whole instance.
const DISK_EVERY: usize = 30;

pub fn start(world: &Arc<World>) -> JoinHandle<Vec<Sample>> {
    let world = Arc::clone(world);
    std::thread::spawn(move || {
        let mut samples: Vec<Sample> = Vec::new();
        while !world.over.load(Ordering::SeqCst) {
            let pid = world.pid.load(Ordering::SeqCst) as u32;
            if let Some(memory) = anonymous_memory(pid) {
                let disk = if samples.len().is_multiple_of(DISK_EVERY) {
                    disk_use(&world.settings.dir) + world.settings.pool_dir.as_deref().map_or(0, disk_use)
                } else {
                    samples.last().map_or(0, |sample| sample.disk)
                };
                samples.push(Sample {
                    at: world.began.elapsed().as_secs_f64(),
                    life: world.life.load(Ordering::SeqCst),
                    memory,
                    catalogue: disk_use(&world.settings.dir.join("catalogue/data.mdb")),
                    disk,
                    in_flight: world.in_flight.load(Ordering::SeqCst),
                });
            }
            std::thread::sleep(EVERY);
        }
        samples
    })
}
