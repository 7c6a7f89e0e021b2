//! The way over iSCSI: our initiator on our target, over loopback.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::initiator::{Initiator, InitiatorConfig};
use iscsi::login::{DigestWish, Name};
use iscsi::pdu::Lun;
use iscsi::target::{LogicalUnits, Nexus, Server, TargetConfig};
use scsi::{Cdb, Completion, Data, Status, Transport};

use super::slices::{Work, repeat};

pub const TARGET: &str = "iqn.2026-01.org.kist:bench";
const INITIATOR: &str = "iqn.2026-01.org.kist:bench-initiator";
/// Nothing takes as long as this.
const LIMIT: Duration = Duration::from_secs(30);
/// WRITE(6) and READ(6): nobody looks at the rest of them.
const WRITE: [u8; 6] = [0x0a, 0, 0, 0, 0, 0];
const READ: [u8; 6] = [0x08, 0, 0, 0, 0, 0];
const TEST_UNIT_READY: [u8; 6] = [0; 6];

/// Takes all and gives what is in the buffer.
struct Nothing(Name);

impl LogicalUnits for Nothing {
    fn targets(&self) -> Vec<Name> {
        vec![self.0.clone()]
    }

    fn luns(&self, _: &Name) -> Vec<Lun> {
        vec![Lun::default()]
    }

    fn execute(&self, _: &Nexus, _: Lun, _: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        Completion { status: Status::Good, sense: Vec::new(), transferred: out.len().max(into.len()) }
    }

    fn execute_at_once(&self, nexus: &Nexus, lun: Lun, cdb: &Cdb, into: &mut [u8]) -> Option<Completion> {
        (cdb.operation_code() == 0).then(|| self.execute(nexus, lun, cdb, &[], into))
    }
}

/// A target, and how initiators come to it.
pub struct Way {
    server: Arc<Server>,
    digest: DigestWish,
}

impl Way {
    pub fn new(digest: DigestWish) -> Result<Way, String> {
        Way::to(Arc::new(Nothing(name(TARGET)?)), digest)
    }

    /// A target with these units.
    pub fn to(units: Arc<dyn LogicalUnits>, digest: DigestWish) -> Result<Way, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("a listener: {error}"))?;
        let mut config = TargetConfig::default();
        (config.parameters.header_digest, config.parameters.data_digest) = (digest, digest);
        let server = Server::start(listener, units, config).map_err(|error| format!("a target: {error}"))?;
        Ok(Way { server: Arc::new(server), digest })
    }

    pub fn writes(&self, length: usize) -> Result<Work, String> {
        self.commands(WRITE, length, false)
    }

    pub fn reads(&self, length: usize) -> Result<Work, String> {
        self.commands(READ, length, true)
    }

    /// How long each of so many commands without data took.
    pub fn small_commands(&self, count: u32) -> Result<Vec<Duration>, String> {
        let mut initiator = self.initiator()?;
        let cdb = command(TEST_UNIT_READY)?;
        let one = |_| {
            let begun = Instant::now();
            execute(&mut initiator, &cdb, Data::None).map(|_| begun.elapsed())
        };
        (0..count).map(one).collect()
    }

    /// A session with the unit.
    pub fn initiator(&self) -> Result<Initiator, String> {
        self.initiator_of(0)
    }

    /// A session with this unit.
    pub fn initiator_of(&self, lun: u16) -> Result<Initiator, String> {
        let lun = Lun::of(lun).ok_or("there is no such unit")?;
        let portal = self.server.address().to_string();
        let config = InitiatorConfig::new(&portal, name(INITIATOR)?, name(TARGET)?, lun);
        let mut config = config.map_err(|error| format!("an initiator: {error}"))?;
        (config.parameters.header_digest, config.parameters.data_digest) = (self.digest, self.digest);
        Initiator::new(config).map_err(|error| format!("an initiator: {error}"))
    }

    fn commands(&self, cdb: [u8; 6], length: usize, is_read: bool) -> Result<Work, String> {
        let (mut initiator, cdb) = (self.initiator()?, command(cdb)?);
        let mut buffer = vec![7; length];
        // The target lives as long as somebody measures it.
        let server = Arc::clone(&self.server);
        Ok(Box::new(move |time| {
            let _target = &server;
            repeat(time, length, || {
                let data = if is_read { Data::In(&mut buffer) } else { Data::Out(&buffer) };
                match execute(&mut initiator, &cdb, data)? {
                    moved if moved == length => Ok(()),
                    moved => Err(format!("{moved} of {length} bytes came")),
                }
            })
        }))
    }
}

fn execute(initiator: &mut Initiator, cdb: &Cdb, data: Data<'_>) -> Result<usize, String> {
    let done = initiator.execute(cdb, data, LIMIT).map_err(|error| error.to_string())?;
    Ok(done.transferred)
}

pub fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| format!("{text}: {error}"))
}

pub fn command(bytes: [u8; 6]) -> Result<Cdb, String> {
    Cdb::new(&bytes).map_err(|error| error.to_string())
}
