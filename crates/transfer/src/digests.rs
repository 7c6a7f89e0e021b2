//! Digests of bodies, computed beside the data path. Which are asked for, and whether they agree, is a matter
//! of each protocol.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use crate::fault::Fault;
use crate::md5_lanes::{Lane, Md5Lanes};

/// Pieces that wait for the thread that computes digests.
const WAITING_MAX: usize = 2;

/// A checksum that a client can ask for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Of ISO/HDLC; 4 bytes, the most significant first, as with all CRCs here.
    Crc32,
    /// Of Castagnoli; 4 bytes.
    Crc32c,
    /// Of NVM Express; 8 bytes.
    Crc64nvme,
    /// 20 bytes.
    Sha1,
    /// 32 bytes.
    Sha256,
    /// 64 bytes.
    Sha512,
    /// 16 bytes.
    Md5,
}

/// All of them.
pub const KINDS: [Kind; 7] =
    [Kind::Crc32, Kind::Crc32c, Kind::Crc64nvme, Kind::Sha1, Kind::Sha256, Kind::Sha512, Kind::Md5];

impl Kind {
    /// Its name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Crc32 => "crc32",
            Kind::Crc32c => "crc32c",
            Kind::Crc64nvme => "crc64nvme",
            Kind::Sha1 => "sha1",
            Kind::Sha256 => "sha256",
            Kind::Sha512 => "sha512",
            Kind::Md5 => "md5",
        }
    }

    /// Of a name in whatever case.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Kind> {
        KINDS.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of a value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Kind::Crc32 | Kind::Crc32c => 4,
            Kind::Crc64nvme => 8,
            Kind::Sha1 => 20,
            Kind::Sha256 => 32,
            Kind::Sha512 => 64,
            Kind::Md5 => 16,
        }
    }
}

enum Sum {
    Crc(crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
    Md5(Md5),
}

impl Sum {
    fn new(kind: Kind) -> Sum {
        match kind {
            Kind::Crc32 => Sum::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            Kind::Crc32c => Sum::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Kind::Crc64nvme => Sum::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            Kind::Sha1 => Sum::Sha1(Sha1::new()),
            Kind::Sha256 => Sum::Sha256(Sha256::new()),
            Kind::Sha512 => Sum::Sha512(Sha512::new()),
            Kind::Md5 => Sum::Md5(Md5::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Sum::Crc(crc) => crc.update(bytes),
            Sum::Sha1(sha) => sha.update(bytes),
            Sum::Sha256(sha) => sha.update(bytes),
            Sum::Sha512(sha) => sha.update(bytes),
            Sum::Md5(md5) => md5.update(bytes),
        }
    }

    fn finish(self, kind: Kind) -> Vec<u8> {
        match self {
            Sum::Crc(crc) => {
                let value = crc.finalize().to_be_bytes();
                value[value.len() - kind.bytes()..].to_vec()
            }
            Sum::Sha1(sha) => sha.finalize().to_vec(),
            Sum::Sha256(sha) => sha.finalize().to_vec(),
            Sum::Sha512(sha) => sha.finalize().to_vec(),
            Sum::Md5(md5) => md5.finalize().to_vec(),
        }
    }
}

/// Computes digests of a stream.
pub struct Hasher {
    md5: Option<Md5>,
    sha256: Option<Sha256>,
    sums: Vec<(Kind, Sum)>,
}

/// What a [`Hasher`] computed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sums {
    /// The MD5, if it was asked for.
    pub md5: Option<[u8; 16]>,
    /// The SHA-256, if it was asked for.
    pub sha256: Option<[u8; 32]>,
    /// The other ones, in the order in which they were asked for.
    pub sums: Vec<(Kind, Vec<u8>)>,
}

/// The checksum of `bytes`.
#[must_use]
pub fn digest(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let mut sum = Sum::new(kind);
    sum.update(bytes);
    sum.finish(kind)
}

impl Hasher {
    /// Computes these: an MD5 (together with those of other bodies, where that pays), a SHA-256, and others.
    #[must_use]
    pub fn new(md5: bool, sha256: bool, kinds: impl IntoIterator<Item = Kind>) -> Hasher {
        Hasher {
            md5: md5.then(Md5::new),
            sha256: sha256.then(Sha256::new),
            sums: kinds.into_iter().map(|kind| (kind, Sum::new(kind))).collect(),
        }
    }

    /// Whether it costs next to nothing: a CRC at most.
    fn is_quick(&self) -> bool {
        let is_crc = self.sums.iter().all(|(_, sum)| matches!(sum, Sum::Crc(_)));
        self.md5.is_none() && self.sha256.is_none() && is_crc
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        for (_, sum) in &mut self.sums {
            sum.update(bytes);
        }
    }

    /// The digests of all bytes.
    #[must_use]
    pub fn finish(self) -> Sums {
        let finished = self.sums.into_iter().map(|(kind, sum)| (kind, sum.finish(kind)));
        Sums {
            md5: self.md5.map(|md5| md5.finalize().into()),
            sha256: self.sha256.map(|sha| sha.finalize().into()),
            sums: finished.collect(),
        }
    }
}

/// Computes digests beside the thread that stores.
pub struct Beside {
    /// The MD5, together with those of other bodies.
    md5: Option<Lane>,
    rest: Rest,
}

/// All digests but that of the lane.
enum Rest {
    /// Nothing, or what takes less time than to hand the bytes over.
    Here(Box<Hasher>),
    /// On a thread of its own.
    Running(SyncSender<Bytes>, JoinHandle<Sums>),
}

impl Beside {
    /// Begins; starts a thread if there is much to compute.
    ///
    /// # Errors
    /// [`Fault::NoThread`] if none can be had.
    pub fn start(mut hasher: Hasher, lanes: &Md5Lanes) -> Result<Beside, Fault> {
        let md5 = hasher.md5.as_ref().and_then(|_| lanes.begin());
        if md5.is_some() {
            hasher.md5 = None;
        }
        if hasher.is_quick() {
            return Ok(Beside { md5, rest: Rest::Here(Box::new(hasher)) });
        }
        let (sender, pieces) = sync_channel::<Bytes>(WAITING_MAX);
        let work = move || {
            pieces.iter().for_each(|bytes| hasher.update(&bytes));
            hasher.finish()
        };
        let thread = std::thread::Builder::new().name("digests".to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            tracing::error!(%error, "no thread can be had for digests");
            Fault::NoThread
        })?;
        Ok(Beside { md5, rest: Rest::Running(sender, thread) })
    }

    /// Takes the next bytes; waits if a thread lags behind.
    ///
    /// # Errors
    /// [`Fault::Lost`] if that thread panicked.
    pub fn update(&mut self, bytes: &Bytes) -> Result<(), Fault> {
        if let Some(md5) = &self.md5 {
            md5.update(bytes).map_err(|_| Fault::Lost)?;
        }
        match &mut self.rest {
            Rest::Here(hasher) => hasher.update(bytes),
            Rest::Running(sender, _) => sender.send(bytes.clone()).map_err(|_| Fault::Lost)?,
        }
        Ok(())
    }

    /// The digests of all bytes.
    ///
    /// # Errors
    /// [`Fault::Lost`] if their thread panicked.
    pub fn finish(self) -> Result<Sums, Fault> {
        let mut sums = match self.rest {
            Rest::Here(hasher) => hasher.finish(),
            Rest::Running(sender, thread) => {
                drop(sender);
                thread.join().map_err(|_| Fault::Lost)?
            }
        };
        if let Some(md5) = self.md5 {
            sums.md5 = Some(md5.finish().map_err(|_| Fault::Lost)?);
        }
        Ok(sums)
    }
}
