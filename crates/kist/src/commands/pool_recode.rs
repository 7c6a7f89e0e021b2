//! `kist pool recode`: what is stored in another code is written anew.

use std::time::Duration;

use client::Client;
use terminal::{Outcome, output, text};
use wire::{RecodeBegunReply, RecodeEndReply, RecodingReply};

/// Begins it, or ends it.
pub(super) fn run(client: &Client, end: bool, json: bool) -> Outcome {
    let empty = serde_json::json!({});
    if end {
        let ended: RecodeEndReply = client.post_for("/api/v1/pool/recode/end", &empty)?;
        if json {
            return output::json(&ended);
        }
        return output::line(match ended.was_on {
            true => "ended: what was written anew stays so",
            false => "none is under way",
        });
    }
    let begun: RecodeBegunReply = client.post_for("/api/v1/pool/recode", &empty)?;
    if json {
        return output::json(&begun);
    }
    output::line(&format!(
        "what is stored in another code is written anew in {}: kist pool show tells how far that is",
        begun.to
    ))
}

/// How far it is.
pub(super) fn progress(recoding: &RecodingReply) -> String {
    let RecodingReply { to, blobs, blobs_total, bytes, bytes_total, .. } = recoding;
    let done = format!(
        "{} of {} and {} of {} written",
        text::count(*blobs),
        text::plural(*blobs_total, "blob"),
        text::size(*bytes),
        text::size(*bytes_total)
    );
    let reason = recoding.reason.clone().unwrap_or_default();
    match (recoding.state.as_str(), recoding.remaining_seconds) {
        ("ended", _) => format!("change of code to {to}: ended: {reason}; {done}"),
        ("waiting", _) => format!("change of code to {to}: waits: {reason}; {done}"),
        ("counting", _) => format!("change of code to {to}: counts what is in another"),
        (_, Some(left)) => format!(
            "change of code to {to}: {done}, {}/s, about {} left",
            text::size(recoding.rate),
            text::span(Duration::from_secs_f64(left.clamp(0.0, 1e9)))
        ),
        (_, None) => format!("change of code to {to}: {done}"),
    }
}
