//! What is asked for, and its limits.

use std::path::PathBuf;
use std::time::Duration;

use base::ByteCount;
use config::Size;
use disk_load::{Access, BLOCK_MAX, DEPTH_MAX, Engine, FILE_MAX, Mix, RATE_MAX, RATE_MIN, RUN};
use terminal::{Exit, Failure, Outcome, text};

use super::preset::Preset;

/// Paths that are measured together.
const PATHS_MAX: usize = 128;
/// Sizes, and mixes, of one call.
const SIZES_MAX: usize = 16;
const MIXES_MAX: usize = 8;
/// How long a row may be measured.
const SECONDS_MAX: i64 = 3_600;
/// Operations under way at once on all paths together: with the engine of threads, so many threads.
const OPERATIONS_MAX: u64 = 4_096;
/// Memory of all operations under way at once.
const MEMORY_MAX: u64 = 2 << 30;
/// The least file: it holds two operations of each size.
const FILE_MIN: ByteCount = ByteCount(1 << 20);

/// What is measured if nothing else is said.
const SIZES: [ByteCount; 4] =
    [ByteCount(4 << 10), ByteCount(64 << 10), ByteCount(1 << 20), ByteCount(16 << 20)];
const DEPTH: u32 = 32;
const SECONDS: u32 = 5;
const FILE: ByteCount = ByteCount(1 << 30);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
PATH is a directory, in which a file without a name is made that is gone when the
command ends, however it ends; or a file; or a block device. What is there already
is only read, unless --destroy names it once more and nothing stands on it. Several
paths are measured together, a thread each: many disks, a whole JBOD, or two paths
to one disk. 1 GiB of a file system stays free.

Every block that is written says where it belongs, and what is read back is checked
for it. The kernel's cache is passed by; where a file system does not let it, that
is said. --stream adds a tape drive that is read for at its rate, 64 MiB at once.
--fio runs fio in turn with Kist on the same file and gives the ratio.

Examples:
  kist bench disk /srv/pool/d0
  kist bench disk /srv/pool/d0 --size 4KiB --access random --depth 32 --fio
  kist bench disk /srv/pool/d* --preset kit --page jbod.html
  kist bench disk /srv/pool/d* --size 16MiB --counts 1,2,4,8 --page jbod.html
  sudo kist bench disk /dev/sdb /dev/sdc --size 1MiB --access sequential
  sudo kist bench disk /dev/sdb --mix write --destroy ZL200042")]
pub struct Args {
    /// Directories, files or block devices
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Bytes of an operation, 4KiB to 16MiB [default: 4KiB,64KiB,1MiB,16MiB]
    #[arg(long = "size", value_delimiter = ',', value_parser = Size::parse, value_name = "SIZE,...")]
    sizes: Vec<Size>,
    /// read, write, or reads:writes [default: read]
    #[arg(long = "mix", value_delimiter = ',', value_parser = Mix::parse, value_name = "MIX,...")]
    mixes: Vec<Mix>,
    /// In which order blocks are taken [default: sequential,random]
    #[arg(long = "access", value_delimiter = ',', value_name = "ACCESS,...")]
    access: Vec<AccessGiven>,
    /// Operations under way at once, on each path [default: 32]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)), value_name = "N")]
    depth: Option<u32>,
    /// Seconds of each row [default: 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX), value_name = "S")]
    seconds: Option<u32>,
    /// Bytes of the file that is made, or of the part that is read of a file or device [default: 1GiB; all]
    #[arg(long, value_parser = Size::parse, value_name = "SIZE")]
    bytes: Option<Size>,
    /// How operations are ordered from the system [default: io_uring, or threads where the kernel refuses it]
    #[arg(long)]
    engine: Option<EngineGiven>,
    /// Sizes, mixes and depth of a site that has published its own
    #[arg(long)]
    preset: Option<Preset>,
    /// Beside the load, read for a tape drive of this rate, such as 400MB
    #[arg(long, value_parser = rate, value_name = "RATE")]
    stream: Option<u64>,
    /// Run fio in turn on the same file
    #[arg(long)]
    pub fio: bool,
    /// A file or device that is written over, by its path or its serial number, once for each
    #[arg(long, value_name = "NAME")]
    pub destroy: Vec<String>,
    /// Measure the first N of the paths together, too, with operations of the largest size: 1,2,4
    #[arg(long = "counts", value_delimiter = ',', value_name = "N,...")]
    counts: Vec<usize>,
    /// Write a page with curves
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum AccessGiven {
    Sequential,
    Random,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum EngineGiven {
    #[value(name = "io_uring")]
    IoUring,
    Threads,
}

/// Reads `400MB` or `400MB/s`.
fn rate(text: &str) -> Result<u64, String> {
    let size = Size::parse(text.strip_suffix("/s").unwrap_or(text))?.0.0;
    if (RATE_MIN..=RATE_MAX).contains(&size) {
        return Ok(size);
    }
    let (least, most) = (text::size(RATE_MIN), text::size(RATE_MAX));
    Err(format!("no tape drive takes '{text}' a second: name a rate from {least} to {most}, such as 400MB"))
}

/// One row's load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// Bytes of an operation.
    pub size: ByteCount,
    /// Reads and writes.
    pub mix: Mix,
    /// Order.
    pub access: Access,
}

/// All that is measured, within its limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Rows: what only reads comes first, what only writes last.
    pub cases: Vec<Case>,
    /// Operations under way at once.
    pub depth: u32,
    /// How long each row is measured.
    pub span: Duration,
    /// Bytes of each file that is made.
    pub bytes: ByteCount,
    /// Bytes of what is there that are read, if not all of it.
    pub part: Option<ByteCount>,
    /// The engine, if one was asked for.
    pub engine: Option<Engine>,
    /// Bytes a second of a tape drive.
    pub stream: Option<u64>,
    /// So many of the paths are measured together besides.
    pub counts: Vec<usize>,
}

impl Plan {
    /// What is measured on some of the paths: operations of the largest size.
    pub fn scaling_cases(&self) -> impl Iterator<Item = Case> {
        let largest = self.largest();
        self.cases.clone().into_iter().filter(move |case| case.size == largest)
    }

    /// How many rows there will be.
    pub fn rows(&self) -> usize {
        self.cases.len() + self.counts.len() * self.scaling_cases().count()
    }

    /// Whether anything is written.
    pub fn has_writes(&self) -> bool {
        self.cases.iter().any(|case| case.mix.has_writes())
    }

    /// The largest operation.
    pub fn largest(&self) -> ByteCount {
        self.cases.iter().map(|case| case.size).max().unwrap_or(BLOCK_MAX)
    }

    /// The least that a file or device must hold: two operations of the largest size, and a run of a stream.
    pub fn least(&self) -> ByteCount {
        ByteCount((2 * self.largest().0).max(FILE_MIN.0).max(self.stream.map_or(0, |_| RUN.0)))
    }
}

impl Args {
    /// All that is to be measured.
    pub fn plan(&self) -> Outcome<Plan> {
        let preset = self.preset.map(Preset::settings).unwrap_or_default();
        let sizes = given(&self.sizes, |size| size.0).or(preset.sizes).unwrap_or(SIZES.to_vec());
        let mixes = given(&self.mixes, |mix| *mix).or(preset.mixes).unwrap_or(vec![Mix::READ]);
        let access = given(&self.access, |access| match access {
            AccessGiven::Sequential => Access::Sequential,
            AccessGiven::Random => Access::Random,
        });
        let access = access.or(preset.access).unwrap_or(vec![Access::Sequential, Access::Random]);
        at_most("paths", self.paths.len(), PATHS_MAX)?;
        at_most("sizes", sizes.len(), SIZES_MAX)?;
        at_most("mixes", mixes.len(), MIXES_MAX)?;
        check_sizes(&sizes)?;
        let depth = self.depth.or(preset.depth).unwrap_or(DEPTH);
        let stream = self.stream.or(preset.stream);
        let plan = Plan {
            cases: cases(&sizes, &mixes, &access),
            depth,
            span: Duration::from_secs(u64::from(self.seconds.unwrap_or(SECONDS))),
            bytes: self.bytes.map(|size| size.0).or(preset.bytes).unwrap_or(FILE),
            part: self.bytes.map(|size| size.0),
            engine: self.engine.map(|engine| match engine {
                EngineGiven::IoUring => Engine::IoUring,
                EngineGiven::Threads => Engine::Threads,
            }),
            stream,
            counts: self.counts()?,
        };
        self.check(plan)
    }

    /// In order, each once.
    fn counts(&self) -> Outcome<Vec<usize>> {
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        counts.dedup();
        at_most("counts of paths", counts.len(), SIZES_MAX)?;
        match counts.iter().find(|count| **count == 0 || **count > self.paths.len()) {
            Some(wrong) => Err(Failure::usage(format!(
                "--counts {wrong}: {} are named, and from 1 to all of them are measured together",
                text::plural(self.paths.len() as u64, "path")
            ))),
            None => Ok(counts),
        }
    }

    fn check(&self, mut plan: Plan) -> Outcome<Plan> {
        let (largest, least) = (plan.largest(), plan.least());
        if plan.bytes < least || plan.bytes > FILE_MAX {
            return Err(Failure::usage(format!(
                "--bytes {} is not possible here: from {} to {} is (two operations of the largest size, and \
                 {} with --stream)",
                Size(plan.bytes),
                Size(least),
                Size(FILE_MAX),
                Size(RUN)
            )));
        }
        // Whole operations of the largest size, so that one pass fills all of it.
        plan.bytes.0 -= plan.bytes.0 % largest.0;
        let operations = u64::from(plan.depth) * self.paths.len() as u64;
        if operations > OPERATIONS_MAX {
            return Err(Failure::usage(format!(
                "--depth {} on {} are {} operations at once, and {} are the most: lower --depth",
                plan.depth,
                text::plural(self.paths.len() as u64, "path"),
                text::count(operations),
                text::count(OPERATIONS_MAX)
            )));
        }
        let memory = largest.0.saturating_mul(operations);
        if memory > MEMORY_MAX {
            return Err(Failure::new(
                Exit::Refused,
                format!(
                    "{} operations of {} at once on {} take {} of memory, and {} are the most: lower --depth \
                     or --size",
                    plan.depth,
                    Size(largest),
                    text::plural(self.paths.len() as u64, "path"),
                    text::size(memory),
                    text::size(MEMORY_MAX)
                ),
            ));
        }
        Ok(plan)
    }
}

fn given<G, T>(given: &[G], to: impl Fn(&G) -> T) -> Option<Vec<T>> {
    (!given.is_empty()).then(|| given.iter().map(to).collect())
}

fn at_most(what: &str, count: usize, most: usize) -> Outcome {
    match count > most {
        true => Err(Failure::usage(format!("{count} {what}, and {most} are the most at once"))),
        false => Ok(()),
    }
}

fn check_sizes(sizes: &[ByteCount]) -> Outcome {
    use disk_load::ALIGNMENT;
    let is_wrong =
        |size: &&ByteCount| size.0 == 0 || !size.0.is_multiple_of(ALIGNMENT.0) || **size > BLOCK_MAX;
    match sizes.iter().find(is_wrong) {
        Some(wrong) => Err(Failure::usage(format!(
            "--size {}: the size of an operation is a multiple of {}, and at most {}",
            Size(*wrong),
            Size(ALIGNMENT),
            Size(BLOCK_MAX)
        ))),
        None => Ok(()),
    }
}

fn cases(sizes: &[ByteCount], mixes: &[Mix], access: &[Access]) -> Vec<Case> {
    let mut mixes = mixes.to_vec();
    // What is written by others cannot be checked any more: reads come first.
    mixes.sort_by_key(|mix| (mix.has_writes(), !mix.has_reads()));
    let mut cases = Vec::new();
    for mix in mixes {
        for access in access {
            cases.extend(sizes.iter().map(|size| Case { size: *size, mix, access: *access }));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn plan(line: &[&str]) -> Outcome<Plan> {
        Line::try_parse_from([&["disk", "/x"], line].concat()).unwrap().args.plan()
    }

    #[test]
    fn reads_come_first_and_writes_last() {
        let plan = plan(&["--mix", "write,2:1,read", "--size", "4KiB", "--access", "random"]).unwrap();
        let mixes: Vec<String> = plan.cases.iter().map(|case| case.mix.to_string()).collect();
        assert_eq!(mixes, ["read", "2:1", "write"]);
        assert!(plan.has_writes());
    }

    #[test]
    fn presets_give_way_to_what_is_said() {
        let preset = plan(&["--preset", "kit"]).unwrap();
        assert!(preset.cases.iter().all(|case| case.mix.to_string() == "2:1"));
        assert!(preset.stream.is_some());
        let said = plan(&["--preset", "kit", "--size", "8KiB", "--mix", "read", "--depth", "3"]).unwrap();
        assert!(said.cases.iter().all(|case| case.mix == Mix::READ && case.size.0 == 8192));
        assert_eq!((said.depth, said.stream), (3, preset.stream));
    }

    #[test]
    fn limits_are_met_and_not_passed() {
        assert!(plan(&["--size", "16MiB", "--depth", "128"]).is_ok());
        assert_eq!(plan(&["--size", "16MiB", "--depth", "129"]).unwrap_err().exit, Exit::Refused);
        assert!(plan(&["--size", "4KiB", "--bytes", "1MiB"]).is_ok());
        assert!(plan(&["--size", "4KiB", "--bytes", "1048575B"]).is_err());
        assert!(plan(&["--size", "16MiB", "--bytes", "32MiB"]).is_ok());
        assert!(plan(&["--size", "16MiB", "--bytes", "31MiB"]).is_err());
        assert!(plan(&["--bytes", "1TiB"]).is_ok());
        assert!(plan(&["--bytes", "1025GiB"]).is_err());
        assert!(plan(&["--size", "4KiB", "--stream", "100MB", "--bytes", "64MiB"]).is_ok());
        assert!(plan(&["--size", "4KiB", "--stream", "100MB", "--bytes", "63MiB"]).is_err());
        let sizes = |count: usize| vec!["4KiB"; count].join(",");
        assert!(plan(&["--size", &sizes(SIZES_MAX)]).is_ok());
        assert!(plan(&["--size", &sizes(SIZES_MAX + 1)]).is_err());
        let paths = |count: usize| vec!["/y"; count];
        assert!(plan(&[&paths(PATHS_MAX - 1)[..], &["--depth", "1"]].concat()).is_ok());
        assert!(plan(&[&paths(PATHS_MAX)[..], &["--depth", "1"]].concat()).is_err());
        let small = ["--size", "4KiB", "--depth", "32"];
        assert!(plan(&[&paths(127)[..], &small].concat()).is_ok());
        let one_more = ["--size", "4KiB", "--depth", "33"];
        assert!(plan(&[&paths(127)[..], &one_more].concat()).is_err());
    }

    #[test]
    fn rates_have_a_unit_and_are_those_of_drives() {
        assert_eq!(rate("400MB"), Ok(400_000_000));
        assert_eq!(rate("400MB/s"), Ok(400_000_000));
        assert!(rate("1MB").is_ok() && rate("999kB").is_err());
        assert!(rate("4GB").is_ok() && rate("4001MB").is_err() && rate("fast").is_err());
    }
}
