//! How fast values are put and got: `measure DIRECTORY|FILE [MiB] [THREADS] [VALUE KiB]`. What is there is
//! overwritten.

use std::path::PathBuf;
use std::time::Instant;

use base::{ByteCount, Uuid};
use valuelog::{Durability, Expected, Layout, Place, Put, Settings, ValueLog};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().expect("give a directory, a file or a device"));
    let mut number = |otherwise: usize| arguments.next().map_or(otherwise, |n| n.parse().expect("a number"));
    let (megabytes, threads, kilobytes) = (number(512), number(2), number(1024));
    let place = if path.is_dir() { Place::Directory(path) } else { Place::Raw(path) };
    let id = Uuid([1; 16]);
    let room = ByteCount::mib(megabytes as u64 * 5 / 4 + 640);
    ValueLog::format(&place, id, Layout::default(), Some(room), true).expect("a store");
    let log = ValueLog::open(&place, Some(id), Settings::default()).expect("it opens");
    let bytes = kilobytes << 10;
    let count = (megabytes << 10) / kilobytes / threads;
    let value: Vec<u8> = (0..bytes).map(|at| (at * 31) as u8).collect();
    let key = |thread: usize, number: usize| [thread.to_be_bytes(), number.to_be_bytes()].concat();
    let timed = |what: &str, done: &(dyn Fn(usize, usize) + Sync)| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || (0..count).for_each(|number| done(thread, number)));
            }
        });
        if what.starts_with("put") {
            log.flush().expect("a flush");
        }
        let seconds = start.elapsed().as_secs_f64();
        let megabytes = (count * threads * bytes) as f64 / 1e6;
        let each = (count * threads) as f64;
        println!("{what}: {:.0} MB/s, {:.0} /s", megabytes / seconds, each / seconds);
    };
    let put = |durability| {
        let (log, value, key) = (&log, &value, &key);
        move |thread: usize, number: usize| {
            let key = key(thread, number);
            let (version, tag) = (b"1".as_slice(), [0; 4]);
            let asked = Put { key: &key, value, version, tag: &tag, algorithm: 4, expected: Expected::Any };
            log.put(&asked, durability).expect("a put");
        }
    };
    timed("put, written back, new", &put(Durability::Back));
    timed("put, written back, over", &put(Durability::Back));
    timed("put, written through", &put(Durability::Through));
    timed("get", &|thread, number| {
        assert_eq!(log.get(&key(thread, number)).expect("a value").value.len(), bytes);
    });
    timed("get of 64 KiB", &|thread, number| {
        let length = ByteCount(65_536.min(bytes as u64));
        let from = ByteCount((bytes as u64 - length.0) / 2);
        log.get_part(&key(thread, number), from, length).expect("a part");
    });
    println!("{:?}", log.figures());
    let start = Instant::now();
    log.close().expect("it closes");
    let log = ValueLog::open(&place, Some(id), Settings::default()).expect("it opens again");
    println!("closed and opened in {:.3} s, {:?}", start.elapsed().as_secs_f64(), log.recovery());
}
