//! The same through Kinetic's own protocol, over sockets.

use std::sync::Arc;
use std::time::Duration;

use kinetic::client::ClientSettings;
use kinetic::{Algorithm, Change, Identity, Metadata, Put, Request, Synchronization};
use kinetic_client::{Link, LinkSettings};
use kinetic_import::{Cluster, LinkedDrives};
use kineticio::FirstDrive;

use crate::serving::{IDENTITY, KEY, Served};
use crate::written::{Geometry, is_whole, list, read};

const WITHIN: Duration = Duration::from_secs(30);

#[test]
fn a_cluster_over_the_network() {
    let geometry = Geometry { data: 4, parity: 2, chunk_kib: 64, drives: 8, first: FirstDrive::AfterHash };
    let mut written = geometry.write(&["0", "1b", "5b+3"]);
    let served: Vec<Served> = (0..8).map(|drive| Served::new(&format!("wwn-{drive}"))).collect();
    for ((drive, content), login) in
        served.iter().zip(written.drives.iter()).zip(&mut written.definition.drives)
    {
        login.addresses = vec![drive.address.to_string()];
        let client = ClientSettings::new(Identity(IDENTITY), KEY);
        let link = Link::new("writer", LinkSettings::new(login.addresses.clone(), client)).unwrap();
        for (key, entry) in content {
            let metadata = Metadata {
                version: entry.version.clone(),
                tag: entry.tag.clone(),
                algorithm: Some(Algorithm(6)),
            };
            let put = Put {
                key: key.clone(),
                metadata,
                db_version: bytes::Bytes::new(),
                force: true,
                synchronization: Synchronization::WriteBack,
                value: entry.value.clone(),
            };
            let answered = link.call(Request::Change(Change::Put(put))).unwrap();
            assert!(answered.response.status.is_success());
        }
    }
    let open = || {
        let drives = LinkedDrives::new(&written.definition).unwrap();
        let away = drives.open(WITHIN).len();
        (Cluster::open(&written.definition, Box::new(drives), None).unwrap(), away)
    };
    let check = |cluster: &Arc<Cluster>, is_degraded: bool| {
        assert_eq!(cluster.first_drive(), FirstDrive::AfterHash);
        assert_eq!(list(cluster).len(), written.files.len());
        for (path, bytes) in written.files.iter().filter(|(path, _)| !is_degraded || is_whole(path)) {
            assert!(read(cluster, path).unwrap().0 == *bytes, "{path}");
        }
    };
    let (cluster, away) = open();
    assert_eq!(away, 0);
    check(&cluster, false);
    served[1].refuse(true);
    served[6].refuse(true);
    let (cluster, away) = open();
    assert_eq!(away, 2);
    check(&cluster, true);
}
