//! What is on a disk, and what of it would survive a loss of power.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drive::{ExtentId, PAGE, Stamp};

use super::Dice;

const SECTOR: usize = 512;
/// Deletes that a crash may still undo.
const UNSETTLED_MAX: usize = 64;

/// A change of a disk, as it really happened.
#[derive(Clone, Debug)]
pub(crate) enum DiskEffect {
    Create(ExtentId),
    /// Bytes that the disk has taken, at an offset within or at the end of what it holds.
    Write(ExtentId, usize, Arc<[u8]>),
    /// All bytes so far and the name are durable.
    Sync(ExtentId),
    /// A failed sync: these pages will never be durable; the bool says that they are gone from memory too.
    Drop(ExtentId, Vec<(usize, bool)>),
    /// Bytes that changed under everybody's feet, durably.
    Damage(ExtentId, usize, Arc<[u8]>),
    /// Bytes at an offset of what will take an extent's place; offset 0 begins anew.
    Stage(ExtentId, usize, Arc<[u8]>),
    /// What was staged goes, unused.
    Unstage(ExtentId),
    /// What was staged takes the extent's place, durably and in one step.
    Replace(ExtentId),
    Punch(ExtentId, usize, usize),
    Delete(ExtentId),
    Stamp(Stamp),
}

#[derive(Clone, Debug, Default)]
struct Extent {
    bytes: Arc<Vec<u8>>,
    /// So many bytes are durable.
    synced: usize,
    /// Whether the name is durable.
    named: bool,
    /// Pages that a failed sync dropped.
    dropped: BTreeSet<usize>,
}

/// What is on a disk. A clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct DiskState {
    pub(crate) stamp: Stamp,
    extents: BTreeMap<ExtentId, Extent>,
    /// What will take the place of extents, under names that nobody sees.
    staged: BTreeMap<ExtentId, Vec<u8>>,
    /// Deleted, but a crash may bring them back.
    unsettled: Vec<(ExtentId, Extent)>,
    used: u64,
}

impl DiskState {
    pub(crate) fn new(stamp: Stamp) -> Self {
        DiskState { stamp, extents: BTreeMap::new(), staged: BTreeMap::new(), unsettled: Vec::new(), used: 0 }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn bytes(&self, id: ExtentId) -> Option<&[u8]> {
        self.extents.get(&id).map(|extent| extent.bytes.as_slice())
    }

    pub(crate) fn shared(&self, id: ExtentId) -> Option<Arc<Vec<u8>>> {
        self.extents.get(&id).map(|extent| Arc::clone(&extent.bytes))
    }

    pub(crate) fn list(&self, after: Option<ExtentId>, limit: usize) -> Vec<ExtentId> {
        let ids = self.extents.keys().copied().filter(|id| after.is_none_or(|after| *id > after));
        ids.take(limit).collect()
    }

    /// The pages of an extent that are not durable yet.
    pub(crate) fn unsynced_pages(&self, id: ExtentId) -> std::ops::Range<usize> {
        let (from, to) = self.extents.get(&id).map_or((0, 0), |e| (e.synced, e.bytes.len()));
        from / PAGE..to.div_ceil(PAGE)
    }

    /// The `n`th page of all pages on the disk: its extent and offset.
    pub(crate) fn page(&self, n: u64) -> Option<(ExtentId, usize)> {
        let pages = |extent: &Extent| (extent.bytes.len() / PAGE) as u64;
        let all: u64 = self.extents.values().map(pages).sum();
        let mut n = n.checked_rem(all)?;
        for (id, extent) in &self.extents {
            if n < pages(extent) {
                return Some((*id, n as usize * PAGE));
            }
            n -= pages(extent);
        }
        None
    }

    pub(crate) fn apply(&mut self, effect: &DiskEffect) {
        match effect {
            DiskEffect::Create(id) => {
                self.unsettled.retain(|(gone, _)| gone != id);
                self.extents.insert(*id, Extent::default());
            }
            DiskEffect::Write(id, offset, bytes) | DiskEffect::Damage(id, offset, bytes) => {
                let Some(extent) = self.extents.get_mut(id) else { return };
                let content = Arc::make_mut(&mut extent.bytes);
                let end = offset + bytes.len();
                if end > content.len() {
                    self.used += (end - content.len()) as u64;
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            DiskEffect::Sync(id) => self.sync(*id),
            DiskEffect::Drop(id, pages) => {
                let Some(extent) = self.extents.get_mut(id) else { return };
                for (page, from_memory) in pages {
                    extent.dropped.insert(*page);
                    if *from_memory {
                        zero_page(Arc::make_mut(&mut extent.bytes).as_mut_slice(), *page);
                    }
                }
            }
            DiskEffect::Stage(id, offset, bytes) => {
                let staged = self.staged.entry(*id).or_default();
                staged.resize(*offset, 0);
                staged.extend_from_slice(bytes);
            }
            DiskEffect::Unstage(id) => drop(self.staged.remove(id)),
            DiskEffect::Replace(id) => {
                let Some(bytes) = self.staged.remove(id) else { return };
                let synced = bytes.len();
                let new = Extent { bytes: Arc::new(bytes), synced, named: true, ..Extent::default() };
                let old = self.extents.insert(*id, new);
                self.used += synced as u64;
                self.used -= old.map_or(0, |old| old.bytes.len() as u64);
                self.unsettled.retain(|(gone, _)| gone != id);
            }
            DiskEffect::Punch(id, offset, length) => {
                let Some(extent) = self.extents.get_mut(id) else { return };
                let content = Arc::make_mut(&mut extent.bytes);
                let end = (offset + length).min(content.len());
                content[(*offset).min(end)..end].fill(0);
            }
            DiskEffect::Delete(id) => {
                let Some(extent) = self.extents.remove(id) else { return };
                self.used -= extent.bytes.len() as u64;
                self.unsettled.push((*id, extent));
                if self.unsettled.len() > UNSETTLED_MAX {
                    self.unsettled.remove(0);
                }
            }
            DiskEffect::Stamp(stamp) => self.stamp = *stamp,
        }
    }

    fn sync(&mut self, id: ExtentId) {
        let Some(extent) = self.extents.get_mut(&id) else { return };
        extent.synced = extent.bytes.len();
        if !extent.named {
            extent.named = true;
            // The directory was synced for the new name, and with it its other entries.
            self.unsettled.retain(|(gone, _)| bucket(*gone) != bucket(id));
        }
    }

    /// The process dies, the system goes on: all that was taken reaches the disk in time.
    pub(crate) fn settle(&mut self) {
        self.staged.clear();
        self.unsettled.clear();
        for extent in self.extents.values_mut() {
            (extent.synced, extent.named) = (extent.bytes.len(), true);
        }
    }

    /// Power is lost: of what was not synced some is there, some is not, some is torn.
    pub(crate) fn power_loss(&mut self, dice: &mut Dice) {
        self.staged.clear();
        let unnamed: Vec<ExtentId> =
            self.extents.iter().filter(|(_, e)| !e.named).map(|(id, _)| *id).collect();
        for id in unnamed {
            if !dice.one_in(3) {
                self.extents.remove(&id);
            }
        }
        for extent in self.extents.values_mut() {
            if extent.synced < extent.bytes.len() {
                lose_pages(extent, dice);
            }
            for page in std::mem::take(&mut extent.dropped) {
                zero_page(Arc::make_mut(&mut extent.bytes).as_mut_slice(), page);
            }
            (extent.synced, extent.named) = (extent.bytes.len(), true);
        }
        for (id, extent) in std::mem::take(&mut self.unsettled) {
            if dice.one_in(2) {
                self.extents.entry(id).or_insert(Extent { named: true, ..extent });
            }
        }
        self.used = self.extents.values().map(|extent| extent.bytes.len() as u64).sum();
    }
}

/// Decides about each page behind what was synced.
fn lose_pages(extent: &mut Extent, dice: &mut Dice) {
    let synced = extent.synced;
    let bytes = Arc::make_mut(&mut extent.bytes);
    match dice.below(4) {
        0 => bytes.truncate(synced),
        1 => {}
        _ => {
            if dice.one_in(2) {
                let pages = (bytes.len() - synced).div_ceil(PAGE) as u64;
                bytes.truncate(synced + dice.below(pages + 1) as usize * PAGE);
            }
            for page in bytes[synced..].chunks_mut(PAGE) {
                match dice.below(3) {
                    0 => page.fill(0),
                    1 => page.chunks_mut(SECTOR).filter(|_| dice.one_in(2)).for_each(|sector| sector.fill(0)),
                    _ => {}
                }
            }
        }
    }
}

fn zero_page(bytes: &mut [u8], page: usize) {
    let end = ((page + 1) * PAGE).min(bytes.len());
    bytes[(page * PAGE).min(end)..end].fill(0);
}

fn bucket(id: ExtentId) -> u64 {
    id.blob.0 & 0xff
}
