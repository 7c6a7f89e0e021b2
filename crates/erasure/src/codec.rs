//! The codec: checks what it is given, then multiplies.

use crate::decode::{decode_rows, encode_rows};
use crate::product::{Product, Traversal};
use crate::{CodecError, Kernel};

/// The largest number of shards, data and parity together, that one stripe can have.
pub const MAX_SHARDS: usize = 255;

/// A systematic Reed-Solomon code of `k` data and `m` parity shards, any `k` of which give back all others.
///
/// Shards are numbered from 0: data first, parity from `k`. Parity shard `i` is the sum over all data shards
/// `j` of `inv(i XOR j)` times the shard, in GF(2^8) modulo 0x11D: byte for byte what ISA-L computes with
/// `gf_gen_cauchy1_matrix`, whatever the kernel. A codec is immutable and may be shared between threads.
#[derive(Debug, Clone)]
pub struct Codec {
    data_shards: usize,
    parity_shards: usize,
    kernel: Kernel,
    encoder: Product,
}

impl Codec {
    /// Makes a codec with the fastest kernel of this processor.
    ///
    /// `k` is at least 1, `m` may be 0, and `k + m` is at most [`MAX_SHARDS`]; anything else is
    /// [`CodecError::UnsupportedShape`].
    pub fn new(k: usize, m: usize) -> Result<Codec, CodecError> {
        Codec::with_kernel(k, m, Kernel::best())
    }

    /// Makes a codec with a given kernel, as [`Codec::new`] does with the fastest one.
    ///
    /// A kernel that this processor cannot run is [`CodecError::KernelUnavailable`].
    pub fn with_kernel(k: usize, m: usize, kernel: Kernel) -> Result<Codec, CodecError> {
        if k == 0 || k.saturating_add(m) > MAX_SHARDS {
            return Err(CodecError::UnsupportedShape { data_shards: k, parity_shards: m });
        }
        if !kernel.is_available() {
            return Err(CodecError::KernelUnavailable { kernel });
        }
        let encoder = Product::new(kernel, k, &encode_rows(k, m));
        Ok(Codec { data_shards: k, parity_shards: m, kernel, encoder })
    }

    /// The number of data shards, `k`.
    pub fn data_shards(&self) -> usize {
        self.data_shards
    }

    /// The number of parity shards, `m`.
    pub fn parity_shards(&self) -> usize {
        self.parity_shards
    }

    fn order(&self, _length: usize) -> Traversal {
        let get = |name: &str, d: usize| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
        Traversal { tile: get("T", 1 << 30), columns: get("C", 255), ahead: get("A", 0), stream: get("S", 0) > 0 }
    }

    #[doc(hidden)]
    pub fn encode_ordered(&self, data: &[&[u8]], parity: &mut [&mut [u8]], order: Traversal) {
        self.encoder.apply(data, parity, order, &mut |_| ());
    }

    /// The kernel this codec runs on.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Computes all parity shards from all data shards.
    ///
    /// `data` holds `k` slices and `parity` holds `m`, all of one length in bytes, of any alignment; length 0
    /// is allowed. The former content of `parity` is overwritten. On an error nothing has been written.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), CodecError> {
        if data.len() != self.data_shards {
            return Err(CodecError::DataShardCount { expected: self.data_shards, given: data.len() });
        }
        if parity.len() != self.parity_shards {
            return Err(CodecError::ParityShardCount { expected: self.parity_shards, given: parity.len() });
        }
        let lengths = data.iter().map(|shard| shard.len()).chain(parity.iter().map(|shard| shard.len()));
        check_lengths(lengths.enumerate())?;
        let length = data.first().map_or(0, |shard| shard.len());
        self.encoder.apply(data, parity, self.order(length), &mut |_| ());
        Ok(())
    }

    /// Computes the wanted shards, data or parity, and no others, from any `k` or more present ones.
    ///
    /// Both lists pair a shard's index with its bytes, in any order, and no index occurs twice. All slices
    /// have one length. When more than `k` shards are present, the `k` with the lowest indexes are read. The
    /// present shards are trusted: verify their checksums first. On an error nothing has been written.
    pub fn reconstruct(
        &self,
        present: &[(usize, &[u8])],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<(), CodecError> {
        let sources = self.choose(present, wanted)?;
        let (chosen, sources): (Vec<usize>, Vec<&[u8]>) = sources.into_iter().unzip();
        let (lost, mut outputs): (Vec<usize>, Vec<&mut [u8]>) =
            wanted.iter_mut().map(|(shard, bytes)| (*shard, &mut **bytes)).unzip();
        let length = sources.first().map_or(0, |shard| shard.len());
        let rows = decode_rows(self.data_shards, &chosen, &lost);
        Product::new(self.kernel, self.data_shards, &rows).apply(
            &sources,
            &mut outputs,
            self.order(length),
            &mut |_| (),
        );
        Ok(())
    }

    /// Checks a request to reconstruct and picks its `k` sources, ascending, so that data comes before
    /// parity.
    fn choose<'a>(
        &self,
        present: &[(usize, &'a [u8])],
        wanted: &[(usize, &mut [u8])],
    ) -> Result<Vec<(usize, &'a [u8])>, CodecError> {
        let at_hand = self.mark(present.iter().map(|&(shard, _)| shard))?;
        let asked_for = self.mark(wanted.iter().map(|&(shard, _)| shard))?;
        if let Some(shard) = (0..MAX_SHARDS).find(|&shard| at_hand[shard] && asked_for[shard]) {
            return Err(CodecError::WantedIsPresent { shard });
        }
        if present.len() < self.data_shards {
            return Err(CodecError::TooFewPresent { present: present.len(), needed: self.data_shards });
        }
        let present_lengths = present.iter().map(|(shard, bytes)| (*shard, bytes.len()));
        check_lengths(present_lengths.chain(wanted.iter().map(|(shard, bytes)| (*shard, bytes.len()))))?;

        let mut sources = present.to_vec();
        sources.sort_unstable_by_key(|&(shard, _)| shard);
        sources.truncate(self.data_shards);
        Ok(sources)
    }

    /// The set of the indexes passed, each of which must exist and occur once.
    fn mark(&self, shards: impl Iterator<Item = usize>) -> Result<[bool; MAX_SHARDS], CodecError> {
        let count = self.data_shards + self.parity_shards;
        let mut seen = [false; MAX_SHARDS];
        for shard in shards {
            if shard >= count {
                return Err(CodecError::UnknownShard { shard, shards: count });
            }
            if std::mem::replace(&mut seen[shard], true) {
                return Err(CodecError::RepeatedShard { shard });
            }
        }
        Ok(seen)
    }
}

/// Refuses the first shard, given with its index, that is not as long as the first of all.
fn check_lengths(shards: impl Iterator<Item = (usize, usize)>) -> Result<(), CodecError> {
    let mut shards = shards.peekable();
    let Some(&(_, expected)) = shards.peek() else { return Ok(()) };
    match shards.find(|&(_, given)| given != expected) {
        Some((shard, given)) => Err(CodecError::LengthsDiffer { shard, expected, given }),
        None => Ok(()),
    }
}
