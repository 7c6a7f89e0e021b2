//! Calls, and what becomes of them when connections break.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use kinetic::client::{ClientSettings, Options};
use kinetic::{
    Algorithm, Answer, Change, ClusterVersion, Delete, Identity, Limits, Metadata, Put, Request, StatusCode,
    Synchronization, Which, crc32c_tag,
};
use kinetic_client::{CallError, Link, LinkSettings, Work};

use crate::serving::{IDENTITY, KEY, Served};

pub fn settings(addresses: Vec<String>) -> LinkSettings {
    let client = ClientSettings {
        request_within: Duration::from_secs(10),
        ..ClientSettings::new(Identity(IDENTITY), KEY)
    };
    LinkSettings { back_off_min: Duration::from_millis(2), ..LinkSettings::new(addresses, client) }
}

fn link(served: &Served) -> Link {
    Link::new("test", settings(vec![served.address.to_string()])).unwrap()
}

fn put(key: &str, from: &str, to: &str, value: Bytes) -> Put {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let tag = crc32c_tag(&value);
    Put {
        key: bytes(key),
        metadata: Metadata { version: bytes(to), tag, algorithm: Some(Algorithm::CRC32C) },
        db_version: bytes(from),
        force: false,
        synchronization: Synchronization::WriteBack,
        value,
    }
}

fn change(key: &str, from: &str, to: &str, value: Bytes) -> Request {
    Request::Change(Change::Put(put(key, from, to, value)))
}

fn get(key: &str) -> Request {
    let key = Bytes::copy_from_slice(key.as_bytes());
    Request::Get { which: Which::Exact, key, metadata_only: false }
}

#[test]
fn what_is_put_is_got_by_many_threads_at_once() {
    let served = Served::new("one");
    let link = Arc::new(link(&served));
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let link = Arc::clone(&link);
            std::thread::spawn(move || {
                for round in 0..12usize {
                    let key = format!("{thread}.{round}");
                    // Around what is read ahead, and the longest there is.
                    let length = [0, 1, 16_000, 16_384, 100_000, 1 << 20][round % 6];
                    let value = Bytes::from(vec![(thread * 20 + round) as u8; length]);
                    let done = link.call(change(&key, "", "1", value.clone())).unwrap();
                    assert_eq!(done.response.status.code, StatusCode::Success);
                    let got = link.call(get(&key)).unwrap();
                    let Answer::Entry(entry) = got.response.answer else { panic!("an entry") };
                    assert!(entry.value == value && entry.metadata.version == "1");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let missing = link.call(get("none")).unwrap();
    assert_eq!(missing.response.status.code, StatusCode::NotFound);
    assert_eq!(link.connection(), 1);
}

/// Each put names the version before it: one that was done twice, or not at all, breaks the chain.
#[test]
fn a_connection_cut_at_each_byte_costs_nothing_and_does_nothing_twice() {
    let served = Served::new("one");
    let link = link(&served);
    let mut version = 0;
    let mut cuts = 0;
    for is_in in [true, false] {
        for at in 0.. {
            let (from, to) = (version.to_string(), (version + 1).to_string());
            let from = if version == 0 { "" } else { &from };
            version += 1;
            served.cut(is_in, at);
            let (send, told) = mpsc::channel();
            let request = change("chain", from, &to, Bytes::from(vec![7; 40]));
            link.submit(Work::Request(request), Options::default(), move |result| send.send(result).unwrap());
            let mut early = None;
            while !served.was_cut() && early.is_none() {
                early = told.recv_timeout(Duration::from_millis(1)).ok();
            }
            let was_cut = served.was_cut();
            served.mend();
            if was_cut {
                cuts += 1;
                served.cut_now();
            }
            let done = early.unwrap_or_else(|| told.recv().unwrap()).unwrap();
            assert_eq!(done.response.status.code, StatusCode::Success, "cut {is_in} at {at}");
            let stands = served.drive(|drive| drive.stands(b"chain").unwrap().0.version.clone());
            assert_eq!(stands, to, "cut {is_in} at {at}");
            assert!(told.try_recv().is_err(), "one outcome");
            if !was_cut {
                break;
            }
        }
    }
    assert!(cuts > 150, "{cuts} cuts");
}

#[test]
fn a_batch_cut_at_each_byte_is_done_once_and_whole() {
    let served = Served::new("one");
    let link = link(&served);
    let (mut version, mut cuts) = (0, 0);
    let places = [true, false].into_iter().flat_map(|is_in| (0..450).step_by(3).map(move |at| (is_in, at)));
    for (is_in, at) in places {
        let (from, to) = (version.to_string(), (version + 1).to_string());
        let from = if version == 0 { "" } else { &from };
        version += 1;
        served.cut(is_in, at);
        let changes =
            ["a", "b"].map(|key| Change::Put(put(key, from, &to, Bytes::from_static(b"value")))).to_vec();
        let (send, told) = mpsc::channel();
        link.submit(Work::Batch(changes), Options::default(), move |result| send.send(result).unwrap());
        let mut early = None;
        while !served.was_cut() && early.is_none() {
            early = told.recv_timeout(Duration::from_millis(1)).ok();
        }
        let was_cut = served.was_cut();
        served.mend();
        if was_cut {
            cuts += 1;
            served.cut_now();
        }
        let done = early.unwrap_or_else(|| told.recv().unwrap()).unwrap();
        assert_eq!(done.response.status.code, StatusCode::Success, "cut at {at}");
        for key in ["a", "b"] {
            let stands = served.drive(|drive| drive.stands(key.as_bytes()).unwrap().0.version.clone());
            assert_eq!(stands, to, "cut at {at}");
        }
    }
    assert!(cuts > 100, "{cuts} cuts");
}

#[test]
fn another_writer_is_told_from_ones_own_write() {
    let served = Served::new("one");
    let link = link(&served);
    link.call(change("k", "", "1", Bytes::new())).unwrap();
    let stale = link.call(change("k", "", "2", Bytes::new())).unwrap();
    assert_eq!(stale.response.status.code, StatusCode::VersionMismatch);
    // The answer to a put is lost, and another writer is there before it is asked about.
    let other = Link::new("other", settings(vec![served.another_address().to_string()])).unwrap();
    other.open(Duration::from_secs(10)).unwrap();
    served.refuse(true);
    let (send, told) = mpsc::channel();
    let request = change("k", "1", "2", Bytes::new());
    link.submit(Work::Request(request), Options::default(), move |result| send.send(result).unwrap());
    served.refuse(false);
    assert_eq!(told.recv().unwrap().unwrap().response.status.code, StatusCode::Success);
}

#[test]
fn the_second_address_is_taken_and_the_drive_is_known_again() {
    let (served, stranger) = (Served::new("one"), Served::new("two"));
    let gone = "127.0.0.1:1".to_owned();
    let link = Link::new("test", settings(vec![gone, served.address.to_string()])).unwrap();
    link.call(change("k", "", "1", Bytes::new())).unwrap();
    // Another drive at one of its addresses is not asked: "not found" would be a lie.
    let addresses = vec![served.address.to_string(), stranger.address.to_string()];
    let link = Link::new("test", settings(addresses)).unwrap();
    link.call(get("k")).unwrap();
    served.refuse(true);
    let (send, told) = mpsc::channel();
    link.submit(Work::Request(get("k")), Options::default(), move |result| send.send(result).unwrap());
    assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "nobody else answers for it");
    served.refuse(false);
    assert_eq!(told.recv().unwrap().unwrap().response.status.code, StatusCode::Success);
    assert_eq!(stranger.frames(), 0);
}

#[test]
fn a_drive_that_hangs_is_given_up_and_asked_again() {
    let served = Served::new("one");
    let mut settings = settings(vec![served.address.to_string()]);
    settings.client.request_within = Duration::from_millis(100);
    settings.client.greeting_within = Duration::from_millis(100);
    let link = Link::new("test", settings).unwrap();
    link.open(Duration::from_secs(10)).unwrap();
    served.mute(true);
    let (send, told) = mpsc::channel();
    let request = change("k", "", "1", Bytes::from_static(b"v"));
    link.submit(Work::Request(request), Options::default(), move |result| send.send(result).unwrap());
    assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
    served.mute(false);
    assert_eq!(told.recv().unwrap().unwrap().response.status.code, StatusCode::Success);
    assert!(link.connection() > 1);
}

#[test]
fn a_drive_that_is_gone_fails_what_is_asked_and_says_what_is_known() {
    let served = Served::new("one");
    let mut settings = settings(vec![served.address.to_string()]);
    settings.down_patience = Duration::from_millis(200);
    settings.client.request_within = Duration::from_millis(100);
    let link = Link::new("test", settings).unwrap();
    link.call(change("k", "", "1", Bytes::new())).unwrap();
    served.mute(true);
    let (send, told) = mpsc::channel();
    let first = send.clone();
    let request = change("k", "1", "2", Bytes::new());
    link.submit(Work::Request(request), Options::default(), move |result| first.send(result).unwrap());
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "it is sent");
    served.refuse(true);
    // It was sent: nobody knows.
    assert!(matches!(told.recv().unwrap(), Err(CallError::Unknown(_))));
    // These were not.
    assert!(matches!(link.call(change("k", "2", "3", Bytes::new())), Err(CallError::Unreachable(_))));
    assert!(link.open(Duration::from_secs(10)).is_err());
    drop(send);
    served.mute(false);
    served.refuse(false);
    link.open(Duration::from_secs(10)).unwrap();
    assert_eq!(link.call(get("k")).unwrap().response.status.code, StatusCode::Success);
}

#[test]
fn a_wrong_key_is_told_and_not_tried_for_ever() {
    let served = Served::new("one");
    let mut wrong = settings(vec![served.address.to_string()]);
    wrong.client.key = kinetic::HmacKey::new(b"wrong");
    wrong.down_patience = Duration::from_millis(100);
    wrong.back_off_min = Duration::from_millis(20);
    let link = Link::new("test", wrong).unwrap();
    let error = link.call(get("k")).unwrap_err().to_string();
    assert!(error.contains("identity or its key"), "{error}");
    assert!(served.frames() < 12, "{}", served.frames());
}

#[test]
fn more_than_the_drive_takes_at_once_waits() {
    let few = Limits { reads: Some(2), writes: Some(1), batches: Some(1), ..Limits::stated() };
    let served = Served::with("one", few);
    let link = link(&served);
    let (send, told) = mpsc::channel();
    for number in 0..300 {
        let send = send.clone();
        let work = match number % 3 {
            0 => Work::Request(change(&number.to_string(), "", "1", Bytes::from(vec![1; 5000]))),
            1 => Work::Request(get("0")),
            _ => {
                let key = number.to_string();
                let delete = Delete {
                    key: Bytes::from(key.clone()),
                    db_version: Bytes::from_static(b"1"),
                    force: false,
                    synchronization: Synchronization::WriteBack,
                };
                let put = Change::Put(put(&key, "", "1", Bytes::from_static(b"x")));
                Work::Batch(vec![put, Change::Delete(delete)])
            }
        };
        link.submit(work, Options::default(), move |result| send.send(result).unwrap());
    }
    for _ in 0..300 {
        let code = told.recv().unwrap().unwrap().response.status.code;
        assert!(matches!(code, StatusCode::Success | StatusCode::NotFound), "{code:?}");
    }
    assert_eq!(served.drive(|drive| drive.count()), 100);
}

#[test]
fn a_stale_generation_is_refused() {
    let served = Served::new("one");
    let (old, new) = (link(&served), link(&served));
    old.call(change("k", "", "1", Bytes::new())).unwrap();
    new.call(Request::SetClusterVersion(ClusterVersion(7))).unwrap();
    new.set_cluster_version(ClusterVersion(7));
    new.call(get("k")).unwrap();
    let refused = old.call(change("k", "1", "2", Bytes::new())).unwrap();
    assert_eq!(refused.response.status.code, StatusCode::VersionFailure);
    served.cut_now();
    let refused = old.call(get("k")).unwrap();
    assert_eq!(refused.response.status.code, StatusCode::VersionFailure, "on its next connection too");
}
