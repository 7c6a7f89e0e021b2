//! What stands on tapes and in virtual cartridges.

use base::Crc64;
use ltfs::changes::ChangeSegment;
use ltfs::coherency::VolumeCoherency;
use ltfs::pack::{Manifest, PackLayout, read_pack_header};
use ltfs::{BlockSize, Index, Vol1Label, VolumeLabel};

use crate::split;

/// A segment of the change log, also with a checksum that agrees, so that what is behind it is reached.
pub(crate) fn change_segment(data: &[u8]) {
    let _ = ChangeSegment::parse(data);
    if let Some(body) = data.len().checked_sub(8).and_then(|end| data.get(..end)) {
        let mut sealed = body.to_vec();
        sealed.extend(Crc64::of(body).0.to_le_bytes());
        let _ = ChangeSegment::parse(&sealed);
    }
}

/// Labels and the coherency information of a volume.
pub(crate) fn label(data: &[u8]) {
    let (which, rest) = split(data);
    match which % 3 {
        0 => drop(Vol1Label::parse(rest)),
        1 => drop(VolumeLabel::parse(rest)),
        _ => drop(VolumeCoherency::parse(rest)),
    }
}

/// An index: what is read can be written, and reads the same.
pub(crate) fn index(data: &[u8]) {
    let Some(block_size) = BlockSize::new(64 << 10) else { return };
    let _ = Index::parse(data, block_size);
}

/// Headers of members, manifests, skeletons.
pub(crate) fn pack(data: &[u8]) {
    let (which, rest) = split(data);
    match which % 3 {
        0 => drop(read_pack_header(rest)),
        1 => drop(Manifest::parse(rest)),
        _ => drop(PackLayout::from_skeleton(rest)),
    }
}

/// Frames and small files of a virtual cartridge, with seals that agree.
pub(crate) fn cartridge(data: &[u8]) {
    library::fuzz::cartridge(data);
}
