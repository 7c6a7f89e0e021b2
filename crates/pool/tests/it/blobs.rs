//! The pool as a store of blobs, for those that know no more of it.

use base::{BlobDescription, BlobPiece, ByteCount, DriveGroup};
use blob::{BlobError, BlobFault, BlobStore, NewBlob, Use};

use super::common::{Bench, bytes, small_cells};

fn whole(blob: &BlobDescription) -> BlobPiece {
    BlobPiece { blob: blob.id, offset: ByteCount(0), length: blob.length }
}

fn write(
    store: &dyn BlobStore,
    value: &[u8],
    length: Option<ByteCount>,
) -> Result<BlobDescription, BlobError> {
    let mut sink = store.create(NewBlob { length, whose: Use::Stream, group: DriveGroup::MAIN })?;
    value.chunks(10_007).try_for_each(|part| sink.write(part))?;
    sink.finish()
}

fn read(store: &dyn BlobStore, blob: &BlobDescription, range: (u64, u64)) -> Result<Vec<u8>, BlobError> {
    let range = (ByteCount(range.0), ByteCount(range.1));
    let mut source = store.read(blob, &whole(blob), range, Use::Stream)?;
    let mut all = Vec::new();
    while let Some(part) = source.next()? {
        all.extend_from_slice(part);
    }
    Ok(all)
}

#[test]
fn a_blob_is_written_read_and_removed_by_those_who_know_no_pool() {
    let mut bench = Bench::new(8);
    let pool = bench.open(small_cells(), &[]);
    let store: &dyn BlobStore = &pool.blobs();
    let value = bytes(300_000, 1);
    for length in [None, Some(ByteCount(300_000))] {
        let blob = write(store, &value, length).unwrap();
        assert!(read(store, &blob, (0, 300_000)).unwrap() == value);
        assert!(read(store, &blob, (40_001, 99_999)).unwrap() == value[40_001..140_000]);
        assert_eq!(read(store, &blob, (299_999, 2)).unwrap_err().fault, BlobFault::Other, "outside");
        store.remove(&blob).unwrap();
        store.remove(&blob).unwrap();
        assert_eq!(read(store, &blob, (0, 1)).unwrap_err().fault, BlobFault::Unreadable(blob.id));
    }
    // A sink that is let go leaves nothing.
    let mut sink =
        store.create(NewBlob { length: None, whose: Use::Engine, group: DriveGroup::MAIN }).unwrap();
    sink.write(&value).unwrap();
    drop(sink);
    assert!(bench.extents().is_empty());
}

#[test]
fn a_failure_says_what_it_means() {
    let mut bench = Bench::new(6);
    let pool = bench.open(small_cells(), &[]);
    let store = pool.blobs();
    let blob = write(&store, &bytes(100_000, 2), None).unwrap();
    for drive in 0..3 {
        bench.faults[drive].set_dead(true);
    }
    let error = read(&store, &blob, (0, 100_000)).unwrap_err();
    assert_eq!(error.fault, BlobFault::Unreadable(blob.id));
    assert!(error.to_string().contains("bring drives back"), "in the pool's own words: {error}");
    (0..3).for_each(|drive| bench.faults[drive].set_dead(false));
    bench.faults.iter().for_each(|faults| faults.full.store(true, std::sync::atomic::Ordering::SeqCst));
    assert_eq!(write(&store, &bytes(100_000, 3), None).unwrap_err().fault, BlobFault::Full);
    drop((store, pool));
    let pool = bench.open(small_cells(), &[5]);
    let error = write(&pool.blobs(), &bytes(100_000, 3), None).unwrap_err();
    assert_eq!(error.fault, BlobFault::NoPlace, "{error}");
}
