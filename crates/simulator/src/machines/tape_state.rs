//! What is on a cartridge, and what of it would survive a loss of power.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Partition;

use super::Dice;

/// The attribute that counts the changes of the medium.
pub(crate) const VOLUME_CHANGE_REFERENCE: u16 = 0x0009;
/// The most attributes of one cartridge.
pub(crate) const ATTRIBUTES_MAX: usize = 256;

/// What stands at one block address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TapeObject {
    /// A record.
    Record(Arc<[u8]>),
    /// A file mark.
    FileMark,
    /// A record of so many bytes that cannot be read.
    Damaged(usize),
}

impl TapeObject {
    fn payload(&self) -> u64 {
        match self {
            TapeObject::Record(bytes) => bytes.len() as u64,
            TapeObject::FileMark => 0,
            TapeObject::Damaged(length) => *length as u64,
        }
    }
}

/// A change of a cartridge, as it really happened.
#[derive(Clone, Debug)]
pub(crate) enum TapeEffect {
    Append(Partition, TapeObject),
    /// Everything from this object on goes, durably.
    Cut(Partition, usize),
    /// All that was written is durable.
    Flush,
    /// Of the objects not yet flushed so many are kept; the bool says that the next one is torn.
    Keep(Partition, usize, bool),
    Attribute(Partition, u16, Vec<u8>),
    /// The volume change reference rises.
    Changed,
    /// What stands at this object is another thing now.
    Replace(Partition, usize, TapeObject),
    /// The data partition ends at this object from now on.
    EarlyEnd(usize),
}

#[derive(Clone, Default, Debug)]
struct PartitionState {
    /// Each object with the payload bytes in front of it.
    objects: Vec<(u64, TapeObject)>,
    payload: u64,
    flushed: usize,
}

impl PartitionState {
    fn push(&mut self, object: TapeObject) {
        let before = self.payload;
        self.payload += object.payload();
        self.objects.push((before, object));
    }

    fn cut(&mut self, at: usize) {
        if let Some((before, _)) = self.objects.get(at) {
            self.payload = *before;
        }
        self.objects.truncate(at);
        self.flushed = self.flushed.min(at);
    }
}

/// A cartridge. A clone shares the records.
#[derive(Clone, Debug)]
pub(crate) struct TapeState {
    pub(crate) capacity: u64,
    pub(crate) is_write_protected: bool,
    change_reference: u32,
    attributes: BTreeMap<(u8, u16), Vec<u8>>,
    partitions: [PartitionState; 2],
    early_end: Option<usize>,
}

fn index(partition: Partition) -> usize {
    match partition {
        Partition::Index => 0,
        Partition::Data => 1,
    }
}

impl TapeState {
    pub(crate) fn new(capacity: u64) -> Self {
        TapeState {
            capacity,
            is_write_protected: false,
            change_reference: 1,
            attributes: BTreeMap::new(),
            partitions: Default::default(),
            early_end: None,
        }
    }

    fn partition(&self, partition: Partition) -> &PartitionState {
        &self.partitions[index(partition)]
    }

    /// Payload bytes that a partition holds when full, and how many before that the early warning comes.
    pub(crate) fn limits(&self, partition: Partition) -> (u64, u64) {
        let total = match partition {
            Partition::Index => (self.capacity / 20).max(64 << 20),
            Partition::Data => self.capacity,
        };
        (total, (total / 64).max(16 << 20).min(total / 4))
    }

    pub(crate) fn is_early_end(&self, partition: Partition, at: usize) -> bool {
        partition == Partition::Data && self.early_end.is_some_and(|end| at >= end)
    }

    pub(crate) fn end(&self, partition: Partition) -> usize {
        self.partition(partition).objects.len()
    }

    pub(crate) fn payload(&self, partition: Partition) -> u64 {
        self.partition(partition).payload
    }

    pub(crate) fn payload_before(&self, partition: Partition, at: usize) -> u64 {
        let partition = self.partition(partition);
        partition.objects.get(at).map_or(partition.payload, |(before, _)| *before)
    }

    pub(crate) fn object(&self, partition: Partition, at: usize) -> Option<&TapeObject> {
        self.partition(partition).objects.get(at).map(|(_, object)| object)
    }

    pub(crate) fn unflushed(&self, partition: Partition) -> usize {
        let partition = self.partition(partition);
        partition.objects.len() - partition.flushed
    }

    pub(crate) fn attribute(&self, partition: Partition, id: u16) -> Option<Vec<u8>> {
        if id == VOLUME_CHANGE_REFERENCE {
            return Some(self.change_reference.to_be_bytes().to_vec());
        }
        self.attributes.get(&(index(partition) as u8, id)).cloned()
    }

    /// Whether one more attribute would be too many.
    pub(crate) fn has_no_room(&self, partition: Partition, id: u16, value: &[u8]) -> bool {
        let is_new = !value.is_empty() && !self.attributes.contains_key(&(index(partition) as u8, id));
        is_new && self.attributes.len() >= ATTRIBUTES_MAX
    }

    pub(crate) fn apply(&mut self, effect: &TapeEffect) {
        match effect {
            TapeEffect::Append(partition, object) => self.partitions[index(*partition)].push(object.clone()),
            TapeEffect::Cut(partition, at) => self.partitions[index(*partition)].cut(*at),
            TapeEffect::Flush => {
                self.partitions.iter_mut().for_each(|partition| partition.flushed = partition.objects.len());
            }
            TapeEffect::Keep(partition, kept, is_torn) => {
                let partition = &mut self.partitions[index(*partition)];
                let at = (partition.flushed + kept).min(partition.objects.len());
                let torn = partition.objects.get(at).map(|(_, object)| object.payload() as usize);
                partition.cut(at);
                if let Some(length) = torn.filter(|length| *is_torn && *length > 0) {
                    partition.push(TapeObject::Damaged(length));
                }
                partition.flushed = partition.objects.len();
            }
            TapeEffect::Attribute(partition, id, value) => {
                let key = (index(*partition) as u8, *id);
                if value.is_empty() {
                    self.attributes.remove(&key);
                } else {
                    self.attributes.insert(key, value.clone());
                }
            }
            TapeEffect::Changed => self.change_reference = self.change_reference.saturating_add(1),
            TapeEffect::Replace(partition, at, object) => {
                if let Some((_, old)) = self.partitions[index(*partition)].objects.get_mut(*at) {
                    *old = object.clone();
                }
            }
            TapeEffect::EarlyEnd(at) => self.early_end = Some(*at),
        }
    }

    /// What a drive that loses its buffer leaves of the blocks not yet flushed: a beginning of them, perhaps
    /// with a torn end.
    pub(crate) fn lose_buffer(&self, dice: &mut Dice) -> Vec<TapeEffect> {
        let mut effects = Vec::new();
        for partition in [Partition::Index, Partition::Data] {
            let unflushed = self.unflushed(partition) as u64;
            if unflushed > 0 {
                let kept = dice.below(unflushed + 1);
                effects.push(TapeEffect::Keep(partition, kept as usize, dice.one_in(3)));
            }
        }
        effects
    }

    pub(crate) fn power_loss(&mut self, dice: &mut Dice) {
        for effect in self.lose_buffer(dice) {
            self.apply(&effect);
        }
    }
}
