//! Another store of blobs: each whole, in memory, without drives, stripes and repair. What the mover needs of
//! a store is what this one has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{BlobDescription, BlobId, BlobPiece, ByteCount, DriveGroup, Epoch, Layout, StripeCode};
use blob::{BlobError, BlobFault, BlobSink, BlobSource, BlobStore, NewBlob, Use};

#[derive(Default)]
pub struct MemoryStore {
    blobs: Arc<Mutex<BTreeMap<BlobId, Arc<Vec<u8>>>>>,
    next: AtomicU64,
    /// Bytes that it takes in all; 0: no limit.
    room: u64,
    /// What was written and read, and for whom.
    pub uses: Mutex<Vec<Use>>,
}

struct Sink {
    id: BlobId,
    bytes: Vec<u8>,
    room: Option<u64>,
    blobs: Arc<Mutex<BTreeMap<BlobId, Arc<Vec<u8>>>>>,
}

/// Gives odd pieces, so that blocks begin and end within them.
struct Source {
    bytes: Arc<Vec<u8>>,
    at: usize,
    end: usize,
}

const CHUNK: usize = 10_007;

impl MemoryStore {
    pub fn put(&self, bytes: &[u8]) -> (BlobDescription, BlobPiece) {
        let length = ByteCount(bytes.len() as u64);
        let mut sink = self
            .create(NewBlob { length: Some(length), whose: Use::Engine, group: DriveGroup::MAIN })
            .unwrap();
        sink.write(bytes).unwrap();
        let blob = sink.finish().unwrap();
        let piece = BlobPiece { blob: blob.id, offset: ByteCount(0), length };
        (blob, piece)
    }

    pub fn with_room(room: u64) -> Self {
        MemoryStore { room, ..MemoryStore::default() }
    }

    pub fn len(&self) -> usize {
        self.blobs.lock().unwrap().len()
    }
}

impl BlobStore for MemoryStore {
    fn create(&self, new: NewBlob) -> Result<Box<dyn BlobSink>, BlobError> {
        self.uses.lock().unwrap().push(new.whose);
        let id = BlobId::new(Epoch(1), self.next.fetch_add(1, Ordering::SeqCst)).unwrap();
        let room = (self.room > 0).then_some(self.room);
        Ok(Box::new(Sink { id, bytes: Vec::new(), room, blobs: Arc::clone(&self.blobs) }))
    }

    fn read(
        &self,
        blob: &BlobDescription,
        piece: &BlobPiece,
        (offset, length): (ByteCount, ByteCount),
        whose: Use,
    ) -> Result<Box<dyn BlobSource>, BlobError> {
        self.uses.lock().unwrap().push(whose);
        let found = self.blobs.lock().unwrap().get(&blob.id).cloned();
        let bytes = found.ok_or_else(|| BlobError::new(BlobFault::Unreadable(blob.id), "it is gone"))?;
        let at = (piece.offset.0 + offset.0) as usize;
        Ok(Box::new(Source { bytes, at, end: at + length.0 as usize }))
    }

    fn remove(&self, blob: &BlobDescription) -> Result<(), BlobError> {
        self.blobs.lock().unwrap().remove(&blob.id);
        Ok(())
    }
}

impl BlobSink for Sink {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.bytes.extend_from_slice(bytes);
        match self.room {
            Some(room) if self.bytes.len() as u64 > room => Err(BlobError::new(BlobFault::Full, "no room")),
            _ => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<BlobDescription, BlobError> {
        let length = ByteCount(self.bytes.len() as u64);
        self.blobs.lock().unwrap().insert(self.id, Arc::new(self.bytes));
        let layout = Layout::Striped { code: StripeCode::reed_solomon(1, 0) };
        Ok(BlobDescription { id: self.id, stands_as: None, layout, length, stripes: Vec::new() })
    }
}

impl BlobSource for Source {
    fn next(&mut self) -> Result<Option<&[u8]>, BlobError> {
        let from = self.at;
        self.at = self.end.min(from + CHUNK);
        Ok((from < self.at).then(|| &self.bytes[from..self.at]))
    }
}
