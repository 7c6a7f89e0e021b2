//! The bytes of uploads in parts.

use base::{PartHash, UploadId};

use crate::codec::{Codec, Reader, record};
use crate::command::{CompleteUpload, OpenUpload, PutPart};
use crate::record::{UploadPart, UploadPlan, UploadRecord, UploadUse};

impl Codec for UploadId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn take(input: &mut Reader<'_>) -> Option<Self> {
        Codec::take(input).map(UploadId)
    }
}

record!(PartHash { offset, head, nodes, tail });
record!(UploadPlan { attributes, class, dataset, make_parents, implied_parents, keep_existing, hold });
record!(UploadRecord { bucket, key, owner, created, ending, plan });
record!(UploadUse { directory, bytes });
record!(UploadPart { stamp, stored, size, checksums, hash, attributes, pieces });
record!(OpenUpload { bucket, key, owner, plan });
record!(PutPart { upload, number, size, checksums, hash, attributes, data });
record!(CompleteUpload { upload, parts, object });
