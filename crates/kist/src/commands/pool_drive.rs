//! What is said of a drive of the pool.

use client::Client;
use terminal::{Exit, Failure, Outcome, Table, output, text};
use wire::{BurnInReply, DrainReply, DriveDiskReply, DriveSlotWire, PoolDriveReply, PoolReply};

/// `kist pool drive show`: one drive with its burn-in.
pub fn show(client: &Client, id: u16, json: bool) -> Outcome {
    let pool: PoolReply = client.get("/api/v1/pool")?;
    let Some(drive) = pool.drives.into_iter().find(|drive| drive.id == id) else {
        return Err(Failure::new(Exit::NotFound, format!("the pool has no drive {id}: see kist pool show")));
    };
    if json {
        return output::json(&drive);
    }
    let mut table = Table::new(&["what", "value"]);
    let mut row = |what: &str, value: String| table.row(vec![what.to_owned(), value]);
    row("drive", drive.id.to_string());
    row("directory", drive.path.clone());
    row("host", drive.host.clone());
    if !drive.group.is_empty() {
        row("group", drive.group.clone());
    }
    row("state", drive.state.clone());
    row("file system", format!("{} of {} used", text::size(drive.used), text::size(drive.capacity)));
    row("since the start", format!("{} read, {} written", text::size(drive.read), text::size(drive.written)));
    row("errors", text::count(drive.errors));
    row("read and written by", format!("{}, {} at a time", drive.io, drive.depth));
    if let Some(disk) = &drive.disk {
        row("disk", disk.disk.clone());
        row("slot", disk.slot.as_ref().map_or_else(|| "not known".to_owned(), slot_words));
        row("disk is", judged(disk));
        row("light", if disk.light.is_some() { "on" } else { "not switched on" }.to_owned());
    }
    row("burn-in", drive.burn_in.as_ref().map_or_else(|| "none is recorded".to_owned(), burnt_in));
    output::write(&table.render())?;
    remarks(&drive).iter().try_for_each(|remark| output::line(remark))
}

fn slot_words(slot: &DriveSlotWire) -> String {
    format!("{} of enclosure {}", slot.number, slot.enclosure)
}

/// What was said of a disk when it was last seen.
fn judged(disk: &DriveDiskReply) -> String {
    let Some(seen) = &disk.seen else { return "not seen since the start: see kist disk watch".to_owned() };
    let why: String = disk.reasons.iter().map(|reason| format!("; {}", reason.text)).collect();
    format!("{}{why} ({})", disk.verdict, text::whole_seconds(seen))
}

/// On which disk a drive is or was, and in which slot.
fn where_disk_is(drive: &PoolDriveReply, disk: &DriveDiskReply) -> String {
    let slot = disk.slot.as_ref().map(|slot| format!(", in slot {}", slot_words(slot))).unwrap_or_default();
    let light = if disk.light.is_some() { "; its light is on" } else { "" };
    let verb = if drive.up { "is" } else { "was" };
    format!("drive {}: its disk {verb} {}{slot}{light}", drive.id, disk.disk)
}

/// Why a drive is as it is, for `kist why`: its state, its disk with the slot, and what is being done.
pub fn why(drive: &PoolDriveReply) -> Vec<String> {
    let mut lines =
        vec![format!("drive {} at {} of {} is {}", drive.id, drive.path, drive.host, drive.state)];
    match &drive.disk {
        None => lines.push(format!("drive {}: its disk is not known: kist disk watch tells of it", drive.id)),
        Some(disk) => lines.push(where_disk_is(drive, disk)),
    }
    for remark in remarks(drive) {
        if !lines.contains(&remark) {
            lines.push(remark);
        }
    }
    lines
}

/// What is to be known of the disk of a drive that is not well, or whose disk is not.
fn about_disk(drive: &PoolDriveReply) -> Vec<String> {
    let (id, Some(disk)) = (drive.id, &drive.disk) else { return Vec::new() };
    let mut lines = Vec::new();
    let slot = disk.slot.as_ref().map(|slot| format!(", in slot {}", slot_words(slot))).unwrap_or_default();
    let is_unwell = !drive.up || drive.slow.is_some() || drive.errors > 0;
    if is_unwell || disk.drained.is_some() || disk.light.is_some() {
        lines.push(where_disk_is(drive, disk));
    }
    if let Some(why) = &disk.drained {
        lines.push(format!("drive {id}: emptied by itself, since its disk foretells its failure: {why}"));
    } else if let Some(reason) = disk.reasons.iter().find(|reason| reason.predicts && drive.up) {
        let next =
            if drive.drain.is_none() { format!(": kist pool drive drain {id}") } else { String::new() };
        let why = &reason.text;
        lines.push(format!("drive {id}: its disk {}{slot} foretells its failure: {why}{next}", disk.disk));
    }
    lines.extend(
        disk.waits.iter().map(|waits| format!("drive {id}: nothing is done by itself: {}", waits.text)),
    );
    lines
}

/// When a drive was burnt in, and what came of it.
fn burnt_in(burn_in: &BurnInReply) -> String {
    let slow = match burn_in.slow_places {
        0 => String::new(),
        slow => format!(", {}", text::plural(u64::from(slow), "slow place")),
    };
    let doubts: String = burn_in.doubts.iter().map(|doubt| format!("; {doubt}")).collect();
    let faults = match burn_in.faults {
        0 => String::new(),
        faults => format!(", {}", text::plural(faults, "fault")),
    };
    format!(
        "{}, {}: {} of {} written at {}, read at {}; latency by zone at most {} in the middle, {} for 99 of \
         100{slow}{faults}{doubts}",
        burn_in.verdict,
        text::whole_seconds(&burn_in.ended),
        text::size(burn_in.bytes),
        text::size(burn_in.capacity),
        bench::disks::mb(burn_in.write_rate as f64),
        bench::disks::mb(burn_in.read_rate as f64),
        bench::disks::brief(burn_in.median_seconds_max),
        bench::disks::brief(burn_in.p99_seconds_max)
    )
}

/// What happened to a drive, and what it may lack.
pub fn remarks(drive: &PoolDriveReply) -> Vec<String> {
    let what = (!drive.reason.is_empty()).then(|| format!("drive {}: {}", drive.id, drive.reason));
    let id = drive.id;
    let lacks = match drive.gaps_after {
        // One that was just put in was never away.
        _ if drive.filling => {
            Some(format!("drive {id}: new: the shards that should be on it are being written (kist scrub)"))
        }
        Some(change) => {
            Some(format!("drive {id}: may lack what was written after change {change}: that is written anew"))
        }
        None => None,
    };
    let slow = drive.slow.map(|times| {
        format!(
            "drive {id}: slow: it takes {times} times as long as the others, which get the new data: see \
             kist disk health; if it stays so, kist pool drive drain {id}"
        )
    });
    let lost = (drive.state == "lost").then(|| {
        format!(
            "drive {id}: given up: what it held is rebuilt on the others; kist pool drive replace {id} puts \
             it, or another, in its place"
        )
    });
    let removed = (drive.state == "removed")
        .then(|| format!("drive {id}: taken out: delete its [[pool.drives]] from kist.toml"));
    what.into_iter()
        .chain(about_disk(drive))
        .chain(lacks)
        .chain(slow)
        .chain(drive.drain.as_ref().map(|drain| drained(id, drain)))
        .chain(lost)
        .chain(removed)
        .collect()
}

/// How far a drive is emptied.
fn drained(id: u16, drain: &DrainReply) -> String {
    if drain.empty {
        return format!("drive {id}: empty: kist pool drive remove {id} takes it out");
    }
    let far = format!(
        "drive {id}: {} of {} moved to other drives, {} of about {}",
        text::count(drain.moved),
        text::plural(drain.shards, "shard"),
        text::size(drain.moved_bytes),
        text::size(drain.bytes)
    );
    let stuck = drain.reason.as_ref().filter(|_| drain.stuck > 0);
    if let Some(reason) = stuck {
        return format!("{far}; {} stay for now: {reason}", text::plural(drain.stuck, "shard"));
    }
    match drain.remaining_seconds {
        Some(left) => {
            format!(
                "{far}, {}/s, about {} left",
                text::size(drain.rate),
                text::span(std::time::Duration::from_secs_f64(left.clamp(0.0, 1e9)))
            )
        }
        None => far,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: the column of states had sentences of 230 characters.
    #[test]
    fn what_happened_to_a_drive_stands_below_the_table() {
        let drive = PoolDriveReply {
            id: 3,
            path: "/d3".to_owned(),
            host: "localhost".to_owned(),
            group: String::new(),
            state: "away".to_owned(),
            reason: "its directory is gone".to_owned(),
            up: false,
            full: false,
            gaps_after: None,
            filling: false,
            slow: None,
            burn_in: None,
            io: "threads".to_owned(),
            depth: 1,
            disk: None,
            drain: None,
            capacity: 0,
            used: 0,
            read: 0,
            written: 0,
            errors: 0,
        };
        assert_eq!(remarks(&drive), ["drive 3: its directory is gone"]);
        let back = PoolDriveReply { reason: String::new(), gaps_after: Some(7), ..drive };
        assert!(remarks(&back)[0].starts_with("drive 3: may lack what was written after change 7"));
        // Story: one that was just added "may lack what was written", as if it had been away.
        let new = PoolDriveReply { gaps_after: Some(0), filling: true, ..back };
        assert!(remarks(&new)[0].starts_with("drive 3: new: the shards"), "{:?}", remarks(&new));
        let slow = PoolDriveReply { gaps_after: None, filling: false, slow: Some(14), ..new };
        assert!(remarks(&slow)[0].starts_with("drive 3: slow: it takes 14 times as long as the others"));
    }
}
