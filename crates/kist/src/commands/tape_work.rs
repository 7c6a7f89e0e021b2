//! `kist tape verify`, `repack` and `reclaim`.

use std::time::Duration;

use door::wire::{ReasonBody, TapeCheckReply, TapeRepackReply};

use crate::cli::Common;
use crate::client::Client;
use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use crate::{output, text};

/// How often the server is asked.
const POLL_EVERY: Duration = Duration::from_millis(500);

fn target(vid: &str, verb: &str) -> String {
    format!("/api/v1/tapes/{}/{verb}", text::encode(vid))
}

/// Has tapes checked and tells what was found.
pub fn verify(vids: &[String], no_wait: bool, show: bool, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    if !show {
        for vid in vids {
            client.post(&target(vid, "verify"), &serde_json::json!({}))?;
        }
    }
    let ask = || vids.iter().map(|vid| client.get(&target(vid, "verify"))).collect::<Outcome<Vec<_>>>();
    let mut checks: Vec<TapeCheckReply> = ask()?;
    if !show && !no_wait {
        let progress = Progress::start_of("checked", "container", 0, 0, common.quiet);
        while checks.iter().any(|check| matches!(check.state.as_str(), "waiting" | "running")) {
            tell(&progress, &checks);
            std::thread::sleep(POLL_EVERY);
            checks = ask()?;
        }
    }
    if common.json {
        output::json(&checks)?;
    } else {
        checks.iter().try_for_each(print)?;
    }
    let damage: u64 = checks.iter().map(|check| check.damage_count).sum();
    if damage > 0 {
        let places = text::plural(damage, "damaged place");
        return Err(Failure::new(Exit::Differs, format!("{places} found; copies are mended where they can")));
    }
    Ok(())
}

fn tell(progress: &Progress, checks: &[TapeCheckReply]) {
    let sum = |of: fn(&TapeCheckReply) -> u64| checks.iter().map(of).sum::<u64>();
    progress.set_totals(sum(|check| check.containers), sum(|check| check.bytes));
    progress.set(sum(|check| check.containers_checked), sum(|check| check.bytes_checked));
    let waiting = checks.iter().find(|check| check.state == "waiting");
    progress.note(&waiting.map_or_else(String::new, |check| format!("{}: {}", check.vid, check.reason)));
}

fn print(check: &TapeCheckReply) -> Outcome {
    let TapeCheckReply { vid, state, containers_checked, containers, bytes_checked, .. } = check;
    let mut line = format!(
        "{vid}: {state}, {} of {} containers, {}, {} indexes, {} segments, {} torn blocks, {}",
        text::count(*containers_checked),
        text::count(*containers),
        text::size(*bytes_checked),
        text::count(check.indexes),
        text::count(check.segments),
        text::count(check.torn_blocks),
        text::plural(check.damage_count, "damaged place"),
    );
    if check.rate > 0.0 {
        line += &format!(", {}/s", text::size(check.rate as u64));
    }
    if let Some(left) = check.left.filter(|_| state != "done") {
        line += &format!(", {} left", text::span(Duration::from_secs(left)));
    }
    if !check.reason.is_empty() && state == "waiting" {
        line += &format!("; {}", check.reason);
    }
    output::line(&line)?;
    for damage in &check.damage {
        let container = damage
            .container
            .map_or_else(String::new, |container| format!(" container {container} {}", damage.tape_path));
        output::line(&format!("  block {}: {}{container}: {}", damage.block, damage.part, damage.reason))?;
        for file in &damage.files {
            output::line(&format!("    {file}"))?;
        }
        if damage.more_files > 0 {
            output::line(&format!("    and {} more", text::files(damage.more_files)))?;
        }
    }
    Ok(())
}

/// Begins a repack, or tells how far it is.
pub fn repack(vid: &str, reason: &str, show: bool, common: &Common) -> Outcome {
    let client: Client = common.connection.client()?;
    if !show {
        client.post(&target(vid, "repack"), &ReasonBody { reason: reason.to_owned() })?;
    }
    let reply: TapeRepackReply = client.get(&target(vid, "repack"))?;
    if common.json {
        return output::json(&reply);
    }
    output::line(&format!(
        "{vid}: {}, {} moved ({}), {} dropped, {} under way, {} stuck, {} left",
        reply.state,
        text::count(reply.moved),
        text::size(reply.bytes),
        text::count(reply.dropped),
        text::count(reply.under_way),
        text::count(reply.stuck),
        text::count(reply.left),
    ))
}

/// Makes an empty tape scratch again.
pub fn reclaim(vid: &str, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    client.post(&target(vid, "reclaim"), &serde_json::json!({}))?;
    if common.json { output::json(&serde_json::json!({ "vid": vid })) } else { Ok(()) }
}
