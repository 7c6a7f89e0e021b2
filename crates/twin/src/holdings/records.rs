//! Files written during a run, by ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Place;

/// Most files of a range in which places are summed up.
const RANGE_MAX: u64 = 1024;

/// Bytes that may lie between two ranges that become one: labels, indexes of packs.
const GAP_MAX: u64 = 64 << 20;

/// Ranges in layers, of which none has a file twice: as many layers as copies.
#[derive(Default)]
pub(super) struct Records {
    layers: Vec<Layer>,
}

#[derive(Default)]
struct Layer {
    ranges: BTreeMap<u64, Written>,
    /// The range, file and byte that were asked for last.
    cursor: (u64, u64, u64),
}

#[derive(Clone, Copy)]
struct Written {
    end: u64,
    place: Place,
    /// The byte behind the last file.
    end_byte: u64,
}

impl Records {
    pub(super) fn add(
        &mut self,
        sequences: Range<u64>,
        place: Place,
        size: &impl Fn(u64) -> u64,
        may_change: bool,
    ) {
        if sequences.is_empty() {
            return;
        }
        if !may_change {
            let bytes: u64 = sequences.clone().map(size).sum();
            let layer = self.free_layer(&sequences);
            let end_byte = place.byte.saturating_add(bytes);
            layer.ranges.insert(sequences.start, Written { end: sequences.end, place, end_byte });
            return;
        }
        let (mut start, mut byte) = (sequences.start, place.byte);
        while start < sequences.end {
            let end = sequences.end.min(start + RANGE_MAX);
            let bytes: u64 = (start..end).map(size).sum();
            let end_byte = byte.saturating_add(bytes);
            let new = Written { end, place: Place { byte, ..place }, end_byte };
            if !self.join(start, new) {
                self.free_layer(&(start..end)).ranges.insert(start, new);
            }
            (start, byte) = (end, end_byte);
        }
    }

    /// Adds a range to the one before it, if it goes on there.
    fn join(&mut self, start: u64, new: Written) -> bool {
        for layer in &mut self.layers {
            let next = layer.ranges.range(start..).next().map_or(u64::MAX, |(start, _)| *start);
            let Some((first, before)) = layer.ranges.range_mut(..start).next_back() else { continue };
            let goes_on = before.end == start
                && before.place.tape == new.place.tape
                && new.place.byte >= before.end_byte
                && new.place.byte - before.end_byte <= GAP_MAX
                // What lies between is lost in the sum, so it must stay small in all.
                && (new.place.byte - before.end_byte) * 100 <= new.end_byte - before.place.byte;
            if goes_on && new.end - first <= RANGE_MAX && new.end <= next {
                before.end = new.end;
                before.end_byte = new.end_byte;
                before.place.order = new.place.order;
                return true;
            }
        }
        false
    }

    fn free_layer(&mut self, sequences: &Range<u64>) -> &mut Layer {
        let is_free = |layer: &Layer| {
            let before = layer.ranges.range(..sequences.end).next_back();
            before.is_none_or(|(_, written)| written.end <= sequences.start)
        };
        let at = self.layers.iter().position(is_free).unwrap_or(self.layers.len());
        if at == self.layers.len() {
            self.layers.push(Layer::default());
        }
        &mut self.layers[at]
    }

    pub(super) fn find(&mut self, sequence: u64, size: &impl Fn(u64) -> u64, tell: &mut impl FnMut(Place)) {
        for layer in &mut self.layers {
            let Some((start, written)) = layer.ranges.range(..=sequence).next_back() else { continue };
            if written.end <= sequence {
                continue;
            }
            let (of, at, byte) = layer.cursor;
            let known = of == *start && at >= *start && at <= sequence && byte >= written.place.byte;
            let (at, byte) = if known { (at, byte) } else { (*start, written.place.byte) };
            let byte = byte + (at..sequence).map(size).sum::<u64>();
            layer.cursor = (*start, sequence, byte);
            tell(Place { byte, ..written.place });
        }
    }

    /// The range in which a file was written first.
    pub(super) fn range_of(&self, sequence: u64) -> Option<Range<u64>> {
        self.layers.iter().find_map(|layer| {
            let (start, written) = layer.ranges.range(..=sequence).next_back()?;
            (sequence < written.end).then_some(*start..written.end)
        })
    }

    /// Ranges in all layers.
    #[cfg(test)]
    pub(super) fn ranges(&self) -> usize {
        self.layers.iter().map(|layer| layer.ranges.len()).sum()
    }
}
