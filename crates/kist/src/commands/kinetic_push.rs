//! `kist kinetic push`: a drive puts entries to another one; the bytes do not come here.

use bytes::Bytes;
use kinetic::{Answer, Peer, Push, PushOperation, Request};
use serde_json::{Value, json};
use terminal::{Exit, Failure, Outcome, output, text};

use crate::cli::Common;
use crate::commands::kinetic_at::{Reached, parse_bytes, shown, word};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The drive connects to the other one itself, as identity 1 with the well-known key
unless its maker says otherwise.

Example:
  kist kinetic push d1 C:metadata:/f --to d2 --to-port 8123")]
pub struct Args {
    /// The drive that has the entries
    drive: String,
    /// Their keys
    #[arg(required = true, value_parser = parse_bytes)]
    keys: Vec<Bytes>,
    /// The host of the other drive, as the first one reaches it
    #[arg(long, value_name = "HOST")]
    to: String,
    /// Its port
    #[arg(long, value_name = "PORT", default_value_t = kinetic::PORT)]
    to_port: u16,
    /// Over TLS
    #[arg(long)]
    to_tls: bool,
    /// Whatever stands there; else nothing may
    #[arg(long)]
    force: bool,
}

impl Args {
    /// The drive that is asked.
    pub fn drive(&self) -> &str {
        &self.drive
    }
}

/// Runs the command.
pub fn run(drive: &Reached, args: &Args, common: &Common) -> Outcome {
    let operation = |key: &Bytes| PushOperation {
        key: key.clone(),
        new_key: None,
        version: Bytes::new(),
        force: args.force,
        status: None,
        then: None,
    };
    let push = Push {
        peer: Peer { host: args.to.clone(), port: args.to_port, is_tls: args.to_tls },
        operations: args.keys.iter().map(operation).collect(),
    };
    let response = drive.answer(Request::Push(push))?;
    let outcomes = match response.answer {
        Answer::Push(outcomes) if outcomes.len() == args.keys.len() => outcomes,
        _ => return Err(drive.refused("push", &response.status)),
    };
    let mut failed = 0;
    let mut told = Vec::new();
    for (key, outcome) in args.keys.iter().zip(&outcomes) {
        failed += usize::from(!outcome.status.is_success());
        told.push((shown(key), word(&outcome.status), outcome.status.text.clone()));
    }
    if common.json {
        let all: Vec<Value> = told
            .iter()
            .map(|(key, word, text)| json!({ "key": key, "status": word, "text": text }))
            .collect();
        output::json(&all)?;
    } else {
        for (key, word, text) in &told {
            let text = if text.is_empty() { String::new() } else { format!(": {text}") };
            output::line(&format!("{key}: {word}{text}"))?;
        }
    }
    match failed {
        0 => Ok(()),
        _ => {
            let message = format!("{} not pushed", text::plural(failed as u64, "entry"));
            let exit = if failed == told.len() { Exit::Refused } else { Exit::SomeFailed };
            Err(Failure::new(exit, message))
        }
    }
}
