//! How fast commands and blocks go through a target, in this process and over a socket of this machine:
//! `cargo run --release -p vtl --example speed [DIRECTORY]`.

use std::error::Error;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{ByteCount, Vid};
use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::Name;
use iscsi::pdu::Lun;
use iscsi::target::{Server, TargetConfig};
use library::{DriveName, Library, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use scsi::command::{Primary, Stream};
use scsi::{Command, Data, Status, Transport};
use vtl::{Options, Target};

const BLOCK: usize = 512 * 1024;
const BLOCKS: usize = 1024;
const COMMANDS: u32 = 20_000;
const LIMIT: Duration = Duration::from_secs(60);

fn measure(what: &str, unit: &mut dyn Transport) -> Result<(), Box<dyn Error>> {
    let ready = Command::from(Primary::TestUnitReady).encode()?;
    while unit.execute(&ready, Data::None, LIMIT)?.status != Status::Good {}
    let begun = Instant::now();
    for _ in 0..COMMANDS {
        unit.execute(&ready, Data::None, LIMIT)?;
    }
    println!("{what}: TEST UNIT READY {:.1} us", begun.elapsed().as_secs_f64() * 1e6 / f64::from(COMMANDS));
    let block = vec![0x5a; BLOCK];
    let mut into = vec![0; BLOCK];
    let length = BLOCK as u32;
    let rewind = Command::from(Stream::Rewind { immediate: false }).encode()?;
    let write = Command::from(Stream::Write6 { fixed: false, length }).encode()?;
    let read = Command::from(Stream::Read6 { suppress: false, fixed: false, length }).encode()?;
    for (name, is_write) in [("write", true), ("read", false)] {
        unit.execute(&rewind, Data::None, LIMIT)?;
        let begun = Instant::now();
        for _ in 0..BLOCKS {
            let data = if is_write { Data::Out(&block) } else { Data::In(&mut into) };
            let end = unit.execute(if is_write { &write } else { &read }, data, LIMIT)?;
            assert_eq!(end.status, Status::Good, "{:?}", scsi::Sense::decode(&end.sense));
        }
        let rate = (BLOCK * BLOCKS) as f64 / begun.elapsed().as_secs_f64() / 1e6;
        println!("{what}: {name} {rate:.0} MB/s");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(place)?;
    let config = VirtualLibraryConfig {
        drives: vec![DriveName::new("vdrive0")?],
        robots: 1,
        cartridges: vec![(Vid::new("KT0001")?, ByteCount::mib(1024))],
        options: VirtualCartridgeOptions { index_capacity: Some(ByteCount::mib(1024)), early_warning: None },
        drop_cache: false,
    };
    let library = VirtualLibrary::create(directory.path(), &config)?;
    library.mount(Vid::new("KT0001")?, &DriveName::new("vdrive0")?)?;
    let target = Target::new(Arc::new(library), Options::new(Name::new("iqn.2026-01.org.kist:speed")?))?;
    measure("in this process", &mut target.transport(1, "iqn.2026-01.org.kist:local")?)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = Server::start(listener, target.clone(), TargetConfig::default())?;
    let name = Name::new("iqn.2026-01.org.kist:remote")?;
    let lun = Lun::of(1).ok_or("no such unit")?;
    let portal = server.address().to_string();
    let settings = InitiatorConfig::new(&portal, name, target.options().target.clone(), lun)?;
    measure("over a socket", &mut Initiator::new(settings)?)
}
