//! Real drives.

use std::time::Duration;

use bytes::Bytes;
use kinetic::client::{ClientSettings, Options};
use kinetic::{Answer, Identity, KeyRange, Request, StatusCode, Which};
use kinetic_client::{Answered, CallError, Link, LinkSettings, Work};
use kineticio::{ClusterDefinition, DriveIndex, Entry, Found};

use crate::drives::{Drives, Query};

/// The drives of a cluster over the network.
pub struct LinkedDrives {
    links: Vec<Link>,
}

impl LinkedDrives {
    /// Ways to all drives of a cluster, without TLS as libkineticio has it. They are looked for from now on.
    ///
    /// # Errors
    /// If the system has no threads for them.
    pub fn new(cluster: &ClusterDefinition) -> std::io::Result<Self> {
        let link = |drive: &kineticio::DriveLogin| {
            let mut client = ClientSettings::new(Identity(drive.identity), drive.key.as_bytes());
            if !cluster.timeout.is_zero() {
                client.request_within = cluster.timeout;
            }
            Link::new(&drive.wwn, LinkSettings::new(drive.addresses.clone(), client))
        };
        Ok(LinkedDrives { links: cluster.drives.iter().map(link).collect::<Result<_, _>>()? })
    }

    /// Waits until each drive has greeted or cannot be reached, and says of each that cannot why.
    #[must_use]
    pub fn open(&self, within: Duration) -> Vec<(DriveIndex, String)> {
        let opened = |(place, link): (usize, &Link)| {
            let failed = match link.open(within) {
                Ok(greeting) if greeting.status.is_success() => return None,
                Ok(greeting) => format!("{:?}: {}", greeting.status.code, greeting.status.text),
                Err(error) => error.to_string(),
            };
            Some((DriveIndex(place), failed))
        };
        threads::scope(|scope| {
            let all: Vec<_> =
                self.links.iter().enumerate().map(|each| scope.spawn(move || opened(each))).collect();
            all.into_iter().filter_map(|one| one.join().ok().flatten()).collect()
        })
    }

    fn request(&self, query: &Query) -> Request {
        match query {
            Query::Get(_, key, with_value) => {
                Request::Get { which: Which::Exact, key: key.clone(), metadata_only: !with_value }
            }
            Query::Keys(drive, range) => {
                let greeting = self.links.get(drive.0).and_then(Link::greeting);
                let most = greeting.map_or(range.max_returned, |greeting| greeting.bounds().range_keys);
                let max_returned = range.max_returned.min(most);
                Request::GetKeyRange(KeyRange { max_returned, ..range.clone() })
            }
        }
    }
}

fn found(result: Result<Answered, CallError>) -> Found {
    let response = match result {
        Ok(answered) => answered.response,
        Err(error) => return Found::Failed(error.to_string()),
    };
    match (response.status.code, response.answer) {
        (StatusCode::NotFound, _) => Found::Nothing,
        (StatusCode::Success, Answer::Entry(entry)) => Found::Entry(Entry {
            version: entry.metadata.version,
            tag: entry.metadata.tag,
            value: entry.value,
        }),
        (StatusCode::Success, Answer::Keys(keys)) => Found::Keys(keys),
        (StatusCode::Success, _) => Found::Failed("it answers without an entry".to_owned()),
        (code, _) => Found::Failed(format!("{code:?} {}", response.status.text).trim_end().to_owned()),
    }
}

impl Drives for LinkedDrives {
    fn count(&self) -> usize {
        self.links.len()
    }

    fn get(&self, drive: DriveIndex, key: &Bytes, with_value: bool) -> Found {
        self.ask(&[Query::Get(drive, key.clone(), with_value)]).pop().unwrap_or(Found::Nothing)
    }

    fn key_range(&self, drive: DriveIndex, range: &KeyRange) -> Found {
        self.ask(&[Query::Keys(drive, range.clone())]).pop().unwrap_or(Found::Nothing)
    }

    fn ask(&self, queries: &[Query]) -> Vec<Found> {
        let (send, receive) = threads::mpsc::sync_channel(queries.len().max(1));
        let closed = || Found::Failed("the connection was closed from this side".to_owned());
        let mut answers: Vec<Found> = queries.iter().map(|_| closed()).collect();
        for (place, query) in queries.iter().enumerate() {
            let (Query::Get(drive, ..) | Query::Keys(drive, _)) = query;
            let send = send.clone();
            if let Some(link) = self.links.get(drive.0) {
                link.submit(Work::Request(self.request(query)), Options::default(), move |result| {
                    let _ = send.send((place, found(result)));
                });
            }
        }
        drop(send);
        while let Ok((place, found)) = receive.recv() {
            if let Some(answer) = answers.get_mut(place) {
                *answer = found;
            }
        }
        answers
    }
}
