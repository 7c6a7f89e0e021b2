//! A mixed load of many clients on the real server, which is killed and loses drives meanwhile; afterwards
//! everything that was acknowledged is read back, and tapes are read without Kist.

mod client;
mod faults;
mod finish;
mod operator;
mod report;
mod sample;
mod world;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::server::{Instance, Plan};
use world::World;

pub use report::Report;

/// Drives of the pool: eight in no group, and four in one of the code 2+2.
const DRIVES: u64 = 12;

/// How long a soak lasts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Length {
    /// So long.
    Time(Duration),
    /// Until all clients together have done so many operations.
    Operations(u64),
}

/// What a soak is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program.
    pub kist: PathBuf,
    /// Where the instance is made; must not exist.
    pub dir: PathBuf,
    /// Where the pool's drives shall lie instead, such as in memory; must not exist.
    pub pool_dir: Option<PathBuf>,
    /// How long.
    pub length: Length,
    /// Clients.
    pub clients: u64,
    /// Paths of a client in each of its directories: the fewer, the sooner a file is replaced.
    pub slots: u64,
    /// All decisions of clients and faults follow from it.
    pub seed: u64,
    /// Kills of the server.
    pub kills: u64,
    /// Losses of a drive.
    pub losses: u64,
    /// Bytes that clients put in a second, on average over the run; what is put stays on tape for ever.
    pub put_rate: u64,
    /// The most that a client waits between two operations.
    pub think: Duration,
    /// The size of a large file.
    pub large: u64,
    /// Bytes of each cartridge, as `kist init` takes them.
    pub cartridge: String,
    /// Cartridges.
    pub cartridges: u32,
    /// Whether to report progress on standard error.
    pub verbose: bool,
}

impl Settings {
    fn plan(&self) -> Plan {
        let options = [
            "--cartridges",
            &self.cartridges.to_string(),
            "--cartridge-size",
            &self.cartridge,
            "--pack-size",
            "8MiB",
            "--drives",
            &DRIVES.to_string(),
            "--data",
            "4",
            "--parity",
            "2",
        ];
        // With its marks at the bottom all that a group gets moves to the other drives soon. Every other seed
        // has the drives driven by io_uring.
        let io = if self.seed.is_multiple_of(2) { "io = \"uring\"" } else { "io = \"threads\"" };
        Plan {
            options: options.iter().map(ToString::to_string).collect(),
            settings: vec![
                ("pack_age = \"30s\"", "pack_age = \"1s\""),
                ("mount_age = \"30s\"", "mount_age = \"1s\""),
                ("flush_bytes = \"256MiB\"", "flush_bytes = \"32MiB\""),
                ("index_bytes = \"1GiB\"", "index_bytes = \"256MiB\""),
                ("retry_delay = \"5s\"", "retry_delay = \"2s\""),
                ("# io = \"auto\"", io),
                ("path = \"pool/d8\"", "path = \"pool/d8\"\ngroup = \"fast\""),
                ("path = \"pool/d9\"", "path = \"pool/d9\"\ngroup = \"fast\""),
                ("path = \"pool/d10\"", "path = \"pool/d10\"\ngroup = \"fast\""),
                ("path = \"pool/d11\"", "path = \"pool/d11\"\ngroup = \"fast\""),
                (
                    "[library]\n# `virtual`",
                    concat!(
                        "[pool.groups.fast]\ndata = 2\nparity = 2\n",
                        "high_water = \"2%\"\nlow_water = \"1%\"\n\n",
                        "[library]\n# `virtual`"
                    ),
                ),
                ("name = \"medium\"", "name = \"medium\"\npool_group = \"fast\"\npool_group_for = \"1h\""),
            ],
        }
    }
}

/// Runs a soak to its end. Violations are in the report, not an error.
///
/// # Errors
/// If the instance cannot be made or its server does not start.
pub fn run(settings: Settings) -> io::Result<Report> {
    let instance = Instance::init(&settings.kist, &settings.dir, &settings.plan())?;
    if let Some(pool) = &settings.pool_dir {
        let own = settings.dir.join("pool");
        copy_tree(&own, pool)?;
        std::fs::remove_dir_all(&own)?;
        std::os::unix::fs::symlink(pool, &own)?;
    }
    let world = Arc::new(World::new(settings, instance));
    let mut faults = faults::Faults::new(Arc::clone(&world));
    faults.start()?;
    let sampler = sample::start(&world);
    let clients: Vec<_> = (0..world.settings.clients)
        .map(|number| {
            let world = Arc::clone(&world);
            std::thread::spawn(move || client::Client::new(world, number).run())
        })
        .collect();
    faults.run();
    world.say(&format!("the load ends; {} requests are under way", world.in_flight.load(Ordering::SeqCst)));
    for client in clients {
        if client.join().is_err() {
            world.violation("a client's thread panicked".to_owned());
        }
    }
    world.say("all requests of the load have ended");
    faults.calm()?;
    let finished = finish::Finish::new(&world).run();
    world.over.store(true, Ordering::SeqCst);
    let samples = sampler.join().unwrap_or_default();
    let stopped = faults.stop();
    let tapes = finished.and_then(|finish| stopped.map(|()| finish)).map(|finish| finish.check_tapes());
    if let Err(error) = tapes {
        world.violation(format!("the end: {error}"));
    }
    Ok(Report::of(&world, &faults, samples))
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
