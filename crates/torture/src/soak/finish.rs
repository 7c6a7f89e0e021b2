//! After the load: everything goes to tape, every request ends, everything is read back.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::operator;
use super::world::{World, lock};
use crate::cartridges;
use crate::content::{Found, Version, identify};
use crate::http::{Fate, Http};
use crate::random::Random;

/// Nothing may stand still for longer.
const PATIENCE: Duration = Duration::from_secs(300);
/// Threads that read back.
const READERS: usize = 8;
/// Paths that are staged at once.
const GROUP: usize = 400;

pub struct Finish<'w> {
    world: &'w World,
    http: Http,
    /// Live files by id: path and length.
    live: BTreeMap<u64, (String, u64)>,
    /// Which tape pool a cartridge belongs to.
    pools: BTreeMap<String, String>,
}

impl<'w> Finish<'w> {
    pub fn new(world: &'w World) -> Self {
        let url = world.place().map(|place| place.url).unwrap_or_default();
        let http = Http::new(&url, &world.instance.key);
        Finish { world, http, live: BTreeMap::new(), pools: BTreeMap::new() }
    }

    fn ask(&self, target: &str) -> io::Result<Value> {
        match self.http.ask(target) {
            Fate::Done(value) => Ok(value),
            other => Err(io::Error::other(format!("{target}: {other:?}"))),
        }
    }

    fn tell(&self, target: &str, body: &Value) -> io::Result<Value> {
        match self.http.tell(target, body) {
            Fate::Done(value) => Ok(value),
            other => Err(io::Error::other(format!("{target}: {other:?}"))),
        }
    }

    pub fn run(mut self) -> io::Result<Self> {
        self.end_requests()?;
        self.migrate()?;
        let mut random = Random::nth(self.world.settings.seed, 1 << 33);
        let mut operator = operator::Operator::default();
        operator.verify(self.world, &mut random);
        operator.repack(self.world, &mut random);
        operator::end_tape_work(self.world, &self.http);
        let paths = self.world.oracle.paths();
        self.world.say(&format!("reading back {} paths", paths.len()));
        for (number, group) in paths.chunks(GROUP).enumerate() {
            self.read_group(group, number.is_multiple_of(2))?;
        }
        self.world.say(&format!("{} files are there; asking where", self.live.len()));
        for tape in self.ask("tapes")?.as_array().into_iter().flatten() {
            // What stands on a repacked tape stands on others too.
            if tape["state"] == "repacking" {
                continue;
            }
            if let (Some(vid), Some(pool)) = (tape["vid"].as_str(), tape["tape_pool"].as_str()) {
                self.pools.insert(vid.to_owned(), pool.to_owned());
            }
        }
        Ok(self)
    }

    /// Waits until nothing waits for tape.
    fn migrate(&self) -> io::Result<()> {
        let (mut last, mut since) = (Value::Null, Instant::now());
        loop {
            self.tell("migrate", &json!({}))?;
            let status = self.ask("status")?;
            let left =
                json!([status["todo_files"], status["queued_containers"], status["unindexed_containers"]]);
            if left == json!([0, 0, 0]) {
                self.world.say("everything is on tape");
                return Ok(());
            }
            if left != last {
                (last, since) = (left, Instant::now());
            } else if since.elapsed() > PATIENCE {
                let queue = self.ask("queue")?;
                self.world.violation(format!("HUNG migration: {left} wait: {queue}"));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Every stage request that was acknowledged comes to its end.
    fn end_requests(&self) -> io::Result<()> {
        let staged = lock(&self.world.staged).clone();
        let (mut failed, mut ended) = (0, 0);
        let since = Instant::now();
        for id in &staged {
            loop {
                let request = match self.http.ask(&format!("requests/{id}")) {
                    Fate::Done(request) => request,
                    other => {
                        self.world.violation(format!("LOST request {id}: {other:?}"));
                        break;
                    }
                };
                if matches!(request["state"].as_str(), Some("completed" | "cancelled")) {
                    ended += 1;
                    failed += request["failed"].as_u64().unwrap_or(0);
                    if request["failed"] != 0 {
                        self.note_failures(*id)?;
                    }
                    break;
                }
                if since.elapsed() > PATIENCE {
                    let why = self.ask(&format!("why?request={id}"))?;
                    self.world.violation(format!("HUNG request {id}: {request}: {why}"));
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        self.world.tally("stage requests ended", |t| (t.done, t.refused) = (ended, failed));
        self.world.say(&format!("{ended} of {} stage requests have ended", staged.len()));
        Ok(())
    }

    fn note_failures(&self, id: u64) -> io::Result<()> {
        let files = self.ask(&format!("requests/{id}/files?limit=1000"))?;
        for file in files["files"].as_array().into_iter().flatten() {
            if let Some(error) = file["error"].as_str() {
                let words: String = error.chars().filter(|c| !c.is_ascii_digit()).take(90).collect();
                self.world.note(&format!("stage failed: {words}"));
            }
        }
        Ok(())
    }

    /// Stages and reads these paths, all of them from tape if they are to be evicted before.
    fn read_group(&mut self, paths: &[String], evict: bool) -> io::Result<()> {
        let there: Vec<&String> = paths
            .iter()
            .filter(|path| self.world.oracle.candidates(path).iter().any(Option::is_some))
            .filter(|path| !matches!(self.http.ask(&format!("stat?path={path}")), Fate::Refused(404, _)))
            .collect();
        if evict && !there.is_empty() {
            let evicted = self.tell("evict", &json!({"paths": there, "recursive": false}))?;
            let count = evicted["evicted"].as_u64().unwrap_or(0);
            self.world.tally("evicted at the end", |t| t.done += count);
        }
        let request = if there.is_empty() {
            None
        } else {
            let body = json!({"paths": there, "recursive": false, "pin_seconds": 3600});
            self.tell("requests", &body)?["id"].as_u64()
        };
        let since = Instant::now();
        while let Some(id) = request {
            let state = self.ask(&format!("requests/{id}"))?;
            if state["state"] == "completed" {
                break;
            }
            if since.elapsed() > PATIENCE {
                let why = self.ask(&format!("why?request={id}"))?;
                self.world.violation(format!("HUNG request {id} at the end: {state}: {why}"));
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.read_all(paths);
        if let Some(id) = request {
            self.tell(&format!("requests/{id}/release"), &json!({}))?;
            self.tell("evict", &json!({"paths": there, "recursive": false}))?;
        }
        Ok(())
    }

    fn read_all(&mut self, paths: &[String]) {
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let url = self.world.place().map(|place| place.url).unwrap_or_default();
        std::thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    let http = Http::new(&url, &self.world.instance.key);
                    while let Some(path) = paths.get(next.fetch_add(1, Ordering::SeqCst)) {
                        if let Some(live) = read_back(self.world, &http, path) {
                            lock(&found).push(live);
                        }
                    }
                });
            }
        });
        self.live.extend(found.into_inner().unwrap_or_default());
    }

    /// Reads the cartridges without Kist: each live file stands once in each tape pool.
    pub fn check_tapes(self) {
        self.world.say("reading cartridges without Kist");
        let library = self.world.settings.dir.join("library");
        let begin = Instant::now();
        let (copies, reading) = match cartridges::copies(&library, &self.pools) {
            Ok(read) => read,
            Err(error) => return self.world.violation(format!("WRONG on tape: {error}")),
        };
        let wanted = {
            let mut pools: Vec<&String> = self.pools.values().collect();
            pools.sort_unstable();
            pools.dedup();
            pools.len().max(1)
        };
        for (id, (path, length)) in &self.live {
            let Some(pools) = copies.get(id) else {
                self.world.violation(format!("LOST on tape: {path}, file {id}"));
                continue;
            };
            let once = pools.values().all(|files| files.len() == 1);
            let same = pools.values().flatten().all(|file| file.length == *length);
            if pools.len() != wanted || !once || !same {
                self.world.violation(format!("WRONG on tape: {path}, file {id}, {length} bytes: {pools:?}"));
            }
        }
        let doubles = copies.values().flat_map(BTreeMap::values).filter(|files| files.len() > 1).count();
        if doubles > 0 {
            self.world.violation(format!("WRONG on tape: {doubles} copies stand twice in one tape pool"));
        }
        self.world.tally("live files on tape", |t| t.done = self.live.len() as u64);
        self.world.tally("versions on tape", |t| t.done = copies.len() as u64);
        self.world.tally("tapes read without Kist", |t| t.done = reading.tapes);
        self.world.tally("their indexes", |t| t.done = reading.indexes);
        self.world.tally("their packs", |t| t.done = reading.packs);
        self.world.tally("their MB, all compared", |t| t.done = reading.bytes / 1_000_000);
        self.world.say(&format!("read in {:.0} s: {reading:?}", begin.elapsed().as_secs_f64()));
    }
}

/// Reads a path at the end; gives the file that is there.
fn read_back(world: &World, http: &Http, path: &str) -> Option<(u64, (String, u64))> {
    let expected = world.oracle.candidates(path);
    let known: Vec<Version> = expected.iter().copied().flatten().collect();
    let ticket = world.oracle.begin_read();
    match http.get(path, |body| identify(body, &known)) {
        Fate::Done(Found::Whole(version)) => {
            world.judge(world.oracle.check(path, ticket, Some(version)));
            world.tally("read back", |t| t.done += 1);
        }
        Fate::Refused(404, _) => {
            world.judge(world.oracle.check(path, ticket, None));
            world.tally("read back: nothing", |t| t.done += 1);
            return None;
        }
        other => {
            let lost = expected.iter().all(Option::is_some);
            let word = if lost { "LOST" } else { "UNREAD" };
            world.violation(format!("{word} {path} at the end: {other:?}, expected {expected:?}"));
            return None;
        }
    }
    match http.ask(&format!("stat?path={path}")) {
        Fate::Done(stat) => {
            let copies = stat["copies"].as_array().map_or(0, Vec::len) as u64;
            let indexed =
                stat["copies"].as_array().into_iter().flatten().all(|copy| copy["state"] == "indexed");
            if Some(copies) != stat["copies_wanted"].as_u64() || !indexed {
                world.violation(format!("WRONG copies of {path}: {stat}"));
            }
            Some((stat["file_id"].as_u64()?, (path.to_owned(), stat["size"].as_u64()?)))
        }
        other => {
            world.violation(format!("LOST {path}: {other:?}"));
            None
        }
    }
}
