//! The S3 door over the engine itself.

use std::sync::Arc;

use base::ByteCount;
use s3::S3Settings;

use crate::client::{Draft, World};
use crate::common::Instance;
use crate::fake::Fake;

#[test]
fn the_engine_keeps_what_s3_puts() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let world = World::over(S3Settings::default(), Fake::default(), Arc::new(archive.clone()));
    let send = |method, path: &str| world.send(&Draft::new(method, path));
    assert_eq!(send("PUT", "/b-1").status, 200);
    assert_eq!(send("PUT", "/b-1").code(), "BucketAlreadyOwnedByYou");
    let big: Vec<u8> = (0..900_000u32).flat_map(u32::to_be_bytes).collect();
    let tagged = Draft::new("PUT", "/b-1/d/small").body(b"hello, world").header("x-amz-meta-a", "1");
    let reply = world.send(&tagged.header("x-amz-tagging", "t=1"));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let reply = world.send(&Draft::new("PUT", "/b-1/d/big").body(&big).chunks(65_536, true, &[]));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(world.get("/b-1/d/big").body == big);
    let part = world.send(&Draft::new("GET", "/b-1/d/big").header("range", "bytes=1000000-2999999"));
    assert!(part.status == 206 && part.body == big[1_000_000..3_000_000]);
    let small = world.get("/b-1/d/small");
    assert_eq!((small.text().as_str(), small.header("x-amz-meta-a")), ("hello, world", "1"));
    assert_eq!(small.header("etag"), "\"e4d7f1b4ed2e42d15898f4b27b019da4\"");
    assert_eq!(world.get("/b-1/d/small?tagging").elements("Key"), ["t"]);
    assert_eq!(send("DELETE", "/b-1/d/small?tagging").status, 204);
    assert_eq!(world.get("/b-1/d/small?tagging").elements("Key").len(), 0);
    assert_eq!(send("PUT", "/b-1/e/").status, 200);
    let list = world.get("/b-1?list-type=2&delimiter=/");
    assert_eq!(list.elements("CommonPrefixes").len(), 2, "{}", list.text());
    assert_eq!(world.get("/b-1?list-type=2&prefix=d/").elements("Key"), ["d/big", "d/small"]);
    let new = Draft::new("PUT", "/b-1/d/small").body(b"x").header("if-none-match", "*");
    assert_eq!(world.send(&new).status, 412);
    let same = Draft::new("PUT", "/b-1/d/small").body(b"new").header("if-match", small.header("etag"));
    assert_eq!(world.send(&same).status, 200);
    assert_eq!(world.send(&same).status, 412);
    assert_eq!(world.get("/b-1/d/small").body, b"new");
    assert_eq!(world.send(&Draft::new("PUT", "/b-1/d").body(b"x")).status, 409);
    assert_eq!(world.send(&Draft::new("PUT", "/b-1/d/big/x").body(b"x")).status, 409);
    assert_eq!(world.send(&Draft::new("PUT", "/b-9/x").body(b"x")).code(), "NoSuchBucket");
    assert_eq!(world.get("/b-1/none").code(), "NoSuchKey");
    assert_eq!(send("DELETE", "/b-1").code(), "BucketNotEmpty");
    let all = "<Delete><Object><Key>d/big</Key></Object><Object><Key>d/small</Key></Object>\
        <Object><Key>e/</Key></Object></Delete>";
    let gone = world.send(&Draft::new("POST", "/b-1?delete").body(all.as_bytes()));
    assert_eq!((gone.status, gone.elements("Deleted").len()), (200, 3), "{}", gone.text());
    assert_eq!(world.get("/b-1?list-type=2").element("KeyCount"), "0");
    let removed = send("DELETE", "/b-1");
    assert_eq!(removed.status, 204, "{}", removed.text());
    archive.close();
}
