//! Who gets drives, and when: what the keys for it say of each other.

use std::ops::Range;
use std::time::Duration;

use archive::PRIORITY_MAX;
use toml::Spanned;

use super::check::Finding;
use super::file::{Class, Library, Tape, TapePool};

/// The largest weight of a class.
const WEIGHT_MAX: u32 = 1_000_000;

/// Checks priorities, weights and numbers of drives against each other and the drives that there are.
pub fn check(
    tape: &Tape,
    pools: &[TapePool],
    classes: &[Class],
    libraries: &[&Library],
) -> Result<(), Finding> {
    let drives = libraries.iter().map(|library| usize::from(library.drive_count())).sum();
    check_tape(tape, drives)?;
    check_pools(tape, pools, libraries)?;
    for class in classes {
        if !(1..=WEIGHT_MAX).contains(class.weight.get_ref()) {
            return Err((class.weight.span(), format!("weight is 1 to {WEIGHT_MAX}")));
        }
        if let Some(max) = class.drives_max.as_ref().filter(|max| *max.get_ref() == 0) {
            let message = "drives_max is at least 1: no file of the class would ever come back from tape; \
                           a class with copies = [] is never on tape";
            return Err((max.span(), message.to_owned()));
        }
        check_limits(&class.drives_min, class.drives_max.as_ref(), drives)?;
    }
    let of_classes = classes.iter().map(|class| &class.drives_min);
    let kept = of_classes.chain(pools.iter().map(|pool| &pool.drives_min));
    check_sum(kept, drives, "classes and tape pools", "in all")
}

fn check_tape(tape: &Tape, drives: usize) -> Result<(), Finding> {
    if let Some(files) = tape.recall_files.as_ref().filter(|files| *files.get_ref() == 0) {
        return Err((files.span(), "recall_files is at least 1; leave it out for no such limit".to_owned()));
    }
    if let Some(priority) = tape.recall_at_once.as_ref().filter(|at| *at.get_ref() > PRIORITY_MAX) {
        let message = format!("recall_at_once is 0 to {PRIORITY_MAX}; leave it out for never");
        return Err((priority.span(), message));
    }
    if tape.share_half_life.get_ref().0 < Duration::from_secs(1) {
        return Err((tape.share_half_life.span(), "share_half_life is at least 1s".to_owned()));
    }
    for (min, max) in [
        (&tape.recall_drives_min, tape.recall_drives_max.as_ref()),
        (&tape.migration_drives_min, tape.migration_drives_max.as_ref()),
    ] {
        check_limits(min, max, drives)?;
    }
    let kept = [&tape.recall_drives_min, &tape.migration_drives_min];
    check_sum(kept.into_iter(), drives, "recall and migration", "in all")
}

fn check_pools(tape: &Tape, pools: &[TapePool], libraries: &[&Library]) -> Result<(), Finding> {
    for pool in pools {
        check_limits(&pool.drives_min, Some(&pool.drives_max), usize::MAX)?;
        if let Some(open) = pool.open_tapes_max.as_ref().filter(|open| *open.get_ref() == 0) {
            let message = "open_tapes_max is at least 1: without a tape nothing is written";
            return Err((open.span(), message.to_owned()));
        }
    }
    for library in libraries {
        let is_there = |pool: &&TapePool| {
            pool.library.as_ref().is_some_and(|asked| asked.get_ref() == library.name.get_ref())
        };
        let kept = pools.iter().filter(is_there).map(|pool| &pool.drives_min);
        let place = format!("in library '{}'", library.name.get_ref());
        check_sum(kept, usize::from(library.drive_count()), "its tape pools", &place)?;
    }
    if let Some(max) = &tape.migration_drives_max {
        let kept: usize = pools.iter().fold(0, |sum, pool| sum.saturating_add(*pool.drives_min.get_ref()));
        if kept > *max.get_ref() {
            let message = format!(
                "tape pools have {kept} drives kept for them, but {} at most write: lower their drives_min",
                max.get_ref()
            );
            return Err((max.span(), message));
        }
    }
    Ok(())
}

/// At least as many at most as are kept, and no more than there are.
fn check_limits(min: &Spanned<usize>, max: Option<&Spanned<usize>>, drives: usize) -> Result<(), Finding> {
    if let Some(max) = max
        && !(1..=drives).contains(max.get_ref())
    {
        let message = format!("it is 1 to {drives}, the drives of all libraries; leave it out for all");
        return Err((max.span(), message));
    }
    let most = max.map_or(drives, |max| *max.get_ref());
    if *min.get_ref() > most {
        let message = format!("{} drives cannot be kept where {most} at most are used", min.get_ref());
        return Err((min.span(), message));
    }
    Ok(())
}

/// No more drives are kept than there are.
fn check_sum<'a>(
    kept: impl Iterator<Item = &'a Spanned<usize>>,
    drives: usize,
    whose: &str,
    place: &str,
) -> Result<(), Finding> {
    let (mut sum, mut last): (usize, Range<usize>) = (0, 0..0);
    for min in kept.filter(|min| *min.get_ref() > 0) {
        sum = sum.saturating_add(*min.get_ref());
        last = min.span();
    }
    if sum > drives {
        let message = format!(
            "{sum} drives are kept for {whose} (drives_min), but there are {drives} {place}: keep fewer"
        );
        return Err((last, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use archive::{DriveLimits, MountSettings, Settings, ShareSettings};
    use base::ByteCount;

    use super::super::template::{Template, write};
    use super::super::{Config, load};
    use super::*;

    /// The template with keys added to `[tape]`, the first tape pool and the first class.
    fn with(tape: &str, pool: &str, class: &str) -> Result<Config, String> {
        let mut text = write(&Template { tape_drives: 3, ..Template::default() });
        for (place, keys) in [
            ("\n[tape]\n", tape),
            ("\n[[tape_pools]]\nname = \"vault-a\"\n", pool),
            ("\n[[classes]]\nname = \"small\"\n", class),
        ] {
            assert!(text.contains(place), "{place}");
            let (head, tail) = text.split_once(place).unwrap();
            let (table, rest) = tail.split_at(tail.find("\n[").unwrap());
            // What the template has already is replaced.
            let stays =
                |line: &&str| !keys.lines().any(|key| key.split(" =").next() == line.split(" =").next());
            let table: Vec<&str> = table.lines().filter(stays).collect();
            text = format!("{head}{place}{keys}\n{}\n{rest}", table.join("\n"));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        load(file.path()).map_err(|error| error.to_string())
    }

    fn settings(config: &Config) -> Settings {
        config.settings(Path::new("/x"))
    }

    #[test]
    fn what_is_not_said_changes_nothing() {
        let found = settings(&with("", "", "").unwrap());
        assert_eq!(found.tape.mounts, MountSettings::default());
        assert!(found.classes.iter().all(|class| class.share == ShareSettings::default()));
        assert!(found.tape_pools.iter().all(|pool| (pool.drives_min, pool.open_tapes_max) == (0, None)));
    }

    #[test]
    fn what_is_said_comes_to_the_engine_and_is_printed_again() {
        let tape = "recall_files = 1000\nrecall_at_once = 9\nremount_delay = \"1min\"\n\
                    cleaning_uses_max = 20\ncleaning_time_max = \"5min\"\n\
                    remount_bytes = \"1TB\"\nstarvation = \"12h\"\nshare_half_life = \"1d\"\n\
                    recall_drives_min = 1\nrecall_drives_max = 2\nmigration_drives_min = 1\n\
                    migration_drives_max = 3\nmounts_at_once = 2";
        let pool = "drives_min = 1\nopen_tapes_max = 4";
        let config = with(tape, pool, "weight = 7\ndrives_min = 1\ndrives_max = 2").unwrap();
        let found = settings(&config);
        let expected = MountSettings {
            recall_files: Some(1_000),
            recall_at_once: Some(9),
            remount_delay: Duration::from_secs(60),
            remount_bytes: Some(ByteCount(1_000_000_000_000)),
            starvation: Duration::from_secs(12 * 3_600),
            share_half_life: Duration::from_secs(86_400),
            recall: DriveLimits { min: 1, max: Some(2) },
            migration: DriveLimits { min: 1, max: Some(3) },
            mounts_at_once: Some(2),
            cleaning: archive::CleaningSettings { uses_max: 20, time_max: Duration::from_secs(300) },
        };
        assert_eq!(found.tape.mounts, expected);
        let share = ShareSettings { weight: 7, drives: DriveLimits { min: 1, max: Some(2) } };
        assert_eq!(found.classes[0].share, share);
        assert_eq!((found.tape_pools[0].drives_min, found.tape_pools[0].open_tapes_max), (1, Some(4)));
        let again: Config = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(settings(&again), found);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = [
            (["recall_files = 0", "", ""], "recall_files: recall_files is at least 1"),
            (["recall_at_once = 10", "", ""], "recall_at_once is 0 to 9"),
            (["share_half_life = \"0s\"", "", ""], "share_half_life is at least 1s"),
            (["recall_drives_max = 0", "", ""], "it is 1 to 3"),
            (["migration_drives_max = 4", "", ""], "tape.migration_drives_max: it is 1 to 3"),
            (["recall_drives_min = 2\nrecall_drives_max = 1", "", ""], "2 drives cannot be kept where 1"),
            (
                ["recall_drives_min = 2\nmigration_drives_min = 2", "", ""],
                "4 drives are kept for recall and migration (drives_min), but there are 3 in all",
            ),
            (["", "drives_min = 2", ""], "2 drives cannot be kept where 1 at most are used"),
            (["", "open_tapes_max = 0", ""], "open_tapes_max is at least 1"),
            (
                ["migration_drives_max = 1", "drives_max = 2\ndrives_min = 2", ""],
                "2 drives kept for them, but 1 at most write",
            ),
            (["", "drives_min = 1", "drives_min = 3"], "4 drives are kept for classes and tape pools"),
            (["", "", "weight = 0"], "classes.weight: weight is 1 to 1000000"),
            (["", "", "drives_max = 0"], "classes.drives_max: drives_max is at least 1"),
            (["", "", "drives_max = 4"], "it is 1 to 3, the drives of all libraries"),
            (["", "", "drives_min = 2\ndrives_max = 1"], "2 drives cannot be kept"),
        ];
        for ([tape, pool, class], words) in refused {
            let error = with(tape, pool, class).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
        let kept = "\ndrives_max = 2\ndrives_min = 2\nlibrary = \"library\"\n";
        let text = write(&Template::default()).replace("\ndrives_max = 1\n", kept);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let error = load(file.path()).unwrap_err().to_string();
        assert!(error.contains("there are 2 in library 'library': keep fewer"), "{error}");
    }

    #[test]
    fn a_stream_gets_what_the_drives_model_takes() {
        let rate = |template: Template, given: bool| {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = write(&template);
            let text = if given { text.replacen("[tape]", "[tape]\nstream_rate = \"7MB\"", 1) } else { text };
            fs::write(file.path(), text).unwrap();
            settings(&load(file.path()).unwrap()).tape.flow.stream_rate
        };
        let timed = || Template { timing: Some(("LTO-8".to_owned(), 2.0)), ..Template::default() };
        let native = mechanics::timing("LTO-8").unwrap().native_rate;
        assert_eq!(rate(timed(), false), ByteCount(2 * native));
        assert_eq!(rate(timed(), true), ByteCount(7_000_000));
        assert_eq!(rate(Template::default(), false), archive::FlowSettings::default().stream_rate);
    }
}
