//! The drive against a Kinetic drive in memory over real sockets.

mod breaks;
mod conform;
mod queue;
#[path = "../../../kinetic_client/tests/it/serving.rs"]
mod serving;

use std::time::Duration;

use base::{BlobId, DriveId, Uuid};
use drive::{ExtentId, ObjectDrive};
use kinetic::Identity;
use kinetic::client::ClientSettings;
use kinetic_client::LinkSettings;
use kinetic_drive::{KineticDrive, KineticPlace};
use serving::{IDENTITY, KEY, Served};

const INSTANCE: Uuid = Uuid([1; 16]);
const ID: DriveId = DriveId(4);

fn settings(served: &Served) -> LinkSettings {
    let client = ClientSettings {
        request_within: Duration::from_secs(10),
        ..ClientSettings::new(Identity(IDENTITY), KEY)
    };
    let addresses = vec![served.address.to_string()];
    LinkSettings { back_off_min: Duration::from_millis(2), ..LinkSettings::new(addresses, client) }
}

fn place(served: &Served) -> KineticPlace {
    KineticPlace::with("kinetic://test".to_owned(), settings(served))
}

fn open(served: &Served) -> KineticDrive {
    KineticDrive::open(&place(served), INSTANCE, ID).unwrap()
}

fn fresh() -> (Served, KineticDrive) {
    let served = Served::new("drive");
    place(&served).format(INSTANCE, ID, false).unwrap();
    let drive = open(&served);
    (served, drive)
}

/// Requests for which something is waited that comes by itself.
const ROUNDS_MAX: u32 = 20_000;

/// Keys on the drive, once what was given up is removed: that is asked for when its last user lets it go, on
/// whichever thread.
fn count_at_rest(served: &Served, drive: &dyn ObjectDrive, awaited: usize) -> usize {
    let count = || served.drive(|drive| drive.count());
    for _ in 0..ROUNDS_MAX {
        drive.status().unwrap();
        if count() == awaited {
            break;
        }
    }
    count()
}

fn extent(blob: u64, shard: u8) -> ExtentId {
    ExtentId { blob: BlobId(blob), stripe: 0, shard }
}
