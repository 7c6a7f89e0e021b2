//! The codec: checks what it is given, then multiplies.

use crate::decode::encode_rows;
use crate::matrices::{self, Pattern, Set, insert};
use crate::product::{Order, Product};
use crate::{CodecError, Kernel};

/// The largest number of shards, data and parity together, that one stripe can have.
pub const MAX_SHARDS: usize = 255;

/// Codes of so many shards or fewer are handled with less room to clear.
const FEW_SHARDS: usize = 48;

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

    pub(crate) fn encoder(&self) -> &Product {
        &self.encoder
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
        self.check_encode(data, parity)?;
        self.encoder.apply(data, parity, Order::plain(self.data_shards, self.parity_shards), &mut |_| ());
        Ok(())
    }

    pub(crate) fn check_encode(&self, data: &[&[u8]], parity: &[&mut [u8]]) -> Result<(), CodecError> {
        if data.len() != self.data_shards {
            return Err(CodecError::DataShardCount { expected: self.data_shards, given: data.len() });
        }
        if parity.len() != self.parity_shards {
            return Err(CodecError::ParityShardCount { expected: self.parity_shards, given: parity.len() });
        }
        let lengths = data.iter().map(|shard| shard.len()).chain(parity.iter().map(|shard| shard.len()));
        check_lengths(lengths.enumerate())
    }

    /// Computes the wanted shards, data or parity, and no others, from any `k` or more present ones.
    ///
    /// Both lists pair a shard's index with its bytes, in any order, and no index occurs twice. All slices
    /// have one length. When more than `k` shards are present, the `k` with the lowest indexes are read. The
    /// present shards are trusted: verify their checksums first. On an error nothing has been written.
    /// Each thread remembers the matrices of its recent patterns.
    pub fn reconstruct(
        &self,
        present: &[(usize, &[u8])],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<(), CodecError> {
        let (chosen, at_hand) = self.check_reconstruct(present, wanted)?;
        if wanted.is_empty() {
            return Ok(());
        }
        // Clearing room for 255 shards takes as long as the smallest stripes themselves.
        if self.data_shards + self.parity_shards <= FEW_SHARDS {
            self.reconstruct_in::<FEW_SHARDS>(present, wanted, chosen, &at_hand);
        } else {
            self.reconstruct_in::<MAX_SHARDS>(present, wanted, chosen, &at_hand);
        }
        Ok(())
    }

    /// Reconstructs what has been checked, with room for `N` shards.
    fn reconstruct_in<const N: usize>(
        &self,
        present: &[(usize, &[u8])],
        wanted: &mut [(usize, &mut [u8])],
        chosen: Set,
        at_hand: &[Option<u8>; MAX_SHARDS],
    ) {
        let mut sources: [&[u8]; N] = [&[]; N];
        let mut next = sources.iter_mut();
        let mut wanted_set = Set::default();
        for place in at_hand.iter().filter_map(|place| *place).take(self.data_shards) {
            if let Some(source) = next.next() {
                *source = present[usize::from(place)].1;
            }
        }
        for (shard, _) in wanted.iter() {
            insert(&mut wanted_set, *shard);
        }
        let (kernel, data_shards, rows) = (self.kernel, self.data_shards, wanted.len());
        let product = matrices::product(Pattern { kernel, data_shards, chosen, wanted: wanted_set });
        // The matrix has its rows in ascending order of the shards, whatever the order of the request.
        let mut outputs: [&mut [u8]; N] = std::array::from_fn(|_| Default::default());
        for (shard, bytes) in wanted.iter_mut() {
            outputs[matrices::rank(&wanted_set, *shard)] = bytes;
        }
        let order = Order::plain(data_shards, rows);
        product.apply(&sources[..data_shards], &mut outputs[..rows], order, &mut |_| ());
    }

    /// Checks a request to reconstruct, and says which `k` shards it reads, as a set, and where each shard
    /// stands in `present`.
    fn check_reconstruct(
        &self,
        present: &[(usize, &[u8])],
        wanted: &[(usize, &mut [u8])],
    ) -> Result<(Set, [Option<u8>; MAX_SHARDS]), CodecError> {
        let count = self.data_shards + self.parity_shards;
        let at_hand = self.mark(present.iter().map(|&(shard, _)| shard))?;
        let asked_for = self.mark(wanted.iter().map(|&(shard, _)| shard))?;
        if let Some(shard) = (0..count).find(|&shard| at_hand[shard].is_some() && asked_for[shard].is_some())
        {
            return Err(CodecError::WantedIsPresent { shard });
        }
        if present.len() < self.data_shards {
            return Err(CodecError::TooFewPresent { present: present.len(), needed: self.data_shards });
        }
        let present_lengths = present.iter().map(|(shard, bytes)| (*shard, bytes.len()));
        check_lengths(present_lengths.chain(wanted.iter().map(|(shard, bytes)| (*shard, bytes.len()))))?;
        let mut chosen = Set::default();
        (0..count).filter(|&shard| at_hand[shard].is_some()).take(self.data_shards).for_each(|shard| {
            insert(&mut chosen, shard);
        });
        Ok((chosen, at_hand))
    }

    /// Where each shard stands among the indexes passed, each of which must exist and occur once.
    fn mark(&self, shards: impl Iterator<Item = usize>) -> Result<[Option<u8>; MAX_SHARDS], CodecError> {
        let count = self.data_shards + self.parity_shards;
        let mut seen = [None; MAX_SHARDS];
        for (place, shard) in shards.enumerate() {
            if shard >= count {
                return Err(CodecError::UnknownShard { shard, shards: count });
            }
            // No more than 255 distinct shards exist, so a place that does not fit is that of a repeated one.
            let place = u8::try_from(place).map_err(|_| CodecError::RepeatedShard { shard })?;
            if seen[shard].replace(place).is_some() {
                return Err(CodecError::RepeatedShard { shard });
            }
        }
        Ok(seen)
    }
}

/// Refuses the first shard, given with its index, that is not as long as the first of all.
pub(crate) fn check_lengths(shards: impl Iterator<Item = (usize, usize)>) -> Result<(), CodecError> {
    let mut shards = shards.peekable();
    let Some(&(_, expected)) = shards.peek() else { return Ok(()) };
    match shards.find(|&(_, given)| given != expected) {
        Some((shard, given)) => Err(CodecError::LengthsDiffer { shard, expected, given }),
        None => Ok(()),
    }
}
