//! Reading what concerns the pool as a whole: its blobs, and the files and containers that it holds bytes of.

use std::collections::BTreeSet;

use base::{BlobDescription, BlobId, BlobPiece, ContainerId, DriveId, FileId, Timestamp};

use super::View;
use crate::error::ReadError;
use crate::frame;
use crate::key;
use crate::record::{
    BlobRecord, ContainerRecord, DriveDiskRecord, FileRecord, Garbage, PoolDriveRecord, PoolDriveState,
    RebalanceRecord, RecodingRecord, Sectors, UnknownExtent,
};
use crate::table::Table;

impl View<'_> {
    /// The drives of the pool that are to be emptied, or were taken out.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pool_drives(&self) -> Result<Vec<(DriveId, PoolDriveRecord)>, ReadError> {
        self.rows(Table::PoolDrive, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((DriveId(parts.u16()?), frame::open(Table::PoolDrive, key, value)?))
        })
    }

    /// Those of them of which this is wanted.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pool_drives_in(&self, state: PoolDriveState) -> Result<BTreeSet<DriveId>, ReadError> {
        let drives = self.pool_drives()?.into_iter();
        Ok(drives.filter(|(_, record)| record.state == state).map(|(drive, _)| drive).collect())
    }

    /// On which disks the drives of the pool are, as far as that was ever told.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn drive_disks(&self) -> Result<Vec<(DriveId, DriveDiskRecord)>, ReadError> {
        self.rows(Table::DriveDisk, &[], None, usize::MAX, |mut parts, key, value| {
            Ok((DriveId(parts.u16()?), frame::open(Table::DriveDisk, key, value)?))
        })
    }

    /// Whether what is stored moves between the drives of the pool, and until when; `None`: it stays.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn rebalance(&self) -> Result<Option<RebalanceRecord>, ReadError> {
        self.get(Table::Rebalance, key::REBALANCE)
    }

    /// In which code what is stored is written anew; `None`: it stays as it is.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn recoding(&self) -> Result<Option<RecodingRecord>, ReadError> {
        self.get(Table::Recoding, key::REBALANCE)
    }

    /// The blob whose extents bear this id on drives: one in use, or garbage as a whole. One that was written
    /// anew is not found by its own id, although extents of that id may still be there.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn blob_of_extents(&self, extents: BlobId) -> Result<Option<BlobDescription>, ReadError> {
        let id = self.blob_named(extents)?;
        let blob = match self.blob(id)? {
            Some(blob) => Some(blob),
            None => match self.get(Table::Garbage, &key::garbage(id, key::WHOLE_BLOB))? {
                Some(Garbage::Blob(blob)) => Some(blob),
                Some(Garbage::Value(..)) | None => None,
            },
        };
        Ok(blob.filter(|blob| blob.extents() == extents))
    }

    /// The blob that extents of this id are of, or were before it was written anew; perhaps there is none.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn blob_named(&self, extents: BlobId) -> Result<BlobId, ReadError> {
        Ok(self.get(Table::StandsAs, &key::blob(extents))?.unwrap_or(extents))
    }

    /// Blobs in use in the order of their ids, those behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn blobs(&self, after: Option<BlobId>, limit: usize) -> Result<Vec<(BlobId, BlobRecord)>, ReadError> {
        self.rows_within(Table::Blob, &[], after.map(key::blob), limit, |mut parts, key, value| {
            Ok((BlobId(parts.u64()?), frame::open(Table::Blob, key, value)?))
        })
    }

    /// Files of whatever state in the order of their ids, those behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn files(&self, after: Option<FileId>, limit: usize) -> Result<Vec<(FileId, FileRecord)>, ReadError> {
        self.rows_within(Table::File, &[], after.map(key::file), limit, |mut parts, key, value| {
            Ok((FileId(parts.u64()?), frame::open(Table::File, key, value)?))
        })
    }

    /// What the pool keeps for containers (skeletons and images), by container id behind `after`, looking at
    /// no more than `limit` containers; with the last one looked at, `None` at the end.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    #[allow(clippy::type_complexity)]
    pub fn container_pieces(
        &self,
        after: Option<ContainerId>,
        limit: usize,
    ) -> Result<(Vec<(ContainerId, BlobPiece)>, Option<ContainerId>), ReadError> {
        let rows: Vec<(ContainerId, ContainerRecord)> = self.rows_within(
            Table::Container,
            &[],
            after.map(key::container),
            limit,
            |mut parts, key, value| {
                Ok((ContainerId(parts.u64()?), frame::open(Table::Container, key, value)?))
            },
        )?;
        let last = rows.last().map(|(id, _)| *id);
        let pieces = rows.into_iter().flat_map(|(id, container)| {
            [container.skeleton, container.image].into_iter().flatten().map(move |piece| (id, piece))
        });
        Ok((pieces.collect(), last))
    }

    /// Garbage to be removed from the pool, at most `limit`. What is in quarantine is not handed out: a later
    /// point of the history that a restore gave up may name it.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn garbage(&self, limit: usize) -> Result<Vec<Garbage>, ReadError> {
        let last_kept = self.quarantine()?.and_then(|epoch| BlobId::new(epoch, BlobId::SEQUENCE_MAX));
        let behind = last_kept.map(|last| key::garbage(last, key::WHOLE_BLOB));
        self.rows_within(Table::Garbage, &[], behind, limit, |_, key, value| {
            frame::open(Table::Garbage, key, value)
        })
    }

    /// Which sectors of a page of a segment nobody needs any more although it holds something else; 0: none.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn unneeded_sectors(&self, blob: BlobId, page: u32) -> Result<u8, ReadError> {
        let (key, place) = key::unneeded(blob, page);
        let sectors: Option<Sectors> = self.get(Table::Unneeded, &key)?;
        Ok(sectors.and_then(|sectors| sectors.get(place).copied()).unwrap_or(0))
    }

    /// Garbage in quarantine behind `after`, at most `limit`: what is older than the restore, and of which
    /// the files left the pool since.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn garbage_kept(&self, after: Option<&Garbage>, limit: usize) -> Result<Vec<Garbage>, ReadError> {
        let Some(epoch) = self.quarantine()? else { return Ok(Vec::new()) };
        let after = after.map(|garbage| match garbage {
            Garbage::Blob(blob) => key::garbage(blob.id, key::WHOLE_BLOB),
            Garbage::Value(blob, piece) => key::garbage(blob.id, piece.offset),
        });
        let mut kept: Vec<Garbage> =
            self.rows_within(Table::Garbage, &[], after, limit, |_, key, value| {
                frame::open(Table::Garbage, key, value)
            })?;
        kept.retain(|(Garbage::Blob(blob) | Garbage::Value(blob, _))| blob.id.epoch() <= epoch);
        Ok(kept)
    }

    /// The number from which all ids and changes go on since the newest restore; 0 if there was none.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn restored_from(&self) -> Result<u64, ReadError> {
        self.last_change().map(crate::apply::level_of)
    }

    /// Extents that nothing names and since when that is known, behind `after`, at most `limit`.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn unknown_extents(
        &self,
        after: Option<UnknownExtent>,
        limit: usize,
    ) -> Result<Vec<(UnknownExtent, Timestamp)>, ReadError> {
        let after = after.as_ref().map(key::unknown);
        self.rows_within(Table::Unknown, &[], after, limit, |mut parts, key, value| {
            let (drive, blob) = (DriveId(parts.u16()?), BlobId(parts.u64()?));
            let extent = UnknownExtent { drive, blob, stripe: parts.u32()?, shard: parts.u8()? };
            Ok((extent, frame::open(Table::Unknown, key, value)?))
        })
    }

    /// Since when it is known that nothing names an extent.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn unknown_since(&self, extent: &UnknownExtent) -> Result<Option<Timestamp>, ReadError> {
        self.get(Table::Unknown, &key::unknown(extent))
    }

    /// Whether the pool must keep an extent for now: its blob is in use and has this shard on this drive, or
    /// had it there and is garbage that is still to be removed, or it is in quarantine. What is not known and
    /// of an older epoch was left by a crashed writer, or by a stripe that has moved.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn is_known_extent(
        &self,
        extents: BlobId,
        (stripe, shard): (u32, u8),
        drive: DriveId,
    ) -> Result<bool, ReadError> {
        // After a restore the catalogue may be older than the place of a shard.
        if self.quarantine()?.is_some_and(|epoch| extents.epoch() <= epoch) {
            return Ok(true);
        }
        // Of garbage only what stands in its places is removed with it.
        let Some(description) = self.blob_of_extents(extents)? else { return Ok(false) };
        let set = usize::try_from(stripe).ok().and_then(|stripe| description.stripes.get(stripe));
        Ok(set.and_then(|set| set.drives.get(usize::from(shard))) == Some(&drive))
    }
}
