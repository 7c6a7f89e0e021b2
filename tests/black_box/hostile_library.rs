//! A library whose answers cannot be trusted: between server and target stands somebody who changes, cuts,
//! holds back and makes up what they say to each other. A hunt: `make hunt-hostile`.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Instance, bytes, make_tree, write};
use crate::scsi_library::{Library, instance_on};

/// So often each way of striking is tried in each half; without it the test does nothing. 8 take half a
/// minute, 20 one.
const EACH: &str = "KIST_HOSTILE";
/// Another sequence of strikes.
const SEED: &str = "KIST_HOSTILE_SEED";
/// A login, in which digests are agreed on, is shorter. What changes it is refused, or another login.
const LOGIN_BYTES: u64 = 4 << 10;
/// Between two strikes so many pieces pass, at most.
const GAP_MAX: u64 = 200;
/// A server that does not answer within this time hangs.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Nothing goes by the middleman for so long: the server has given the library up. A robot whose answer is
/// lost is watched for half a minute before it is used again, and a command that has no answer is given up
/// after a minute.
const QUIET_MAX: Duration = Duration::from_secs(150);
/// All strikes of one half have struck within this time: beyond it there is nothing left to do that uses the
/// library.
const STRUCK_MAX: Duration = Duration::from_secs(15 * 60);
/// New files of 2 MB, at most: with both copies they fill less than half of the cartridges.
const NEW_FILES_MAX: u64 = 400;
/// What was asked for is done within this time once the library is well.
const WELL_MAX: Duration = Duration::from_secs(180);
/// Between two looks at what the server does by itself.
const LOOK: Duration = Duration::from_millis(200);

/// What is done to a piece of what passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    BitFlipped,
    CutShort,
    MadeUp,
    Repeated,
    Oversized,
    Late,
}

impl Way {
    const ALL: [Way; 6] =
        [Way::BitFlipped, Way::CutShort, Way::MadeUp, Way::Repeated, Way::Oversized, Way::Late];
}

/// A strike that is to come: all that is decided of it.
#[derive(Clone, Copy, Debug)]
struct Strike {
    way: Way,
    /// Pieces that pass before it.
    gap: u64,
    /// Where in the piece, how long, or what: as the way needs it.
    number: u64,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Each way so often, in any order.
    fn strikes(&mut self, each: usize) -> VecDeque<Strike> {
        let mut ways = Way::ALL.repeat(each);
        for at in (1..ways.len()).rev() {
            ways.swap(at, (self.next() % (at as u64 + 1)) as usize);
        }
        let strike = |way| Strike { way, gap: 1 + self.next() % GAP_MAX, number: self.next() };
        ways.into_iter().map(strike).collect()
    }
}

#[derive(Default)]
struct Plan {
    /// Those that are to come; the first of them counts down its gap.
    coming: VecDeque<Strike>,
    done: Vec<Way>,
    /// When something passed last.
    heard: Option<Instant>,
}

struct Middleman(Mutex<Plan>);

impl Middleman {
    /// Listens, and lets everything through to `target` at first.
    fn before(target: &str) -> (Arc<Middleman>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let it = Arc::new(Middleman(Mutex::default()));
        let (all, target) = (Arc::clone(&it), target.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                // The target restarts once, when it is told of this address.
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&target)) else { continue };
                let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
                for (from, to) in ways {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let it = Arc::clone(&all);
                    thread::spawn(move || it.pass(from, to));
                }
            }
        });
        (it, address)
    }

    /// Something passes: the strike that is due, if one is.
    fn due(&self) -> Option<Strike> {
        let mut plan = self.0.lock().unwrap();
        plan.heard = Some(Instant::now());
        let first = plan.coming.front_mut()?;
        first.gap -= 1;
        if first.gap > 0 {
            return None;
        }
        let strike = plan.coming.pop_front()?;
        plan.done.push(strike.way);
        Some(strike)
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let (mut piece, mut passed) = (vec![0; 64 << 10], 0);
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let due = if passed >= LOGIN_BYTES { self.due() } else { None };
            passed += length as u64;
            let is_over = match due {
                Some(due) => strike(due, &mut piece[..length], &mut to),
                None => to.write_all(&piece[..length]).is_err(),
            };
            if is_over {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Strikes as planned while `work` is asked for again and again.
    fn strike_while(&self, instance: &Instance, strikes: VecDeque<Strike>, mut work: impl FnMut()) {
        let began = Instant::now();
        println!("strikes: {strikes:?}");
        {
            let mut plan = self.0.lock().unwrap();
            (plan.coming, plan.heard) = (strikes, Some(began));
        }
        loop {
            let (left, heard) = {
                let plan = self.0.lock().unwrap();
                (plan.coming.len(), plan.heard.unwrap_or(began))
            };
            if left == 0 {
                break;
            }
            assert!(began.elapsed() < STRUCK_MAX, "the library is hardly used: {left} strikes are left");
            assert!(heard.elapsed() < QUIET_MAX, "the library is not used any more: {left} strikes are left");
            // Whoever sees drives go down has an eye on them.
            all_is_well_again(instance);
            work();
            let asked = Instant::now();
            instance.kist(&["status"]).exits(0);
            assert!(asked.elapsed() < ANSWER_MAX, "a server with a bad library answers as any other");
            thread::sleep(LOOK);
        }
        println!("{} s, {} strikes so far", began.elapsed().as_secs(), self.0.lock().unwrap().done.len());
    }
}

/// Strikes; whether the connection ends with it. One that would be out of step for ever ends: a target that
/// says nothing at all costs a time limit, which is tested with the initiator.
fn strike(Strike { way, number, .. }: Strike, piece: &mut [u8], to: &mut TcpStream) -> bool {
    let at = (number % piece.len() as u64) as usize;
    match way {
        Way::BitFlipped => {
            piece[at] ^= 1 << (number >> 32 & 7);
            to.write_all(piece).is_err()
        }
        Way::CutShort => {
            let _ = to.write_all(&piece[..at]);
            true
        }
        Way::MadeUp => {
            let made_up = bytes(piece.len(), number);
            let _ = to.write_all(&made_up);
            true
        }
        Way::Repeated => {
            let _ = to.write_all(piece).and_then(|()| to.write_all(piece));
            true
        }
        Way::Oversized => {
            // A header whose lengths are as large as they can be.
            let mut header: Vec<u8> = piece.iter().copied().cycle().take(48).collect();
            header[4..8].fill(0xff);
            let _ = to.write_all(&header).and_then(|()| to.write_all(piece));
            true
        }
        Way::Late => {
            thread::sleep(Duration::from_millis(20 + number % 300));
            to.write_all(piece).is_err()
        }
    }
}

/// What an operator does once the library is well again.
fn all_is_well_again(instance: &Instance) {
    for drive in ["drive0", "drive1"] {
        instance.kist(&["drive", "up", drive]);
    }
    for tape in instance.kist(&["tape", "ls", "--json"]).exits(0).json().as_array().unwrap() {
        if tape["state"] == "suspect" {
            instance.kist(&["tape", "set", tape["vid"].as_str().unwrap(), "active"]);
        }
    }
}

/// Waits until the library, which is well again, has done what it was asked for; an operator looks after it.
fn until_done(instance: &Instance, what: &str, mut is_done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_done() {
        let status = || instance.kist(&["status"]).out;
        assert!(began.elapsed() < WELL_MAX, "{what} is not done by a library that is well:\n{}", status());
        all_is_well_again(instance);
        thread::sleep(LOOK);
    }
}

fn request_is_completed(instance: &Instance, request: &str) -> bool {
    let shown = instance.kist(&["request", "show", request, "--json"]).exits(0).json();
    shown["request"]["state"] == "completed"
}

fn stage(instance: &Instance, pin: &str) -> String {
    instance.kist(&["stage", "--json", "--pin", pin, "/t"]).exits(0).json()["id"].to_string()
}

/// An instance whose machines are left alone for a second after a failure, twice that after the next.
fn impatient(library: &Library) -> Instance {
    let instance = instance_on(library);
    let file = instance.dir().join("kist.toml");
    let text = fs::read_to_string(&file).unwrap();
    let before = text.lines().find(|line| line.starts_with("retry_delay")).unwrap();
    fs::write(&file, text.replace(before, "retry_delay = \"1s\"")).unwrap();
    instance
}

#[test]
fn whatever_a_library_says_nothing_is_lost_and_nothing_hangs() {
    let Ok(each) = std::env::var(EACH) else { return };
    let each: usize = each.parse().unwrap();
    let seed = std::env::var(SEED).map_or(0x5eed, |text| text.parse().unwrap());
    println!("{SEED}={seed}");
    let mut random = Random(seed);
    let mut library = Library::new();
    let (middleman, address) = Middleman::before(&library.address);
    library.is_behind(&address);
    let mut instance = impatient(&library);
    instance.start();
    let tree = instance.beside("tree");
    make_tree(&tree);
    let local = tree.to_str().unwrap();

    // There is always something new to write.
    let mut written = 0;
    middleman.strike_while(&instance, random.strikes(each), || {
        if written < NEW_FILES_MAX {
            write(&tree.join(format!("new/{written}")), &bytes(2_000_000, 1000 + written));
            written += 1;
        }
        instance.kist(&["put", local, "/t"]).exits(0);
        instance.kist(&["migrate", "--now"]);
    });
    instance.kist(&["put", local, "/t"]).exits(0);
    until_done(&instance, "what goes to tape", || {
        instance.kist(&["migrate", "--now"]);
        instance.kist(&["wait", "--timeout", "5s"]).code == 0
    });
    for name in ["/t/large", "/t/one", "/t/new/0"] {
        let stat = instance.kist(&["stat", "--json", name]).exits(0).json();
        let copies = stat["copies"].as_array().unwrap();
        assert_eq!(copies.len(), 2, "{name} stands once in each tape pool: {stat:#}");
    }

    // There is always something to read: what was staged is evicted again.
    instance.kist(&["evict", "/t"]).exits(0);
    let mut request = stage(&instance, "1s");
    let mut staged = 0;
    middleman.strike_while(&instance, random.strikes(each), || {
        if request_is_completed(&instance, &request) {
            staged += 1;
            instance.kist(&["release", &request]);
            instance.kist(&["evict", "/t"]);
            request = stage(&instance, "1s");
        }
    });
    println!("{written} files of 2 MB written, all staged {staged} times meanwhile");
    let last = stage(&instance, "1h");
    until_done(&instance, "what comes from tape", || request_is_completed(&instance, &last));
    instance.kist(&["compare", local, "/t"]).exits(0);
    let done = middleman.0.lock().unwrap().done.clone();
    assert!(Way::ALL.iter().all(|way| done.iter().filter(|done| *done == way).count() == 2 * each));
    let log = fs::read_to_string(instance.beside("server.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    instance.stop();
}
