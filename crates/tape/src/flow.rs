//! How tape streams, clients and recalls share the pool: what the scheduler is told, and what people see.

use std::collections::BTreeMap;

use base::{ByteCount, Duration, ShareId, Timestamp};
use pool::{Feeding, TapeStream};
use scheduler::Event;
use session::FreeSpace;
use store::Refused;

use crate::room::Tape;
use ground::ArchiveError;

/// The room of the pool is looked at no more often than this, unless a recall has just ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How tape streams, clients and recalls share the pool now.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FlowInfo {
    /// Tape streams, what they have reserved and get, and what clients may move.
    pub feeding: Feeding,
    /// The most sessions that may run at once, by setting or by what the pool was seen to feed; `None`: as
    /// many as there are drives.
    pub streams_max: Option<usize>,
    /// What recalls may still bring into the pool.
    pub room: ByteCount,
    /// The same of each class with a ceiling.
    pub classes: Vec<RecallRoom>,
}

/// What recalls may still bring of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecallRoom {
    /// The class.
    pub class: String,
    /// Its ceiling.
    pub ceiling: ByteCount,
    /// Bytes that fit below it.
    pub room: ByteCount,
}

impl Tape {
    /// How many times the lowest rate of a client is due of the uploads of this caller: as many times as it
    /// holds memory for rows of the pool while that is scarce, else once.
    #[must_use]
    pub fn upload_haste(&self, caller: &str) -> u64 {
        self.pool.upload_haste(caller)
    }

    /// How tape streams, clients and recalls share the pool now.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn flow(&self) -> Result<FlowInfo, ArchiveError> {
        let room = self;
        let FreeSpace { pool, classes, .. } = room.free_for_recalls()?;
        let ceiling = |id| room.classes.get(id).and_then(|class| class.settings.pool_max);
        let class = |(id, bytes)| RecallRoom {
            class: room.classes.name(id),
            ceiling: ceiling(id).unwrap_or_default(),
            room: bytes,
        };
        Ok(FlowInfo {
            feeding: room.pool.feeding(),
            streams_max: room.streams_max(),
            room: pool,
            classes: classes.into_iter().map(class).collect(),
        })
    }
}

impl Tape {
    /// Whether the catalogue has no room for what tape sessions and seals write into it.
    pub(crate) fn has_no_room_for_work(&self) -> bool {
        self.catalogue.lack().is_some_and(|(_, refused)| refused > Refused::Growth)
    }

    /// A tape stream with the reserved rate, for as long as a session runs.
    pub(crate) fn tape_stream(&self) -> TapeStream {
        self.pool.tape_stream(self.settings.tape.flow.stream_rate)
    }

    /// The most sessions that may run at once; `None`: as many as there are drives. None while the catalogue
    /// takes nothing of what they would do.
    pub(crate) fn streams_max(&self) -> Option<usize> {
        if self.has_no_room_for_work() {
            return Some(0);
        }
        let set = Some(self.settings.tape.flow.streams_max).filter(|max| *max > 0);
        let fed = self.pool.feeding().streams_max.map(|max| max.max(1));
        [set, fed].into_iter().flatten().min()
    }
}

/// What the scheduler was told last.
pub(crate) struct Flow {
    is_first: bool,
    looked: Option<Timestamp>,
    streams: Option<usize>,
    free: FreeSpace,
    /// What is free for files.
    for_files: ByteCount,
    /// Room came for what had found none, and the session that had not found it may be heard after that.
    room_came: bool,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            is_first: true,
            looked: None,
            streams: None,
            free: FreeSpace::default(),
            for_files: ByteCount(0),
            room_came: false,
        }
    }
}

impl Flow {
    /// What the pool has free for files, and when that was seen.
    pub(crate) fn seen_for_files(&self) -> Option<(Timestamp, ByteCount)> {
        Some((self.looked?, self.for_files))
    }

    /// Whether no recall begins for want of room, as the scheduler was told last.
    pub(crate) fn is_without_room(&self) -> bool {
        self.free.pool.0 == 0 || self.free.classes.values().any(|free| free.0 == 0)
    }

    /// What is told behind all else: room came for what had found none. A session that ended since it did
    /// (`ended`) may be the one that had found none, so it is told once more.
    pub(crate) fn room_came(&mut self, room: &Tape, ended: bool) -> Option<Event> {
        let comes = room.own.space.lock().take_fits_now();
        let is_told = comes || ended && self.room_came;
        self.room_came = comes || self.room_came && !ended;
        is_told.then_some(Event::RoomMade)
    }

    /// What has changed since the scheduler was told; `now`: look whenever it was looked last.
    pub(crate) fn events(&mut self, room: &Tape, now: bool) -> Vec<Event> {
        let at = room.now();
        if !now && self.looked.is_some_and(|looked| at.since(looked) < LOOK_EVERY) {
            return Vec::new();
        }
        self.looked = Some(at);
        let streams = room.streams_max();
        self.for_files = room.room_for_files();
        let free = match room.room_to_tell() {
            Ok(free) => free,
            Err(error) => {
                tracing::error!(%error, "the room of the pool cannot be read");
                self.free.clone()
            }
        };
        let mut events = Vec::new();
        if self.streams != streams {
            events.push(Event::Streams { max: streams.unwrap_or(usize::MAX) });
        }
        if self.free.pool != free.pool || self.is_first {
            events.push(Event::PoolSpace { share: None, free: free.pool });
        }
        let (before, after) = (by_share(room, &self.free), by_share(room, &free));
        for (share, free) in &after {
            if before.get(share) != Some(free) {
                events.push(Event::PoolSpace { share: Some(*share), free: ByteCount(*free) });
            }
        }
        let lifted = before.keys().filter(|share| !after.contains_key(share));
        events.extend(lifted.map(|share| {
            let free = ByteCount(u64::MAX);
            Event::PoolSpace { share: Some(*share), free }
        }));
        self.is_first = false;
        (self.streams, self.free) = (streams, free);
        events
    }
}

/// The room of each share all of whose classes have a ceiling; a session keeps to that of each class.
fn by_share(room: &Tape, free: &FreeSpace) -> BTreeMap<ShareId, u64> {
    let mut shares: BTreeMap<ShareId, u64> = BTreeMap::new();
    for (class, bytes) in &free.classes {
        let sum = shares.entry(room.classes.share(*class)).or_default();
        *sum = sum.saturating_add(bytes.0);
    }
    for class in room.classes.all().iter().filter(|class| !free.classes.contains_key(&class.id)) {
        shares.remove(&room.classes.share(class.id));
    }
    shares
}
