//! Figures of the pool and its files, for people.

use base::{ByteCount, Count, Timestamp};
use catalogue::Tally;
use scheduler::Reason;

/// What small values take, as the last round has found it. Segments that are written still do not count: they
/// have space reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentUse {
    /// Segments.
    pub segments: u64,
    /// Values in them that are needed.
    pub values: u64,
    /// Their bytes, once.
    pub bytes: ByteCount,
    /// Their bytes, in all copies.
    pub copied: ByteCount,
    /// What the segments take on all drives.
    pub taken: ByteCount,
    /// When the round ended.
    pub at: Timestamp,
}

impl SegmentUse {
    /// How many bytes are taken for each that is needed, its copies counted; `None` if none is needed.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        (self.copied.0 > 0).then(|| self.taken.0 as f64 / self.copied.0 as f64)
    }
}

/// LOST files.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LostFilesInfo {
    /// So many, as far as is known.
    pub files: u64,
    /// Whether all files were looked at since the server was started: else there may be more.
    pub is_counted: bool,
}

/// What has left the pool by itself, and what keeps it from growing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EvictorInfo {
    /// The marks; `None`: nothing leaves for want of room.
    pub water: Option<session::Water>,
    /// Bytes of files in the pool, when it was looked last.
    pub online: ByteCount,
    /// Those, and what was free for more.
    pub room: ByteCount,
    /// Files that left by themselves since the start.
    pub files: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// When the last one did.
    pub last: Option<base::Timestamp>,
    /// More is to leave than may: it is pinned, held, or not on all its tapes.
    pub held_up: bool,
    /// Files are leaving, or about to: not all that is to leave has left and been removed from the drives.
    pub makes_room: bool,
    /// How often it was looked since the start whether files are to leave.
    pub looks: u64,
    /// How many of those looks came at once, since something waited for room or more files could leave.
    pub looks_at_once: u64,
}

impl EvictorInfo {
    /// A look has ended: whether more is to leave than may, and, else, whether room comes of what has left.
    pub fn ended(&mut self, held_up: bool, room_comes: bool) {
        (self.held_up, self.makes_room) = (held_up, room_comes && !held_up);
    }
}

/// Who holds the pool's room.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolHolders {
    /// At most so much could be evicted now: tapes have it, and nobody pins it.
    pub evictable: Tally,
    /// Only pins hold it: tapes have it.
    pub pinned: Tally,
    /// Its tapes are set aside, or held by no library: an evict refuses it.
    pub out_of_reach: Tally,
    /// Its tapes do not all have it under an index yet.
    pub unsafe_yet: Tally,
    /// It is of classes that are not on tape.
    pub without_tape: Tally,
    /// A restore keeps it: what takes that of the drives, as last measured.
    pub quarantined: ByteCount,
}

impl PoolHolders {
    /// What makes room, for people: each who holds some, and what ends that. `stuck`: why nothing goes to a
    /// tape pool until somebody does something, if so.
    pub fn advice(&self, stuck: Option<&Reason>) -> String {
        let line = |held: Tally, what: &str| {
            let files = if held.files == 1 { "file" } else { "files" };
            (held.bytes.0 > 0).then(|| format!("{} {files} ({}) {what}", Count(held.files), held.bytes))
        };
        let can_go = match line(self.evictable, "can be evicted now (kist evict)") {
            Some(line) => format!("up to {line}"),
            None => "nothing can be evicted now".to_owned(),
        };
        let not_on_tape = match stuck {
            None => "are not on all their tapes yet: kist migrate --now hurries them there".to_owned(),
            Some(reason) => {
                format!("are not on all their tapes yet, and nothing hurries them there: {reason}")
            }
        };
        let others = [
            line(
                self.pinned,
                "are held by pins alone: kist release REQUEST ends those of a request (kist request ls), \
                 then kist evict",
            ),
            line(
                self.out_of_reach,
                "are on tapes that are set aside or that no library holds: bring those back (kist tape ls)",
            ),
            line(self.unsafe_yet, &not_on_tape),
            line(self.without_tape, "are of classes without tape, which only kist rm removes"),
        ];
        let quarantined = (self.quarantined.0 > 0).then(|| {
            format!(
                "{} of the drives are in the quarantine of a restore, which kist pool quarantine --end ends \
                 when nobody goes back to before it",
                self.quarantined
            )
        });
        let others = others.into_iter().flatten().chain(quarantined);
        [can_go].into_iter().chain(others).collect::<Vec<_>>().join("; ")
    }
}
