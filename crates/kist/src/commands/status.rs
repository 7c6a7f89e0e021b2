//! `kist status`.

use base::ByteCount;
use terminal::{Failure, Outcome, output, text};
use wire::StatusReply;
use wire::{BackupReply, ChangeLogReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist status --json")]
pub struct Args {}

/// Runs the command.
pub fn run(_: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let status: StatusReply = client.get("/api/v1/status")?;
    let backup: BackupReply = client.get("/api/v1/backup")?;
    if common.json {
        let mut json = serde_json::to_value(&status).map_err(|error| Failure::internal(error.to_string()))?;
        if let Some(object) = json.as_object_mut() {
            object.insert("backup".to_owned(), serde_json::json!(backup));
        }
        return output::json(&json);
    }
    let amount = |files: u64, bytes: u64| format!("{}, {}", text::files(files), text::size(bytes));
    let lines = [
        ("server", format!("{} (kist {}), instance {}", client.url(), status.version, status.instance)),
        ("archived", amount(status.files, status.bytes)),
        ("online", amount(status.online_files, status.online_bytes)),
        ("evictable", evictable(&status)),
        ("lost", lost(&status)),
        ("pool", pool(&status)),
        ("unsealed", text::files(status.todo_files)),
        (
            "to tape",
            format!(
                "{}, {}",
                text::plural(status.queued_containers, "container copy"),
                text::size(status.queued_bytes)
            ),
        ),
        ("unindexed", text::plural(status.unindexed_containers, "container copy")),
        (
            "tape",
            format!(
                "{} written, {}, {}, {}, {}",
                text::size(status.tape_written),
                text::plural(status.mounts, "mount"),
                text::plural(status.packs, "pack"),
                text::plural(status.flushes, "flush point"),
                text::plural(status.indexes, "index")
            ),
        ),
        ("memory", text::size(status.memory_anonymous)),
        ("backup", super::backup::standing(&backup)),
        ("log", backup.log.as_ref().map_or_else(String::new, change_log)),
    ];
    lines.iter().try_for_each(|(name, value)| output::line(&format!("{name:<10} {value}")))?;
    for line in &status.waiting {
        let what = format!("{} ({}): {}", line.what, text::size(line.bytes), line.reason);
        output::line(&format!("{:<10} {what}", "waits"))?;
    }
    status.warnings.iter().try_for_each(|warning| output::line(&format!("{:<10} {warning}", "warning")))
}

/// How long the catalogue's log of changes is, and from where on it goes. Why it is not shorter is told only
/// where it lacks something; else `--json` has it.
fn change_log(log: &ChangeLogReply) -> String {
    let (changes, bytes) = (text::plural(log.changes, "change"), text::size(log.bytes));
    let from = match (log.first, log.base) {
        (0 | 1, _) => "all since the first one".to_owned(),
        (first, 0) => format!("since change {first}; no base on tapes counts: {}", log.kept),
        (first, base) => format!("since change {first}; tapes have the catalogue up to change {base}"),
    };
    format!("{changes} of the catalogue, {bytes}, {from}")
}

/// What an evict could take from the pool now, and what pins keep from it.
fn evictable(status: &StatusReply) -> String {
    let amount = |files: u64, bytes: u64| format!("{}, {}", text::files(files), text::size(bytes));
    let now = match status.evictable_files {
        0 => "nothing".to_owned(),
        files => format!("up to {}", amount(files, status.evictable_bytes)),
    };
    match status.pinned_files {
        0 => now,
        files => format!("{now}; {} but for pins", amount(files, status.pinned_bytes)),
    }
}

/// Files that cannot be read any more, and what lists them.
fn lost(status: &StatusReply) -> String {
    match (status.lost_files, status.lost_files_counted) {
        (None, _) => "not known: the server is older".to_owned(),
        (Some(0), true) => "nothing".to_owned(),
        (Some(0), false) => "nothing known: files are being counted since the start".to_owned(),
        (Some(files), true) => format!("{} LOST: kist scrub names them", text::files(files)),
        (Some(files), false) => {
            format!("{} LOST at least, being counted: kist scrub names them", text::files(files))
        }
    }
}

/// How full the pool is, and how many of its drives work.
fn pool(status: &StatusReply) -> String {
    let mut up = format!("{} of {} up", status.pool_drives_up, text::plural(status.pool_drives, "drive"));
    if status.pool_drives_full > 0 {
        up += &format!(", of these {} full", text::count(status.pool_drives_full));
    }
    let fill = base::percent(ByteCount(status.pool_used), ByteCount(status.pool_capacity));
    let Some(fill) = fill else { return up };
    format!(
        "{fill}% full, {} of {} on the drives' file systems; {up}",
        text::size(status.pool_used),
        text::size(status.pool_capacity)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(first: u64, base: u64) -> String {
        let (changes, bytes, kept) = (20, 4_096, "its oldest changes are younger".to_owned());
        change_log(&ChangeLogReply { changes, bytes, first, base, kept, failing: None })
    }

    /// Story: "no base on tapes counts", and why the log was no shorter, was said of every young instance, as
    /// if something were wrong.
    #[test]
    fn a_log_that_lacks_nothing_gives_no_reasons() {
        assert!(log(1, 0).ends_with("of the catalogue, 4.10 kB, all since the first one"), "{}", log(1, 0));
        assert!(log(50, 0).contains("no base on tapes counts: its oldest"), "{}", log(50, 0));
        assert!(log(50, 49).ends_with("since change 50; tapes have the catalogue up to change 49"));
    }
}
