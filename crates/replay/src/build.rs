//! A record becomes a model: classes with listed sizes, tapes and files where they stood, requests at their
//! times.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, FileId, RequestId, Timestamp, Vid};

use super::record::{KnownFile, Left, Record};
use super::{ReplayError, Server};
use scenario::model::{
    ClassIndex, DataPath, DriveGroup, FileNumber, Foreign, GatherBy, LibraryIndex, LibraryModel, Model,
    Network, OneWay, PoolModel, Site, SizeLaw, TapeModel, Workload, WorkloadKind,
};
use twin::holdings::{Holdings, Place, PlacedFile, Tape, TapeIndex};
use twin::moment::Moment;
use twin::world::{Leaves, TapeIs};

/// Nothing limits what is not the tape's: bytes a second.
const UNLIMITED: u64 = 1 << 50;
/// Nothing leaves the pool by itself.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The twin may take so much longer than the record.
const GRACE: Duration = Duration::from_secs(30 * 86_400);
/// Bins of the series.
const BINS: u32 = 300;

/// A wanted file of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) request: RequestId,
    pub(super) file: FileNumber,
    pub(super) at: Moment,
    /// When it had come.
    pub(super) came: Option<Moment>,
}

/// What a replay is run with.
pub(super) struct Built {
    pub(super) model: Model,
    pub(super) begin: Timestamp,
    /// What is compared begins here: at the record's `since`, or where it begins.
    pub(super) from: Moment,
    pub(super) vids: Vec<Vid>,
    pub(super) drives: Vec<String>,
    pub(super) tape_states: Vec<(TapeIndex, TapeIs)>,
    pub(super) asks: Vec<Ask>,
    pub(super) left: Left,
    tapes: Vec<Tape>,
    files: Vec<PlacedFile>,
    evictions: Vec<(Moment, FileId, Leaves)>,
}

impl Built {
    pub(super) fn holdings(&self) -> Holdings {
        Holdings::placed(&self.model.site, self.tapes.clone(), &self.files)
    }

    pub(super) fn evictions(&self) -> Vec<(Moment, FileId, Leaves)> {
        self.evictions.clone()
    }
}

/// Microseconds since the beginning, rounded as a clock would.
pub(super) fn moment(begin: Timestamp, at: Timestamp) -> Moment {
    Moment(u64::try_from(at.since(begin).as_micros()).unwrap_or(u64::MAX))
}

fn span(at: Moment) -> Duration {
    Duration::from_micros(at.0)
}

/// The cartridges.
struct Shelf {
    vids: Vec<Vid>,
    tapes: Vec<Tape>,
    states: Vec<(TapeIndex, TapeIs)>,
    /// Payload bytes of a block, mean.
    block_bytes: Vec<f64>,
    /// By library: bytes until a cartridge is full.
    capacities: Vec<u64>,
    /// By tape and block: the byte at which a known container begins.
    begins: BTreeMap<(usize, u64), u64>,
}

impl Shelf {
    fn new(server: &Server, record: &Record) -> Result<Shelf, ReplayError> {
        let mut shelf = Shelf {
            vids: Vec::new(),
            tapes: Vec::new(),
            states: Vec::new(),
            block_bytes: Vec::new(),
            capacities: vec![0; server.libraries.len()],
            begins: BTreeMap::new(),
        };
        for (vid, state) in &record.tapes {
            let library = server.libraries.iter().position(|library| library.name == state.library);
            let library = library.ok_or_else(|| ReplayError::NoLibrary(state.library.clone()))?;
            let pool = |name: &String| server.tape_pools.iter().position(|pool| pool.name == *name);
            let tape_pool = state.pool.as_ref().and_then(pool).map(|pool| pool as u16);
            let index = TapeIndex(shelf.tapes.len() as u32);
            let how = match state.state.as_str() {
                "full" => Some(TapeIs::Full),
                "read-only" | "repacking" => Some(TapeIs::ReadOnly),
                "suspect" | "disabled" => Some(TapeIs::Unreadable),
                _ => None,
            };
            shelf.states.extend(how.map(|how| (index, how)));
            let used = state.written.0;
            shelf.vids.push(*vid);
            shelf.tapes.push(Tape {
                library: LibraryIndex(library as u16),
                tape_pool,
                used,
                files: 0,
                is_lost: false,
            });
            shelf.block_bytes.push(used as f64 / state.end_of_data.0.max(1) as f64);
            let room = if state.free.0 > 0 { used + state.free.0 } else { 0 };
            let known = &mut shelf.capacities[library];
            *known = (*known).max(room);
        }
        shelf.put_in_order(record);
        Ok(shelf)
    }

    /// Containers begin where their block is, the mean payload of a block taken for all, and do not overlap:
    /// who reads one behind the other is not to go back for it.
    fn put_in_order(&mut self, record: &Record) {
        let mut lengths: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for copy in record.files.values().flat_map(|known| &known.copies) {
            if let Ok(at) = self.vids.binary_search(&copy.vid) {
                let length = copy.container_length.0.max(copy.offset.0.saturating_add(copy.length.0));
                lengths.insert((at, copy.block.0), length);
            }
        }
        let mut next = None;
        for ((at, block), length) in lengths.into_iter().rev() {
            let limit = match next {
                Some((tape, begin)) if tape == at => begin,
                _ => self.tapes[at].used,
            };
            let begin = ((block as f64 * self.block_bytes[at]) as u64).min(limit.saturating_sub(length));
            self.begins.insert((at, block), begin);
            next = Some((at, begin));
        }
    }

    /// Where a copy's bytes begin; `None`: nobody knows the tape.
    fn place(&self, copy: &usage::CopyPlace) -> Option<Place> {
        let at = self.vids.binary_search(&copy.vid).ok()?;
        let begin = *self.begins.get(&(at, copy.block.0))?;
        let last = self.tapes.get(at)?.used.saturating_sub(copy.length.0);
        let byte = begin.saturating_add(copy.offset.0).min(last);
        Some(Place { tape: TapeIndex(at as u32), byte, order: copy.block.0 })
    }
}

/// Numbers that files get, by class: those that were on tape first, then those that were put, in their order.
struct Numbers {
    of: BTreeMap<FileId, FileNumber>,
    sizes: Vec<Vec<u64>>,
    data_sets: Vec<Vec<u64>>,
    placed: Vec<PlacedFile>,
}

impl Numbers {
    fn new(classes: usize) -> Numbers {
        Numbers {
            of: BTreeMap::new(),
            sizes: vec![Vec::new(); classes],
            data_sets: vec![Vec::new(); classes],
            placed: Vec::new(),
        }
    }

    fn give(&mut self, id: FileId, class: ClassIndex, known: &KnownFile) {
        let sizes = &mut self.sizes[usize::from(class.0)];
        let sequence = sizes.len() as u64;
        sizes.push(known.bytes.max(1));
        self.data_sets[usize::from(class.0)].push(known.set);
        self.of.insert(id, FileNumber { class, sequence });
    }
}

/// The places of a file's copies: one for each copy, where its first part is.
fn places(shelf: &Shelf, known: &KnownFile, left: &mut Left) -> Vec<Place> {
    let is_whole = |copy: &&usage::CopyPlace| copy.length.0 >= known.bytes;
    let mut places: Vec<Place> =
        known.copies.iter().filter(is_whole).filter_map(|copy| shelf.place(copy)).collect();
    if places.is_empty() {
        let first = known.copies.first().map(|copy| copy.container);
        let parts = known.copies.iter().filter(|copy| Some(copy.container) == first);
        places = parts.filter_map(|copy| shelf.place(copy)).collect();
        left.in_parts += u64::from(!places.is_empty());
    }
    places
}

fn number(server: &Server, record: &Record, shelf: &Shelf, left: &mut Left) -> Numbers {
    let class_of = |known: &KnownFile| {
        let name = known.class.as_ref()?;
        server.classes.iter().position(|class| class.name == *name).map(|at| ClassIndex(at as u16))
    };
    let mut numbers = Numbers::new(server.classes.len());
    for (id, known) in record.files.iter().filter(|(_, known)| known.put.is_none()) {
        let Some(class) = class_of(known) else { continue };
        let places = places(shelf, known, left);
        if !places.is_empty() {
            numbers.give(*id, class, known);
            numbers.placed.push(PlacedFile { class, places });
        }
    }
    for (_, id) in &record.puts {
        let Some(known) = record.files.get(id) else { continue };
        if let (Some(class), false) = (class_of(known), numbers.of.contains_key(id)) {
            numbers.give(*id, class, known);
        }
    }
    numbers
}

/// Requests by class and priority, and puts by class.
fn workloads(record: &Record, begin: Timestamp, numbers: &Numbers, server: &Server) -> Vec<Workload> {
    let mut stages: BTreeMap<(ClassIndex, u8), Vec<(Duration, u64)>> = BTreeMap::new();
    for wanted in &record.wanted {
        if let Some(file) = numbers.of.get(&wanted.file) {
            let at = span(moment(begin, wanted.at));
            stages.entry((file.class, wanted.priority)).or_default().push((at, file.sequence));
        }
    }
    let mut puts: BTreeMap<ClassIndex, Vec<Duration>> = BTreeMap::new();
    for (at, id) in &record.puts {
        if let Some(file) = numbers.of.get(id) {
            puts.entry(file.class).or_default().push(span(moment(begin, *at)));
        }
    }
    let name = |class: ClassIndex| {
        server.classes.get(usize::from(class.0)).map_or("?", |class| class.name.as_str()).to_owned()
    };
    let mut workloads = Vec::new();
    for ((class, priority), stages) in stages {
        let kind = WorkloadKind::Recorded { puts: Vec::new(), stages };
        let name = format!("{}, priority {priority}", name(class));
        workloads.push(Workload { name, class, kind, begin: Duration::ZERO, end: None, priority });
    }
    for (class, puts) in puts {
        let kind = WorkloadKind::Recorded { puts, stages: Vec::new() };
        let name = format!("{}, put", name(class));
        workloads.push(Workload { name, class, kind, begin: Duration::ZERO, end: None, priority: 4 });
    }
    workloads
}

/// A server says what its pool takes beside the twentieth that recalls leave to puts; the twin takes that off
/// once more.
fn pool_capacity(for_files: u64) -> ByteCount {
    ByteCount(u64::try_from(u128::from(for_files) * 20 / 19).unwrap_or(u64::MAX))
}

fn site(
    server: &Server,
    record: &Record,
    shelf: &Shelf,
    sizes: Vec<Vec<u64>>,
    data_sets: Vec<Vec<u64>>,
) -> Site {
    let libraries = server.libraries.iter().zip(&shelf.capacities).map(|(library, capacity)| {
        let down = record.drives.iter().filter(|drive| drive.library == library.name && !drive.up).count();
        LibraryModel {
            name: library.name.clone(),
            robots: library.robots,
            drives: vec![DriveGroup {
                count: library.drives.saturating_sub(down as u32).max(1),
                timing: library.timing.clone(),
            }],
            tape: TapeModel { geometry: library.geometry.clone(), capacity: ByteCount(*capacity) },
            scratch: 0,
            mount_extra: Duration::ZERO,
        }
    });
    let files = sizes.into_iter().zip(data_sets);
    let classes =
        server.classes.iter().zip(files).map(|(class, (sizes, data_sets))| scenario::model::ClassModel {
            sizes: SizeLaw::Listed(sizes),
            residency: FOR_EVER,
            data_set_files: 1,
            gather: GatherBy::Listed(data_sets),
            ..class.clone()
        });
    Site {
        libraries: libraries.collect(),
        tape_pools: server.tape_pools.clone(),
        classes: classes.collect(),
        holdings: Vec::new(),
        pool: PoolModel {
            capacity: pool_capacity(record.pool),
            high_water_percent: 100,
            low_water_percent: 100,
            disks: None,
            write_factor: 1.0,
            tape_first: true,
            network: Network { total: UNLIMITED, stream: UNLIMITED },
        },
        path: DataPath {
            read_file: Duration::ZERO,
            write_file: Duration::ZERO,
            stream: UNLIMITED,
            total: UNLIMITED,
            read: OneWay::FREE,
            write: OneWay::FREE,
        },
        work: server.work.clone(),
    }
}

/// The model of a record.
pub(super) fn build(server: &Server, record: &Record) -> Result<Built, ReplayError> {
    if record.tapes.is_empty() {
        return Err(ReplayError::NoState);
    }
    let (Some(begin), Some(end)) = (record.begin(), record.end()) else { return Err(ReplayError::Nothing) };
    let shelf = Shelf::new(server, record)?;
    let mut left = record.left;
    let numbers = number(server, record, &shelf, &mut left);
    let workloads = workloads(record, begin, &numbers, server);
    let Numbers { of, sizes, data_sets, placed } = numbers;
    let mut asks = Vec::with_capacity(record.wanted.len());
    for wanted in record.wanted.iter().filter(|wanted| wanted.at >= record.since) {
        let Some(file) = of.get(&wanted.file).copied() else {
            left.unknown += 1;
            continue;
        };
        let (at, came) = (moment(begin, wanted.at), wanted.came.map(|came| moment(begin, came)));
        asks.push(Ask { request: wanted.request, file, at, came });
    }
    let leaves = |(at, id, how): &(Timestamp, FileId, Leaves)| {
        of.get(id).map(|file| (moment(begin, *at), file.id(), *how))
    };
    let evictions = record.evicted.iter().filter_map(leaves).collect();
    let lasted = end.since(begin);
    let model = Model {
        name: "replay".to_owned(),
        site: site(server, record, &shelf, sizes, data_sets),
        policy: server.policy.clone(),
        foreign: Foreign::default(),
        workloads,
        faults: Vec::new(),
        span: lasted.saturating_mul(10).saturating_add(GRACE),
        until_done: true,
        warm_up: Some(Duration::ZERO),
        step: (lasted / BINS).max(Duration::from_millis(100)),
        seeds: vec![1],
    };
    let drives = model.site.libraries.iter().flat_map(|library| {
        let drives: u32 = library.drives.iter().map(|group| group.count).sum();
        (0..drives).map(|number| format!("{}-{number:03}", library.name))
    });
    let drives = drives.collect();
    let Shelf { vids, tapes, states, .. } = shelf;
    let from = moment(begin, record.since);
    Ok(Built {
        model,
        begin,
        from,
        vids,
        drives,
        tape_states: states,
        asks,
        left,
        tapes,
        files: placed,
        evictions,
    })
}
