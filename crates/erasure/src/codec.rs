//! The codec: checks what it is given, then multiplies.

use crate::decode::encode_rows;
use crate::matrices::{self, Pattern, Set, contains, insert, lowest, members, rank};
use crate::product::{Order, Product};
use crate::{CodecError, Kernel};
use std::rc::Rc;

/// The largest number of shards, data and parity together, that one stripe can have.
pub const MAX_SHARDS: usize = base::StripeCode::SHARDS_MAX;

/// So many shards or fewer are handled with less room to clear.
const FEW_SHARDS: usize = 16;
const FEW_WANTED: usize = 4;
const MORE_SHARDS: usize = 48;

/// What a reconstruction reads, which are `k` shards, and what it computes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) chosen: Set,
    pub(crate) wanted: Set,
    /// Whether the present shards came in the order of their indexes.
    pub(crate) ascending: bool,
}

/// A list of shards that has been gone through.
struct Marked {
    shards: Set,
    ascending: bool,
    /// The first shard whose length was not the expected one, and its length.
    unequal: Option<(usize, usize)>,
}

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
        self.encoder.encode(data, parity)
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
        let plan = self.plan(
            present.iter().map(|&(shard, bytes)| (shard, bytes.len())),
            wanted.iter().map(|(shard, bytes)| (*shard, bytes.len())),
        )?;
        if wanted.is_empty() {
            return Ok(());
        }
        // Clearing room for 255 shards takes as long as the smallest stripes themselves.
        let (columns, rows) = (self.data_shards, wanted.len());
        if columns <= FEW_SHARDS && rows <= FEW_WANTED {
            self.reconstruct_in::<FEW_SHARDS, FEW_WANTED>(present, wanted, &plan);
        } else if columns <= MORE_SHARDS && rows <= FEW_WANTED {
            self.reconstruct_in::<MORE_SHARDS, FEW_WANTED>(present, wanted, &plan);
        } else {
            self.reconstruct_in::<MAX_SHARDS, MAX_SHARDS>(present, wanted, &plan);
        }
        Ok(())
    }

    /// Reconstructs what has been checked, with room for `K` sources and `W` outputs.
    fn reconstruct_in<const K: usize, const W: usize>(
        &self,
        present: &[(usize, &[u8])],
        wanted: &mut [(usize, &mut [u8])],
        plan: &Plan,
    ) {
        let mut sources: [&[u8]; K] = [&[]; K];
        let read = present.iter().filter(|(shard, _)| contains(&plan.chosen, *shard));
        if plan.ascending {
            sources.iter_mut().zip(read).for_each(|(place, (_, bytes))| *place = bytes);
        } else {
            read.for_each(|(shard, bytes)| sources[rank(&plan.chosen, *shard)] = bytes);
        }
        // The matrix has its rows in ascending order of the shards, whatever the order of the request.
        let mut outputs: [&mut [u8]; W] = std::array::from_fn(|_| Default::default());
        let rows = wanted.len();
        for (shard, bytes) in wanted.iter_mut() {
            outputs[rank(&plan.wanted, *shard)] = bytes;
        }
        let (sources, outputs) = (&sources[..self.data_shards], &mut outputs[..rows]);
        self.product(plan).apply(sources, outputs, Order::plain(self.data_shards, rows), &mut |_| ());
    }

    /// The matrix of a plan: wanted from chosen shards, both in ascending order.
    pub(crate) fn product(&self, plan: &Plan) -> Rc<Product> {
        let (kernel, data_shards, Plan { chosen, wanted, .. }) = (self.kernel, self.data_shards, *plan);
        matrices::product(Pattern { kernel, data_shards, chosen, wanted })
    }

    /// Checks a request to reconstruct, of which it sees the shards' indexes and lengths.
    pub(crate) fn plan(
        &self,
        present: impl ExactSizeIterator<Item = (usize, usize)> + Clone,
        wanted: impl ExactSizeIterator<Item = (usize, usize)>,
    ) -> Result<Plan, CodecError> {
        let count = present.len();
        let expected = present.clone().next().map_or(0, |(_, length)| length);
        let at_hand = self.mark(present, expected)?;
        let asked_for = self.mark(wanted, expected)?;
        let both: Set = std::array::from_fn(|word| at_hand.shards[word] & asked_for.shards[word]);
        if both != Set::default() {
            return Err(CodecError::WantedIsPresent { shard: members(&both)[0] });
        }
        if count < self.data_shards {
            return Err(CodecError::TooFewPresent { present: count, needed: self.data_shards });
        }
        if let Some((shard, given)) = at_hand.unequal.or(asked_for.unequal) {
            return Err(CodecError::LengthsDiffer { shard, expected, given });
        }
        let chosen = lowest(at_hand.shards, count, self.data_shards);
        Ok(Plan { chosen, wanted: asked_for.shards, ascending: at_hand.ascending })
    }

    /// Goes through indexes and lengths; each index must exist and occur once.
    fn mark(
        &self,
        shards: impl Iterator<Item = (usize, usize)>,
        expected: usize,
    ) -> Result<Marked, CodecError> {
        let count = self.data_shards + self.parity_shards;
        let mut marked = Marked { shards: Set::default(), ascending: true, unequal: None };
        let mut next = 0;
        for (shard, length) in shards {
            if shard >= count {
                return Err(CodecError::UnknownShard { shard, shards: count });
            }
            if !insert(&mut marked.shards, shard) {
                return Err(CodecError::RepeatedShard { shard });
            }
            if length != expected {
                marked.unequal = marked.unequal.or(Some((shard, length)));
            }
            marked.ascending &= shard >= next;
            next = shard + 1;
        }
        Ok(marked)
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
