//! What the people who run the pool do: they empty drives, move what is stored between them, and change its
//! code.

use base::{PercentPoints, StripeCode};

use crate::run::Aftermath;
use crate::world::{Called, World, below, one_of};

/// What the pool may get as its code. All bear two losses.
pub const CODES: [StripeCode; 4] = [
    StripeCode::reed_solomon(2, 2),
    StripeCode::reed_solomon(3, 2),
    StripeCode::reed_solomon(4, 3),
    StripeCode { data: 4, local: 2, global: 1 },
];
/// Disks of such a world: one may be emptied and one fail.
pub const DISKS: u16 = 10;
/// Those of a group beside them: one may be emptied or fail.
pub const GROUP_DISKS: u16 = 5;

fn disks(world: &World) -> u16 {
    u16::try_from(world.machines().disks().len()).unwrap_or(u16::MAX)
}

/// Does one thing.
pub fn act(world: &World) {
    let disk = 1 + below(u64::from(disks(world))) as u16;
    let (what, called) = match below(12) {
        0 => {
            // kist.toml is changed, and the server started again.
            world.set_code(one_of(&CODES));
            world.kill();
            return world.count("codes in kist.toml");
        }
        1..=4 => ("changes of code", world.ask("recode", |archive| archive.pool_recode().map(drop))),
        5 => (
            "changes of code ended",
            world.ask("end a recode", |archive| archive.pool_recode_end().map(drop)),
        ),
        6 | 7 => {
            let to = PercentPoints(one_of(&[0, 5]));
            ("rebalances", world.ask("rebalance", move |archive| archive.pool_rebalance(to)))
        }
        8 => (
            "rebalances ended",
            world.ask("end a rebalance", |archive| archive.pool_rebalance_end().map(drop)),
        ),
        9 if drains(world) == 0 => {
            ("drains", world.ask("drain", move |archive| archive.pool_drive_drain(disk)))
        }
        _ => return end_drains(world),
    };
    if let Called::Done(Ok(())) = called {
        world.count(what);
    }
}

/// How many drives are being emptied; some if nobody tells.
fn drains(world: &World) -> usize {
    match world.ask("look at the drives", |archive| archive.pool_info()) {
        Called::Done(Ok(info)) => info.drives.iter().filter(|drive| drive.drain.is_some()).count(),
        _ => usize::MAX,
    }
}

fn end_drains(world: &World) {
    for disk in 1..=disks(world) {
        let _ = world.ask("end a drain", move |archive| archive.pool_drive_keep(disk));
    }
}

/// Everything gets the last code, and is spread over all drives.
///
/// # Panics
/// If that does not end.
pub fn finish(after: &Aftermath, world: &World) {
    end_drains(world);
    let code = world.code();
    let seen = world.clone();
    let _ = after.ask("recode", |archive| archive.pool_recode());
    let _ = after.ask("rebalance", |archive| archive.pool_rebalance(PercentPoints(0)));
    after.wait_until("the pool is as the operator wants it", move |archive| {
        let info = archive.pool_info()?;
        let recoding = info.recoding.as_ref().map(|info| (info.to, info.state.clone()));
        let rebalance = info.rebalance.as_ref().map(|info| info.state.clone());
        if info.groups.iter().any(|group| group.left.0 > 0) {
            seen.count("moves out of a group, as the last server saw them");
        }
        let is_over = matches!(&recoding, Some((to, archive::PoolWork::Ended(_))) if *to == code)
            && matches!(rebalance, Some(archive::PoolWork::Ended(_)))
            && info.groups.iter().all(|group| matches!(group.state, archive::PoolWork::Ended(_)));
        let groups: Vec<_> = info.groups.iter().map(|group| &group.state).collect();
        Ok((!is_over).then(|| format!("{recoding:?}, {rebalance:?}, {groups:?}")))
    });
}
