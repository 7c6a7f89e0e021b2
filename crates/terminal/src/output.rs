//! Standard output: data only. A reader that has seen enough (`kist ls | head`) ends the program without
//! noise.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::{Failure, Outcome};

/// For whom a command writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// For programs: JSON instead of text.
    pub json: bool,
    /// No progress, and nothing to be read by people that could be left out.
    pub quiet: bool,
}

/// Writes `text` to standard output.
pub fn write(text: &str) -> Outcome {
    bytes(text.as_bytes())
}

/// Writes `text` and a new line.
pub fn line(text: &str) -> Outcome {
    write(text)?;
    write("\n")
}

/// Writes bytes.
pub fn bytes(bytes: &[u8]) -> Outcome {
    check(io::stdout().lock().write_all(bytes))
}

/// What a command that changes something says when it is done: as JSON, or in a line for people, which
/// `--quiet` leaves out.
pub fn done<T: Serialize>(style: impl Into<Style>, value: &T, text: &str) -> Outcome {
    let Style { json: is_json, quiet } = style.into();
    match (is_json, quiet) {
        (true, _) => json(value),
        (false, true) => Ok(()),
        (false, false) => line(text),
    }
}

/// Writes a line for people to standard error. That nobody reads it (a closed pipe) is no failure of the
/// command.
pub fn note(text: &str) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// Makes sure that all is written.
pub fn flush() -> Outcome {
    check(io::stdout().lock().flush())
}

/// Writes a value as indented JSON and a new line.
pub fn json<T: Serialize>(value: &T) -> Outcome {
    write(&json_text(value)?)
}

/// The same as text.
pub fn json_text<T: Serialize>(value: &T) -> Outcome<String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(text + "\n")
}

fn check(result: io::Result<()>) -> Outcome {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::internal(format!("standard output: {error}"))),
    }
}

/// A JSON array that is written element by element, so that its length does not matter.
pub struct JsonArray {
    elements: u64,
}

impl JsonArray {
    /// Opens the array.
    pub fn begin() -> Outcome<Self> {
        write("[")?;
        Ok(JsonArray { elements: 0 })
    }

    /// Adds an element.
    pub fn push<T: Serialize>(&mut self, value: &T) -> Outcome {
        let text = serde_json::to_string(value).map_err(|error| Failure::internal(error.to_string()))?;
        write(if self.elements == 0 { "\n" } else { ",\n" })?;
        self.elements += 1;
        write(&text)
    }

    /// Closes the array.
    pub fn end(self) -> Outcome {
        write("\n]\n")
    }
}
