//! `kist tape verify`, `repack` and `reclaim`.

use std::time::Duration;

use client::Client;
use terminal::{Exit, Failure, Outcome, Progress, output, text};
use wire::{ReasonBody, TapeCheckBody, TapeCheckReply, TapeDamageReply, TapeRepackReply};

use crate::cli::Common;

/// How often the server is asked.
const POLL_EVERY: Duration = Duration::from_millis(500);

fn target(vid: &str, verb: &str) -> String {
    format!("/api/v1/tapes/{}/{verb}", text::encode(vid))
}

/// Has tapes checked and tells what was found.
pub fn verify(vids: &[String], no_wait: bool, show: bool, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    if !show {
        // In one call: a tape that cannot be checked is told before another one is begun.
        client.post("/api/v1/tapes/verify", &TapeCheckBody { vids: vids.to_vec() })?;
    }
    let mut checks = ask(&client, vids)?;
    if !show && !no_wait {
        let progress = Progress::start_of("checked", "container", 0, 0, common.quiet);
        while checks.iter().any(|check| matches!(check.state.as_str(), "waiting" | "running")) {
            tell(&progress, &checks);
            std::thread::sleep(POLL_EVERY);
            checks = ask(&client, vids)?;
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
    match checks.iter().find(|check| matches!(check.state.as_str(), "failed" | "stopped")) {
        Some(check) if !show => Err(Failure::new(Exit::SomeFailed, not_read(check))),
        _ => Ok(()),
    }
}

fn ask(client: &Client, vids: &[String]) -> Outcome<Vec<TapeCheckReply>> {
    vids.iter().map(|vid| client.get(&target(vid, "verify"))).collect()
}

/// Why a check has ended before all was read.
fn not_read(check: &TapeCheckReply) -> String {
    format!("the check of tape {} has {}: {}", check.vid, check.state, check.reason)
}

/// Calls off checks, and tells how far they came.
pub fn stop_checks(vids: &[String], common: &Common) -> Outcome {
    let client = common.connection.client()?;
    for vid in vids {
        client.post(&target(vid, "verify/stop"), &serde_json::json!({}))?;
    }
    let checks = ask(&client, vids)?;
    match common.json {
        true => output::json(&checks),
        false => checks.iter().try_for_each(print),
    }
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
        "{vid}: {state}, {} of {}, {}, {}, {}, {}, {}",
        text::count(*containers_checked),
        text::plural(*containers, "container"),
        text::size(*bytes_checked),
        text::plural(check.indexes, "index"),
        text::plural(check.segments, "segment"),
        text::plural(check.torn_blocks, "torn block"),
        text::plural(check.damage_count, "damaged place"),
    );
    if check.rate > 0.0 {
        line += &format!(", {}/s", text::size(check.rate as u64));
    }
    let goes_on = matches!(state.as_str(), "waiting" | "running");
    if let Some(left) = check.left.filter(|_| goes_on) {
        line += &format!(", {} left", text::span(Duration::from_secs(left)));
    }
    if !check.reason.is_empty() && matches!(state.as_str(), "waiting" | "failed" | "stopped") {
        line += &format!("; {}", check.reason);
    }
    output::line(&line)?;
    for damage in &check.damage {
        output::line(&format!("  block {}: {}: {}", damage.block, part(damage), damage.reason))?;
        for file in &damage.files {
            output::line(&format!("    {file}"))?;
        }
        if damage.more_files > 0 {
            output::line(&format!("    and {} more", text::files(damage.more_files)))?;
        }
    }
    Ok(())
}

/// What is damaged, and the container that it belongs to.
fn part(damage: &TapeDamageReply) -> String {
    match damage.container {
        None => damage.part.clone(),
        Some(container) if damage.part == "container" => {
            format!("container {container} {}", damage.tape_path)
        }
        Some(container) => format!("{} of container {container} {}", damage.part, damage.tape_path),
    }
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
    ))?;
    match waiting(&reply).or_else(|| ended(&reply)) {
        Some(line) => output::line(&line),
        None => Ok(()),
    }
}

/// What to do with a tape that is empty after its repack.
fn ended(reply: &TapeRepackReply) -> Option<String> {
    let vid = &reply.vid;
    (reply.state == "done").then(|| format!("it is empty: kist tape reclaim {vid} makes it scratch"))
}

/// What a repack waits for, and what hurries it if that helps.
fn waiting(reply: &TapeRepackReply) -> Option<String> {
    let why = reply.waiting.as_ref()?;
    let containers = if reply.under_way > 0 { reply.under_way } else { reply.left };
    // An older server names no kind, and told only of what waits to be written.
    let helps = reply.cause.as_ref().is_none_or(|cause| cause.kind == "waiting-for-bytes");
    Some(format!(
        "{} {} {why}{}",
        text::plural(containers, "container"),
        if containers == 1 { "waits" } else { "wait" },
        if helps { "; kist migrate --now hurries what waits for amounts or ages" } else { "" },
    ))
}

/// Makes an empty tape scratch again.
pub fn reclaim(vid: &str, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    client.post(&target(vid, "reclaim"), &serde_json::json!({}))?;
    let text = format!("tape {vid} is scratch: its volume is written over when it is needed");
    output::done(common, &serde_json::json!({ "vid": vid }), &text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ReasonReply;

    /// `kist tape verify` spoke of a `container container 7`.
    #[test]
    fn a_damaged_part_is_named_once() {
        let damage = |part: &str, container| TapeDamageReply {
            part: part.to_owned(),
            block: 9,
            container,
            tape_path: "/f".to_owned(),
            files: Vec::new(),
            more_files: 0,
            reason: String::new(),
        };
        assert_eq!(part(&damage("container", Some(7))), "container 7 /f");
        assert_eq!(part(&damage("block", Some(7))), "block of container 7 /f");
        assert_eq!(part(&damage("label", None)), "label");
    }

    /// A repack stood still for hours while its containers waited for their tape pool, and did not say so.
    #[test]
    fn a_repack_says_what_it_waits_for() {
        let mut reply = TapeRepackReply {
            vid: "KS0001".to_owned(),
            state: "running".to_owned(),
            moved: 0,
            bytes: 0,
            dropped: 0,
            stuck: 0,
            under_way: 2,
            left: 2,
            waiting: None,
            cause: None,
        };
        assert_eq!(waiting(&reply), None);
        reply.waiting = Some("to be written to tapes of first: waits for more".to_owned());
        let line = waiting(&reply).unwrap();
        assert!(line.starts_with("2 containers wait to be written to tapes of first"), "{line}");
        assert!(line.contains("kist migrate --now"), "{line}");
        (reply.under_way, reply.left) = (0, 1);
        reply.waiting = Some("for a tape that can give them: no copy can be read".to_owned());
        reply.cause = Some(ReasonReply {
            kind: "no-readable-copy".to_owned(),
            text: "no copy can be read".to_owned(),
            tapes: Vec::new(),
            drives: Vec::new(),
            until: None,
            needs_an_operator: true,
        });
        let line = waiting(&reply).unwrap();
        assert_eq!(line, "1 container waits for a tape that can give them: no copy can be read");
    }
}
