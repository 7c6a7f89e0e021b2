//! What came of a soak, as a table.

use std::fmt;

use serde_json::json;

use super::faults::Faults;
use super::sample::Sample;
use super::world::{Tally, World, lock};

/// Lines in which memory over time is shown.
const BINS: usize = 20;
/// A life shorter than this says nothing about growth.
const LIFE_SECONDS_MIN: f64 = 240.0;
/// The first part of a life, in which caches and buffers fill.
const WARM_SECONDS: f64 = 60.0;
/// Growth of the median from the first to the last third of a life that is still flat.
const GROWTH_MAX: f64 = 1.25;
const GROWTH_BYTES: f64 = (16u64 << 20) as f64;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Report {
    seed: u64,
    seconds: f64,
    clients: u64,
    operations: u64,
    put_bytes: u64,
    tallies: Vec<(&'static str, Tally)>,
    notes: Vec<(String, u64)>,
    kills: u64,
    losses: u64,
    returns: u64,
    emptied: u64,
    mended: u64,
    deaths: u64,
    samples: Vec<Sample>,
    violations: u64,
    texts: Vec<String>,
    /// Lengths of the longest life in seconds, and the median of its memory in the first and the last third.
    longest: Option<(f64, f64, f64)>,
}

impl Report {
    pub(super) fn of(world: &World, faults: &Faults, samples: Vec<Sample>) -> Self {
        let longest = longest_life(&samples);
        if let Some((_, first, last)) = longest
            && last > first * GROWTH_MAX + GROWTH_BYTES
        {
            world.violation(format!("memory grows: median {first:.0} bytes, later {last:.0}"));
        }
        let (violations, texts) = world.violations();
        Report {
            seed: world.settings.seed,
            seconds: world.began.elapsed().as_secs_f64(),
            clients: world.settings.clients,
            operations: world.operations.load(std::sync::atomic::Ordering::SeqCst),
            put_bytes: world.put_bytes.load(std::sync::atomic::Ordering::SeqCst),
            tallies: world.tallies().into_iter().collect(),
            notes: lock(&world.notes).clone().into_iter().collect(),
            kills: faults.kills,
            losses: faults.losses,
            returns: faults.returns,
            emptied: faults.operator.emptied,
            mended: faults.operator.mended,
            deaths: faults.deaths,
            samples,
            violations,
            texts,
            longest,
        }
    }

    /// How many things were wrong.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Kills, losses and emptied drives that were carried out.
    #[must_use]
    pub fn faults(&self) -> [u64; 3] {
        [self.kills, self.losses, self.emptied]
    }

    /// How often an operation of this kind was done.
    #[must_use]
    pub fn done(&self, kind: &str) -> u64 {
        self.tallies.iter().find(|(name, _)| *name == kind).map_or(0, |(_, tally)| tally.done)
    }

    fn count(&self, word: &str) -> usize {
        self.texts.iter().filter(|text| text.contains(word)).count()
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let tallies: serde_json::Map<_, _> = self
            .tallies
            .iter()
            .map(|(kind, t)| {
                ((*kind).to_owned(), json!({"done": t.done, "refused": t.refused, "unknown": t.unknown}))
            })
            .collect();
        json!({
            "seed": self.seed, "seconds": self.seconds, "clients": self.clients,
            "operations": self.operations, "put_bytes": self.put_bytes, "by_kind": tallies,
            "kills": self.kills, "losses": self.losses, "returns": self.returns,
            "emptied": self.emptied,
            "violations": self.violations, "texts": self.texts, "notes": self.notes,
            "lost": self.count("LOST"), "wrong": self.count("WRONG"), "hung": self.count("HUNG"),
            "longest_life": self.longest,
        })
    }
}

impl Report {
    fn fmt_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<u64> = self.samples.iter().map(|sample| sample.memory).collect();
        writeln!(
            f,
            "memory (anonymous): min {:.0} MB, median {:.0} MB, max {:.0} MB, {} samples",
            mb(all.iter().copied().min().unwrap_or(0)),
            median(all.clone()) / 1e6,
            mb(all.iter().copied().max().unwrap_or(0)),
            all.len()
        )?;
        if let Some((seconds, first, last)) = self.longest {
            let (first, last) = (first / 1e6, last / 1e6);
            writeln!(
                f,
                "longest life {seconds:.0} s: median of first third {first:.0} MB, of last {last:.0} MB"
            )?;
        }
        writeln!(
            f,
            "{:>8} {:>6} {:>10} {:>13} {:>9} {:>9}",
            "s", "life", "memory MB", "catalogue MB", "disk MB", "requests"
        )?;
        for bin in self.samples.chunks(self.samples.len().div_ceil(BINS).max(1)) {
            let (last, memory) = (bin[bin.len() - 1], median(bin.iter().map(|s| s.memory).collect()));
            let requests = bin.iter().map(|s| s.in_flight).max().unwrap_or(0);
            writeln!(
                f,
                "{:>8.0} {:>6} {:>10.1} {:>13.1} {:>9.0} {requests:>9}",
                last.at,
                last.life,
                memory / 1e6,
                mb(last.catalogue),
                mb(last.disk)
            )?;
        }
        Ok(())
    }
}

fn median(mut values: Vec<u64>) -> f64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0) as f64
}

fn longest_life(samples: &[Sample]) -> Option<(f64, f64, f64)> {
    let lives = samples.chunk_by(|one, other| one.life == other.life);
    let length = |life: &[Sample]| life.last().map_or(0.0, |last| last.at - life[0].at);
    let life = lives.max_by(|one, other| length(one).total_cmp(&length(other)))?;
    if length(life) < LIFE_SECONDS_MIN {
        return None;
    }
    let warm: Vec<&Sample> = life.iter().filter(|sample| sample.at > life[0].at + WARM_SECONDS).collect();
    let third = warm.len() / 3;
    let of = |part: &[&Sample]| median(part.iter().map(|sample| sample.memory).collect());
    Some((length(life), of(&warm[..third]), of(&warm[warm.len() - third..])))
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "soak: seed {}, {} clients, {:.0} s, {} operations, {:.0} MB put",
            self.seed,
            self.clients,
            self.seconds,
            self.operations,
            mb(self.put_bytes)
        )?;
        writeln!(f, "{:<24} {:>9} {:>9} {:>9}", "", "done", "refused", "unknown")?;
        for (kind, t) in &self.tallies {
            writeln!(f, "{kind:<24} {:>9} {:>9} {:>9}", t.done, t.refused, t.unknown)?;
        }
        for (note, count) in &self.notes {
            writeln!(f, "  {count:>7} x {note}")?;
        }
        self.fmt_memory(f)?;
        for text in &self.texts {
            writeln!(f, "VIOLATION {text}")?;
        }
        writeln!(
            f,
            "kills {}, drives lost {} and back {}, emptied {} and whole again {}, deaths of its own {}, \
             lost {}, wrong {}, hung {}, violations {}",
            self.kills,
            self.losses,
            self.returns,
            self.emptied,
            self.mended,
            self.deaths,
            self.count("LOST"),
            self.count("WRONG"),
            self.count("HUNG"),
            self.violations
        )
    }
}
