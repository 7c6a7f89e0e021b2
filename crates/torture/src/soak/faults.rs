//! Kills of the server and losses of drives, at moments that follow from the seed.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::operator::Operator;
use super::world::{Place, World, lock};
use super::{Length, Settings};
use crate::random::Random;
use crate::server::Server;

/// How many drives of the pool may be away at once: what its code bears, and that of the group.
const PARITY: usize = 2;
/// A run of at least so long has a middle third without kills, in which memory can be seen to stay flat.
const CALM_FROM: Duration = Duration::from_secs(600);
/// A server that does not stop within this time hangs.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
/// Nor does a scrub of everything take longer.
const MEND_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
enum Fault {
    Kill,
    /// A drive's directory goes away.
    Lose,
    /// The drive that is away longest comes back.
    Return,
    /// A drive is given up, emptied and put in again.
    Empty,
    /// A tape is checked, or brought to other tapes.
    Verify,
    Repack,
}

pub struct Faults {
    world: Arc<World>,
    random: Random,
    server: Option<Server>,
    /// What shall happen at which part of the run, the next last.
    plan: Vec<(f64, Fault)>,
    /// Drives that are away, the first longest.
    away: Vec<u64>,
    /// Drives that the present server may not be able to use, away or not.
    unusable: BTreeSet<u64>,
    pub operator: Operator,
    pub kills: u64,
    pub losses: u64,
    pub returns: u64,
    pub deaths: u64,
}

impl Faults {
    pub fn new(world: Arc<World>) -> Self {
        let mut random = Random::nth(world.settings.seed, 1 << 32);
        let plan = plan(&world.settings, &mut random);
        let (away, unusable) = (Vec::new(), BTreeSet::new());
        Faults {
            world,
            random,
            server: None,
            plan,
            away,
            unusable,
            operator: Operator::default(),
            kills: 0,
            losses: 0,
            returns: 0,
            deaths: 0,
        }
    }

    /// Starts a life of the server.
    pub fn start(&mut self) -> io::Result<()> {
        let log = self.world.settings.dir.with_extension("log");
        let server = self.world.instance.serve(&log)?;
        self.world.pid.store(server.pid().into(), Ordering::SeqCst);
        let life = self.world.life.fetch_add(1, Ordering::SeqCst) + 1;
        self.world.set_place(Some(Place { life, url: server.url.clone() }));
        self.server = Some(server);
        self.unusable = self.away.iter().copied().collect();
        Ok(())
    }

    /// Carries out the plan; returns when the run is over and clients were told so.
    pub fn run(&mut self) {
        while self.world.progress() < 1.0 {
            std::thread::sleep(Duration::from_millis(20));
            if let Some(status) = self.server.as_mut().and_then(Server::ended) {
                self.deaths += 1;
                self.world.violation(format!("the server ended by itself: {status}"));
                if !self.again() {
                    break;
                }
            }
            self.operator.look(&self.world);
            while self.plan.last().is_some_and(|(at, _)| *at <= self.world.progress()) {
                let fault = self.plan.pop().map_or(Fault::Return, |(_, fault)| fault);
                if !self.perform(fault) {
                    self.world.stop.store(true, Ordering::SeqCst);
                    return;
                }
            }
        }
        self.world.stop.store(true, Ordering::SeqCst);
    }

    fn perform(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::Kill => return self.kill(),
            Fault::Lose => self.lose(),
            Fault::Return => self.bring_back(),
            Fault::Empty => self.empty(),
            Fault::Verify => self.operator.verify(&self.world, &mut self.random),
            Fault::Repack => self.operator.repack(&self.world, &mut self.random),
        }
        true
    }

    fn kill(&mut self) -> bool {
        let Some(server) = self.server.take() else { return true };
        self.world
            .say(&format!("kill; {} requests are under way", self.world.in_flight.load(Ordering::SeqCst)));
        if let Err(error) = server.kill() {
            self.world.violation(format!("the server cannot be killed: {error}"));
        }
        self.kills += 1;
        // While nobody looks a drive may come back or go.
        if self.random.one_in(2) {
            self.bring_back();
        }
        if self.random.one_in(3) && self.away.len() < PARITY {
            self.lose();
        }
        self.again()
    }

    /// Another life after a death.
    fn again(&mut self) -> bool {
        self.server = None;
        self.world.set_place(None);
        let again = lock(&self.world.again);
        self.world.oracle.settle(&again);
        drop(again);
        if let Err(error) = self.start() {
            self.world.violation(format!("the server does not start again: {error}"));
            self.world.over.store(true, Ordering::SeqCst);
            return false;
        }
        true
    }

    fn drive(&self, drive: u64) -> (PathBuf, PathBuf) {
        let dir = self.world.settings.dir.join("pool");
        (dir.join(format!("d{drive}")), dir.join(format!("away-d{drive}")))
    }

    /// A drive whose loss the pool bears now.
    fn choose(&mut self) -> Option<u64> {
        // A drive that came back is of use only to the next server, so it still counts, as does one that was
        // emptied until all of it is seen to be rebuilt.
        let counted: BTreeSet<u64> = self
            .unusable
            .iter()
            .copied()
            .chain(self.away.iter().copied())
            .chain(self.operator.unusable())
            .collect();
        let whole: Vec<u64> = (0..super::DRIVES).filter(|drive| !counted.contains(drive)).collect();
        (counted.len() < PARITY).then(|| whole[self.random.below(whole.len() as u64) as usize])
    }

    fn empty(&mut self) {
        match self.choose() {
            Some(drive) => self.operator.empty(&self.world, drive),
            // Later, when drives are back.
            None => {
                self.plan.push((self.world.progress() + 0.02, Fault::Empty));
                self.plan.sort_by(|one, other| other.0.total_cmp(&one.0));
            }
        }
    }

    fn lose(&mut self) {
        let Some(drive) = self.choose() else { return };
        let (here, away) = self.drive(drive);
        match std::fs::rename(&here, &away) {
            Ok(()) => {
                self.world.say(&format!("drive {drive} is lost"));
                self.losses += 1;
                self.away.push(drive);
                self.unusable.insert(drive);
            }
            Err(error) => self.world.violation(format!("drive {drive} cannot be lost: {error}")),
        }
    }

    fn bring_back(&mut self) {
        if self.away.is_empty() {
            return;
        }
        let drive = self.away.remove(0);
        let (here, away) = self.drive(drive);
        match std::fs::rename(&away, &here) {
            Ok(()) => {
                self.world.say(&format!("drive {drive} is back"));
                self.returns += 1;
                if self.server.is_some()
                    && self.random.one_in(2)
                    && self.operator.put_back(&self.world, drive)
                {
                    self.unusable.remove(&drive);
                }
            }
            Err(error) => self.world.violation(format!("drive {drive} cannot come back: {error}")),
        }
    }

    /// The drives that were emptied are whole again, or the time is up.
    fn mend(&mut self) {
        let until = std::time::Instant::now() + MEND_TIMEOUT;
        while self.operator.unusable().next().is_some() {
            if std::time::Instant::now() > until {
                return self.world.violation("HUNG scrub: an emptied drive is not whole".to_owned());
            }
            self.operator.look(&self.world);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// All drives are back, and the server had a clean stop and start: from now on nothing happens any more.
    pub fn calm(&mut self) -> io::Result<()> {
        while !self.away.is_empty() {
            self.bring_back();
        }
        self.stop()?;
        self.world.set_place(None);
        self.world.oracle.settle(&[]);
        self.start()?;
        // While drives were away there may have been no moment for it.
        if self.operator.emptied == 0 && self.world.settings.losses > 0 {
            self.empty();
        }
        self.mend();
        Ok(())
    }

    /// Stops the server cleanly.
    pub fn stop(&mut self) -> io::Result<()> {
        let Some(server) = self.server.take() else { return Ok(()) };
        let (sender, receiver) = std::sync::mpsc::channel();
        let pid = server.pid();
        std::thread::spawn(move || sender.send(server.stop()));
        match receiver.recv_timeout(STOP_TIMEOUT) {
            Ok(Ok(status)) if status.success() => {}
            Ok(result) => self.world.violation(format!("the server stopped with {result:?}")),
            Err(_) => {
                self.world.violation(format!("HUNG process {pid} does not stop"));
                return Err(io::Error::other("the server does not stop"));
            }
        }
        Ok(())
    }
}

/// When what happens, the first last.
fn plan(settings: &Settings, random: &mut Random) -> Vec<(f64, Fault)> {
    let calm = matches!(settings.length, Length::Time(time) if time >= CALM_FROM);
    let mut plan = Vec::new();
    for number in 0..settings.kills {
        let mut at = (number as f64 + 0.2 + 0.6 * random.fraction()) / settings.kills as f64;
        if calm {
            at = if at < 0.5 { at * 2.0 / 3.0 } else { at * 2.0 / 3.0 + 1.0 / 3.0 };
        }
        plan.push((at, Fault::Kill));
    }
    for number in 0..settings.losses {
        let at = (number as f64 + random.fraction()) / settings.losses as f64;
        plan.push((at, Fault::Lose));
        plan.push((at + (0.3 + random.fraction()) / settings.losses as f64, Fault::Return));
    }
    let mut spread = |count: u64, fault: Fault| {
        for number in 0..count {
            plan.push(((number as f64 + random.fraction()) / count as f64, fault));
        }
    };
    spread(settings.losses.div_ceil(3), Fault::Empty);
    spread(settings.kills, Fault::Verify);
    spread(settings.kills.div_ceil(2), Fault::Repack);
    plan.sort_by(|one, other| other.0.total_cmp(&one.0));
    plan
}
