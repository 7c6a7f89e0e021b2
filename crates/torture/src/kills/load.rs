//! Workloads whose system calls are hit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;

use crate::content::{Found, Version, identify};
use crate::http::{Fate, Http};
use crate::oracle::{Oracle, Verdict};
use crate::random::Random;

/// Clients of a workload, each with a directory of its own.
pub const CLIENTS: u64 = 3;
/// Paths of each.
const SLOTS: u64 = 10;

/// A workload: how often of a hundred what is done.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub name: &'static str,
    pub operations: u64,
    put: u64,
    large: u64,
    delete: u64,
    rename: u64,
    evict: u64,
    stage: u64,
    migrate: u64,
}

/// All workloads. The last one is mostly the start itself, with tapes in any state.
pub const LOADS: [Load; 5] = [
    Load {
        name: "put",
        operations: 12,
        put: 70,
        large: 25,
        delete: 0,
        rename: 0,
        evict: 0,
        stage: 0,
        migrate: 0,
    },
    Load {
        name: "migrate",
        operations: 14,
        put: 30,
        large: 40,
        delete: 5,
        rename: 0,
        evict: 0,
        stage: 0,
        migrate: 40,
    },
    Load {
        name: "recall",
        operations: 20,
        put: 20,
        large: 30,
        delete: 0,
        rename: 0,
        evict: 25,
        stage: 25,
        migrate: 20,
    },
    Load {
        name: "rename and delete",
        operations: 16,
        put: 35,
        large: 15,
        delete: 25,
        rename: 25,
        evict: 5,
        stage: 0,
        migrate: 5,
    },
    Load {
        name: "start",
        operations: 10,
        put: 30,
        large: 30,
        delete: 5,
        rename: 5,
        evict: 10,
        stage: 10,
        migrate: 30,
    },
];

/// What clients share.
#[derive(Default)]
pub struct State {
    pub oracle: Oracle,
    pub versions: AtomicU64,
    pub acknowledged: AtomicU64,
    pub unknown: AtomicU64,
    pub dead: AtomicBool,
    /// Reads of a server that lives are left out, so that a planted bug is found by a kill or not at all.
    pub is_blind: bool,
    pub violations: Mutex<Vec<String>>,
}

impl State {
    pub fn violation(&self, text: String) {
        self.violations.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text);
    }

    pub fn judge(&self, verdict: Verdict) {
        match verdict {
            Verdict::Good => {}
            Verdict::Lost(text) => self.violation(format!("LOST {text}")),
            Verdict::Wrong(text) => self.violation(format!("WRONG {text}")),
        }
    }
}

/// Runs a workload to its end or the server's.
pub fn run(load: &Load, state: &State, url: &str, key: &str, seed: u64) {
    state.dead.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let worker =
                    Worker { state, http: Http::new(url, key), random: Random::nth(seed, client), client };
                worker.run(load);
            });
        }
    });
}

struct Worker<'s> {
    state: &'s State,
    http: Http,
    random: Random,
    client: u64,
}

impl Worker<'_> {
    fn run(mut self, load: &Load) {
        for _ in 0..load.operations {
            if self.state.dead.load(Ordering::SeqCst) {
                return;
            }
            let mut dice = self.random.below(100);
            for (share, operation) in [
                (load.put, Worker::put as fn(&mut Self, &Load)),
                (load.delete, Worker::delete),
                (load.rename, Worker::rename),
                (load.evict, Worker::evict),
                (load.stage, Worker::stage),
                (load.migrate, Worker::migrate),
                (100, Worker::read),
            ] {
                if dice < share {
                    operation(&mut self, load);
                    break;
                }
                dice -= share;
            }
        }
    }

    fn path(&mut self) -> String {
        format!("/k{}/f{}", self.client, self.random.below(SLOTS))
    }

    fn put(&mut self, load: &Load) {
        let path = self.path();
        let large = self.random.below(100) < load.large;
        let length = if large { (257 << 10) + self.random.below(2 << 20) } else { self.random.below(60_000) };
        let version = Version { id: self.state.versions.fetch_add(1, Ordering::SeqCst) + 1, length };
        let ticket = self.state.oracle.begin_write(&path, Some(version));
        match self.http.put(&path, version, &format!("kill-{}", version.id)) {
            Fate::Done(_) => self.acknowledged(&path, ticket),
            Fate::Refused(status, why) => {
                self.state.oracle.refused(&path, ticket);
                self.state.violation(format!("put {path}: {status} {why}"));
            }
            other => self.unknown(other),
        }
    }

    fn acknowledged(&self, path: &str, ticket: crate::oracle::Ticket) {
        self.state.oracle.acknowledged(path, ticket);
        self.state.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    fn unknown<T>(&self, fate: Fate<T>) {
        self.state.unknown.fetch_add(1, Ordering::SeqCst);
        match fate {
            Fate::Hung(why) => self.state.violation(format!("HUNG {why}")),
            // The server answers, so it lives: what it could not do was injected.
            Fate::Unknown(why) if why.starts_with('5') => {}
            _ => self.state.dead.store(true, Ordering::SeqCst),
        }
    }

    fn delete(&mut self, _: &Load) {
        let path = self.path();
        let ticket = self.state.oracle.begin_write(&path, None);
        match self.http.delete(&path) {
            Fate::Done(()) => self.acknowledged(&path, ticket),
            Fate::Refused(..) => self.state.oracle.refused(&path, ticket),
            other => self.unknown(other),
        }
    }

    fn rename(&mut self, _: &Load) {
        let (from, to) = (self.path(), self.path());
        let &[Some(version)] = self.state.oracle.candidates(&from).as_slice() else { return };
        if from == to {
            return;
        }
        let oracle = &self.state.oracle;
        let (gone, come) = (oracle.begin_write(&from, None), oracle.begin_write(&to, Some(version)));
        match self.http.tell("rename", &json!({"from": from, "to": to, "replace": true})) {
            Fate::Done(_) => {
                self.acknowledged(&from, gone);
                self.acknowledged(&to, come);
            }
            Fate::Refused(..) => {
                oracle.refused(&from, gone);
                oracle.refused(&to, come);
            }
            other => self.unknown(other),
        }
    }

    fn tell(&mut self, target: &str, body: &serde_json::Value) {
        match self.http.tell(target, body) {
            Fate::Done(_) | Fate::Refused(..) => {}
            other => self.unknown(other),
        }
    }

    fn evict(&mut self, _: &Load) {
        let paths: Vec<String> = (0..4).map(|_| self.path()).collect();
        for path in paths {
            self.tell("evict", &json!({"paths": [path], "recursive": true}));
        }
    }

    fn stage(&mut self, _: &Load) {
        let path = self.path();
        self.tell("requests", &json!({"paths": [path], "recursive": true, "pin_seconds": 1}));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }

    fn migrate(&mut self, _: &Load) {
        self.tell("migrate", &json!({}));
        std::thread::sleep(std::time::Duration::from_millis(30));
    }

    fn read(&mut self, _: &Load) {
        let path = self.path();
        if self.state.is_blind {
            return;
        }
        if let Fate::Hung(why) = read(self.state, &self.http, &path, false) {
            self.state.violation(format!("HUNG {why}"));
        }
    }
}

/// Reads one path and judges what it gave. What is on tape only is judged by its checksum in the catalogue
/// unless it `must_be_online`. Gives whether there was a file.
pub fn read(state: &State, http: &Http, path: &str, must_be_online: bool) -> Fate<bool> {
    let known: Vec<Version> = state.oracle.candidates(path).into_iter().flatten().collect();
    let ticket = state.oracle.begin_read();
    let fate = http.get(path, |body| identify(body, &known));
    match fate {
        Fate::Done(Found::Whole(version)) => {
            state.judge(state.oracle.check(path, ticket, Some(version)));
            Fate::Done(true)
        }
        Fate::Done(Found::Foreign(what)) => {
            state.violation(format!("WRONG {path}: {what}"));
            Fate::Done(true)
        }
        Fate::Refused(404, _) => {
            state.judge(state.oracle.check(path, ticket, None));
            Fate::Done(false)
        }
        Fate::Refused(409, why) if why.contains("\"nearline\"") => {
            if must_be_online {
                state.violation(format!("LOST {path}: {why}"));
            }
            let hash = http.ask(&format!("stat?path={path}")).done().map(|stat| stat["blake3"].clone());
            let Some(hash) = hash else { return Fate::Unknown("stat".to_owned()) };
            let is = |version: &&Version| hash == base::Blake3::of(&version.bytes()).to_string();
            match known.iter().find(is) {
                Some(version) => state.judge(state.oracle.check(path, ticket, Some(*version))),
                None => state.violation(format!("WRONG {path}: BLAKE3 {hash}, expected {known:?}")),
            }
            Fate::Done(true)
        }
        other => {
            state.oracle.end_read(ticket);
            other.map(|_| false)
        }
    }
}
