//! What users of a storage class do, in numbers of a day.

/// A storage class as the formulas need it. All daily figures are means; a day has 86,400 s.
///
/// Made of a site file, or of what a server's access log says ([`ClassWorkload::measured`]): the first six
/// fields are measured, the others an operator knows or decides.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassWorkload {
    /// The class's name.
    pub name: String,
    /// Bytes that users write a day, each counted once however many copies it gets.
    pub written_per_day: f64,
    /// Bytes that users read a day, from the pool or brought back first.
    pub read_per_day: f64,
    /// The share of the bytes read that is in the pool when it is asked for, 0 to 1.
    pub hit_rate: f64,
    /// Bytes of a mean file; above 0.
    pub mean_file: f64,
    /// The busiest day's movement in mean days; at least 1.
    pub peak: f64,

    /// Bytes that are kept now, each counted once.
    pub stored: f64,
    /// Tape copies, 0 to 8.
    pub copies: u32,
    /// Wanted files that a recall reads in one mount, 1 or more.
    pub files_per_mount: f64,
    /// Bytes written in one mount; nothing: mounts and flushes of writing are not charged.
    pub written_per_mount: Option<f64>,
    /// What is read from tape in one go where whole packs or aggregates come back; nothing: the file alone.
    pub recall_unit: Option<f64>,
    /// The share of a pack that was asked for, above 0 up to 1; 1 where files come back alone.
    pub wanted_share: f64,
    /// Days that a file is to stay in the pool; nothing: no wish.
    pub residency_days: Option<f64>,
    /// Bytes of pool that the class has; nothing: its share of the pool by what flows into it.
    pub cache: Option<f64>,
    /// The class's kind of files, for the targets of cache lifetime.
    pub files: Option<FileKind>,
    /// What hit rates take by the site's own log; empty: there is none, or nothing was read again.
    pub for_hit_rates: Vec<ForHitRate>,
}

/// A hit rate and what it takes, as files were really used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ForHitRate {
    /// The share of all reads that the pool is to serve.
    pub hit_rate: f64,
    /// Days that a file stays after its last use.
    pub days: f64,
    /// Bytes in the pool, at most.
    pub space: f64,
}

/// Kinds of files, each with its target of cache lifetime (SDSC).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FileKind {
    /// At least a month.
    Small,
    /// At least a week.
    Medium,
    /// At least two days.
    Large,
}

impl FileKind {
    /// Days in the cache at least.
    #[must_use]
    pub fn target_days(self) -> f64 {
        match self {
            FileKind::Small => 30.0,
            FileKind::Medium => 7.0,
            FileKind::Large => 2.0,
        }
    }
}

impl ClassWorkload {
    /// A class of which only the traffic is known: two copies, 30 files a mount, no wishes.
    #[must_use]
    pub fn new(name: &str, mean_file: f64) -> Self {
        ClassWorkload {
            name: name.to_owned(),
            written_per_day: 0.0,
            read_per_day: 0.0,
            hit_rate: 0.0,
            mean_file,
            peak: 1.0,
            stored: 0.0,
            copies: 2,
            files_per_mount: 30.0,
            written_per_mount: None,
            recall_unit: None,
            wanted_share: 1.0,
            residency_days: None,
            cache: None,
            files: None,
            for_hit_rates: Vec::new(),
        }
    }

    /// What a server's access log says of a class; the rest as [`ClassWorkload::new`] has it.
    ///
    /// The peak is that of written and read bytes on the day with the most of each, which may be two days. Of
    /// a class in which no file was read or written, files are taken to have 1 GB.
    #[must_use]
    pub fn measured(usage: &usage::ClassWorkload) -> Self {
        const UNKNOWN_FILE: f64 = 1e9;
        let mean = usage.mean_read.or(usage.mean_written).map(|mean| mean.0 as f64);
        let mean = mean.filter(|mean| *mean > 0.0).unwrap_or(UNKNOWN_FILE);
        let moved = usage.bytes_written + usage.bytes_read;
        let for_hit_rate = |(hit_rate, takes): &(f64, Option<usage::Residency>)| {
            let takes = takes.as_ref()?;
            let days = takes.kept.as_secs_f64() / 86_400.0;
            Some(ForHitRate { hit_rate: *hit_rate, days, space: takes.space.0 as f64 })
        };
        let most = usage.peak_written.0 as f64 + usage.peak_read.0 as f64;
        ClassWorkload {
            written_per_day: usage.bytes_written,
            read_per_day: usage.bytes_read,
            hit_rate: usage.hit_rate_bytes.unwrap_or(0.0).clamp(0.0, 1.0),
            peak: if moved > 0.0 { (most / moved).clamp(1.0, 1e6) } else { 1.0 },
            copies: usage.copies.unwrap_or(2).min(8),
            cache: usage.space.map(|space| space.0 as f64).filter(|space| *space > 0.0),
            for_hit_rates: usage.for_hit_rates.iter().filter_map(for_hit_rate).collect(),
            ..ClassWorkload::new(&usage.name, mean)
        }
    }
}
