//! One client: operations on paths of its own, which it knows, and on paths that all share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::world::{Place, World, lock};
use crate::content::{Found, Version, identify};
use crate::http::{Fate, Http};
use crate::oracle::{Ticket, Verdict};
use crate::random::Random;

/// Directories of each client.
const DIRECTORIES: u64 = 4;
/// Paths that all clients share.
const SHARED: u64 = 48;
/// Open stage requests of a client of which it asks what became of them.
const REQUESTS_WATCHED: usize = 8;

pub struct Client {
    world: Arc<World>,
    number: u64,
    random: Random,
    place: Option<Place>,
    http: Http,
    watched: Vec<u64>,
}

/// Files of a client's directories.
pub fn directory_of(client: u64, directory: u64) -> String {
    format!("/c{client:03}/d{directory}")
}

impl Client {
    pub fn new(world: Arc<World>, number: u64) -> Self {
        let random = Random::nth(world.settings.seed, number);
        let http = Http::new("", "");
        Client { world, number, random, place: None, http, watched: Vec::new() }
    }

    pub fn run(mut self) {
        while !self.world.stop.load(Ordering::SeqCst) {
            let Some(place) = self.world.place() else { return };
            if self.place.as_ref().is_none_or(|own| own.life != place.life) {
                self.http = Http::new(&place.url, &self.world.instance.key);
                self.place = Some(place);
            }
            self.world.in_flight.fetch_add(1, Ordering::SeqCst);
            self.step();
            self.world.in_flight.fetch_sub(1, Ordering::SeqCst);
            self.world.operations.fetch_add(1, Ordering::SeqCst);
            let think = self.world.settings.think.mul_f64(self.random.fraction());
            std::thread::sleep(think);
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..24 => self.put(),
            24..58 => {
                let path = self.any_path();
                self.get(&path);
            }
            58..68 => self.list(),
            68..76 => self.delete(),
            76..82 => self.rename(),
            82..88 => self.stage(),
            88..96 => self.evict(),
            _ => self.watch(),
        }
    }

    fn own_path(&mut self) -> String {
        let directory = directory_of(self.number, self.random.below(DIRECTORIES));
        format!("{directory}/f{:02}", self.random.below(self.world.settings.slots))
    }

    fn any_path(&mut self) -> String {
        if self.random.one_in(8) {
            format!("/shared/x{:02}", self.random.below(SHARED))
        } else {
            self.own_path()
        }
    }

    fn length(&mut self) -> u64 {
        let large = self.world.settings.large;
        match self.random.below(1000) {
            0..20 => self.random.below(20),
            20..940 => self.random.below(16 << 10),
            940..990 => (100 << 10) + self.random.below(900 << 10),
            990..998 => (1 << 20) + self.random.below(large / 3),
            _ => large / 2 + self.random.below(large),
        }
    }

    fn put(&mut self) {
        let path = self.any_path();
        let length = self.length();
        if !self.world.may_put(length) {
            return self.get(&path);
        }
        let id =
            self.world.versions.fetch_add(1, Ordering::SeqCst) | (self.world.settings.seed & 0xffff) << 48;
        let version = Version { id, length };
        let ticket = self.world.oracle.begin_write(&path, Some(version));
        let repeats = self.random.one_in(2);
        if repeats {
            lock(&self.world.again).push(ticket);
        }
        self.put_until_known(&path, version, ticket, repeats);
        lock(&self.world.again).retain(|other| other.number() != ticket.number());
    }

    fn put_until_known(&mut self, path: &str, version: Version, ticket: Ticket, repeats: bool) {
        let key = format!("soak-{}", version.id);
        loop {
            match self.http.put(path, version, &key) {
                Fate::Done(_) => {
                    self.world.oracle.acknowledged(path, ticket);
                    return self.world.tally("put", |t| t.done += 1);
                }
                Fate::Refused(status, why) => {
                    self.world.oracle.refused(path, ticket);
                    return self.refused("put", path, status, &why, &[429]);
                }
                other => {
                    let died = self.not_known("put", path, other);
                    if !(died && repeats) {
                        return;
                    }
                    let Some(place) = self.world.place() else { return };
                    self.http = Http::new(&place.url, &self.world.instance.key);
                    self.place = Some(place);
                    self.world.tally("put repeated", |t| t.done += 1);
                }
            }
        }
    }

    fn get(&mut self, path: &str) {
        let known: Vec<Version> = self.world.oracle.candidates(path).into_iter().flatten().collect();
        let ticket = self.world.oracle.begin_read();
        let fate = self.http.get(path, |body| identify(body, &known));
        let oracle = &self.world.oracle;
        match fate {
            Fate::Done(Found::Whole(version)) => {
                let verdict = oracle.check(path, ticket, Some(version));
                self.world.judge(verdict);
                self.world.tally("get", |t| t.done += 1);
            }
            Fate::Done(Found::Foreign(what)) => {
                oracle.end_read(ticket);
                self.world.violation(format!("WRONG {path}: {what}; expected one of {known:?}"));
            }
            Fate::Refused(404, _) => {
                let verdict = oracle.check(path, ticket, None);
                self.world.judge(verdict);
                self.world.tally("get of nothing", |t| t.done += 1);
            }
            Fate::Refused(409, why) if why.contains("\"nearline\"") => {
                oracle.end_read(ticket);
                self.world.tally("get", |t| t.refused += 1);
                if self.random.one_in(3) {
                    self.stage_paths(&[path.to_owned()]);
                }
            }
            Fate::Refused(status, why) => {
                oracle.end_read(ticket);
                self.refused("get", path, status, &why, &[429]);
            }
            other => {
                oracle.end_read(ticket);
                self.not_known("get", path, other);
            }
        }
    }

    fn list(&mut self) {
        let directory = directory_of(self.number, self.random.below(DIRECTORIES));
        let ticket = self.world.oracle.begin_read();
        let fate = self.http.ask(&format!("list?path={directory}&limit=1000"));
        self.world.oracle.end_read(ticket);
        let entries: Vec<Value> = match fate {
            Fate::Done(reply) => {
                self.world.tally("list", |t| t.done += 1);
                reply["entries"].as_array().cloned().unwrap_or_default()
            }
            Fate::Refused(404, _) => Vec::new(),
            Fate::Refused(status, why) => return self.refused("list", &directory, status, &why, &[429]),
            other => {
                self.not_known("list", &directory, other);
                return;
            }
        };
        for slot in 0..self.world.settings.slots {
            let name = format!("f{slot:02}");
            let entry = entries.iter().find(|entry| entry["name"] == *name);
            let length = entry.and_then(|entry| entry["size"].as_u64());
            let verdict = self.world.oracle.check_length(&format!("{directory}/{name}"), ticket, length);
            self.world.judge(verdict);
        }
    }

    fn delete(&mut self) {
        let path = self.any_path();
        let (ticket, reading) = (self.world.oracle.begin_write(&path, None), self.world.oracle.begin_read());
        let fate = self.http.delete(&path);
        if !matches!(fate, Fate::Refused(404, _)) {
            self.world.oracle.end_read(reading);
        }
        match fate {
            Fate::Done(()) => {
                self.world.oracle.acknowledged(&path, ticket);
                self.world.tally("delete", |t| t.done += 1);
            }
            Fate::Refused(status, why) => {
                self.world.oracle.refused(&path, ticket);
                if status == 404 {
                    let verdict = self.world.oracle.check(&path, reading, None);
                    self.world.judge(verdict);
                    return self.world.tally("delete of nothing", |t| t.done += 1);
                }
                self.refused("delete", &path, status, &why, &[429]);
            }
            other => {
                self.not_known("delete", &path, other);
            }
        }
    }

    /// Renames a file of its own of which it knows what it is.
    fn rename(&mut self) {
        let (from, to) = (self.own_path(), self.own_path());
        let &[Some(version)] = self.world.oracle.candidates(&from).as_slice() else { return self.get(&from) };
        if from == to {
            return;
        }
        let oracle = &self.world.oracle;
        let (gone, come) = (oracle.begin_write(&from, None), oracle.begin_write(&to, Some(version)));
        match self.http.tell("rename", &json!({"from": from, "to": to, "replace": true})) {
            Fate::Done(_) => {
                oracle.acknowledged(&from, gone);
                oracle.acknowledged(&to, come);
                self.world.tally("rename", |t| t.done += 1);
            }
            Fate::Refused(status, why) => {
                oracle.refused(&from, gone);
                oracle.refused(&to, come);
                // The directory of the new name may not have been made yet.
                let lost = why.contains(&from.clone());
                if status == 404 && lost {
                    return self.world.judge(Verdict::Lost(format!("{from}: rename: {why}")));
                }
                self.refused("rename", &from, status, &why, &[404, 429]);
            }
            other => {
                self.not_known("rename", &from, other);
            }
        }
    }

    fn selection(&mut self) -> Vec<String> {
        match self.random.below(6) {
            0 => vec![directory_of(self.number, self.random.below(DIRECTORIES))],
            1 => vec![format!("/shared/x{:02}", self.random.below(SHARED))],
            _ => (0..1 + self.random.below(5)).map(|_| self.own_path()).collect(),
        }
    }

    fn stage(&mut self) {
        let paths = self.selection();
        self.stage_paths(&paths);
    }

    fn stage_paths(&mut self, paths: &[String]) {
        let body = json!({"paths": paths, "recursive": true, "pin_seconds": 1 + self.random.below(10)});
        match self.http.tell("requests", &body) {
            Fate::Done(reply) => {
                let id = reply["id"].as_u64().unwrap_or_default();
                lock(&self.world.staged).push(id);
                self.watched.push(id);
                if self.watched.len() > REQUESTS_WATCHED {
                    self.watched.remove(0);
                }
                self.world.tally("stage", |t| t.done += 1);
            }
            Fate::Refused(status, why) => self.refused("stage", &paths[0], status, &why, &[404, 429]),
            other => {
                self.not_known("stage", &paths[0], other);
            }
        }
    }

    fn evict(&mut self) {
        let paths = self.selection();
        match self.http.tell("evict", &json!({"paths": paths, "recursive": true})) {
            Fate::Done(reply) => {
                let (evicted, kept) = (reply["evicted"].as_u64(), reply["refused_count"].as_u64());
                self.world.tally("evict", |t| t.done += 1);
                self.world.tally("evicted files", |t| t.done += evicted.unwrap_or(0));
                self.world.tally("evicted files", |t| t.refused += kept.unwrap_or(0));
            }
            Fate::Refused(status, why) => self.refused("evict", &paths[0], status, &why, &[404, 429]),
            other => {
                self.not_known("evict", &paths[0], other);
            }
        }
    }

    /// Asks what became of a stage request.
    fn watch(&mut self) {
        if self.watched.is_empty() {
            return;
        }
        let at = self.random.below(self.watched.len() as u64) as usize;
        let id = self.watched[at];
        match self.http.ask(&format!("requests/{id}")) {
            Fate::Done(reply) => {
                self.world.tally("request", |t| t.done += 1);
                if matches!(reply["state"].as_str(), Some("completed" | "cancelled")) {
                    self.watched.remove(at);
                }
            }
            Fate::Refused(404, why) => {
                self.watched.remove(at);
                self.world.violation(format!("LOST request {id}: {why}"));
            }
            Fate::Refused(status, why) => self.refused("request", "", status, &why, &[429]),
            other => {
                self.not_known("request", "", other);
            }
        }
    }

    fn refused(&self, kind: &'static str, path: &str, status: u16, why: &str, expected: &[u16]) {
        self.world.tally(kind, |t| t.refused += 1);
        if !expected.contains(&status) {
            self.world.violation(format!("{kind} {path} was refused: {status} {why}"));
        }
    }

    /// Sorts an end without an answer; gives whether the server died.
    fn not_known<T>(&self, kind: &'static str, path: &str, fate: Fate<T>) -> bool {
        self.world.tally(kind, |t| t.unknown += 1);
        let life = self.place.as_ref().map_or(0, |place| place.life);
        match fate {
            Fate::Hung(why) => {
                self.world.violation(format!("HUNG {kind} {path}: {why}"));
                false
            }
            Fate::Unknown(why) if why.starts_with("503") => {
                let word = why.split("\"type\":\"").nth(1).and_then(|rest| rest.split('"').next());
                self.world.note(&format!("{kind}: 503 {}", word.unwrap_or(&why)));
                std::thread::sleep(Duration::from_millis(100));
                false
            }
            Fate::Unknown(why) => {
                let died = self.world.has_died(life);
                if !died {
                    self.world.violation(format!("{kind} {path} broke without a kill: {why}"));
                }
                died
            }
            Fate::Done(_) | Fate::Refused(..) => false,
        }
    }
}
