//! What the people who run tapes do: check them, empty them onto others, and make them scratch again.

use std::time::Duration;

use archive::{Archive, TapeInfo, TapeUse};
use base::Vid;
use catalogue::TapeState;
use threads::simulated;

use crate::clients::NOT_BLANK;
use crate::machines::{Fault, Target};
use crate::world::{Called, World, below, one_of};

/// Blocks written wrongly while tapes are repacked.
const WRONG_BLOCKS: u64 = 6;
/// The longest that a repack may take, in virtual time.
const REPACK_MAX: Duration = Duration::from_secs(3 * 3_600);
const LOOK_EVERY: Duration = Duration::from_secs(60);

fn labelled(tapes: Vec<TapeInfo>, pool: Option<&str>) -> Vec<Vid> {
    let fits = |tape: &TapeInfo| {
        let is_in_use = matches!(tape.state, TapeState::Active | TapeState::Full | TapeState::ReadOnly);
        is_in_use && tape.generation > 0 && pool.is_none_or(|pool| tape.tape_pool.as_deref() == Some(pool))
    };
    tapes.into_iter().filter(fits).map(|tape| tape.vid).collect()
}

/// Does one thing with one tape.
pub fn act(world: &World) {
    let choice = below(6);
    if choice == 0 {
        return reclaim(world);
    }
    let Called::Done(Ok(tapes)) = world.ask("tapes", Archive::tapes) else { return };
    let vids = labelled(tapes, None);
    if vids.is_empty() {
        return;
    }
    let vid = one_of(&vids);
    let (what, called) = match choice {
        1 | 2 => ("repacks", world.ask("repack", move |archive| archive.repack_tape(vid, "by chance"))),
        _ => ("tape checks", world.ask("check a tape", move |archive| archive.check_tapes(&[vid]))),
    };
    if let Called::Done(Ok(())) = called {
        world.count(what);
    }
}

/// Makes scratch what was emptied, and erases what Kist says should be erased: labels that were cut short.
pub fn reclaim(world: &World) {
    let Called::Done(Ok(tapes)) = world.ask("tapes", Archive::tapes) else { return };
    for tape in tapes {
        let is_refused = tape.generation == 0 && tape.reason.contains(NOT_BLANK);
        if is_refused && world.machines().library().erase_labels(tape.vid) {
            world.count("half labels erased");
            let vid = tape.vid;
            let _ = world.ask("give back", move |archive| archive.set_tape(vid, TapeUse::Active, "erased"));
        }
        if tape.state != TapeState::Repacking || tape.containers > 0 {
            continue;
        }
        let vid = tape.vid;
        world.machines().library().allow_format(vid, true);
        match world.ask("reclaim", move |archive| archive.reclaim_tape(vid)) {
            Called::Done(Ok(())) => world.count("tapes reclaimed"),
            Called::Done(Err(error)) if error.is_certain_refusal() => {
                world.machines().library().allow_format(vid, false);
            }
            _ => {}
        }
    }
}

/// Repacks all tapes of a pool, while some blocks are written wrongly: the sources may only be given up for
/// copies that were read back.
///
/// # Errors
/// What is not done in time.
pub fn repack_all(world: &World, pool: &'static str) -> Result<(), String> {
    let Called::Done(Ok(tapes)) = world.ask("tapes", Archive::tapes) else {
        return Err("nobody lists the tapes".to_owned());
    };
    let vids = labelled(tapes, Some(pool));
    let deadline = simulated::now() + REPACK_MAX.as_nanos() as u64;
    for vid in &vids {
        let vid = *vid;
        let _ = world.ask("repack", move |archive| archive.repack_tape(vid, "to be repacked"));
        world.count("repacks");
    }
    for _ in 0..WRONG_BLOCKS {
        world.machines().faults().once(Fault::TapeBitFlip, Target::Any, 8 + below(60));
    }
    loop {
        simulated::pause(LOOK_EVERY);
        if simulated::now() + REPACK_MAX.as_nanos() as u64 / 2 > deadline {
            world.machines().faults().clear();
        }
        let _ = world.ask("operate", crate::clients::give_back);
        let repacked = vids.clone();
        let left = world.ask("look at the repacks", move |archive| {
            let mut left = Vec::new();
            for vid in repacked {
                if let Some(repack) = archive.tape_repack(vid)?
                    && !repack.done
                {
                    left.push(format!("{vid}: {repack:?}"));
                }
            }
            Ok(left)
        });
        match left {
            Called::Done(Ok(left)) if left.is_empty() => break,
            Called::Done(Ok(left)) if simulated::now() > deadline => return Err(left.join("; ")),
            _ => {}
        }
    }
    world.machines().faults().clear();
    reclaim(world);
    Ok(())
}
