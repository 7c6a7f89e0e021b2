//! A campaign of ten times the pool passes through it, onto tapes and back, without a stall, and whatever
//! waits meanwhile says why. Floor and ceiling of classes are kept all along.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use archive::{Archive, ArchiveError, Selection, Settings, StageOptions, Water};
use base::{ArchivePath, ByteCount, StripeCode};
use simulator::clients::{path, put, read};
use simulator::content::Content;
use simulator::machines::MachineConfig;
use simulator::world::{Called, World, settings};
use threads::simulated;

const CODE: StripeCode = StripeCode::reed_solomon(2, 2);
const DISKS: u16 = 6;
const DISK: ByteCount = ByteCount::mib(8);
/// What the pool holds of files: with 2+2 half of its disks.
const POOL: u64 = DISKS as u64 * DISK.0 / 2;
/// Files of the campaign, each too large for a segment.
const FILE: usize = 600_000;
const FILES: u64 = 10 * POOL / FILE as u64;
const CLIENTS: u64 = 4;
/// So much of class `kept` is never evicted by itself; more is put at first.
const FLOOR: ByteCount = ByteCount::mib(2);
const KEPT: u64 = 6;
/// No more of class `large` is recalled than leaves it at this.
const CEILING: ByteCount = ByteCount::mib(12);
/// Nothing moves for longer than this.
const STALL: Duration = Duration::from_secs(240);

/// The pool with marks, and a class with a floor beside one with a ceiling.
fn site(config: &MachineConfig) -> Settings {
    let mut settings = settings(config, CODE);
    settings.pool.water = Some(Water { high_percent: 90, low_percent: 80 });
    settings.tape.dismount_delay = Duration::from_secs(60);
    let mut kept = settings.classes[1].clone();
    (kept.name, kept.leaving.pool_min) = ("kept".to_owned(), FLOOR);
    settings.classes[1].pool_max = Some(CEILING);
    settings.classes.push(kept);
    settings
}

fn name(number: u64) -> ArchivePath {
    path(&format!("/campaign/{number}"))
}

fn content(number: u64) -> Content {
    Content { id: 1 + number, length: FILE + (number % 7) as usize * 1_000 }
}

fn ask<T: Send + 'static>(
    world: &World,
    what: &str,
    f: impl FnOnce(&Archive) -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, ArchiveError> {
    match world.ask(what, f) {
        Called::Done(done) => done,
        Called::Killed | Called::Down => panic!("{what}: nothing kills this server"),
    }
}

/// How long it is since a moment of virtual time.
fn span(since: u64) -> Duration {
    Duration::from_nanos(simulated::now().saturating_sub(since))
}

/// When something was last done.
#[derive(Clone)]
struct Moved(Arc<AtomicU64>);

impl Moved {
    fn new() -> Self {
        let moved = Moved(Arc::default());
        moved.now();
        moved
    }

    fn now(&self) {
        self.0.store(simulated::now(), Ordering::SeqCst);
    }

    fn since(&self) -> Duration {
        span(self.0.load(Ordering::SeqCst))
    }
}

/// Looks at everything that waits, and at the classes, until it is over; gives how often.
fn watch(world: &World, moved: &Moved, is_over: &AtomicBool, recalls: bool) -> u64 {
    let mut looks = 0;
    while !is_over.load(Ordering::SeqCst) {
        simulated::pause(Duration::from_secs(7));
        let (queue, classes) =
            ask(world, "look", |archive| Ok((archive.queue()?, archive.classes()?))).unwrap();
        for line in &queue {
            assert!(!line.reason.is_empty(), "{line:?} does not say why");
        }
        let online = |name: &str| classes.iter().find(|class| class.name == name).unwrap().online.bytes;
        assert!(online("kept") >= FLOOR, "{}", online("kept"));
        assert!(!recalls || online("large") <= CEILING, "{}", online("large"));
        assert!(moved.since() < STALL, "nothing for {:?}: {queue:#?}", moved.since());
        looks += 1;
    }
    looks
}

/// Puts every `CLIENTS`-th file; gives how often room was waited for.
fn put_all(world: &World, first: u64, moved: &Moved) -> u64 {
    let mut waits = 0;
    for number in (first..FILES).step_by(CLIENTS as usize) {
        loop {
            let done = ask(world, "put", move |archive| put(archive, &name(number), content(number), None));
            match done {
                Ok(_) => break moved.now(),
                Err(ArchiveError::RoomIsBeingMade { .. }) => {
                    waits += 1;
                    simulated::pause(Duration::from_secs(2));
                }
                Err(error) => panic!("{}: {error}", name(number)),
            }
        }
    }
    waits
}

/// Has all files come back, at once, and lets each go when it was read.
fn recall_all(world: &World, moved: &Moved) {
    let all = Selection { paths: vec![path("/campaign")], recursive: true };
    let options = StageOptions { owner: "campaign".into(), pin: Duration::from_secs(86_400), priority: 5 };
    let request = ask(world, "stage", move |archive| archive.stage(&all, options)).unwrap();
    let mut left: BTreeSet<u64> = (0..FILES).collect();
    while !left.is_empty() {
        for number in left.clone() {
            match ask(world, "read", move |archive| read(archive, &name(number), false)) {
                Ok(bytes) => {
                    assert!(bytes == content(number).bytes(), "{} has its bytes", name(number));
                    let release = move |archive: &Archive| archive.release(request, Some(&[name(number)]));
                    ask(world, "release", release).unwrap();
                    left.remove(&number);
                    moved.now();
                }
                Err(ArchiveError::Nearline { .. }) => {}
                Err(error) => panic!("{}: {error}", name(number)),
            }
        }
        simulated::pause(Duration::from_secs(3));
    }
}

#[test]
fn ten_times_the_pool_passes_through_it_and_back() {
    let _one = crate::alone();
    let outcome = simulated::run(5, || {
        let config = MachineConfig {
            disks: DISKS,
            disk_capacity: DISK,
            tape_drives: 2,
            robots: 1,
            tapes: 40,
            tape_capacity: ByteCount::mib(24),
            ..MachineConfig::default()
        };
        let world = World::on(&config, site(&config));
        world.start().unwrap();
        for number in 0..KEPT {
            let content = Content { id: 1_000_000 + number, length: FILE };
            ask(&world, "put", move |archive| put_kept(archive, number, content)).unwrap();
        }
        let began = simulated::now();
        let (moved, is_over) = (Moved::new(), Arc::new(AtomicBool::new(false)));
        let watcher = {
            let (world, moved, is_over) = (world.clone(), moved.clone(), Arc::clone(&is_over));
            threads::spawn(move || watch(&world, &moved, &is_over, false))
        };
        let clients: Vec<_> = (0..CLIENTS)
            .map(|first| {
                let (world, moved) = (world.clone(), moved.clone());
                threads::spawn(move || put_all(&world, first, &moved))
            })
            .collect();
        let waits: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        is_over.store(true, Ordering::SeqCst);
        let looks = watcher.join().unwrap();
        let put = span(began);
        // What was put last leaves until the class is below its ceiling.
        let below = || {
            let classes = ask(&world, "classes", |archive| archive.classes()).unwrap();
            classes.iter().find(|class| class.name == "large").unwrap().online.bytes <= CEILING
        };
        while !below() {
            simulated::pause(Duration::from_secs(5));
            assert!(moved.since() < 4 * STALL, "the class does not come below its ceiling");
        }
        moved.now();
        is_over.store(false, Ordering::SeqCst);
        let watcher = {
            let (world, moved, is_over) = (world.clone(), moved.clone(), Arc::clone(&is_over));
            threads::spawn(move || watch(&world, &moved, &is_over, true))
        };
        let began = simulated::now();
        recall_all(&world, &moved);
        is_over.store(true, Ordering::SeqCst);
        let looks = looks + watcher.join().unwrap();
        let recalled = span(began);
        world.kill();
        (waits, looks, put, recalled)
    });
    let (waits, looks, put, recalled) = outcome.result.unwrap_or_else(|failure| panic!("{failure}"));
    println!(
        "{FILES} files, {} MB through a pool of {} MB: put in {put:?}, {waits} waits for room; recalled in \
         {recalled:?}; {looks} looks at what waits",
        FILES * FILE as u64 / 1_000_000,
        POOL / 1_000_000
    );
    assert!(waits > 10 && looks > 10, "the pool was full: {waits}, {looks}");
}

fn put_kept(archive: &Archive, number: u64, content: Content) -> Result<(), ArchiveError> {
    let options = archive::PutOptions {
        length: Some(ByteCount(content.length as u64)),
        class: Some("kept".to_owned()),
        make_parents: true,
        ..archive::PutOptions::default()
    };
    let mut upload = archive.begin_put(&path(&format!("/kept/{number}")), options)?;
    upload.write(&content.bytes())?;
    upload.finish().map(drop)
}
