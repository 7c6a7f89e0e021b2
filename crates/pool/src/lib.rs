//! Blobs over object drives.
