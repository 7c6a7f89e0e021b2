//! When an operator had everything written at once: `kist migrate --now` has no line in the access log.
//!
//! It is seen in the mounts that were not due, and, where the tape was in a drive already, in packs that were
//! neither full nor old enough when they were written.

use std::collections::BTreeMap;

use base::{ClassId, Duration, Timestamp};
use scheduler::Policy;

use super::record::{KnownFile, Record, Written};
use super::{RecordedMount, Server};
use twin::world::MountKind;

/// Haste that is known from a pack is taken to have come so long after the last file of the pack.
const JUST_AFTER: Duration = Duration::from_millis(1);

/// Finds the mounts to write that were ordered although neither `mount_bytes` nor `mount_age` of their pool
/// was reached, and that did not go on where another tape had become full: an operator said `migrate --now`,
/// of which there is no line in the access log. `policy` is the server's own, not a changed one.
pub fn find_forced(mounts: &mut [RecordedMount], policy: &Policy) {
    mounts.sort_by_key(|mount| mount.ordered);
    // By pool: when the last mount to write before this one ended.
    let mut ended: BTreeMap<String, Timestamp> = BTreeMap::new();
    for mount in mounts.iter_mut().filter(|mount| mount.kind == Some(MountKind::Migrate)) {
        let (Some(pool), Some(oldest)) = (&mount.tape_pool, mount.oldest) else { continue };
        let Some(rules) = policy.tape_pools.values().find(|rules| rules.name == *pool) else { continue };
        let is_ripe = mount.queued >= rules.mount_bytes || mount.ordered.since(oldest) >= rules.mount_age;
        let goes_on = ended.get(pool).is_some_and(|ended| oldest < *ended);
        mount.is_forced = !is_ripe && !goes_on;
        let end = mount.unmounting.or(mount.unmounted).unwrap_or(Timestamp(i64::MAX));
        let ended = ended.entry(pool.clone()).or_insert(end);
        *ended = (*ended).max(end);
    }
}

/// When somebody must have asked for everything to be written, ascending.
pub(super) fn times(server: &Server, record: &Record, mounts: &[RecordedMount]) -> Vec<Timestamp> {
    let forced = mounts.iter().filter(|mount| mount.is_forced).map(|mount| mount.ordered);
    let mut known: Vec<Timestamp> = forced.collect();
    for (class, model) in server.classes.iter().enumerate() {
        let id = ClassId(class as u16 + 1);
        let Some(rules) = server.policy.classes.get(&id) else { continue };
        let is_small = |file: &&KnownFile| {
            file.class.as_deref() == Some(model.name.as_str()) && file.bytes < model.large.0
        };
        let files = record.puts.iter().filter_map(|(at, id)| Some((*at, record.files.get(id)?)));
        let files = files.filter(|(_, file)| is_small(file)).map(|(at, file)| (at, file.bytes));
        let files: Vec<(Timestamp, u64)> = files.collect();
        let largest = files.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        // By tape pool: the first of these files that no pack has taken yet.
        let mut next: BTreeMap<&str, usize> = BTreeMap::new();
        let of_class = |pack: &&Written| pack.class.as_deref() == Some(model.name.as_str());
        // A large file is a container of its own; a pack may well be larger.
        let is_pack = |written: &&Written| written.members > 1 || written.length < model.large.0;
        for pack in record.packs.iter().filter(of_class).filter(is_pack) {
            let first = next.entry(&pack.pool).or_default();
            let members = files.get(*first..).unwrap_or_default();
            let members = members.get(..pack.members as usize).unwrap_or(members);
            *first += members.len();
            let (Some(oldest), Some(newest)) = (members.first(), members.last()) else { continue };
            let is_full = pack.length.saturating_add(largest) >= rules.pack_bytes.0;
            let is_old = pack.at.since(oldest.0) >= rules.pack_age;
            let is_explained = known.iter().any(|at| *at >= newest.0 && *at <= pack.at);
            if !is_full && !is_old && !is_explained && newest.0 <= pack.at {
                known.push(newest.0.plus(JUST_AFTER));
            }
        }
    }
    known.sort_unstable();
    known
}
