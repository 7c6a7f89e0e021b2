//! Reads `kist.toml` and checks what types cannot say.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::DriveLocation;
use base::{ByteCount, StripeCode};
use catalogue::{CLASS_COPIES_MAX, LABEL_BYTES_MAX};
use drive::DriveIo;
use toml::Spanned;

use super::file::{Class, Config, Group, Library, Pool, Tape, TapePool};
use super::value::{Percent, Residency};
use super::{FORMAT, identity, keys, libraries, mounts, s3, server};

/// The longest configuration that is read.
const CONFIG_BYTES_MAX: u64 = 4 << 20;
/// The most shards of a stripe.
const WIDTH_MAX: usize = 64;
/// The block sizes that volumes may have.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 20;
/// The shortest time after which unused files leave the pool: the catalogue knows the hour of a file's last
/// use, no more.
pub(super) const UNUSED_LEAST: Duration = Duration::from_secs(3600);

/// What is wrong with a configuration, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 if the file cannot be read.
    pub line: usize,
    /// The key; may be empty.
    pub key: String,
    /// What is wrong and what to write.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// A finding: where in the text, and what.
pub(super) type Finding = (Range<usize>, String);

/// Reads and checks a configuration.
pub fn load(file: &Path) -> Result<Config, ConfigError> {
    load_text(file, &read_text(file)?)
}

/// Reads and checks a configuration, and refuses also what a server starts with although it does not do what
/// it says: earlier versions took it.
pub fn load_strictly(file: &Path) -> Result<Config, ConfigError> {
    let text = read_text(file)?;
    let config = load_text(file, &text)?;
    for class in &config.classes {
        check_no_hour(class).map_err(|finding| located(file, &text, finding))?;
    }
    check_up_to(&config.classes).map_err(|finding| located(file, &text, finding))?;
    for library in std::iter::once(&config.library).chain(&config.more_libraries) {
        check_capacity(library).map_err(|finding| located(file, &text, finding))?;
    }
    Ok(config)
}

fn located(file: &Path, text: &str, (span, message): Finding) -> ConfigError {
    let (line, key) = (line_of(text, span.start), key_of(text, span.start));
    ConfigError { file: file.to_owned(), line, key, message }
}

/// Reads the text of a configuration.
pub(super) fn read_text(file: &Path) -> Result<String, ConfigError> {
    let unreadable =
        |message: String| ConfigError { file: file.to_owned(), line: 0, key: String::new(), message };
    let length = fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if length > CONFIG_BYTES_MAX {
        return Err(unreadable(format!("{length} bytes are too long for a configuration")));
    }
    fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))
}

/// Checks the text of a configuration.
pub(super) fn load_text(file: &Path, text: &str) -> Result<Config, ConfigError> {
    let parsed = toml::from_str::<Config>(text);
    let config = parsed.map_err(|error| {
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        located(file, text, (error.span().unwrap_or(0..0), message))
    })?;
    check(&config).map_err(|finding| located(file, text, finding))?;
    Ok(config)
}

fn check(config: &Config) -> Result<(), Finding> {
    let Config {
        format,
        server: server_table,
        identity: people,
        s3,
        tape_rest,
        third_party_copy,
        xrootd,
        catalogue,
        backup,
        pool,
        library,
        more_libraries,
        tape,
        tape_pools,
        classes,
    } = config;
    if *format.get_ref() != FORMAT {
        let found = format.get_ref();
        let message =
            format!("format {found} is not known: this kist knows format {FORMAT}; use a newer kist");
        return Err((format.span(), message));
    }
    server::check(server_table)?;
    if catalogue.map_size.get_ref().0 < ByteCount::mib(64) {
        return Err((catalogue.map_size.span(), "the catalogue needs at least 64MiB".to_owned()));
    }
    if let Some(backup) = backup.as_ref().filter(|backup| *backup.keep_snapshots.get_ref() == 0) {
        return Err((backup.keep_snapshots.span(), "at least one snapshot is kept".to_owned()));
    }
    identity::check(people)?;
    check_pool(pool)?;
    check_tape(tape)?;
    let libraries: Vec<&Library> = std::iter::once(library).chain(more_libraries).collect();
    libraries::check(&libraries)?;
    check_tape_pools(tape_pools, &libraries)?;
    classes.iter().try_for_each(|class| check_placing(class, pool))?;
    check_classes(classes, tape_pools)?;
    s3::check(s3, classes)?;
    super::tape_rest::check(tape_rest)?;
    super::third_party_copy::check(third_party_copy)?;
    xrootd.as_ref().map_or(Ok(()), super::xrootd::check)?;
    mounts::check(tape, tape_pools, classes, &libraries)?;
    libraries::check_apart(classes, tape_pools, &libraries)
}

pub(super) fn check_library(library: &Library) -> Result<(), Finding> {
    if library.drive_count() == 0 {
        return Err((library.drives.span(), "the library needs at least one drive".to_owned()));
    }
    let Some(timing) = &library.timing else { return Ok(()) };
    if let Err(unknown) = mechanics::timing(timing.drive.get_ref()) {
        return Err((timing.drive.span(), unknown.to_string()));
    }
    let scale = *timing.scale.get_ref();
    if !(0.001..=1_000_000.0).contains(&scale) {
        return Err((
            timing.scale.span(),
            "scale is a number from 0.001 to 1000000; 1.0 is real time".to_owned(),
        ));
    }
    if *timing.robots.get_ref() == 0 {
        return Err((timing.robots.span(), "the library needs at least one robot".to_owned()));
    }
    Ok(())
}

fn check_pool(pool: &Pool) -> Result<(), Finding> {
    let code = pool.code();
    let StripeCode { data, local, .. } = code;
    if data == 0 {
        return Err((pool.data.span(), "a stripe needs at least one data shard".to_owned()));
    }
    if local > data {
        let message = format!("each local parity needs data of its own: at most {data}");
        return Err((pool.local_parity.span(), message));
    }
    if code.width() > WIDTH_MAX {
        let message = format!("data and parity are together at most {WIDTH_MAX}");
        return Err((pool.data.span(), message));
    }
    let main = drives_in_no_group(pool);
    if main < code.width() {
        let of_group = if main < pool.drives.len() { " that are in no group" } else { "" };
        let message = format!(
            "{code} shards need {} drives on their own, there are {main}{of_group}: add [[pool.drives]]",
            code.width()
        );
        return Err((pool.data.span(), message));
    }
    let codes = pool.groups.values().map(Group::code).chain([code]);
    let widest = codes.map(StripeCode::width).max().unwrap_or(0) as u64;
    // Five rows of cells of 1 MiB, each with a page for its header.
    let needed = ByteCount(5 * widest * ((1 << 20) + 4096));
    if pool.arena.get_ref().0 < needed {
        let message = format!(
            "a code of {widest} shards needs an arena of at least {needed}: five rows of 1 MiB cells"
        );
        return Err((pool.arena.span(), message));
    }
    if pool.arena.get_ref().0 < ByteCount::mib(16) {
        return Err((pool.arena.span(), "the pool needs at least 16MiB of buffers".to_owned()));
    }
    if let Err(error) = pool.io.get_ref().parse::<DriveIo>() {
        return Err((pool.io.span(), format!("'{}' is no way to read drives: {error}", pool.io.get_ref())));
    }
    if !(1..=366).contains(pool.scrub_days.get_ref()) {
        return Err((pool.scrub_days.span(), "scrub_days is 1 to 366".to_owned()));
    }
    match (&pool.high_water, &pool.low_water) {
        (None, Some(low)) => {
            return Err((low.span(), "low_water is nothing without high_water: give both".to_owned()));
        }
        (Some(high), Some(low)) => check_water(high, low)?,
        _ => {}
    }
    check_groups(pool)?;
    let (mut ids, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for drive in &pool.drives {
        if !ids.insert(*drive.id.get_ref()) {
            return Err((drive.id.span(), format!("drive {} is there twice", drive.id.get_ref())));
        }
        let at = DriveLocation::parse(drive.path.get_ref(), Path::new(""))
            .map_err(|error| (drive.path.span(), error.to_string()))?;
        if paths.contains(&at) {
            return Err((drive.path.span(), "two drives cannot share a directory".to_owned()));
        }
        if let Some(other) = paths.iter().find(|other| at.meets(other)) {
            let what = format!("a drive cannot lie in another one, or around it: {at} and {other}");
            return Err((drive.path.span(), what));
        }
        paths.insert(at);
    }
    Ok(())
}

/// The groups of drives, and none that is only named. One that lacks drives gets nothing: they are added
/// while the server runs.
fn check_groups(pool: &Pool) -> Result<(), Finding> {
    if let Some((name, _)) = pool.groups.iter().nth(archive::POOL_GROUPS_MAX) {
        let message = format!("a pool has at most {} groups of drives", archive::POOL_GROUPS_MAX);
        return Err((name.span(), message));
    }
    for (name, group) in &pool.groups {
        check_label(&name.span(), name.get_ref())?;
        let code = group.code();
        if !code.exists() || code.width() > WIDTH_MAX {
            let message = format!(
                "{code} is no code: at least one data shard, no more local parity than data, at most \
                 {WIDTH_MAX} in all"
            );
            return Err((group.data.span(), message));
        }
        // What the group has no room for, or no drive left, goes to these.
        let main = drives_in_no_group(pool);
        if main < code.width() {
            let message = format!(
                "{code} shards need {} drives in no group too, for what group '{}' has no room \
                 for; there are {main}",
                code.width(),
                name.get_ref()
            );
            return Err((group.data.span(), message));
        }
        check_water(&group.high_water, &group.low_water)?;
    }
    let unknown = |group: &&Spanned<String>| !pool.groups.contains_key(group.get_ref().as_str());
    match pool.drives.iter().filter_map(|drive| drive.group.as_ref()).find(unknown) {
        Some(group) => Err(no_group(group)),
        None => Ok(()),
    }
}

fn drives_in_no_group(pool: &Pool) -> usize {
    pool.drives.iter().filter(|drive| drive.group.is_none()).count()
}

fn check_water(high: &Spanned<Percent>, low: &Spanned<Percent>) -> Result<(), Finding> {
    if low.get_ref() < high.get_ref() {
        return Ok(());
    }
    let message = format!("low_water, {}, is to be below high_water, {}", low.get_ref(), high.get_ref());
    Err((low.span(), message))
}

fn no_group(group: &Spanned<String>) -> Finding {
    let name = group.get_ref();
    if name.is_empty() {
        return (group.span(), "a group has a name: leave the key out if it is in none".to_owned());
    }
    (group.span(), format!("there is no group '{name}': write [pool.groups.{name}] with its data and parity"))
}

/// Which drives hold the files of a class.
fn check_placing(class: &Class, pool: &Pool) -> Result<(), Finding> {
    let (group, span) = (&class.pool_group, &class.pool_group_for);
    if let Some(group) = group.as_ref().filter(|it| !pool.groups.contains_key(it.get_ref().as_str())) {
        return Err(no_group(group));
    }
    if let (None, Some(span)) = (group, span) {
        let message = "pool_group_for is nothing without pool_group: say which group it is".to_owned();
        return Err((span.span(), message));
    }
    if let Some(span) = span.as_ref().filter(|span| span.get_ref().0 < UNUSED_LEAST) {
        let message = "pool_group_for is at least 1h: the use of a file is known to the hour".to_owned();
        return Err((span.span(), message));
    }
    Ok(())
}

fn check_tape(tape: &Tape) -> Result<(), Finding> {
    let block = tape.block.get_ref().0;
    if !BLOCK_BYTES.contains(&block.0) || !block.0.is_multiple_of(4096) {
        return Err((tape.block.span(), "a block has 4KiB to 1MiB, a multiple of 4KiB".to_owned()));
    }
    if tape.flush_bytes.get_ref().0 < block {
        return Err((tape.flush_bytes.span(), "a flush covers at least one block".to_owned()));
    }
    if tape.index_bytes.get_ref() < tape.flush_bytes.get_ref() {
        return Err((
            tape.index_bytes.span(),
            "an index covers at least one flush: flush_bytes or more".to_owned(),
        ));
    }
    if tape.buffer.get_ref().0.0 < block.0.saturating_mul(4) {
        return Err((tape.buffer.span(), "a drive needs buffers for at least four blocks".to_owned()));
    }
    Ok(())
}

fn check_tape_pools(tape_pools: &[TapePool], libraries: &[&Library]) -> Result<(), Finding> {
    let mut names = BTreeSet::new();
    for pool in tape_pools {
        check_label(&pool.name.span(), pool.name.get_ref())?;
        if !names.insert(pool.name.get_ref()) {
            return Err((pool.name.span(), format!("tape pool '{}' is there twice", pool.name.get_ref())));
        }
        if let Some(encryption) = &pool.encryption {
            keys::read(encryption)?;
        }
        let drives = libraries::drives_for(pool, libraries)?;
        if !(1..=drives).contains(pool.drives_max.get_ref()) {
            return Err((
                pool.drives_max.span(),
                format!("drives_max is 1 to {drives}, the library's drives"),
            ));
        }
    }
    Ok(())
}

fn check_classes(classes: &[Class], tape_pools: &[TapePool]) -> Result<(), Finding> {
    let mut names = BTreeSet::new();
    // Up to which size files have a class by default; `None` once all have one.
    let mut largest = Some(ByteCount(0));
    for class in classes {
        check_label(&class.name.span(), class.name.get_ref())?;
        if !names.insert(class.name.get_ref()) {
            return Err((class.name.span(), format!("class '{}' is there twice", class.name.get_ref())));
        }
        let count = class.copies.get_ref().len();
        if count > CLASS_COPIES_MAX {
            let message = format!("a class has at most {CLASS_COPIES_MAX} copies, not {count}");
            return Err((class.copies.span(), message));
        }
        let mut copies = BTreeSet::new();
        for copy in class.copies.get_ref() {
            if !tape_pools.iter().any(|pool| pool.name.get_ref() == copy) {
                let known: Vec<&str> = tape_pools.iter().map(|pool| pool.name.get_ref().as_str()).collect();
                let message = format!("there is no tape pool '{copy}'; there are: {}", known.join(", "));
                return Err((class.copies.span(), message));
            }
            if !copies.insert(copy) {
                return Err((
                    class.copies.span(),
                    format!("two copies in one tape pool '{copy}' are no second copy"),
                ));
            }
        }
        if class.pack.get_ref().0 < ByteCount::mib(1) {
            return Err((class.pack.span(), "a pack has at least 1MiB".to_owned()));
        }
        if let Some(residency) = &class.residency
            && *residency.get_ref() != Residency::Pool
            && class.copies.get_ref().is_empty()
        {
            let message = format!(
                "residency = \"{}\" needs copies: a class without them is on disk only",
                residency.get_ref()
            );
            return Err((residency.span(), message));
        }
        check_leaving(class)?;
        match (largest, &class.up_to) {
            (Some(before), Some(up_to)) if up_to.get_ref().0 <= before => {
                return Err((up_to.span(), "up_to rises from class to class".to_owned()));
            }
            (Some(_), up_to) => largest = up_to.as_ref().map(|up_to| up_to.get_ref().0),
            // Its files are those that name it.
            (None, _) => {}
        }
    }
    match (classes.last(), largest) {
        (None, _) => Err((0..0, "there is no storage class: add [[classes]]".to_owned())),
        (Some(last), Some(_)) => {
            Err((last.name.span(), "one class has no up_to, so that every file has a class".to_owned()))
        }
        (Some(_), None) => Ok(()),
    }
}

/// Behind a class that takes files of all sizes `up_to` has no effect.
fn check_up_to(classes: &[Class]) -> Result<(), Finding> {
    let mut behind = classes.iter().skip_while(|class| class.up_to.is_some());
    let Some(all) = behind.next() else { return Ok(()) };
    match behind.find_map(|class| class.up_to.as_ref()) {
        None => Ok(()),
        Some(up_to) => {
            let message = format!(
                "up_to has no effect: class '{}' above it has none, and so gets the files of all sizes \
                 that are left; put that class behind this one, or leave up_to out",
                all.name.get_ref()
            );
            Err((up_to.span(), message))
        }
    }
}

/// A residency of less than an hour acts as an hour.
fn check_no_hour(class: &Class) -> Result<(), Finding> {
    let Some(span) = class.residency.as_ref().filter(|it| is_below_an_hour(*it.get_ref())) else {
        return Ok(());
    };
    let message = format!(
        "residency = \"{}\" acts as an hour: when a file was used last is known to the hour only: write \
         \"1h\" or longer, or \"tape\" to have files leave as soon as tapes have them",
        span.get_ref()
    );
    Err((span.span(), message))
}

/// Kist uses no tape that is so small: what was left out is a unit.
fn check_capacity(library: &Library) -> Result<(), Finding> {
    let Some(size) = library.cartridge_capacity.as_ref().filter(|it| it.get_ref().0 < archive::SMALLEST_TAPE)
    else {
        return Ok(());
    };
    let message = format!(
        "cartridge_capacity = \"{}\" is no size of a cartridge, and Kist uses no tape of less than {}: write \
         what one holds with its unit, such as \"12TB\", or leave it out where labels say what medium it is",
        size.get_ref(),
        archive::SMALLEST_TAPE
    );
    Err((size.span(), message))
}

/// What says when files of a class leave the pool: what would have no effect, or would keep all files of the
/// class from the pool, was not meant so.
fn check_leaving(class: &Class) -> Result<(), Finding> {
    let Class { residency, pool_max, pool_min, .. } = class;
    if let Some(span) = residency.as_ref().filter(|it| is_no_time(*it.get_ref())) {
        let message = format!(
            "residency = \"{}\" is no time to stay: write \"tape\" to have files leave as soon as tapes have \
             them, or a span such as \"30d\"",
            span.get_ref()
        );
        return Err((span.span(), message));
    }
    if let Some(most) = pool_max.as_ref().filter(|most| most.get_ref().0.0 == 0) {
        let message =
            "pool_max = \"0B\" lets no file of the class come back from tape: write how much of it \
                       the pool may have, or leave it out; residency = \"tape\" has files leave as soon as \
                       tapes have them"
                .to_owned();
        return Err((most.span(), message));
    }
    if let (Some(least), Some(most)) = (pool_min, pool_max)
        && least.get_ref() > most.get_ref()
    {
        let message = format!("pool_min, {}, is to be at most pool_max, {}", least.get_ref(), most.get_ref());
        return Err((least.span(), message));
    }
    if let (Some(least), Some(residency)) = (pool_min, residency)
        && *residency.get_ref() == Residency::Tape
    {
        let message = format!(
            "pool_min, {}, has no effect with residency = \"tape\": all files of the class leave as soon as \
             tapes have them; leave one of the two out",
            least.get_ref()
        );
        return Err((least.span(), message));
    }
    Ok(())
}

fn is_no_time(residency: Residency) -> bool {
    matches!(residency, Residency::Unused(span) if span.0.is_zero())
}

fn is_below_an_hour(residency: Residency) -> bool {
    matches!(residency, Residency::Unused(span) if span.0 < UNUSED_LEAST)
}

/// A name that the catalogue takes: a start with a longer one would fail.
pub(super) fn check_label(span: &Range<usize>, name: &str) -> Result<(), Finding> {
    check_name(span, name)?;
    if name.len() > LABEL_BYTES_MAX {
        return Err((span.clone(), format!("'{name}' is too long: at most {LABEL_BYTES_MAX} characters")));
    }
    Ok(())
}

pub(super) fn check_name(span: &Range<usize>, name: &str) -> Result<(), Finding> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err((span.clone(), format!("'{name}' is not a name: use 1 to 64 of A-Z a-z 0-9 - _ .")))
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
}

/// The key on the line of `at`, after the table that the line stands in.
fn key_of(text: &str, at: usize) -> String {
    let start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or("");
    let table = text
        .get(..start)
        .and_then(|before| before.lines().rev().find(|line| line.starts_with('[')))
        .map(|line| line.trim_matches(|c| c == '[' || c == ']' || c == ' ').to_owned());
    match (line.split_once('='), table) {
        (None, _) => line.trim_matches(|c| c == '[' || c == ']' || c == ' ').to_owned(),
        (Some((key, _)), Some(table)) => format!("{table}.{}", key.trim()),
        (Some((key, _)), None) => key.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::template::{Template, write};
    use super::*;

    fn refused(from: &str, to: &str) -> ConfigError {
        let text = write(&Template::default());
        assert!(text.contains(from), "{from}");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text.replacen(from, to, 1)).unwrap();
        load_strictly(file.path()).unwrap_err()
    }

    /// Story: an instance that ran with one of them did not start any more after an upgrade.
    #[test]
    fn what_earlier_versions_took_is_warned_of_and_a_start_goes_on() {
        let first = "up_to = \"1MiB\"\n";
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in ["", "up_to = \"1MiB\"\nresidency = \"20s\"\n"] {
            fs::write(file.path(), write(&Template::default()).replacen(first, text, 1)).unwrap();
            let settings = load(file.path()).unwrap().settings(Path::new("/srv"));
            let unused_for = settings.classes[0].leaving.unused_for;
            assert_eq!(unused_for, (!text.is_empty()).then_some(UNUSED_LEAST));
            load_strictly(file.path()).unwrap_err();
        }
    }

    #[test]
    fn the_template_is_a_configuration() {
        let timing = Some(("LTO-8".to_owned(), 2.5));
        let changes = [
            Template { demo: true, ..Template::default() },
            Template { timing, ..Template::default() },
            Template { s3_listen: Some("127.0.0.1:7421".to_owned()), ..Template::default() },
            Template { webdav_listen: Some("127.0.0.1:7422".to_owned()), ..Template::default() },
        ];
        for template in [Template::default()].into_iter().chain(changes) {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), write(&template)).unwrap();
            let config = load(file.path()).unwrap();
            // What is printed as the effective configuration is a configuration again.
            fs::write(file.path(), toml::to_string(&config).unwrap()).unwrap();
            load(file.path()).unwrap();
        }
    }

    /// Whoever takes the signs away from what `init --webdav-listen` writes has a configuration.
    #[test]
    fn what_the_template_shows_of_grid_doors_can_be_taken() {
        let webdav_listen = Some("127.0.0.1:7422".to_owned());
        let text = write(&Template { webdav_listen, ..Template::default() });
        let (above, grid) = text.split_once("# What a site of the grid sets").unwrap();
        let is_setting = |line: &&str| {
            line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
        };
        let settings: Vec<&str> =
            grid.lines().filter_map(|line| line.strip_prefix("# ")).filter(is_setting).collect();
        assert_eq!(settings.len(), 12, "{settings:?}");
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{above}\n{}\n", settings.join("\n"))).unwrap();
        let config = load(file.path()).unwrap();
        assert!(config.xrootd.is_some());
        assert_eq!(config.third_party_copy.allow.len(), 2);
        assert_eq!(config.tape_rest.activities.len(), 1);
    }

    #[test]
    fn a_drive_has_the_host_that_it_is_given_or_that_of_its_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = "path = \"pool/d1\"\n";
        let text = write(&Template::default()).replacen(path, &format!("{path}host = \"store-2\"\n"), 1);
        fs::write(file.path(), text).unwrap();
        let drives = load(file.path()).unwrap().settings(Path::new("/srv")).pool.drives;
        let hosts: Vec<&str> = drives.iter().take(3).map(|drive| drive.host()).collect();
        assert_eq!(hosts, ["localhost", "store-2", "localhost"]);
    }

    #[test]
    fn groups_of_drives_are_possible_and_named() {
        let table = "\n[pool.groups.fast]\ndata = 1\nparity = 1\n";
        let text = |group: &str, members: usize, class: &str| {
            let mut text = write(&Template { drives: 8, ..Template::default() });
            let first = "up_to = \"1MiB\"\n";
            text = text.replacen(first, &format!("{first}{class}"), 1);
            for id in 0..members {
                let path = format!("path = \"pool/d{}\"\n", 7 - id);
                text = text.replacen(&path, &format!("{path}group = \"fast\"\n"), 1);
            }
            text.replacen("\n[[pool.drives]]", &format!("{group}\n[[pool.drives]]"), 1)
        };
        let load = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), text).unwrap();
            load_strictly(file.path())
        };
        let class = "pool_group = \"fast\"\npool_group_for = \"1h\"\n";
        let config = load(&text(table, 2, class)).unwrap();
        let settings = config.settings(Path::new("/srv"));
        let (pool, placing) = (&settings.pool, &settings.classes[0].placing);
        assert_eq!((pool.group("fast"), pool.groups[0].code.width()), (Some(base::DriveGroup(1)), 2));
        assert_eq!((pool.groups[0].water.high_percent, pool.groups[0].water.low_percent), (90, 80));
        assert_eq!(placing.unused_for, Some(Duration::from_secs(3600)));
        for (text, told) in [
            (
                text(&table.replace("data = 1", "data = 8"), 2, ""),
                "8+1 shards need 9 drives in no group too, for what group 'fast' has no room for; there",
            ),
            (text("", 2, ""), "there is no group 'fast'"),
            (text("", 0, class), "there is no group 'fast'"),
            (
                text(table, 3, class),
                "4+2 shards need 6 drives on their own, there are 5 that are in no group",
            ),
            (text(table, 2, "pool_group_for = \"1h\"\n"), "nothing without pool_group"),
            (text(table, 2, "pool_group = \"fast\"\npool_group_for = \"59min\"\n"), "at least 1h"),
            (text(&format!("{table}low_water = \"90%\"\n"), 2, ""), "is to be below high_water"),
            (text(&table.replace("data = 1", "data = 0"), 2, ""), "is no code"),
        ] {
            let error = load(&text).unwrap_err();
            assert!(error.to_string().contains(told), "{told}: {error}");
        }
        let many: String = (0..9).map(|n| format!("\n[pool.groups.g{n}]\ndata = 1\nparity = 0\n")).collect();
        assert!(load(&text(&many, 0, "")).unwrap_err().to_string().contains("at most 8 groups"));
    }

    /// Story: all these were taken, and did nothing or kept a class from its own pool.
    #[test]
    fn settings_of_leaving_that_make_no_sense_are_refused_with_what_to_do() {
        let first = "up_to = \"1MiB\"\n";
        let of_class = |text: &str| refused(first, &format!("{first}{text}\n"));
        for (text, key, told) in [
            ("residency = \"0s\"", "residency", "write \"tape\" to have files leave"),
            ("residency = \"20s\"", "residency", "known to the hour only: write \"1h\" or longer"),
            ("residency = \"59min\"", "residency", "known to the hour only"),
            ("pool_max = \"0B\"", "pool_max", "lets no file of the class come back"),
            (
                "pool_min = \"2GB\"\npool_max = \"1GB\"",
                "pool_min",
                "pool_min, 2GB, is to be at most pool_max, 1GB",
            ),
            ("pool_min = \"2GB\"\nresidency = \"tape\"", "pool_min", "leave one of the two out"),
        ] {
            let error = of_class(text);
            assert!(error.key.ends_with(key) && error.to_string().contains(told), "{error}");
        }
    }

    /// One class takes what is left, and those behind it only what names them; an hour is long enough.
    #[test]
    fn classes_that_are_only_named_are_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = write(&Template::default());
        let text = text.replace("up_to = \"1MiB\"\n", "residency = \"1h\"\n");
        fs::write(file.path(), text.replace("up_to = \"1GiB\"\n", "")).unwrap();
        load(file.path()).unwrap();
    }

    /// Story: the example of a class in the documentation was refused: it had no `large`.
    #[test]
    fn classes_in_the_documentation_are_taken() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
        let page = fs::read_to_string(page).unwrap();
        let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let examples: Vec<&str> = blocks.filter(|block| block.contains("[[classes]]")).collect();
        assert!(!examples.is_empty());
        for example in examples {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = write(&Template { tape_drives: 8, ..Template::default() });
            fs::write(file.path(), format!("{text}\n{example}")).unwrap();
            if let Err(error) = load(file.path()) {
                panic!("{error}: {example}");
            }
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        let text = write(&Template::default());
        let line = text.lines().position(|line| line.starts_with("parity")).unwrap() + 1;
        let error = refused("parity = 2", "parity = \"two\"");
        assert_eq!((error.line, error.key.as_str()), (line, "pool.parity"));
        let error = refused("parity = 2", "pairity = 2");
        assert!(error.message.contains("unknown field"), "{error}");
        assert_eq!(error.line, line);
        let error = refused("parity = 2", "parity = 5");
        assert!(error.to_string().contains("need 9 drives"), "{error}");
        let error = refused("local_parity = 0", "local_parity = 3");
        assert!(error.to_string().contains("4+3+2 shards need 9 drives"), "{error}");
        let error = refused("local_parity = 0", "local_parity = 5");
        assert!(error.to_string().contains("pool.local_parity") && error.to_string().contains("at most 4"));
        let error = refused("high_water = \"90%\"", "high_water = \"0%\"");
        assert!(error.to_string().contains("from 1 to 100"), "{error}");
        let error = refused("high_water = \"90%\"", "# ");
        assert!(error.to_string().contains("nothing without high_water"), "{error}");
        let error = refused("low_water = \"80%\"", "low_water = \"90%\"");
        assert!(error.to_string().contains("low_water, 90%, is to be below high_water, 90%"), "{error}");
        let error = refused("format = 1", "format = 2");
        assert!(error.to_string().contains("newer kist"), "{error}");
        let error = refused("arena = \"", "arena = \"x");
        assert!(error.to_string().contains("pool.arena") && error.to_string().contains("64MiB"), "{error}");
        let long = "a".repeat(LABEL_BYTES_MAX + 1);
        for name in ["small", "vault-a"] {
            let error = refused(&format!("name = \"{name}\""), &format!("name = \"{long}\""));
            assert!(error.key.ends_with(".name") && error.message.contains("at most 32"), "{error}");
        }
        let error = refused("vault-b\"]", "vault-c\"]");
        assert!(error.to_string().contains("there are: vault-a, vault-b"), "{error}");
        let error = refused("path = \"pool/d1\"", "path = \"rados://pool/d1\"");
        assert!(error.to_string().contains("'rados' is no known kind"), "{error}");
        let error = refused("path = \"pool/d1\"", "path = \"kinetic://host\"");
        assert!(error.to_string().contains("key-file= is missing"), "{error}");
        let error = refused("id = 1\n", "id = 0\n");
        assert!(error.to_string().contains("drive 0 is there twice"), "{error}");
        let error = refused("up_to = \"1GiB\"", "up_to = \"1KiB\"");
        assert!(error.to_string().contains("rises"), "{error}");
        let timing = |text: &str| refused("\n[tape]", &format!("\n[library.timing]\n{text}\n[tape]"));
        let first = "up_to = \"1MiB\"\n";
        let error = refused(first, "");
        assert!(error.key == "classes.up_to" && error.message.contains("class 'small' above it"), "{error}");
        let error = timing("drive = \"LTO-8000\"");
        assert!(error.key == "library.timing.drive" && error.message.contains("LTO-8, "), "{error}");
        for text in ["scale = 0.0", "scale = -1.0", "scale = nan", "scale = inf", "robots = 0"] {
            let error = timing(&format!("drive = \"LTO-8\"\n{text}"));
            assert!(error.key.starts_with("library.timing."), "{error}");
        }
    }
}
