//! Where every object of a partition stands: runs of equal objects, one behind the other. No I/O.

use super::frame::{FrameKind, frame_bytes};

/// What is known of the objects of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunKind {
    /// Objects whose headers were intact.
    Frames(FrameKind),
    /// Durable objects whose headers are damaged, so that even their lengths are unknown.
    Damaged,
}

/// Objects `first`, `first + 1`, … of one kind and length, without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub first: u64,
    pub offset: u64,
    pub payload_before: u64,
    pub length: u32,
    pub kind: RunKind,
}

/// One object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    pub offset: u64,
    pub payload_before: u64,
    pub length: u32,
    pub kind: RunKind,
}

/// The end of the objects: what the next one starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    pub objects: u64,
    pub offset: u64,
    pub payload: u64,
}

/// All objects of a partition, in about 40 bytes a run: a tape of full blocks and a few thousand files takes
/// some 10,000 runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectMap {
    runs: Vec<Run>,
    end: End,
}

impl ObjectMap {
    /// A map without objects; the first will stand at `start`.
    pub fn empty(start: u64) -> Self {
        ObjectMap { runs: Vec::new(), end: End { objects: 0, offset: start, payload: 0 } }
    }

    /// Puts a map together of parts that come from disk. `None` if they contradict each other.
    pub fn from_parts(start: u64, runs: Vec<Run>, end: End) -> Option<Self> {
        let mut at = ObjectMap::empty(start).end;
        for (index, run) in runs.iter().enumerate() {
            let next = runs.get(index + 1).map_or(end, |next| End {
                objects: next.first,
                offset: next.offset,
                payload: next.payload_before,
            });
            let follows =
                run.first == at.objects && run.offset == at.offset && run.payload_before == at.payload;
            if !follows || next.objects <= run.first || !run_ends_at(run, next) {
                return None;
            }
            at = next;
        }
        (at == end).then_some(ObjectMap { runs, end })
    }

    pub fn end(&self) -> End {
        self.end
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The object of that number, if there is one.
    pub fn get(&self, object: u64) -> Option<Object> {
        if object >= self.end.objects {
            return None;
        }
        let index = self.runs.partition_point(|run| run.first <= object).checked_sub(1)?;
        let run = self.runs.get(index)?;
        let nth = object - run.first;
        let (length, kind) = (run.length, run.kind);
        Some(match kind {
            RunKind::Frames(frames) => Object {
                offset: run.offset + nth * frame_bytes(frames, length),
                payload_before: run.payload_before + nth * u64::from(length),
                length,
                kind,
            },
            RunKind::Damaged => {
                Object { offset: run.offset, payload_before: run.payload_before, length, kind }
            }
        })
    }

    /// The first object that so many bytes of records, or more, stand in front of; the end if there is none.
    pub fn at_payload(&self, payload: u64) -> u64 {
        let next = self.runs.partition_point(|run| run.payload_before < payload);
        let behind = self.runs.get(next).map_or(self.end.objects, |run| run.first);
        let run = next.checked_sub(1).and_then(|last| self.runs.get(last));
        match run {
            Some(Run { first, payload_before, length, kind: RunKind::Frames(_), .. }) if *length > 0 => {
                let nth = (payload - payload_before).div_ceil(u64::from(*length));
                first.saturating_add(nth).min(behind)
            }
            _ => behind,
        }
    }

    /// Adds an object behind the last.
    pub fn push(&mut self, kind: FrameKind, length: u32) {
        let frames = RunKind::Frames(kind);
        let extends = self.runs.last().is_some_and(|run| run.kind == frames && run.length == length);
        if !extends {
            self.push_run(length, frames);
        }
        self.end.objects += 1;
        self.end.offset += frame_bytes(kind, length);
        self.end.payload += u64::from(length);
    }

    /// Adds damaged objects up to `end`, exclusively.
    pub fn push_damaged(&mut self, end: End) {
        assert!(
            end.objects > self.end.objects
                && end.offset >= self.end.offset
                && end.payload >= self.end.payload
        );
        if self.runs.last().is_none_or(|run| run.kind != RunKind::Damaged) {
            self.push_run(0, RunKind::Damaged);
        }
        self.end = end;
    }

    /// Cuts off object `objects` and all behind it. Within damaged objects, whose places are unknown, those
    /// in front keep all the room that they have.
    pub fn truncate(&mut self, objects: u64) {
        let Some(object) = self.get(objects) else { return };
        let keep = self.runs.partition_point(|run| run.first < objects);
        let splits_damage = object.kind == RunKind::Damaged
            && keep
                .checked_sub(1)
                .and_then(|last| self.runs.get(last))
                .is_some_and(|run| run.kind == RunKind::Damaged);
        let (offset, payload) = match (splits_damage, self.runs.get(keep)) {
            (false, _) => (object.offset, object.payload_before),
            (true, Some(next)) => (next.offset, next.payload_before),
            (true, None) => (self.end.offset, self.end.payload),
        };
        self.end = End { objects, offset, payload };
        self.runs.truncate(keep);
    }

    fn push_run(&mut self, length: u32, kind: RunKind) {
        let End { objects, offset, payload } = self.end;
        self.runs.push(Run { first: objects, offset, payload_before: payload, length, kind });
    }
}

fn run_ends_at(run: &Run, end: End) -> bool {
    let count = end.objects - run.first;
    match run.kind {
        RunKind::Damaged => run.length == 0 && end.offset >= run.offset && end.payload >= run.payload_before,
        RunKind::Frames(kind) => {
            let offset =
                count.checked_mul(frame_bytes(kind, run.length)).and_then(|n| n.checked_add(run.offset));
            let payload =
                count.checked_mul(u64::from(run.length)).and_then(|n| n.checked_add(run.payload_before));
            kind.allows(run.length) && offset == Some(end.offset) && payload == Some(end.payload)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_objects_share_a_run_and_are_found() {
        let mut map = ObjectMap::empty(100);
        (0..1000).for_each(|_| map.push(FrameKind::Record, 10));
        map.push(FrameKind::FileMark, 0);
        map.push(FrameKind::Record, 10);
        assert_eq!(map.runs().len(), 3);
        assert_eq!(map.get(999).map(|o| (o.offset, o.payload_before)), Some((100 + 999 * 80, 9990)));
        assert_eq!(map.get(1001).map(|o| o.offset), Some(100 + 1000 * 80 + 64));
        assert_eq!(map.get(1002), None);
        assert_eq!(map.end(), End { objects: 1002, offset: 100 + 1001 * 80 + 64, payload: 10_010 });
        let found = [0, 1, 10, 9_990, 9_991, 10_000, 10_001, 10_010, 10_011].map(|byte| map.at_payload(byte));
        assert_eq!(found, [0, 1, 1, 999, 1000, 1000, 1002, 1002, 1002]);
    }

    /// What encryption adds takes room in the file, not of the cartridge.
    #[test]
    fn an_encrypted_record_counts_as_the_record() {
        let mut map = ObjectMap::empty(100);
        (0..3).for_each(|_| map.push(FrameKind::Encrypted, 10));
        map.push(FrameKind::Record, 10);
        assert_eq!(map.get(2).map(|o| (o.offset, o.payload_before)), Some((100 + 2 * (64 + 96), 20)));
        assert_eq!(map.end(), End { objects: 4, offset: 100 + 3 * (64 + 96) + 80, payload: 40 });
        assert_eq!(ObjectMap::from_parts(100, map.runs().to_vec(), map.end()), Some(map));
    }

    proptest! {
        #[test]
        fn truncation_equals_never_having_pushed(
            lengths in proptest::collection::vec(0u32..4, 1..60),
            cut in 0usize..60,
        ) {
            let build = |lengths: &[u32]| {
                let mut map = ObjectMap::empty(64);
                for length in lengths {
                    let kind = if *length == 0 { FrameKind::FileMark } else { FrameKind::Record };
                    map.push(kind, *length);
                }
                map
            };
            let cut = cut.min(lengths.len());
            let mut map = build(&lengths);
            prop_assert_eq!(ObjectMap::from_parts(64, map.runs().to_vec(), map.end()), Some(map.clone()));
            map.truncate(cut as u64);
            prop_assert_eq!(map, build(&lengths[..cut]));
        }
    }
}
