//! `kist bench erasure`: Kist and other coders on the same buffers, round after round in turn.

mod core;
mod figures;
mod peer;
mod show;

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::{Duration, Instant};

use ::erasure::Kernel;
use ::erasure::bench::Operation;
use config::Size;
use terminal::{Exit, Failure, Outcome, Progress, Style, output, text};

use self::core::{Core, Round, Shape};
use self::figures::{Measured, PeerNamed, Report};
pub use self::peer::Program;
use super::page;

/// Data and parity shards of the codes that are measured.
const CODES: [(usize, usize); 6] = [(4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (32, 4)];
/// Bytes of a shard.
const SHARDS: [usize; 3] = [8 << 10, 128 << 10, 1 << 20];
/// Cores that are measured, if this process may use so many.
const CORES: [usize; 2] = [1, 2];
/// More than any cache, for each core.
const WORKING_SET: usize = 1 << 30;
/// The least: two stripes of the largest shape.
const WORKING_SET_MIN: usize = 2 * 36 * (1 << 20);
/// Peers at most.
const PEERS_MAX: usize = 8;
/// A round, from the cache and from memory: short, so that some go by undisturbed.
const CACHE_SPAN: Duration = Duration::from_micros(400);
const MEMORY_SPAN: Duration = Duration::from_millis(4);
/// Rounds of each coder. The best counts: what else the machine does can only make a round slower.
const ROUNDS: Effort<usize> = Effort { cache: 300, memory: 120 };
const ROUNDS_QUICK: Effort<usize> = Effort { cache: 20, memory: 10 };
/// After so long there are no more rounds of a shape, so that the 36 shapes of each source end within twelve
/// minutes, and with `--quick` within one, on a busy machine, too.
const LIMIT: Effort<Duration> =
    Effort { cache: Duration::from_millis(5_000), memory: Duration::from_millis(14_000) };
const LIMIT_QUICK: Effort<Duration> =
    Effort { cache: Duration::from_millis(400), memory: Duration::from_millis(1_100) };

/// Something for the shapes of each source.
#[derive(Clone, Copy)]
struct Effort<T> {
    cache: T,
    memory: T,
}

impl<T: Copy> Effort<T> {
    fn of(self, shape: &Shape) -> T {
        if shape.cached { self.cache } else { self.memory }
    }
}

/// Arguments of `kist bench erasure` alone.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "erasure")]
pub struct Args {
    /// With `erasure`: another coder to measure in turn with Kist, a program as benches/peers/README.md asks
    /// for; can be given more than once. The bars are set against the one named isa-l. With `s3`: another
    /// server, named minio or versitygw
    #[arg(long = "peer", value_parser = Program::parse, value_name = "NAME=PROGRAM")]
    peers: Vec<Program>,
    /// With `erasure`, `s3` and `schedule`: less, in about a minute
    #[arg(long)]
    quick: bool,
    /// Rounds of each coder, for tests
    #[arg(long, hide = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: Option<u32>,
    /// Bytes for each core, for tests
    #[arg(long, hide = true, value_parser = Size::parse)]
    working_set: Option<Size>,
}

impl Args {
    /// Whether any is given.
    pub fn is_given(&self) -> bool {
        !self.peers.is_empty() || self.quick || self.rounds.is_some() || self.working_set.is_some()
    }

    /// Programs that are measured beside ours.
    pub fn peers(&self) -> &[Program] {
        &self.peers
    }

    /// Whether any but `--quick` is given.
    pub fn is_given_beside_quick(&self) -> bool {
        Args { quick: false, ..self.clone() }.is_given()
    }

    /// Whether less is to be measured.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    fn check(&self) -> Outcome {
        if self.peers.len() > PEERS_MAX {
            return Err(Failure::usage(format!("{} peers, at most {PEERS_MAX}", self.peers.len())));
        }
        for (at, peer) in self.peers.iter().enumerate() {
            if self.peers[..at].iter().any(|other| other.name == peer.name) {
                return Err(Failure::usage(format!("two peers are named {}: give each its own", peer.name)));
            }
        }
        if self.bytes() < WORKING_SET_MIN {
            let least = text::size(WORKING_SET_MIN as u64);
            return Err(Failure::usage(format!("--working-set must be {least} or more")));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.working_set.map_or(WORKING_SET, |size| usize::try_from(size.0.0).unwrap_or(usize::MAX))
    }

    /// Rounds of each coder at most.
    fn rounds(&self) -> Effort<usize> {
        match self.rounds {
            Some(rounds) => Effort { cache: rounds as usize, memory: rounds as usize },
            None if self.quick => ROUNDS_QUICK,
            None => ROUNDS,
        }
    }

    fn limit(&self) -> Effort<Duration> {
        if self.quick { LIMIT_QUICK } else { LIMIT }
    }
}

/// Measures, prints, and writes the page if one is named.
pub fn run(args: &Args, write: Option<&Path>, style: Style) -> Outcome {
    args.check()?;
    let report = measure(args, style)?;
    if let Some(page) = write {
        page::write(page, "kist bench erasure", &show::markdown(&report))?;
    }
    if style.json { output::json(&report) } else { output::write(&show::text(&report)) }
}

fn measure(args: &Args, style: Style) -> Outcome<Report> {
    let processors = core::processors()?;
    let counts: Vec<usize> = CORES.into_iter().filter(|cores| *cores <= processors.len()).collect();
    let most = counts.last().copied().unwrap_or(0);
    enough_memory(args.bytes() as u64 * most as u64)?;
    let cores: Vec<Core> =
        processors.iter().take(most).map(|cpu| Core::start(*cpu, args.bytes(), &args.peers)).collect();
    for core in &cores {
        core.wait()?;
    }
    let shapes: Vec<Shape> = [true, false]
        .into_iter()
        .flat_map(|cached| SHARDS.map(|shard| (cached, shard)))
        .flat_map(|(cached, shard)| CODES.map(|(data, parity)| Shape { data, parity, shard, cached }))
        .collect();
    let quiet = style.quiet || !stderr().is_terminal();
    let total = (shapes.len() * counts.len()) as u64;
    let progress = Progress::start_of("bench erasure", "shape", total, 0, quiet);
    let mut bench = Bench { args, cores: &cores, versions: BTreeMap::new(), rounds: args.rounds() };
    let mut rows = Vec::new();
    for count in counts {
        for shape in &shapes {
            rows.extend(figures::rows(shape, count, &bench.shape(*shape, count)?));
            progress.add_files(1);
        }
    }
    drop(progress);
    let version = |peer: &Program| bench.versions.get(&peer.name).cloned().unwrap_or_default();
    let peers = args.peers.iter();
    let peers = peers.map(|peer| PeerNamed { name: peer.name.clone(), version: version(peer) }).collect();
    let Effort { cache: rounds_cache, memory: rounds_memory } = bench.rounds;
    let bars = figures::bars(&rows);
    let (kernel, working_set) = (Kernel::best().to_string(), args.bytes());
    Ok(Report { kernel, rounds_cache, rounds_memory, working_set, peers, bars, rows })
}

/// Refuses to begin what the kernel would end.
fn enough_memory(needed: u64) -> Outcome {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    match kibibytes.map(|kibibytes| kibibytes * 1024) {
        Some(free) if free < needed + needed / 4 => Err(Failure::new(
            Exit::Refused,
            format!(
                "the buffers take {}, and {} of memory are free: end other programs first",
                text::size(needed),
                text::size(free)
            ),
        )),
        _ => Ok(()),
    }
}

struct Bench<'b> {
    args: &'b Args,
    cores: &'b [Core],
    versions: BTreeMap<String, String>,
    /// The least that a shape has had.
    rounds: Effort<usize>,
}

impl Bench<'_> {
    /// All coders and operations in turn, round after round; the best of each.
    fn shape(&mut self, shape: Shape, count: usize) -> Outcome<Vec<Measured>> {
        let mut measured = self.coders(&shape);
        let span = if shape.cached { CACHE_SPAN } else { MEMORY_SPAN };
        let stripes = if shape.cached { 1 } else { self.args.bytes() / shape.stripe() };
        let (begun, mut first, mut rounds) = (Instant::now(), 0, 0);
        while rounds < self.args.rounds().of(&shape)
            && (rounds == 0 || begun.elapsed() < self.args.limit().of(&shape))
        {
            rounds += 1;
            for coder in &mut measured {
                let (operation, peer) = (coder.operation, coder.peer);
                let round = Round { shape, operation, peer, stripes, first, span };
                let (gbps, version) = self.round(round, count)?;
                coder.gbps = coder.gbps.max(gbps);
                if peer.is_some() && !self.versions.contains_key(&coder.name) {
                    self.versions.insert(coder.name.clone(), version);
                }
                // By the golden section: what the last rounds have left in the cache is far away.
                first = (first + stripes * 382 / 1000 + 1) % stripes;
            }
        }
        let least = if shape.cached { &mut self.rounds.cache } else { &mut self.rounds.memory };
        *least = rounds.min(*least);
        Ok(measured)
    }

    /// Everything that is measured on a shape.
    fn coders(&self, shape: &Shape) -> Vec<Measured> {
        let mut coders = Vec::new();
        for operation in Operation::ALL {
            let of_memory = figures::is_of_memory(operation);
            // The cache's own rates would say nothing: the program reads it with narrow registers.
            if of_memory && shape.cached {
                continue;
            }
            let name = if of_memory { figures::MEMORY } else { figures::KIST };
            coders.push(Measured { operation, peer: None, name: name.to_owned(), gbps: 0.0 });
            if figures::is_offered(operation) {
                let peers = self.args.peers.iter().enumerate();
                coders.extend(peers.map(|(at, program)| {
                    let name = program.name.clone();
                    Measured { operation, peer: Some(at), name, gbps: 0.0 }
                }));
            }
        }
        coders
    }

    /// One round on so many cores at once: the sum of their rates.
    fn round(&self, round: Round, count: usize) -> Outcome<core::Rate> {
        let cores = &self.cores[..count];
        cores.iter().try_for_each(|core| core.begin(round))?;
        let rates: Vec<Outcome<core::Rate>> = cores.iter().map(Core::wait).collect();
        let mut sum = (0.0, String::new());
        for rate in rates {
            let (gbps, version) = rate?;
            sum = (sum.0 + gbps, version);
        }
        Ok(sum)
    }
}
