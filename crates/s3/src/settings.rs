//! How the S3 door is set.

use base::{ByteCount, Duration};

/// Everything an operator can set about S3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3Settings {
    /// The region in the scope of signatures; a signature for another one is refused.
    pub region: String,
    /// The domain below which the names of buckets stand (`BUCKET.DOMAIN`); `None`: buckets are in the path.
    pub domain: Option<String>,
    /// S3's names of storage classes and the classes that they stand for, in the order of preference when a
    /// class of ours has several. `STANDARD` need not be listed: it is what a put without a class gets.
    pub classes: Vec<(String, String)>,
    /// How long the day is that restores and lifecycle rules count in; shorter ones are for tests.
    pub day: Duration,
    /// Whether the ETag is the MD5 also of large objects whose client sent another checksum than MD5.
    pub always_md5: bool,
    /// All limits.
    pub limits: S3Limits,
}

impl Default for S3Settings {
    fn default() -> Self {
        S3Settings {
            region: "us-east-1".to_owned(),
            domain: None,
            classes: Vec::new(),
            day: Duration::from_secs(24 * 3600),
            always_md5: false,
            limits: S3Limits::default(),
        }
    }
}

/// Every bound that the S3 door sets to its clients and to itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3Limits {
    /// Calls of the engine at once, beside bodies of objects; each has a thread that may block.
    pub calls: usize,
    /// An object in one put; a larger one is `EntityTooLarge`.
    pub put_bytes: ByteCount,
    /// A body of XML.
    pub xml_bytes: usize,
    /// Path and query of a request.
    pub uri_bytes: usize,
    /// Fields of a query.
    pub query_fields: usize,
    /// All header fields together.
    pub header_bytes: usize,
    /// How far a request's time may be from ours, either way.
    pub clock_skew: Duration,
    /// The longest validity of a presigned address.
    pub presigned: Duration,
}

impl Default for S3Limits {
    fn default() -> Self {
        S3Limits {
            calls: 64,
            put_bytes: ByteCount(5 << 30),
            xml_bytes: 4 << 20,
            uri_bytes: 16 << 10,
            query_fields: 64,
            header_bytes: 64 << 10,
            clock_skew: Duration::from_secs(900),
            presigned: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl S3Limits {
    /// Threads for blocking calls that the runtime must have for S3 alone, beside those of transfers, so that
    /// admitted work never waits for a thread.
    #[must_use]
    pub fn blocking_threads(&self) -> usize {
        self.calls.max(1)
    }
}

impl S3Settings {
    /// The class that S3's name stands for. `None`: there is no such name; `Some(None)`: none in particular.
    #[must_use]
    pub fn class_of(&self, name: &str) -> Option<Option<&str>> {
        match self.classes.iter().find(|(s3, _)| s3 == name) {
            Some((_, class)) => Some(Some(class)),
            None if name == "STANDARD" => Some(None),
            None => None,
        }
    }

    /// S3's names of all classes.
    #[must_use]
    pub fn class_names(&self) -> Vec<&str> {
        let named = self.classes.iter().map(|(s3, _)| s3.as_str()).filter(|name| *name != "STANDARD");
        ["STANDARD"].into_iter().chain(named).collect()
    }

    /// S3's name of a class: `STANDARD`, if it has none.
    #[must_use]
    pub fn name_of(&self, class: &str) -> &str {
        self.classes.iter().find(|(_, ours)| ours == class).map_or("STANDARD", |(s3, _)| s3)
    }
}
