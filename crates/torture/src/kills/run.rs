//! One point after the other: start, compare, attach, work, fault.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::load::{LOADS, Load, State, read};
use super::{Report, Settings, load};
use crate::cartridges;
use crate::http::{Fate, Http};
use crate::random::Random;
use crate::server::{Instance, Plan, Server};
use crate::strace::{self, Fault, Point, Tracer};

/// Points between two times at which everything goes to tape, is evicted, staged and read.
const POINTS_PER_ROUND: u64 = 12;
/// Nothing may take longer.
const PATIENCE: Duration = Duration::from_secs(120);
/// A kill that has not come this long after the workload will not come.
const AFTERMATH: Duration = Duration::from_millis(150);
/// Calls of one thread beyond this many are hit like this one: later ones take long to come to.
const NUMBER_MAX: u64 = 40;

/// Runs all workloads, several instances side by side. Violations are in the report.
///
/// # Errors
/// If an instance cannot be made, or strace does not work.
pub fn run(settings: &Settings) -> io::Result<Report> {
    let parts = parts(settings)?;
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    let work = || -> io::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let Some((load, points)) = parts.get(number) else { return Ok(()) };
            let report = Campaign::new(settings, load, number as u64)?.run(*points)?;
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.add(report);
            if !total.violations.is_empty() {
                return Ok(());
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..settings.workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
        })
    })?;
    Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Which workload shall be hit how often on each instance: workloads in turn, so that each is met early.
fn parts(settings: &Settings) -> io::Result<Vec<(&'static Load, u64)>> {
    let is_hit = |load: &&Load| settings.only.load.as_deref().is_none_or(|name| name == load.name);
    let loads: Vec<&'static Load> = LOADS.iter().filter(is_hit).collect();
    if loads.is_empty() || settings.points_per_instance == 0 {
        let names: Vec<_> = LOADS.iter().map(|load| load.name).collect();
        return Err(io::Error::other(format!("nothing is hit; workloads are {names:?}")));
    }
    let mut parts = Vec::new();
    let mut left: Vec<u64> = vec![settings.points.div_ceil(loads.len() as u64); loads.len()];
    while left.iter().any(|left| *left > 0) {
        for (load, left) in loads.iter().zip(&mut left) {
            let share = (*left).min(settings.points_per_instance);
            *left -= share;
            if share > 0 {
                parts.push((*load, share));
            }
        }
    }
    Ok(parts)
}

struct Campaign<'s> {
    settings: &'s Settings,
    load: &'s Load,
    instance: Instance,
    state: State,
    random: Random,
    server: Option<Server>,
    log: PathBuf,
    trace: PathBuf,
}

fn plan() -> Plan {
    let options = "--drives 4 --data 2 --parity 1 --cartridges 30 --cartridge-size 100MB --pack-size 4MiB";
    Plan {
        options: options.split(' ').map(ToOwned::to_owned).collect(),
        settings: vec![
            ("large = \"8MiB\"", "large = \"1MiB\""),
            ("pack_age = \"30s\"", "pack_age = \"1s\""),
            ("mount_age = \"30s\"", "mount_age = \"1s\""),
            ("flush_bytes = \"256MiB\"", "flush_bytes = \"2MiB\""),
            ("index_bytes = \"1GiB\"", "index_bytes = \"8MiB\""),
            ("recall_age = \"1s\"", "recall_age = \"0s\""),
            ("block = \"512KiB\"", "block = \"64KiB\""),
            ("retry_delay = \"5s\"", "retry_delay = \"100ms\""),
            ("dismount_delay = \"1s\"", "dismount_delay = \"20ms\""),
        ],
    }
}

impl<'s> Campaign<'s> {
    fn new(settings: &'s Settings, load: &'s Load, number: u64) -> io::Result<Self> {
        let dir = settings.dir.join(format!("kills-{number}"));
        let instance = Instance::init(&settings.kist, &dir, &plan())?;
        let random = Random::nth(settings.seed, number);
        let (log, trace) = (dir.with_extension("log"), dir.with_extension("strace"));
        let state = State { is_blind: settings.planted.is_some(), ..State::default() };
        Ok(Campaign { settings, load, instance, state, random, server: None, log, trace })
    }

    fn run(&mut self, points: u64) -> io::Result<Report> {
        let mut report = Report::default();
        let counts = self.calibrate()?;
        for round in 0..points * 3 {
            if report.fired >= points || !report.violations.is_empty() {
                break;
            }
            let point = self.choose(&counts);
            report.tried += 1;
            let hit = if self.load.name == "start" && round % 2 == 0 {
                self.fault_at_start(&point)?
            } else {
                self.fault_at_work(&point)?
            };
            if hit {
                report.fired += 1;
                *report.by_call.entry(format!("{} {}", point.thread, point.call)).or_default() += 1;
            }
            report.read += self.compare()?;
            let is_round = (round + 1) % POINTS_PER_ROUND == 0 && !self.state.is_blind;
            if is_round && !self.has_violations() {
                self.round_trip()?;
            }
            let word = if hit { "fired" } else { "did not fire" };
            self.collect(&format!("round {round}, {point:?} {word}"), &mut report);
        }
        // With a planted bug tapes may be in a state that nobody has to bear.
        if report.violations.is_empty() && !self.state.is_blind {
            self.round_trip()?;
            report.on_tape += self.check_tapes()?;
            self.collect("the end", &mut report);
        }
        self.server = None;
        *report.by_load.entry(self.load.name).or_default() += report.fired;
        report.acknowledged += self.state.acknowledged.load(Ordering::SeqCst);
        report.unknown += self.state.unknown.load(Ordering::SeqCst);
        if report.violations.is_empty() {
            std::fs::remove_dir_all(&self.instance.dir)?;
        }
        Ok(report)
    }

    /// Moves what was found wrong into the report, with the place at which it was found.
    fn collect(&self, place: &str, report: &mut Report) {
        let mut found = self.state.violations.lock().unwrap_or_else(PoisonError::into_inner);
        let (load, dir) = (self.load.name, self.instance.dir.display());
        report.violations.extend(found.drain(..).map(|text| format!("{load}, {dir}, {place}: {text}")));
    }

    fn has_violations(&self) -> bool {
        self.state.violations.lock().map_or(true, |violations| !violations.is_empty())
    }

    fn url(&self) -> String {
        self.server.as_ref().map_or_else(String::new, |server| server.url.clone())
    }

    fn http(&self) -> Http {
        Http::new(&self.url(), &self.instance.key)
    }

    fn command(&self) -> io::Result<std::process::Command> {
        let mut command = self.instance.serve_command(&self.log)?;
        if let Some(bug) = &self.settings.planted {
            command.env("KIST_PLANTED", bug);
        }
        Ok(command)
    }

    fn start(&mut self) -> io::Result<()> {
        if self.server.is_none() {
            self.server = Some(Server::start(self.command()?)?);
        }
        Ok(())
    }

    /// The server is dead: what was under way is over.
    fn kill(&mut self) -> io::Result<()> {
        if let Some(server) = self.server.take() {
            server.kill()?;
        }
        self.state.oracle.settle(&[]);
        Ok(())
    }

    /// Runs the workload once, only recording which thread makes which calls how often.
    fn calibrate(&mut self) -> io::Result<BTreeMap<(String, String), u64>> {
        self.start()?;
        let pid = self.server.as_ref().map_or(0, Server::pid);
        let tracer = Tracer::record(pid, &self.trace)?;
        for _ in 0..2 {
            self.work();
            std::thread::sleep(AFTERMATH);
        }
        let threads = strace::threads(pid)?;
        let counts = strace::count(&tracer.finish()?, &threads);
        self.kill()?;
        if counts.is_empty() {
            return Err(io::Error::other("no calls were recorded"));
        }
        Ok(counts)
    }

    fn choose(&mut self, counts: &BTreeMap<(String, String), u64>) -> Point {
        let errors = |call: &str| -> Option<Fault> {
            match call {
                "fsync" | "fdatasync" => Some(Fault::Error("EIO")),
                "pwrite64" | "pwritev" => {
                    Some(Fault::Error(if self.settings.errors { "ENOSPC" } else { "EIO" }))
                }
                "fallocate" => Some(Fault::Error("ENOSPC")),
                "rename" | "ftruncate" => Some(Fault::Error("EIO")),
                _ => None,
            }
        };
        // Writes of these threads go to sockets and event files.
        let is_file = |thread: &str, call: &str| call != "write" || !["door", "conductor"].contains(&thread);
        let reads = self.random.one_in(3);
        let is_hit =
            |thread: &str| self.settings.only.threads.as_deref().is_none_or(|it| thread.starts_with(it));
        let fits = |thread: &str, call: &str| match self.settings.errors {
            _ if !is_hit(thread) => false,
            true => errors(call).is_some(),
            // Most openings only read.
            false => is_file(thread, call) && (reads || call != "openat"),
        };
        let of: Vec<_> = counts.iter().filter(|((thread, call), _)| fits(thread, call)).collect();
        assert!(!of.is_empty(), "the threads that are to be hit make calls: {counts:?}");
        let ((thread, call), count) = of[self.random.below(of.len() as u64) as usize];
        let mut number = 1 + self.random.below((*count).min(NUMBER_MAX));
        // Threads that come and go count from their own beginning.
        if thread == "others" {
            number = 1 + number % 4;
        }
        let mut fault = Fault::Kill;
        if self.settings.errors {
            fault = errors(call).unwrap_or(fault);
            if call.starts_with("pwrite") && self.random.one_in(2) {
                fault = Fault::Error("EIO");
            }
        }
        Point { thread: thread.clone(), call: call.clone(), number, fault }
    }

    fn work(&mut self) {
        let seed = self.random.number();
        load::run(self.load, &self.state, &self.url(), &self.instance.key, seed);
    }

    /// Attaches to the server, works, and says whether the fault fired. The server is dead afterwards.
    fn fault_at_work(&mut self, point: &Point) -> io::Result<bool> {
        self.start()?;
        let pid = self.server.as_ref().map_or(0, Server::pid);
        let tracer = Tracer::inject(pid, point, &self.trace)?;
        self.work();
        self.await_fault(point);
        self.after_fault(tracer, point)
    }

    fn await_fault(&mut self, point: &Point) {
        let until = Instant::now() + AFTERMATH;
        while Instant::now() < until && point.fault == Fault::Kill {
            if self.server.as_mut().is_some_and(|server| server.ended().is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn after_fault(&mut self, tracer: Tracer, point: &Point) -> io::Result<bool> {
        let ended = self.server.as_mut().and_then(Server::ended);
        if let Some(status) = ended
            && point.fault != Fault::Kill
        {
            self.state.violation(format!("the server ended by itself at {point:?}: {status}"));
        }
        let record = tracer.finish();
        self.kill()?;
        Ok(match point.fault {
            Fault::Kill => ended.is_some(),
            Fault::Error(_) => record?.contains("(INJECTED)"),
        })
    }

    /// Starts the server under strace with a fault on its way up.
    fn fault_at_start(&mut self, point: &Point) -> io::Result<bool> {
        self.kill()?;
        let number = 1 + self.random.below(if point.call == "pwrite64" { 12 } else { 6 });
        let point = Point { number, ..point.clone() };
        let mut command = strace::wrapped(&self.command()?, &point, &self.trace);
        crate::server::prepare(&mut command, &self.log)?;
        match Server::start(command) {
            Err(error) => Ok(error.to_string().contains("signal: 9") && point.fault == Fault::Kill),
            Ok(server) => {
                self.server = Some(server);
                self.work();
                self.await_fault(&point);
                let ended = self.server.as_mut().and_then(Server::ended).is_some();
                self.kill()?;
                let record = std::fs::read_to_string(&self.trace).unwrap_or_default();
                Ok(ended || (point.fault != Fault::Kill && record.contains("(INJECTED)")))
            }
        }
    }

    /// Starts the server without faults and reads every path; gives how many files there were.
    fn compare(&mut self) -> io::Result<u64> {
        self.start()?;
        let http = self.http();
        let mut files = 0;
        for path in self.state.oracle.paths() {
            match read(&self.state, &http, &path, false) {
                Fate::Done(there) => files += u64::from(there),
                other => self.state.violation(format!("UNREAD {path}: {other:?}")),
            }
        }
        Ok(files)
    }

    fn ask(&self, http: &Http, target: &str) -> io::Result<Value> {
        match http.ask(target) {
            Fate::Done(value) => Ok(value),
            other => Err(io::Error::other(format!("no answer to {target}: {other:?}"))),
        }
    }

    /// Everything goes to tape, is evicted, staged and read.
    fn round_trip(&mut self) -> io::Result<()> {
        self.start()?;
        let http = self.http();
        self.lift(&http)?;
        let since = Instant::now();
        loop {
            http.tell("migrate", &json!({}));
            let status = self.ask(&http, "status")?;
            let left =
                ["todo_files", "queued_containers", "unindexed_containers"].map(|key| status[key].clone());
            if left.iter().all(|left| left == 0) {
                break;
            }
            if since.elapsed() > PATIENCE {
                let queue = self.ask(&http, "queue")?;
                self.state.violation(format!("HUNG migration: {left:?}: {queue}"));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let there: Vec<String> = self.there(&http)?;
        if there.is_empty() {
            return Ok(());
        }
        http.tell("evict", &json!({"paths": there}));
        let request = http.tell("requests", &json!({"paths": there, "pin_seconds": 1}));
        let id = request.done().and_then(|reply| reply["id"].as_u64()).unwrap_or(0);
        while self.ask(&http, &format!("requests/{id}"))?["state"] != "completed" {
            if since.elapsed() > PATIENCE {
                self.state.violation(format!(
                    "HUNG request {id}: {}",
                    self.ask(&http, &format!("why?request={id}"))?
                ));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        for path in there {
            if let other @ (Fate::Refused(..) | Fate::Unknown(_) | Fate::Hung(_)) =
                read(&self.state, &http, &path, true)
            {
                self.state.violation(format!("UNREAD {path}: {other:?}"));
            }
        }
        Ok(())
    }

    /// Gives back what injected errors have taken out of use, as an operator would.
    fn lift(&self, http: &Http) -> io::Result<()> {
        for drive in self.ask(http, "drives")?.as_array().into_iter().flatten() {
            if let Some(name) = drive["name"].as_str() {
                // Refused if it is up already.
                http.tell(&format!("drives/{name}/up"), &json!({}));
            }
        }
        for tape in self.ask(http, "tapes")?.as_array().into_iter().flatten() {
            let set_aside = matches!(tape["state"].as_str(), Some("suspect" | "read-only" | "disabled"));
            if let (true, Some(vid)) = (set_aside, tape["vid"].as_str()) {
                http.tell(&format!("tapes/{vid}"), &json!({"state": "active", "reason": "torture"}));
            }
        }
        Ok(())
    }

    fn there(&self, http: &Http) -> io::Result<Vec<String>> {
        let mut there = Vec::new();
        for path in self.state.oracle.paths() {
            match http.ask(&format!("stat?path={path}")) {
                Fate::Done(_) => there.push(path),
                Fate::Refused(404, _) => {}
                other => return Err(io::Error::other(format!("stat {path}: {other:?}"))),
            }
        }
        Ok(there)
    }

    /// Stops the server and reads its cartridges without Kist: exactly one copy in each tape pool.
    fn check_tapes(&mut self) -> io::Result<u64> {
        let http = self.http();
        let (mut pools, mut states) = (BTreeMap::new(), BTreeMap::new());
        for tape in self.ask(&http, "tapes")?.as_array().into_iter().flatten() {
            if let (Some(vid), Some(pool)) = (tape["vid"].as_str(), tape["tape_pool"].as_str()) {
                pools.insert(vid.to_owned(), pool.to_owned());
                states.insert(vid.to_owned(), format!("{} {}", tape["state"], tape["reason"]));
            }
        }
        let mut live = Vec::new();
        for path in self.there(&http)? {
            let stat = self.ask(&http, &format!("stat?path={path}"))?;
            let (id, size) = (stat["file_id"].as_u64().unwrap_or(0), stat["size"].as_u64().unwrap_or(0));
            live.push((path, id, size, stat["copies"].clone()));
        }
        if let Some(server) = self.server.take() {
            let status = server.stop()?;
            if !status.success() {
                self.state.violation(format!("the server stopped with {status}"));
            }
        }
        let copies = match cartridges::copies(&self.instance.dir.join("library"), &pools) {
            Ok((copies, _)) => copies,
            Err(error) => {
                self.state.violation(format!("WRONG on tape: {error}"));
                return Ok(0);
            }
        };
        for (path, id, size, known) in &live {
            let found = copies.get(id);
            let once = |files: &Vec<cartridges::TapeFile>| files.len() == 1 && files[0].length == *size;
            if !found.is_some_and(|pools| pools.len() == 2 && pools.values().all(once)) {
                let text = format!("{found:?}, the catalogue: {known}, tapes: {states:?}");
                self.state.violation(format!("WRONG on tape: {path}, file {id}: {text}"));
            }
        }
        Ok(live.len() as u64)
    }
}
