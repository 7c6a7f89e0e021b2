//! Other coders, each a program that answers the requests of benches/peers/README.md.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use terminal::{Failure, Outcome};

use super::core::Round;

/// The longest name of a peer, so that tables stay readable.
const NAME_BYTES_MAX: usize = 24;

/// A peer as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in rows.
    pub name: String,
    /// What is run.
    pub path: PathBuf,
}

impl Program {
    /// `NAME=PROGRAM`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' is no peer: write NAME=PROGRAM, a name of a-z, 0-9 and '-', not kist or memory")
        };
        let (name, path) = text.split_once('=').ok_or_else(wrong)?;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let taken = ["", super::figures::KIST, super::figures::MEMORY];
        if taken.contains(&name) || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            return Err(wrong());
        }
        if path.is_empty() {
            return Err(wrong());
        }
        Ok(Program { name: name.to_owned(), path: PathBuf::from(path) })
    }
}

/// A running peer; it ends with this value.
pub struct Peer {
    name: String,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What a peer may answer.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    gbps: f64,
    version: String,
    error: String,
}

impl Peer {
    /// Starts it on the core of the calling thread.
    pub fn start(program: &Program) -> Outcome<Self> {
        let failed = |error: std::io::Error| {
            let doing = format!("starting the peer {}", program.name);
            Failure::io(&doing, &program.path, &error)
        };
        let mut command = Command::new(&program.path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::internal("a peer was started without pipes"));
        };
        Ok(Peer { name: program.name.clone(), child, requests, answers: BufReader::new(answers) })
    }

    /// 10^9 bytes of data a second in one round, and the peer's version.
    pub fn round(&mut self, round: &Round, file: &Path) -> Outcome<(f64, String)> {
        let shape = round.shape;
        let request = format!(
            "{} {} {} {} {} {} {} {}\n",
            round.operation.name(),
            shape.data,
            shape.parity,
            shape.shard,
            round.stripes,
            round.first,
            round.span.as_micros(),
            file.display()
        );
        let failed = |what: &str| {
            let asked = format!("{} of {}+{}", round.operation.name(), shape.data, shape.parity);
            Failure::internal(format!("the peer {} did not answer {asked}: {what}", self.name))
        };
        let mut line = String::new();
        let asked =
            self.requests.write_all(request.as_bytes()).and_then(|()| self.answers.read_line(&mut line));
        match asked {
            Err(error) => return Err(failed(&error.to_string())),
            Ok(0) => return Err(failed("it has ended")),
            Ok(_) => {}
        }
        let answer: Answer = serde_json::from_str(&line).map_err(|_| failed(line.trim()))?;
        if !answer.error.is_empty() {
            return Err(failed(&answer.error));
        }
        if !(answer.gbps.is_finite() && answer.gbps > 0.0) {
            return Err(failed(line.trim()));
        }
        Ok((answer.gbps, answer.version))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended already needs no ending.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_plain_names_of_their_own() {
        let peer = Program::parse("isa-l=/bin/a=b").unwrap();
        assert_eq!((peer.name.as_str(), peer.path.to_str()), ("isa-l", Some("/bin/a=b")));
        let long = format!("{}=x", "a".repeat(NAME_BYTES_MAX + 1));
        for bad in ["", "isa-l", "=x", "isa-l=", "kist=x", "memory=x", "A=x", "a b=x", &long] {
            assert!(Program::parse(bad).is_err(), "{bad}");
        }
    }
}
