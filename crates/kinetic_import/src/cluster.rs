//! A cluster that is read.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use kinetic::KeyRange;
use kineticio::{
    Ask, BLOCKS_MAX, Block, BlockNumber, BlockRead, ClusterDefinition, Damage, Detail, DriveIndex,
    FirstDrive, Found, Outcome, Placement, Redundancy, Shape, Step, Version, attribute_key, attribute_name,
    attribute_range, block_number, data_key, data_range, handoff_block, handoff_data_range, metadata_path,
    metadata_range,
};

use crate::drives::{Drives, KEYS_PER_ANSWER, Query};
use crate::first::{Evidence, find_out};
use crate::list::{DrivesAway, merged};

/// What libkineticio keeps for itself among the attributes of a file.
const SIZE_HINT: &[u8] = b"sys.kinetic.size_hint";
/// Attributes of a file that are read.
const ATTRIBUTES_MAX: usize = 1000;

fn named(away: &DrivesAway) -> String {
    away.iter().map(|(drive, reason)| format!("drive {} ({reason})", drive.0)).collect::<Vec<_>>().join(", ")
}

/// Name and value of an attribute.
pub type Attribute = (Vec<u8>, Vec<u8>);

/// Why something cannot be read.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// More drives are away than what is stored in the cluster can do without.
    #[error(
        "{} drives give no answer, and the cluster can do without {parity}: {}; without them it is not \
         known what there is",
        away.len(), named(away)
    )]
    DrivesAway {
        /// They.
        away: DrivesAway,
        /// `numParity`.
        parity: usize,
    },
    /// Keys stand where both rules of placement would have them.
    #[error(
        "where the keys stand does not say which drive has the first chunk of a stripe: say it \
         (--first-drive hash or after-hash); get the drives that are away back if you do not know it"
    )]
    FirstDrive,
    /// A block of a file is damaged.
    #[error("block {}: {damage}", block.0)]
    Block {
        /// Which one.
        block: BlockNumber,
        /// How.
        damage: Damage,
    },
    /// A key of the last block is there, and no chunk where it should stand.
    #[error(
        "block {}: its key stands on a drive, but no chunk where its chunks would be: it was deleted while \
         that drive was away, or all drives that had it were replaced",
        block.0
    )]
    LastBlock {
        /// Which one.
        block: BlockNumber,
    },
    /// A block is larger than a block can be.
    #[error("block {}: its version says {size} bytes, and a block has at most {most}", block.0)]
    BlockSize {
        /// Which one.
        block: BlockNumber,
        /// What it says.
        size: u64,
        /// What it can be.
        most: u64,
    },
    /// There is no such file.
    #[error("the cluster has no file of this name")]
    NoFile,
    /// An attribute is damaged.
    #[error("the attribute {name}: {damage}")]
    Attribute {
        /// Which one.
        name: String,
        /// How.
        damage: Damage,
    },
    /// The system has no threads for it.
    #[error("no thread can be started: {0}")]
    Thread(String),
}

/// What is known of a file without reading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileInfo {
    /// Its bytes.
    pub size: u64,
    /// Its blocks, those counted that were never written.
    pub blocks: u32,
    /// The version of its last block; `None` of an empty file.
    pub version: Option<Version>,
}

/// A cluster that is read. Nothing is written to its drives.
pub struct Cluster {
    pub(crate) id: String,
    pub(crate) shape: Shape,
    pub(crate) drives: Box<dyn Drives>,
    placement: Placement,
}

impl Cluster {
    /// A cluster whose drives are asked by these. Which drive has the first chunk of a stripe is found out
    /// from where keys stand, if it is not said.
    ///
    /// # Errors
    /// If it cannot be found out.
    pub fn open(
        definition: &ClusterDefinition,
        drives: Box<dyn Drives>,
        first: Option<FirstDrive>,
    ) -> Result<Arc<Self>, ImportError> {
        let first = match first.map_or_else(|| find_out(drives.as_ref(), definition), Evidence::Clear) {
            Evidence::Clear(first) => first,
            Evidence::NotNeeded => FirstDrive::AfterHash,
            Evidence::Unclear => return Err(ImportError::FirstDrive),
        };
        let placement = Placement { drives: drives.count(), first };
        Ok(Arc::new(Cluster { id: definition.id.clone(), shape: definition.shape, drives, placement }))
    }

    /// Which drive has the first chunk of a stripe.
    #[must_use]
    pub fn first_drive(&self) -> FirstDrive {
        self.placement.first
    }

    /// Tells the path of each file that begins like this, in the order of bytes; which drives gave no answer.
    ///
    /// # Errors
    /// If so many drives are away that files may be missing from the list.
    pub fn list(
        &self,
        beginning: &[u8],
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<DrivesAway, ImportError> {
        let range = metadata_range(&self.id, beginning);
        let away = merged(self.drives.as_ref(), range, &mut |key, _| match metadata_path(&self.id, key) {
            Some(path) => each(path),
            None => ControlFlow::Continue(()),
        });
        self.check_away(away)
    }

    fn check_away(&self, away: DrivesAway) -> Result<DrivesAway, ImportError> {
        let parity = self.shape.parity();
        if away.len() > parity { Err(ImportError::DrivesAway { away, parity }) } else { Ok(away) }
    }

    /// Size and blocks of a file, from the keys of its blocks and the version of the last one.
    ///
    /// # Errors
    /// If there is no such file, or its last block cannot be read.
    pub fn stat(&self, path: &[u8]) -> Result<FileInfo, ImportError> {
        let Some(last) = self.last_block(path)? else {
            let key = kineticio::metadata_key(&self.id, path);
            let read = self.read_key(key, Redundancy::Replicated, Detail::Version);
            let block = BlockNumber(0);
            return match read.map_err(|damage| ImportError::Block { block, damage })? {
                Outcome::Value(_) => Ok(FileInfo { size: 0, blocks: 0, version: None }),
                Outcome::Absent => Err(ImportError::NoFile),
            };
        };
        let key = data_key(&self.id, path, last);
        let read = self.read_key(key, Redundancy::Coded, Detail::Version);
        match read.map_err(|damage| ImportError::Block { block: last, damage })? {
            Outcome::Absent => Err(ImportError::LastBlock { block: last }),
            Outcome::Value(block) => {
                let (size, most) = (block.version.size(), self.shape.block_bytes());
                if size > most {
                    return Err(ImportError::BlockSize { block: last, size, most });
                }
                let size = u64::from(last.0) * most + size;
                Ok(FileInfo { size, blocks: last.0 + 1, version: Some(block.version) })
            }
        }
    }

    /// The highest number of a block of which any drive has a key, or a stand-in for one of its chunks.
    fn last_block(&self, path: &[u8]) -> Result<Option<BlockNumber>, ImportError> {
        let mut away = DrivesAway::new();
        let of_data = |key: &Bytes| block_number(&self.id, path, key);
        let mut last = self.last_of(data_range(&self.id, path), &of_data, &mut away);
        // With as many parities as data, all chunks of a block that stand where they should may be away.
        if self.shape.parity() >= self.shape.data(Redundancy::Coded) {
            let of_handoff = |key: &Bytes| handoff_block(&self.id, path, key);
            last = last.max(self.last_of(handoff_data_range(&self.id, path), &of_handoff, &mut away));
        }
        self.check_away(away)?;
        assert!(last.is_none_or(|last| last.0 <= BLOCKS_MAX), "checked with the key");
        Ok(last)
    }

    /// The highest number of a block that keys between two, inclusive, are of.
    fn last_of(
        &self,
        (start, end): (Bytes, Bytes),
        number: &dyn Fn(&Bytes) -> Option<BlockNumber>,
        away: &mut DrivesAway,
    ) -> Option<BlockNumber> {
        let range = |end: Bytes, end_inclusive, max_returned| KeyRange {
            start: start.clone(),
            start_inclusive: true,
            end,
            end_inclusive,
            max_returned,
            reverse: true,
        };
        let mut asked: Vec<Query> = (0..self.drives.count())
            .map(|drive| Query::Keys(DriveIndex(drive), range(end.clone(), true, 1)))
            .collect();
        let mut last = None;
        while !asked.is_empty() {
            let mut next = Vec::new();
            for (query, found) in asked.iter().zip(self.drives.ask(&asked)) {
                let Query::Keys(drive, asked) = query else { continue };
                match found {
                    Found::Failed(reason) => {
                        away.insert(*drive, reason);
                    }
                    Found::Keys(keys) => {
                        let own = keys.iter().find_map(number);
                        // Only keys of another file, whose name is that of a block of this: further down.
                        if let (None, Some(lowest)) = (own, keys.last()) {
                            let is_lower = *lowest < asked.end || asked.end_inclusive;
                            let range = range(lowest.clone(), false, KEYS_PER_ANSWER);
                            next.extend(is_lower.then(|| Query::Keys(*drive, range)));
                        }
                        last = last.max(own);
                    }
                    Found::Nothing | Found::Entry(_) => {}
                }
            }
            asked = next;
        }
        last
    }

    /// The attributes of a file, those apart that libkineticio keeps for itself.
    ///
    /// # Errors
    /// The first one that cannot be read.
    pub fn attributes(&self, path: &[u8]) -> Result<Vec<Attribute>, ImportError> {
        let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
        let away = merged(self.drives.as_ref(), attribute_range(&self.id, path), &mut |key, _| {
            let name = attribute_name(&self.id, path, key).filter(|name| *name != SIZE_HINT);
            names.extend(name.map(<[u8]>::to_vec));
            if names.len() < ATTRIBUTES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        self.check_away(away)?;
        let mut attributes = Vec::new();
        for name in names {
            let key = attribute_key(&self.id, path, &name);
            let read = match self.read_key(key.clone(), Redundancy::Replicated, Detail::Value) {
                // The first versions of libkineticio cut attributes like blocks.
                Err(Damage::Size { .. }) => self.read_key(key, Redundancy::Coded, Detail::Value),
                read => read,
            };
            let shown = || String::from_utf8_lossy(&name).into_owned();
            match read.map_err(|damage| ImportError::Attribute { name: shown(), damage })? {
                Outcome::Value(block) => attributes.push((name, block.bytes)),
                Outcome::Absent => {}
            }
        }
        Ok(attributes)
    }

    /// A block of a file; `None` if it was never written.
    pub(crate) fn block(&self, path: &[u8], block: BlockNumber) -> Result<Option<Block>, ImportError> {
        let key = data_key(&self.id, path, block);
        match self.read_key(key, Redundancy::Coded, Detail::Value) {
            Ok(Outcome::Value(read)) => Ok(Some(read)),
            Ok(Outcome::Absent) => Ok(None),
            Err(damage) => Err(ImportError::Block { block, damage }),
        }
    }

    fn read_key(&self, key: Bytes, redundancy: Redundancy, detail: Detail) -> Result<Outcome, Damage> {
        let mut read = BlockRead::new(key, self.shape, redundancy, self.placement, detail);
        loop {
            let asks = match read.step() {
                Step::Done(result) => return result,
                Step::Ask(asks) => asks,
            };
            let query = |ask: &Ask| match ask {
                Ask::Get { drive, key, .. } => Query::Get(*drive, key.clone(), detail == Detail::Value),
                Ask::Keys { drive, start, end } => {
                    let range = KeyRange {
                        start: start.clone(),
                        start_inclusive: true,
                        end: end.clone(),
                        end_inclusive: false,
                        max_returned: KEYS_PER_ANSWER,
                        reverse: false,
                    };
                    Query::Keys(*drive, range)
                }
            };
            let queries: Vec<Query> = asks.iter().map(query).collect();
            for (ask, found) in asks.iter().zip(self.drives.ask(&queries)) {
                read.found(ask, found);
            }
        }
    }
}
