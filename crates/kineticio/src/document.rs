//! The three documents of libkineticio: where drives are, who may use them, which of them make a cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::shape::{Shape, ShapeError};

/// Addresses of a drive that are used: it has two ports.
const ADDRESSES_MAX: usize = 2;

/// A document that was given.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// What errors call it: its option and file.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// What is wrong with a document, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{document}, line {line}: {key}: {problem}")]
pub struct DocumentError {
    /// The name of the document.
    pub document: String,
    /// The key in it; empty for the document as a whole.
    pub key: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what should stand there.
    pub problem: String,
}

/// How a drive is reached and used.
#[derive(Clone, PartialEq, Eq)]
pub struct DriveLogin {
    /// Its name in the world.
    pub wwn: String,
    /// `host:port`, without repetition.
    pub addresses: Vec<String>,
    /// `userId`.
    pub identity: i64,
    /// The key of the identity.
    pub key: String,
}

impl fmt::Debug for DriveLogin {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DriveLogin { wwn, addresses, identity, key: _ } = self;
        write!(f, "{wwn} at {addresses:?} as {identity}")
    }
}

/// A cluster as it is defined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterDefinition {
    /// `clusterID`.
    pub id: String,
    /// How it codes.
    pub shape: Shape,
    /// How long an operation may take.
    pub timeout: Duration,
    /// How long to wait between attempts to connect.
    pub reconnect_interval: Duration,
    /// Its drives in their order.
    pub drives: Vec<DriveLogin>,
}

#[derive(Deserialize)]
struct Location {
    wwn: String,
    inet4: Vec<String>,
    port: u16,
}

#[derive(Deserialize)]
struct Security {
    wwn: String,
    #[serde(rename = "userId")]
    user_id: i64,
    key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cluster {
    #[serde(rename = "clusterID")]
    cluster_id: String,
    num_data: usize,
    num_parity: usize,
    #[serde(rename = "chunkSizeKB")]
    chunk_size_kb: u32,
    timeout: u64,
    min_reconnect_interval: u64,
    drives: Vec<Drive>,
}

#[derive(Deserialize)]
struct Drive {
    wwn: String,
}

/// An element of a document's list, and where in the document it stands.
struct Element<'a> {
    document: Document<'a>,
    list: &'static str,
    text: &'a str,
    line: usize,
}

impl<'a> Element<'a> {
    fn parse<T: Deserialize<'a>>(&self) -> Result<T, DocumentError> {
        serde_json::from_str(self.text).map_err(|error| DocumentError {
            document: self.document.name.to_owned(),
            key: self.list.to_owned(),
            line: self.line + error.line().saturating_sub(1),
            problem: said(&error),
        })
    }

    /// An error about a key, on the line on which that, or this value of it, first stands in the element.
    fn error(&self, key: &str, value: Option<&str>, problem: String) -> DocumentError {
        let place = value.and_then(|value| self.text.find(&format!("\"{value}\"")));
        let place = place.or_else(|| self.text.find(&format!("\"{key}\""))).unwrap_or_default();
        let line = self.line + lines(self.text.get(..place).unwrap_or_default());
        let (document, key) = (self.document.name.to_owned(), format!("{}.{key}", self.list));
        DocumentError { document, key, line, problem }
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// The error without the place, which is counted in the document.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

/// The elements of a list of a document. Keys beside it are of no matter: one file may be all three, and
/// comments (`*_comment`) stand among them.
fn elements<'a>(document: Document<'a>, list: &'static str) -> Result<Vec<Element<'a>>, DocumentError> {
    let error = |key: &str, line, problem| DocumentError {
        document: document.name.to_owned(),
        key: key.to_owned(),
        line,
        problem,
    };
    let all: BTreeMap<String, &RawValue> = serde_json::from_str(document.text)
        .map_err(|wrong| error(list, wrong.line().max(1), format!("it is not read: {}", said(&wrong))))?;
    let missing = || error(list, 1, format!("it is missing: the document has a list \"{list}\""));
    let raw = all.get(list).ok_or_else(missing)?.get();
    // A raw value is a slice of the document, so that its place in it says its line.
    let line_of = |part: &str| {
        let place = (part.as_ptr() as usize).saturating_sub(document.text.as_ptr() as usize);
        1 + lines(document.text.get(..place).unwrap_or_default())
    };
    let parts: Vec<&RawValue> = serde_json::from_str(raw).map_err(|wrong| {
        error(list, line_of(raw) + wrong.line().saturating_sub(1), format!("it is a list: {}", said(&wrong)))
    })?;
    let element = |part: &&'a RawValue| {
        let text = part.get();
        Element { document, list, text, line: line_of(text) }
    };
    Ok(parts.iter().map(element).collect())
}

/// Reads the clusters that the documents define. They may all be the same.
///
/// # Errors
/// The first thing that is wrong, with document, key and line.
pub fn read_documents(
    location: Document<'_>,
    security: Document<'_>,
    cluster: Document<'_>,
) -> Result<Vec<ClusterDefinition>, DocumentError> {
    let locations = read_locations(location)?;
    let logins = read_security(security, &locations)?;
    let mut clusters: Vec<ClusterDefinition> = Vec::new();
    for element in elements(cluster, "cluster")? {
        let definition = read_cluster(&element, &locations, &logins, security.name)?;
        if clusters.iter().any(|known| known.id == definition.id) {
            return Err(element.error("clusterID", None, format!("\"{}\" is there twice", definition.id)));
        }
        clusters.push(definition);
    }
    Ok(clusters)
}

fn read_locations(document: Document<'_>) -> Result<BTreeMap<String, Vec<String>>, DocumentError> {
    let mut locations = BTreeMap::new();
    for element in elements(document, "location")? {
        let Location { wwn, inet4, port } = element.parse()?;
        let mut addresses: Vec<String> = Vec::new();
        for host in inet4.iter().take(ADDRESSES_MAX) {
            if host.is_empty() {
                return Err(element.error("inet4", None, "an address of it is empty".to_owned()));
            }
            let address =
                if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(element.error("inet4", None, "it has no address".to_owned()));
        }
        if port == 0 {
            return Err(element.error("port", None, "it is 1 to 65535".to_owned()));
        }
        if locations.contains_key(&wwn) {
            return Err(element.error("wwn", None, format!("\"{wwn}\" is there twice")));
        }
        locations.insert(wwn, addresses);
    }
    Ok(locations)
}

type Logins = BTreeMap<String, (i64, String)>;

fn read_security(
    document: Document<'_>,
    locations: &BTreeMap<String, Vec<String>>,
) -> Result<Logins, DocumentError> {
    let mut logins = Logins::new();
    for element in elements(document, "security")? {
        let Security { wwn, user_id, key } = element.parse()?;
        if !locations.contains_key(&wwn) {
            return Err(element.error("wwn", None, format!("no location has the drive \"{wwn}\"")));
        }
        if logins.contains_key(&wwn) {
            return Err(element.error("wwn", None, format!("\"{wwn}\" is there twice")));
        }
        logins.insert(wwn, (user_id, key));
    }
    Ok(logins)
}

fn read_cluster(
    element: &Element<'_>,
    locations: &BTreeMap<String, Vec<String>>,
    logins: &Logins,
    security: &str,
) -> Result<ClusterDefinition, DocumentError> {
    let cluster: Cluster = element.parse()?;
    let id = cluster.cluster_id;
    if id.is_empty() || id.contains([':', '/']) {
        return Err(element.error("clusterID", None, format!("\"{id}\" is empty, or has ':' or '/' in it")));
    }
    let (data, parity) = (cluster.num_data, cluster.num_parity);
    let shape = Shape::new(data, parity, cluster.chunk_size_kb, cluster.drives.len()).map_err(|wrong| {
        let key = match wrong {
            ShapeError::NoData | ShapeError::TooManyChunks => "numData",
            ShapeError::TooFewDrives { .. } => "drives",
            ShapeError::ChunkSize => "chunkSizeKB",
        };
        element.error(key, None, wrong.to_string())
    })?;
    let mut drives: Vec<DriveLogin> = Vec::new();
    for Drive { wwn } in cluster.drives {
        let Some(addresses) = locations.get(&wwn).cloned() else {
            return Err(element.error("wwn", Some(&wwn), format!("no location has the drive \"{wwn}\"")));
        };
        let Some((identity, key)) = logins.get(&wwn).cloned() else {
            let problem = format!("{security} says nothing of the drive \"{wwn}\"");
            return Err(element.error("wwn", Some(&wwn), problem));
        };
        if drives.iter().any(|drive| drive.wwn == wwn) {
            return Err(element.error("wwn", Some(&wwn), format!("\"{wwn}\" is there twice")));
        }
        drives.push(DriveLogin { wwn, addresses, identity, key });
    }
    let timeout = Duration::from_secs(cluster.timeout);
    let reconnect_interval = Duration::from_secs(cluster.min_reconnect_interval);
    Ok(ClusterDefinition { id, shape, timeout, reconnect_interval, drives })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = r#"{
  "location_comment": "where they are",
  "location": [
    {"wwn": "W1", "inet4": ["10.0.0.1", "10.1.0.1"], "port": 8123, "port_comment": 1},
    {"wwn": "W2", "inet4": ["10.0.0.2", "10.0.0.2"], "port": 8124}
  ],
  "security": [
    {"wwn": "W1", "userId": 1, "key": "asdfasdf"},
    {"wwn": "W2", "userId": 2, "key": "hidden"}
  ],
  "cluster": [
    {"clusterID": "C", "numData": 1,
     "numParity": 1,
     "chunkSizeKB": 1024,
     "timeout": 30, "minReconnectInterval": 15,
     "drives": [{"wwn": "W2"},
                {"wwn": "W1"}]}
  ],
  "configuration": {"cacheCapacityMB": 2048}
}"#;

    fn read(text: &str) -> Result<Vec<ClusterDefinition>, DocumentError> {
        let document = |name| Document { name, text };
        read_documents(document("--location"), document("--security"), document("--cluster"))
    }

    #[test]
    fn one_file_may_be_all_three() {
        let clusters = read(ALL).unwrap();
        let [cluster] = clusters.as_slice() else { panic!("one") };
        assert_eq!((cluster.id.as_str(), cluster.shape.block_bytes()), ("C", 1 << 20));
        assert_eq!((cluster.timeout.as_secs(), cluster.reconnect_interval.as_secs()), (30, 15));
        let [one, two] = cluster.drives.as_slice() else { panic!("two") };
        assert_eq!((one.addresses.as_slice(), one.identity), (&["10.0.0.2:8124".to_owned()][..], 2));
        assert_eq!(two.addresses, ["10.0.0.1:8123", "10.1.0.1:8123"]);
        assert!(!format!("{cluster:?}").contains("hidden"));
    }

    #[test]
    fn errors_name_document_key_and_line() {
        for (from, to, document, key, line) in [
            ("\"port\": 8124", "\"port\": 0", "--location", "location.port", 5),
            ("\"port\": 8124", "\"port\": 81240", "--location", "location", 5),
            ("[\"10.0.0.2\", \"10.0.0.2\"]", "[]", "--location", "location.inet4", 5),
            ("{\"wwn\": \"W2\", \"inet4\"", "{\"wwn\": \"W1\", \"inet4\"", "--location", "location.wwn", 5),
            ("{\"wwn\": \"W2\", \"userId\"", "{\"wwn\": \"W3\", \"userId\"", "--security", "security.wwn", 9),
            ("\"userId\": 2, ", "", "--security", "security", 9),
            ("\"security\": [", "\"secrets\": [", "--security", "security", 1),
            ("\"chunkSizeKB\": 1024", "\"chunkSizeKB\": 1025", "--cluster", "cluster.chunkSizeKB", 14),
            ("\"numParity\": 1", "\"numParity\": 2", "--cluster", "cluster.drives", 16),
            ("\"numParity\": 1", "\"numParity\": -1", "--cluster", "cluster", 13),
            ("{\"wwn\": \"W1\"}]", "{\"wwn\": \"W9\"}]", "--cluster", "cluster.wwn", 17),
            ("\"C\"", "\"C:D\"", "--cluster", "cluster.clusterID", 12),
            ("\"configuration\": {", "\"configuration\": [", "--location", "location", 19),
        ] {
            assert!(ALL.contains(from), "{from}");
            let error = read(&ALL.replacen(from, to, 1)).unwrap_err();
            let said = (error.document.as_str(), error.key.as_str(), error.line);
            assert_eq!(said, (document, key, line), "{error}");
        }
    }
}
