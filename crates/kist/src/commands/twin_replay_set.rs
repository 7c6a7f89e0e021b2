//! `kist twin replay --set`: what would have been.

use std::fmt;

use archive::{DriveLimits, LibrarySettings, Settings, TimingSettings};
use config::{Size, Span};
use terminal::{Failure, Outcome};

/// The words, in the order of the help.
const WORDS: [&str; 14] = [
    "drives",
    "drive",
    "robots",
    "recall_age",
    "recall_bytes",
    "recall_files",
    "dismount_delay",
    "remount_delay",
    "mount_age",
    "mount_bytes",
    "starvation",
    "mounts_at_once",
    "recall_drives_max",
    "migration_drives_max",
];

/// A changed setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    key: String,
    value: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

impl Change {
    /// Reads `drives=8`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("'{text}': write KEY=VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        if !WORDS.contains(&key) {
            return Err(format!("'{key}' cannot be changed; these can: {}", WORDS.join(", ")));
        }
        Ok(Change { key: key.to_owned(), value: value.to_owned() })
    }

    /// Changes the settings: of libraries, all of them.
    pub fn make(&self, settings: &mut Settings) -> Outcome {
        let Change { key, value } = self;
        let tape = &mut settings.tape;
        match key.as_str() {
            "drives" => {
                let drives = self.number::<u16>(1)?;
                libraries(settings, |library| library.set_drives(drives));
            }
            "drive" => libraries(settings, |library| {
                let usual = TimingSettings { drive: value.clone(), scale: 1.0, robots: 1 };
                let timing = library.timing_mut();
                let old = timing.take();
                *timing = Some(old.map_or(usual, |old| TimingSettings { drive: value.clone(), ..old }));
            }),
            "robots" => {
                let robots = self.number::<u16>(1)?;
                libraries(settings, |library| {
                    if let Some(timing) = library.timing_mut() {
                        timing.robots = robots;
                    }
                });
            }
            "recall_age" => tape.recall_age = self.span()?,
            "recall_bytes" => tape.recall_bytes = self.size()?,
            "recall_files" => tape.mounts.recall_files = Some(self.number(1)?),
            "dismount_delay" => tape.dismount_delay = self.span()?,
            "remount_delay" => tape.mounts.remount_delay = self.span()?,
            "starvation" => tape.mounts.starvation = self.span()?,
            "mounts_at_once" => tape.mounts.mounts_at_once = Some(self.number(1)?),
            "recall_drives_max" => tape.mounts.recall = self.most(tape.mounts.recall)?,
            "migration_drives_max" => tape.mounts.migration = self.most(tape.mounts.migration)?,
            "mount_age" => {
                let age = self.span()?;
                settings.tape_pools.iter_mut().for_each(|pool| pool.mount_age = age);
            }
            "mount_bytes" => {
                let bytes = self.size()?;
                settings.tape_pools.iter_mut().for_each(|pool| pool.mount_bytes = bytes);
            }
            other => return Err(Failure::usage(format!("'{other}' cannot be changed"))),
        }
        Ok(())
    }

    fn most(&self, old: DriveLimits) -> Outcome<DriveLimits> {
        let max: usize = self.number(1)?;
        Ok(DriveLimits { min: old.min.min(max), max: Some(max) })
    }

    fn number<T: std::str::FromStr + PartialOrd>(&self, least: T) -> Outcome<T> {
        let number = self.value.parse::<T>().ok().filter(|number| *number >= least);
        number.ok_or_else(|| Failure::usage(format!("--set {self}: write a whole number, at least 1")))
    }

    fn span(&self) -> Outcome<std::time::Duration> {
        Span::parse(&self.value)
            .map(|span| span.0)
            .map_err(|why| Failure::usage(format!("--set {self}: {why}")))
    }

    fn size(&self) -> Outcome<base::ByteCount> {
        Size::parse(&self.value)
            .map(|size| size.0)
            .map_err(|why| Failure::usage(format!("--set {self}: {why}")))
    }
}

fn libraries(settings: &mut Settings, mut change: impl FnMut(&mut LibrarySettings)) {
    change(&mut settings.library);
    settings.more_libraries.iter_mut().for_each(change);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_changed_is_refused_with_what_can() {
        let error = Change::parse("colour=red").unwrap_err();
        assert!(error.contains("recall_age"), "{error}");
        assert!(Change::parse("drives").is_err());
        for word in WORDS {
            assert!(Change::parse(&format!("{word}=1")).is_ok());
        }
    }
}
