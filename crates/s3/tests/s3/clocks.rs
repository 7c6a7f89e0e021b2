//! Two clocks: signatures go by the system's, retentions by the trusted time.

use std::sync::Arc;

use crate::client::{Draft, World};
use crate::common::Instance;
use crate::fake::Fake;
use base::{ByteCount, Timestamp};
use s3::S3Settings;

/// After one start with the clock ten years ahead all signatures were refused: they were compared with the
/// time of the catalogue, which stayed there.
#[test]
fn signatures_are_of_now_whatever_the_trusted_time_is_and_retentions_end_by_that() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    // The clients' and the system's clock are of 2026.
    for (year, is_future) in [(2036, false), (2016, true)] {
        let trusted = Timestamp::from_civil(year, 1, 1, 0, 0, 0, 0).unwrap();
        let world =
            World::in_time(S3Settings::default(), Fake::default(), Arc::new(archive.clone()), trusted);
        let bucket = format!("/b-{year}");
        let locked = Draft::new("PUT", &bucket).header("x-amz-bucket-object-lock-enabled", "true");
        let made = world.send(&locked);
        assert_eq!(made.status, 200, "{}", made.text());
        world.put(&format!("{bucket}/k"), b"x");
        let held = Draft::new("PUT", &format!("{bucket}/held"))
            .body(b"x")
            .header("x-amz-object-lock-mode", "COMPLIANCE")
            .header("x-amz-object-lock-retain-until-date", "2027-06-01T00:00:00Z");
        let reply = world.send(&held);
        assert_eq!(reply.status == 200, is_future, "{year}: {}", reply.text());
    }
    archive.close();
}
