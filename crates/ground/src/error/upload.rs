//! What is wrong with an upload in parts.

use base::UploadId;

/// An error that only verbs of uploads in parts give.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// No such upload in parts: there never was, or it was completed or given up.
    #[error("there is no upload {0}: it was completed or given up, begin another one")]
    NoSuchUpload(UploadId),
    /// An upload has no part of this number.
    #[error("upload {upload} has no part {number}: put it first")]
    NoSuchPart {
        /// The upload.
        upload: UploadId,
        /// The number.
        number: u16,
    },
    /// A part is not the one that was meant.
    #[error("part {number} of upload {upload} was put again meanwhile: list the parts and complete again")]
    PartChanged {
        /// The upload.
        upload: UploadId,
        /// The number.
        number: u16,
    },
}
