//! LTFS volumes and tar packs as values and bytes.
