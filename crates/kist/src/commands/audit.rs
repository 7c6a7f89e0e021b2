//! `kist audit`: reads the audit log of an instance on this machine, with or without a running server.

use authority::{AuditFault, AuditLine, AuditSummary, read_audit};
use base::{Blake3, Duration, Timestamp};
use serde_json::json;
use terminal::{Exit, Failure, Outcome, output, text};

use crate::cli::Common;
use crate::instance::{Instance, LOG_DIRECTORY};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The log is read in DIR/log of the instance (--instance), whether its server runs or
not. Whoever may write there could write a whole new log: keep the hash that verify
prints elsewhere, and give it to --contains later.

Examples:
  kist audit verify --instance /srv/kist
  kist audit show --since 1d")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Prove that no line was changed, removed, added or moved
    Verify {
        /// Prove too that the log has the line with this hash, which was printed by an earlier verify
        #[arg(long, value_name = "HASH", value_parser = hash)]
        contains: Option<Blake3>,
    },
    /// Show who did what, and who was refused
    Show {
        /// Only of this last time, such as 1d
        #[arg(long, value_name = "SPAN", value_parser = span)]
        since: Option<Duration>,
    },
}

fn hash(input: &str) -> Result<Blake3, String> {
    Blake3::parse(input).ok_or_else(|| "a hash has 64 hexadecimal digits".to_owned())
}

fn span(input: &str) -> Result<Duration, String> {
    text::parse_span(input).ok_or_else(|| "say a span of time with its unit, such as 1d".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let instance = Instance::local(&common.connection)?;
    let logs = instance.path(LOG_DIRECTORY);
    match &args.action {
        Action::Verify { contains } => {
            let summary = read_audit(&logs, *contains, &mut |_, _| {}).map_err(failure)?;
            if contains.is_some() && !summary.has_expected {
                let message =
                    "the log has no line with that hash: lines were removed, or all was written anew";
                return Err(Failure::new(Exit::Differs, message));
            }
            verified(&summary, common)
        }
        Action::Show { since } => {
            let from = since.map_or(Timestamp(i64::MIN), |since| before(text::now(), since));
            let mut told = Ok(());
            let read = read_audit(&logs, None, &mut |number, line| {
                if told.is_ok() {
                    told = show(number, line, from, common);
                }
            });
            told?;
            read.map(drop).map_err(failure)
        }
    }
}

fn before(now: Timestamp, span: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
}

fn failure(fault: AuditFault) -> Failure {
    let exit = match fault {
        AuditFault::Io { .. } => Exit::Internal,
        _ => Exit::Differs,
    };
    Failure::new(exit, fault.to_string())
}

fn verified(summary: &AuditSummary, common: &Common) -> Outcome {
    if common.json {
        return output::json(&json!({
            "files": summary.files,
            "lines": summary.lines,
            "last": summary.last,
            "hash": summary.hash.to_string(),
            "complete": summary.is_complete,
        }));
    }
    output::line(&format!(
        "good   {} in {}",
        text::plural(summary.lines, "line"),
        text::plural(summary.files, "file")
    ))?;
    if !summary.is_complete {
        output::line("       the oldest files are gone: their lines cannot be proved")?;
    }
    output::line(&format!("last   line {}", summary.last))?;
    output::line(&format!("hash   {}", summary.hash))
}

/// One line of text or of JSON each, so that a log of any length can be shown.
fn show(number: u64, line: &AuditLine, from: Timestamp, common: &Common) -> Outcome {
    let AuditLine::Entry(entry) = line else { return Ok(()) };
    if entry.at < from {
        return Ok(());
    }
    let at = entry.at.to_string();
    if common.json {
        let value = json!({
            "line": number,
            "at": at,
            "who": entry.who,
            "how": entry.how,
            "peer": entry.peer,
            "verb": entry.verb,
            "what": entry.what,
            "outcome": entry.outcome.word(),
            "note": entry.note,
        });
        return output::line(&value.to_string());
    }
    let note = if entry.note.is_empty() { String::new() } else { format!(": {}", entry.note) };
    let (who, how, verb, what) = (&entry.who, &entry.how, &entry.verb, &entry.what);
    // What others named may hold anything: it is written so that it cannot move the cursor.
    let shown = format!("{who} ({how}) {verb} {what} {}{note}", entry.outcome.word());
    output::line(&format!("{at}  {}", harmless(&shown)))
}

/// The text with all that could move a cursor written out, and quotes as they are.
fn harmless(text: &str) -> String {
    let is_quote = |one: char| matches!(one, '\'' | '"');
    let parts = text.split_inclusive(is_quote).map(|part| match part.strip_suffix(is_quote) {
        Some(before) => format!("{}{}", before.escape_debug(), &part[before.len()..]),
        None => part.escape_debug().to_string(),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: "nor a directory above it is the caller\\'s".
    #[test]
    fn quotes_stay_and_what_moves_the_cursor_does_not() {
        assert_eq!(harmless("the caller's \"x\" é"), "the caller's \"x\" é");
        assert_eq!(harmless("a'\u{1b}[2J'\n"), "a'\\u{1b}[2J'\\n");
        assert_eq!(harmless(""), "");
    }
}
