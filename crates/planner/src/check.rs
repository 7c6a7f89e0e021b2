//! Reading a site file, and what it may say.

use std::fmt::Display;

use durability::Code;
use mechanics::UnknownModel;

use super::site::{Jbod, PER_DAY_MAX, Pool, Price, Server, Site, SiteFile, Tape};
use super::workload::ClassWorkload;

/// Classes, servers, or adapters of a server at most.
pub const PARTS_MAX: usize = 1000;

/// Machines of one sort at most.
const MACHINES_MAX: u64 = 10_000_000;

/// Why a site cannot be planned.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The text is no site file.
    #[error("{0}; docs/reference/planner.md lists all keys")]
    Toml(String),
    /// A figure that makes no sense.
    #[error("{place}: {key} is {value}: it must be {range}")]
    Range {
        /// The table and its name.
        place: String,
        /// The key.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// Two tables of one kind share a name.
    #[error("{place} is there twice: give each its own name, or use count")]
    Twice {
        /// The table and its name.
        place: String,
    },
    /// Too many tables of one kind.
    #[error("{count} {kind}: at most {PARTS_MAX}; put alike ones together")]
    Many {
        /// Which.
        kind: &'static str,
        /// How many.
        count: usize,
    },
    /// No such model.
    #[error("[tape] {key}: {error}")]
    Model {
        /// The key.
        key: &'static str,
        /// Which there are.
        error: UnknownModel,
    },
    /// The drive does not take the medium.
    #[error("[tape]: {drive} takes no {medium}: it takes {}", .takes.join(", "))]
    Medium {
        /// The drive.
        drive: String,
        /// The medium.
        medium: String,
        /// What it takes.
        takes: Vec<String>,
    },
    /// A class with copies or reads, and nowhere to put them.
    #[error("[[class]] {class} has tape copies or recalls, but there is no [tape]: add one, or copies = 0")]
    NoTape {
        /// The class.
        class: String,
    },
    /// Nothing to plan.
    #[error("the site has neither classes nor servers: add [[class]] or [[server]]")]
    Empty,
}

impl Site {
    /// Reads a site file.
    ///
    /// # Errors
    /// If a key is unknown or missing, or a value is out of its range.
    pub fn parse(text: &str) -> Result<Site, SiteError> {
        let file: SiteFile =
            toml::from_str(text).map_err(|error| SiteError::Toml(error.to_string().trim_end().to_owned()))?;
        let classes = file.class.into_iter().map(|class| ClassWorkload {
            written_per_day: class.written.per_day(),
            read_per_day: class.read.per_day(),
            hit_rate: class.hit_rate.ratio(),
            mean_file: class.mean_file.as_f64(),
            peak: class.peak,
            stored: class.stored.as_f64(),
            copies: class.copies,
            files_per_mount: class.files_per_mount,
            written_per_mount: class.written_per_mount.map(|bytes| bytes.as_f64()),
            recall_unit: class.recall_unit.map(|bytes| bytes.as_f64()),
            wanted_share: class.wanted_share.ratio(),
            residency_days: class.residency.map(|span| span.days()),
            cache: class.cache.map(|bytes| bytes.as_f64()),
            files: class.files,
            for_hit_rates: Vec::new(),
            name: class.name,
        });
        let site = Site {
            name: file.name,
            classes: classes.collect(),
            tape: file.tape,
            pool: file.pool,
            servers: file.server,
            power: file.power,
            price: file.price,
        };
        site.check()?;
        Ok(site)
    }

    /// Takes what was measured in place of what the file says: traffic, hit rate, mean file and peak of
    /// classes with the same name, and their pool space where the file gives none. Classes that the file does
    /// not have are added as they are.
    pub fn take_measured(&mut self, measured: &[ClassWorkload]) {
        for class in measured {
            match self.classes.iter_mut().find(|known| known.name == class.name) {
                Some(known) => {
                    known.written_per_day = class.written_per_day;
                    known.read_per_day = class.read_per_day;
                    known.hit_rate = class.hit_rate;
                    known.mean_file = class.mean_file;
                    known.peak = class.peak;
                    known.cache = known.cache.or(class.cache);
                    known.for_hit_rates.clone_from(&class.for_hit_rates);
                }
                None => self.classes.push(class.clone()),
            }
        }
    }

    /// Checks all figures.
    ///
    /// # Errors
    /// The first that is out of its range, with its table and key.
    pub fn check(&self) -> Result<(), SiteError> {
        for (kind, count) in [("classes", self.classes.len()), ("servers", self.servers.len())] {
            at_most(kind, count)?;
        }
        once(self.classes.iter().map(|class| format!("[[class]] {}", class.name)))?;
        once(self.servers.iter().map(|server| format!("[[server]] {}", server.name)))?;
        self.classes.iter().try_for_each(check_class)?;
        self.tape.as_ref().map_or(Ok(()), check_tape)?;
        self.pool.as_ref().map_or(Ok(()), check_pool)?;
        self.servers.iter().try_for_each(check_server)?;
        self.price.as_ref().map_or(Ok(()), check_price)?;
        if let Some(power) = &self.power {
            let at = At("[power]".to_owned());
            at.holds("pue", power.pue, (1.0..=100.0).contains(&power.pue), "1 to 100")?;
        }
        Ok(())
    }
}

fn at_most(kind: &'static str, count: usize) -> Result<(), SiteError> {
    if count > PARTS_MAX { Err(SiteError::Many { kind, count }) } else { Ok(()) }
}

fn once(places: impl Iterator<Item = String>) -> Result<(), SiteError> {
    let mut seen = std::collections::BTreeSet::new();
    for place in places {
        if !seen.insert(place.clone()) {
            return Err(SiteError::Twice { place });
        }
    }
    Ok(())
}

/// A table of the file.
struct At(String);

impl At {
    fn holds(
        &self,
        key: &'static str,
        value: impl Display,
        holds: bool,
        range: &'static str,
    ) -> Result<(), SiteError> {
        if holds {
            return Ok(());
        }
        Err(SiteError::Range { place: self.0.clone(), key, value: value.to_string(), range })
    }

    fn positive(&self, key: &'static str, value: f64) -> Result<(), SiteError> {
        self.holds(key, value, value > 0.0 && value <= PER_DAY_MAX, "above 0, up to 1e24")
    }

    fn optional(&self, key: &'static str, value: Option<f64>) -> Result<(), SiteError> {
        value.map_or(Ok(()), |value| self.positive(key, value))
    }

    fn flow(&self, key: &'static str, value: f64) -> Result<(), SiteError> {
        self.holds(key, value, (0.0..=PER_DAY_MAX).contains(&value), "0 to 1e24 bytes a day")
    }

    fn machines(&self, key: &'static str, count: u64) -> Result<(), SiteError> {
        self.holds(key, count, (1..=MACHINES_MAX).contains(&count), "1 to 10,000,000")
    }
}

fn check_class(class: &ClassWorkload) -> Result<(), SiteError> {
    let at = At(format!("[[class]] {}", class.name));
    at.flow("written", class.written_per_day)?;
    at.flow("read", class.read_per_day)?;
    at.flow("stored", class.stored)?;
    at.holds("hit_rate", class.hit_rate, (0.0..=1.0).contains(&class.hit_rate), "0% to 100%")?;
    at.positive("mean_file", class.mean_file)?;
    at.holds("peak", class.peak, (1.0..=1e6).contains(&class.peak), "1 to 1,000,000 mean days")?;
    at.holds("copies", class.copies, class.copies <= 8, "0 to 8")?;
    let files = class.files_per_mount;
    at.holds("files_per_mount", files, (1.0..=1e9).contains(&files), "1 to 1,000,000,000")?;
    at.optional("written_per_mount", class.written_per_mount)?;
    at.optional("recall_unit", class.recall_unit)?;
    at.holds(
        "wanted_share",
        class.wanted_share,
        class.wanted_share >= 1e-6 && class.wanted_share <= 1.0,
        "0.0001% to 100%",
    )?;
    at.optional("residency", class.residency_days)?;
    at.optional("cache", class.cache)
}

fn check_tape(tape: &Tape) -> Result<(), SiteError> {
    let at = At("[tape]".to_owned());
    let drive = mechanics::drive(&tape.drive).map_err(|error| SiteError::Model { key: "drive", error })?;
    if let Some(name) = &tape.medium {
        let medium = mechanics::medium(name).map_err(|error| SiteError::Model { key: "medium", error })?;
        if drive.takes(medium).is_none() {
            return Err(SiteError::Medium {
                drive: drive.name.clone(),
                medium: medium.name.clone(),
                takes: drive.media.iter().map(|takes| takes.medium.clone()).collect(),
            });
        }
    }
    mechanics::robot(&tape.library).map_err(|error| SiteError::Model { key: "library", error })?;
    tape.drives.map_or(Ok(()), |count| at.machines("drives", count.0))?;
    tape.robots.map_or(Ok(()), |count| at.machines("robots", count.0))?;
    at.machines("libraries", tape.libraries.0)?;
    at.optional("write_rate", tape.write_rate.map(|rate| rate.0))?;
    at.optional("read_rate", tape.read_rate.map(|rate| rate.0))?;
    at.holds("flush_every", tape.flush_every, tape.flush_every.0 > 0, "above 0")?;
    at.holds("fill", tape.fill, tape.fill.0 > 0.0, "above 0%, up to 100%")?;
    let useful = tape.useful.unwrap_or_default();
    at.holds("useful", useful, tape.useful.is_none() || useful.0 > 0.0, "above 0%, up to 100%")
}

fn check_pool(pool: &Pool) -> Result<(), SiteError> {
    let at = At("[pool]".to_owned());
    let fits = Code::parse(&pool.layout).is_some();
    at.holds("layout", &pool.layout, fits, "k+m or k+l+g, as 12+4, of at most 255 shards")?;
    at.holds("fill", pool.fill, pool.fill.0 > 0.0, "above 0%, up to 100%")?;
    at.holds("client_request", pool.client_request, pool.client_request.0 > 0, "above 0")?;
    at.holds("stream_run", pool.stream_run, pool.stream_run.0 > 0, "above 0")?;
    let reads = pool.migration_reads.unwrap_or(1.0);
    at.holds("migration_reads", reads, reads > 0.0 && reads <= 100.0, "above 0, up to 100")?;
    at.optional("read_rate", pool.read_rate.map(|rate| rate.0))?;
    at.optional("write_rate", pool.write_rate.map(|rate| rate.0))?;
    at.holds(
        "read_rate",
        "given alone",
        pool.read_rate.is_some() == pool.write_rate.is_some(),
        "given together with write_rate",
    )?;
    at.holds("afr", pool.afr, pool.afr.0 > 0.0, "above 0%")?;
    at.holds("rebuild_share", pool.rebuild_share, pool.rebuild_share.0 > 0.0, "above 0%")?;
    at.holds("scrub", pool.scrub, pool.scrub.0 > 0, "above 0")
}

fn check_server(server: &Server) -> Result<(), SiteError> {
    let at = At(format!("[[server]] {}", server.name));
    at_most("adapters of a server", server.jbod.len())?;
    at.machines("count", server.count.0)?;
    at.optional("network", server.network.map(|rate| rate.0))?;
    at.optional("erasure_rate", server.erasure_rate.map(|rate| rate.0))?;
    at.optional("memory_rate", server.memory_rate.map(|rate| rate.0))?;
    once(server.jbod.iter().map(|jbod| format!("[[server.jbod]] {}", jbod.name)))?;
    server.jbod.iter().try_for_each(|jbod| check_jbod(server, jbod))
}

fn check_jbod(server: &Server, jbod: &Jbod) -> Result<(), SiteError> {
    let at = At(format!("[[server.jbod]] {} of {}", jbod.name, server.name));
    at.machines("count", jbod.count.0)?;
    at.machines("chained", jbod.chained.0)?;
    at.machines("disks", jbod.disks.0)?;
    at.machines("lanes", jbod.lanes.0)?;
    at.machines("pcie_lanes", jbod.pcie_lanes.0)?;
    at.positive("disk_rate", jbod.disk_rate.0)?;
    at.positive("lane_rate", jbod.lane_rate.0)?;
    at.optional("disk_size", jbod.disk_size.map(|size| size.as_f64()))?;
    at.optional("adapter_rate", jbod.adapter_rate.map(|rate| rate.0))?;
    at.holds("pcie", jbod.pcie, (1..=5).contains(&jbod.pcie), "a generation from 1 to 5")
}

fn check_price(price: &Price) -> Result<(), SiteError> {
    let at = At("[price]".to_owned());
    let prices = [
        ("disk", price.disk),
        ("jbod", price.jbod),
        ("server", price.server),
        ("drive", price.drive),
        ("library", price.library),
        ("cartridge", price.cartridge),
        ("kwh", price.kwh),
    ];
    for (key, value) in prices {
        at.holds(key, value, (0.0..=1e15).contains(&value), "0 to 1e15")?;
    }
    at.holds("years", price.years, price.years > 0.0 && price.years <= 1000.0, "above 0, up to 1000")
}
