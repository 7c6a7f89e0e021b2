//! How a command fails: an exit code that scripts can rely on, and a sentence for people.

use std::fmt;
use std::io;
use std::path::Path;

/// The exit codes, documented in docs/reference/cli.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Some items failed, the others were done.
    SomeFailed,
    /// The command line or the configuration is wrong.
    Usage,
    /// What was named is not there.
    NotFound,
    /// Kist refuses: NEARLINE, exists already, not empty, full.
    Refused,
    /// No server answers.
    Unreachable,
    /// No key, or a wrong one.
    NotAuthorised,
    /// Bytes differ, are corrupt or lost.
    Differs,
    /// Anything else: an error of the system or of Kist.
    Internal,
    /// What is known to have been there is missing, and nobody has said to go on without it.
    Incomplete,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::SomeFailed => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::Refused => 4,
            Exit::Unreachable => 5,
            Exit::NotAuthorised => 6,
            Exit::Differs => 7,
            Exit::Internal => 8,
            Exit::Incomplete => 9,
        }
    }

    /// The code for an error of the server, by its stable word, else by the HTTP status.
    pub fn of_problem(kind: &str, status: u16) -> Exit {
        match kind {
            "digest-mismatch" | "length-mismatch" | "corrupt" | "lost" => Exit::Differs,
            "pool-full" | "room-is-being-made" | "server-full" | "drives-away" | "quota-exceeded" => {
                Exit::Refused
            }
            // As for any other thing that is named; its status is 400, since no path of the API names it.
            "no-such-class" => Exit::NotFound,
            _ => match status {
                400 | 405 => Exit::Usage,
                401 | 403 => Exit::NotAuthorised,
                404 => Exit::NotFound,
                408 | 502..=504 => Exit::Unreachable,
                410 => Exit::Differs,
                402..=499 => Exit::Refused,
                _ => Exit::Internal,
            },
        }
    }
}

/// The text of `kist help exit-codes`.
pub const EXIT_CODES: &str = "\
Exit codes of kist:

  0  done
  1  some items failed, the others were done, or they failed in different ways;
     each failure is on standard error. If all items failed in the same way, the
     code is that of this failure; directories that a put has made do not count
  2  wrong usage: the command line, a path or kist.toml
  3  not found
  4  refused: NEARLINE (stage it first), exists already, not empty, pool full,
     drives away, quota exceeded
  5  no server answers
  6  not authorised: no key, or a wrong one
  7  data differs, is corrupt or lost
  8  internal: an error of the system or of Kist
  9  incomplete: restore or rebuild lacks changes that were made, and put nothing
     in place; --accept-loss goes on without them, and then ends with 0 (rebuild
     with 1 if it could not read cartridges, see kist rebuild --help)
";

/// Why a command ends early.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What happened, on which object, and what to do.
    pub message: String,
    /// The server's stable word for it, if it is from there.
    pub word: Option<String>,
}

/// What commands return.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with its code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), word: None }
    }

    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message)
    }

    /// An error of the system.
    pub fn internal(message: impl Into<String>) -> Self {
        Failure::new(Exit::Internal, message)
    }

    /// An error of the system on a local file.
    pub fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::Internal,
        };
        Failure::new(exit, format!("{}: {doing}: {error}", path.display()))
    }

    /// Whether all that follows would fail too.
    pub fn is_hopeless(&self) -> bool {
        matches!(self.exit, Exit::Unreachable | Exit::NotAuthorised)
    }
}

/// The server's words for what holds for the archive as a whole, and may end while a command runs.
const OF_THE_ARCHIVE: [&str; 4] = ["pool-full", "room-is-being-made", "server-full", "drives-away"];

impl Failure {
    /// The server's word, if it speaks of the archive as a whole and not of an item: to say it once will do.
    pub fn word_of_the_archive(&self) -> Option<&str> {
        self.word.as_deref().filter(|word| OF_THE_ARCHIVE.contains(word))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_decide_before_the_status() {
        assert_eq!(Exit::of_problem("digest-mismatch", 400), Exit::Differs);
        assert_eq!(Exit::of_problem("pool-full", 503), Exit::Refused);
        assert_eq!(Exit::of_problem("drives-away", 503), Exit::Refused);
        assert_eq!(Exit::of_problem("unavailable", 503), Exit::Unreachable);
        assert_eq!(Exit::of_problem("bad-path", 400), Exit::Usage);
        assert_eq!(Exit::of_problem("no-such-class", 400), Exit::NotFound);
        assert_eq!(Exit::of_problem("nearline", 409), Exit::Refused);
        assert_eq!(Exit::of_problem("unauthorized", 401), Exit::NotAuthorised);
        assert_eq!(Exit::of_problem("internal", 500), Exit::Internal);
    }

    #[test]
    fn every_code_is_explained() {
        for code in 0..=8 {
            assert!(EXIT_CODES.contains(&format!("\n  {code}  ")), "{code}");
        }
        assert_eq!(Exit::Internal.code(), 8);
    }
}
