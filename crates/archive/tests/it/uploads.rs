//! Many slow uploads of one caller beside those of others, on a real pool.

use crate::common::{Instance, bytes, get, path, put};
use archive::{PutOptions, Upload};
use base::ByteCount;

/// More than the rows that the arena has for writers.
const SLOW: u64 = 16;
const LENGTH: usize = 9 << 20;
/// The first row is full, so that the client counts as quick; the second has begun.
const SENT: usize = 5 << 20;

/// Nine uploads of one user that stood still kept every put above 256 KiB of everybody waiting.
#[test]
fn slow_uploads_of_one_caller_hold_up_no_other() {
    let instance = Instance::new(ByteCount::mib(512));
    let archive = instance.open();
    let begin = |n: u64| -> Upload {
        let who = Some("anna".to_owned());
        let length = Some(ByteCount(LENGTH as u64));
        let options = PutOptions { who, length, make_parents: true, ..PutOptions::default() };
        archive.begin_put(&path(&format!("/anna/{n}")), options).unwrap()
    };
    let contents: Vec<Vec<u8>> = (0..SLOW).map(|n| bytes(n, LENGTH)).collect();
    let mut slow = Vec::new();
    for (n, content) in (0..).zip(&contents) {
        let mut upload = begin(n);
        content[..SENT].chunks(100_000).for_each(|piece| upload.write(piece).unwrap());
        // What doors say of a client that has sent nothing for a while.
        upload.pause();
        slow.push(upload);
    }
    let other = bytes(100, LENGTH);
    put(&archive, "/bert/file", &other);
    assert_eq!(get(&archive, "/bert/file").unwrap(), other);
    // A part of an upload goes the same way.
    archive.make_directory(&path("/bucket"), Default::default(), None, true).unwrap();
    let upload = archive.open_multipart(&path("/bucket/parts"), PutOptions::default()).unwrap();
    let mut part = archive.begin_part(upload, 1, Some(ByteCount(LENGTH as u64))).unwrap().sent_by("bert");
    part.write(&other[..SENT]).unwrap();
    part.pause();
    part.write(&other[SENT..]).unwrap();
    part.finish(Vec::new()).unwrap();
    for (n, (mut upload, content)) in slow.into_iter().zip(&contents).enumerate() {
        content[SENT..].chunks(100_000).for_each(|piece| upload.write(piece).unwrap());
        upload.finish().unwrap();
        assert!(get(&archive, &format!("/anna/{n}")).unwrap() == *content);
    }
    archive.close();
}
