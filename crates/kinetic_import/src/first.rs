//! Which drive has the first chunk of a key, found out from where keys stand.

use std::ops::ControlFlow;

use kineticio::{ClusterDefinition, FirstDrive, Placement, Redundancy, data_key, metadata_range};

use crate::drives::Drives;
use crate::list::merged;

/// Keys of each kind that are looked at.
const KEYS_LOOKED_AT: usize = 200;
/// So many times more keys must speak for the one than for the other.
const CLEAR_MAJORITY: usize = 8;

/// What the places of keys say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Evidence {
    /// This one.
    Clear(FirstDrive),
    /// There are no keys, or it makes no difference.
    NotNeeded,
    /// They agree with both, or contradict each other.
    Unclear,
}

/// Looks at metadata keys and at those of data. A chunk on the very drive that the hash says is there only if
/// that is the first; one on the drive behind the last chunk of such a stripe only if it is not.
pub(crate) fn find_out(drives: &dyn Drives, cluster: &ClusterDefinition) -> Evidence {
    let (shape, count) = (cluster.shape, drives.count());
    let (mut at_hash, mut behind, mut keys) = (0, 0, 0);
    let metadata = metadata_range(&cluster.id, b"");
    let data_start = data_key(&cluster.id, b"", kineticio::BlockNumber(0));
    let data_start = data_start.strip_suffix(b"_0000000000").unwrap_or_default().to_vec();
    let mut data_end = data_start.clone();
    data_end.push(0xff);
    let data = (data_start.into(), data_end.into());
    for (range, redundancy) in [(metadata, Redundancy::Replicated), (data, Redundancy::Coded)] {
        let chunks = shape.chunks(redundancy);
        let mut looked_at = 0;
        let _ = merged(drives, range, &mut |key, holders| {
            keys += 1;
            looked_at += 1;
            // Where all drives have a chunk, none says anything; nor does a key that is cut in another way,
            // as the first versions cut metadata.
            if chunks < count && holders.len() <= chunks {
                for distance in holders.iter().map(|drive| Placement::distance(count, key, *drive)) {
                    at_hash += usize::from(distance == 0);
                    behind += usize::from(distance == chunks);
                }
            }
            if looked_at < KEYS_LOOKED_AT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
    let is_whole_copy_everywhere =
        shape.data(Redundancy::Coded) == 1 && shape.chunks(Redundancy::Coded) == count;
    match () {
        () if keys == 0 || is_whole_copy_everywhere => Evidence::NotNeeded,
        () if at_hash > behind * CLEAR_MAJORITY => Evidence::Clear(FirstDrive::Hash),
        () if behind > at_hash * CLEAR_MAJORITY => Evidence::Clear(FirstDrive::AfterHash),
        () => Evidence::Unclear,
    }
}
