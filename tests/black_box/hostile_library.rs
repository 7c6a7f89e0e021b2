//! A library whose answers cannot be trusted: between server and target stands somebody who changes, cuts,
//! holds back and makes up what they say to each other.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Instance, make_tree};
use crate::scsi_library::{Library, instance_on};

/// A login, in which digests are agreed on, is shorter. What changes it is refused, or another login.
const LOGIN_BYTES: u64 = 4 << 10;
/// One in so many pieces of what passes is struck.
const STRIKES_ONE_IN: u64 = 24;
/// So often each way of striking is tried at a time, if there is time for it.
const EACH: u64 = 3;
/// A server that does not answer within this time hangs.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// So long at most it is tried at a time.
const STRIKING_MAX: Duration = Duration::from_secs(120);

/// What is done to a piece of what passes.
const WAYS: [&str; 6] = ["bit flipped", "cut short", "made up", "repeated", "oversized", "late"];

struct Middleman {
    is_striking: AtomicBool,
    random: AtomicU64,
    strikes: [AtomicU64; WAYS.len()],
}

impl Middleman {
    /// Listens, and lets everything through to `target` at first.
    fn before(target: &str) -> (Arc<Middleman>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let it = Arc::new(Middleman {
            is_striking: AtomicBool::new(false),
            random: AtomicU64::new(0x5eed),
            strikes: Default::default(),
        });
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

    /// A number below `bound`.
    fn below(&self, bound: u64) -> u64 {
        let mut word = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) % bound
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let (mut piece, mut passed) = (vec![0; 64 << 10], 0);
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let strikes = self.is_striking.load(Ordering::Relaxed) && passed >= LOGIN_BYTES;
            passed += length as u64;
            let is_over = match strikes && self.below(STRIKES_ONE_IN) == 0 {
                true => self.strike(&mut piece[..length], &mut to),
                false => to.write_all(&piece[..length]).is_err(),
            };
            if is_over {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// Strikes once; whether the connection ends with it. One that would be out of step for ever ends: a
    /// target that says nothing at all costs a time limit, which is tested with the initiator.
    fn strike(&self, piece: &mut [u8], to: &mut TcpStream) -> bool {
        let way = self.below(WAYS.len() as u64) as usize;
        self.strikes[way].fetch_add(1, Ordering::Relaxed);
        match WAYS[way] {
            "bit flipped" => {
                let at = self.below(piece.len() as u64) as usize;
                piece[at] ^= 1 << self.below(8);
                to.write_all(piece).is_err()
            }
            "cut short" => {
                let _ = to.write_all(&piece[..self.below(piece.len() as u64) as usize]);
                true
            }
            "made up" => {
                piece.iter_mut().for_each(|byte| *byte = self.below(256) as u8);
                let _ = to.write_all(piece);
                true
            }
            "repeated" => {
                let _ = to.write_all(piece).and_then(|()| to.write_all(piece));
                true
            }
            "oversized" => {
                // A header whose lengths are as large as they can be.
                let header: Vec<u8> = piece.iter().copied().cycle().take(48).collect();
                let mut header = header;
                header[4..8].fill(0xff);
                let _ = to.write_all(&header).and_then(|()| to.write_all(piece));
                true
            }
            _ => {
                thread::sleep(Duration::from_millis(20 + self.below(300)));
                to.write_all(piece).is_err()
            }
        }
    }

    fn count(&self) -> Vec<u64> {
        self.strikes.iter().map(|times| times.load(Ordering::Relaxed)).collect()
    }

    /// Strikes until each way was tried `EACH` times more, or the time is over. `work` is asked for again and again meanwhile.
    fn strike_while(&self, instance: &Instance, work: impl Fn()) {
        let before = self.count();
        let began = Instant::now();
        self.is_striking.store(true, Ordering::Relaxed);
        let is_done = || self.count().iter().zip(&before).all(|(now, before)| now - before >= EACH);
        while !is_done() && began.elapsed() < STRIKING_MAX {
            // Whoever sees drives go down has an eye on them.
            all_is_well_again(instance);
            work();
            let asked = Instant::now();
            instance.kist(&["status"]);
            assert!(asked.elapsed() < ANSWER_MAX, "a server with a bad library answers as any other");
        }
        self.is_striking.store(false, Ordering::Relaxed);
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

/// Minutes: a library that fails all the time is left alone for longer each time. `make hunt-hostile`.
#[test]
#[ignore = "minutes: make hunt-hostile"]
fn whatever_a_library_says_nothing_is_lost_and_nothing_hangs() {
    let mut library = Library::new();
    let (middleman, address) = Middleman::before(&library.address);
    library.is_behind(&address);
    let mut instance = instance_on(&library);
    instance.start();
    let tree = instance.beside("tree");
    make_tree(&tree);
    let local = tree.to_str().unwrap();

    middleman.strike_while(&instance, || {
        instance.kist(&["put", local, "/t"]).exits(0);
        instance.kist(&["migrate", "--now"]);
    });
    all_is_well_again(&instance);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--timeout", "120s"]).exits(0);
    let stat = instance.kist(&["stat", "--json", "/t/large"]).exits(0).json();
    assert_eq!(stat["copies"].as_array().unwrap().len(), 2);

    instance.kist(&["evict", "/t"]).exits(0);
    middleman.strike_while(&instance, || {
        instance.kist(&["stage", "/t"]);
        instance.kist(&["evict", "/t"]);
    });
    all_is_well_again(&instance);
    instance.kist(&["stage", "--wait", "--timeout", "120s", "/t"]).exits(0);
    instance.kist(&["compare", local, "/t"]).exits(0);
    let strikes: Vec<_> = WAYS.iter().zip(middleman.count()).collect();
    println!("{strikes:?}");
    assert!(strikes.iter().all(|(_, times)| *times > 0), "each way was tried: {strikes:?}");
    instance.stop();
}
