//! Engines that were killed leave nothing in memory.

use std::time::Duration;

use base::ArchivePath;
use simulator::clients::put;
use simulator::content::Content;
use simulator::world::World;
use threads::simulated::{pause, run};

/// Clients of an engine.
const CLIENTS: u64 = 6;
/// Moments at which it is killed.
const KILLS: u32 = 40;

/// A campaign of a million faults needed 16 GB: small puts that waited when their engine was killed held the
/// engine, which held them in its queue, and with it all disks and tapes of their world.
#[test]
fn puts_that_wait_when_their_engine_is_killed_hold_nothing() {
    let _one = crate::alone();
    let (mut killed, mut left) = (0, 0);
    for moment in 0..KILLS {
        let mut trace = None;
        let outcome = run(u64::from(moment), || {
            let world = World::new();
            trace = Some(world.machines().trace());
            world.start().expect("nothing is wrong with a new world");
            let clients = (0..CLIENTS).map(|client| {
                let world = world.clone();
                threads::spawn(move || {
                    for number in 0.. {
                        let path = ArchivePath::new(&format!("/{client}/{number}")).expect("a path");
                        let content = Content { id: number, length: 3_000 };
                        let called = world.call("put", move |archive| put(archive, &path, content, None));
                        if !matches!(called, simulator::world::Called::Done(_)) {
                            return 1;
                        }
                    }
                    0
                })
            });
            let clients: Vec<_> = clients.collect();
            pause(Duration::from_millis(20) + Duration::from_micros(700) * moment);
            world.kill();
            clients.into_iter().map(|client| client.join().expect("no client fails")).sum::<u32>()
        });
        killed += outcome.result.expect("nothing else happens");
        left += trace.map_or(0, |trace| u32::from(trace.strong_count() > 0));
    }
    assert_eq!(killed, KILLS * CLIENTS as u32, "all were at work");
    assert_eq!(left, 0, "of {KILLS} killed engines so many are held still");
}
