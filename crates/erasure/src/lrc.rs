//! Locally repairable codes: a lost shard is computed from its group alone.

use crate::field::{inv, mul};
use crate::matrices::{Set, contains, insert, members};
use crate::product::{Order, Product};
use crate::{CodecError, Kernel, MAX_SHARDS, decode};

/// A systematic code of `k` data shards in `l` groups, a local parity for each group and `g` global ones.
///
/// Shards are numbered data first, then local parities from `k`, then global ones from `k + l`. Groups are as
/// even as can be, the first ones longer. The local parity is the sum (XOR) of its group. The weight of data
/// shard `j` in the global parity that is shard `s` of the stripe is `((k + l) XOR j) / ((s + 1) XOR j)` in
/// GF(2^8) modulo 0x11D: a Cauchy matrix of `g + 1` rows, scaled so that its first row is all ones, which the
/// local parities share among them. So every `g + 1` losses are repaired, and of more those for which
/// [`Lrc::can_repair`] says so: for 12+2+2 all that any code of this shape can repair, for 24+2+4 more than
/// 99.7 % of them. The weights are part of the stripe format. An `Lrc` is immutable and may be shared
/// between threads.
#[derive(Debug, Clone)]
pub struct Lrc {
    data_shards: usize,
    groups: usize,
    globals: usize,
    kernel: Kernel,
    encoder: Product,
}

/// What a repair reads and how it weighs it.
struct Plan {
    sources: Vec<usize>,
    rows: Vec<u8>,
}

/// One equation: weights of lost data on the left, of shards at hand on the right.
#[derive(Debug, Clone)]
struct Equation {
    left: Vec<u8>,
    right: [u8; MAX_SHARDS],
}

impl Lrc {
    /// Makes a code of `k` data shards, `l` groups and `g` global parities, with the fastest kernel.
    ///
    /// `l` is from 1 to `k` and `k + l + g` at most [`MAX_SHARDS`]; anything else is
    /// [`CodecError::UnsupportedShape`], in which local and global parities are counted together.
    pub fn new(k: usize, l: usize, g: usize) -> Result<Lrc, CodecError> {
        Lrc::with_kernel(k, l, g, Kernel::best())
    }

    /// As [`Lrc::new`], with a given kernel, or [`CodecError::KernelUnavailable`].
    pub fn with_kernel(k: usize, l: usize, g: usize, kernel: Kernel) -> Result<Lrc, CodecError> {
        let parity_shards = l.saturating_add(g);
        if l == 0 || l > k || k.saturating_add(parity_shards) > MAX_SHARDS {
            return Err(CodecError::UnsupportedShape { data_shards: k, parity_shards });
        }
        if !kernel.is_available() {
            return Err(CodecError::KernelUnavailable { kernel });
        }
        let rows: Vec<u8> = (k..k + parity_shards)
            .flat_map(|shard| (0..k).map(move |column| weight(k, l, shard, column)))
            .collect();
        let encoder = Product::new(kernel, k, &rows);
        Ok(Lrc { data_shards: k, groups: l, globals: g, kernel, encoder })
    }

    /// The number of data shards, `k`.
    pub fn data_shards(&self) -> usize {
        self.data_shards
    }

    /// The number of groups and so of local parities, `l`.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The number of global parities, `g`.
    pub fn global_parities(&self) -> usize {
        self.globals
    }

    /// The number of all shards, `k + l + g`.
    pub fn shards(&self) -> usize {
        self.data_shards + self.groups + self.globals
    }

    /// The group of a data shard or local parity, from 0; `None` for a global parity or no shard at all.
    pub fn group_of(&self, shard: usize) -> Option<usize> {
        match shard.checked_sub(self.data_shards) {
            None => Some(group_of(self.data_shards, self.groups, shard)),
            Some(local) => (local < self.groups).then_some(local),
        }
    }

    /// Computes all parity shards, local ones first, from all data shards.
    ///
    /// Slices have one length in bytes, of any alignment. On an error nothing has been written.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), CodecError> {
        self.encoder.encode(data, parity)
    }

    pub(crate) fn encoder(&self) -> &Product {
        &self.encoder
    }

    /// Whether every shard of `lost` can be computed from all others. Exact: it solves the equations.
    /// An index that does not exist cannot be repaired.
    pub fn can_repair(&self, lost: &[usize]) -> bool {
        self.repair_sources(lost, lost).is_some()
    }

    /// The shards, ascending, that a repair of `wanted` reads when `lost` are lost; `None` if what remains
    /// does not determine them.
    ///
    /// A shard that is the only one lost in its group is repaired from its group. `wanted` are of `lost`.
    pub fn repair_sources(&self, lost: &[usize], wanted: &[usize]) -> Option<Vec<usize>> {
        let mut lost_set = Set::default();
        for &shard in lost {
            if shard >= self.shards() {
                return None;
            }
            insert(&mut lost_set, shard);
        }
        let present: Vec<usize> = (0..self.shards()).filter(|&shard| !contains(&lost_set, shard)).collect();
        self.plan(&present, wanted).map(|plan| plan.sources)
    }

    /// Computes the wanted shards and no others from those present.
    ///
    /// Both lists pair a shard's index with its bytes, in any order, and no index occurs twice. All slices
    /// have one length. Only the shards that [`Lrc::repair_sources`] names are read, and only they need be
    /// present. [`CodecError::NotRepairable`] if the present shards do not determine the wanted ones. The
    /// present shards are trusted. On an error nothing has been written.
    pub fn reconstruct(
        &self,
        present: &[(usize, &[u8])],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<(), CodecError> {
        let at_hand = self.mark(present.iter().map(|&(shard, _)| shard))?;
        let asked_for = self.mark(wanted.iter().map(|(shard, _)| *shard))?;
        if let Some(shard) =
            (0..self.shards()).find(|&shard| at_hand.contains(&shard) && asked_for.contains(&shard))
        {
            return Err(CodecError::WantedIsPresent { shard });
        }
        let lengths = present.iter().map(|(shard, bytes)| (*shard, bytes.len()));
        crate::codec::check_lengths(
            lengths.chain(wanted.iter().map(|(shard, bytes)| (*shard, bytes.len()))),
        )?;
        let mut present = present.to_vec();
        present.sort_unstable_by_key(|&(shard, _)| shard);
        let order: Vec<usize> = wanted.iter().map(|(shard, _)| *shard).collect();
        let plan = self.plan(&at_hand, &order).ok_or(CodecError::NotRepairable { wanted: order.len() })?;
        let sources: Vec<&[u8]> = present
            .iter()
            .filter(|(shard, _)| plan.sources.binary_search(shard).is_ok())
            .map(|&(_, bytes)| bytes)
            .collect();
        let mut outputs: Vec<&mut [u8]> = wanted.iter_mut().map(|(_, bytes)| &mut **bytes).collect();
        if sources.is_empty() {
            return Ok(());
        }
        Product::new(self.kernel, sources.len(), &plan.rows).apply(
            &sources,
            &mut outputs,
            Order::plain(sources.len(), order.len()),
            &mut |_| (),
        );
        Ok(())
    }

    /// The indexes, ascending, each of which must exist and occur once.
    fn mark(&self, shards: impl Iterator<Item = usize>) -> Result<Vec<usize>, CodecError> {
        let mut seen = Set::default();
        for shard in shards {
            if shard >= self.shards() {
                return Err(CodecError::UnknownShard { shard, shards: self.shards() });
            }
            if !insert(&mut seen, shard) {
                return Err(CodecError::RepeatedShard { shard });
            }
        }
        Ok(members(&seen))
    }

    /// Weights of the wanted shards over as few present ones as the elimination finds; `present` ascends.
    fn plan(&self, present: &[usize], wanted: &[usize]) -> Option<Plan> {
        let k = self.data_shards;
        let (data, parity) = present.split_at(present.partition_point(|&shard| shard < k));
        let lost: Vec<usize> = (0..k).filter(|shard| data.binary_search(shard).is_err()).collect();
        let solved = self.solve(data, parity, &lost);
        let mut full = Vec::with_capacity(wanted.len());
        for &shard in wanted {
            full.push(self.row_of(shard, data, &lost, &solved)?);
        }
        let used = |shard: &usize| full.iter().any(|row| row[*shard] != 0);
        let sources: Vec<usize> = present.iter().copied().filter(used).collect();
        let rows = full.iter().flat_map(|row| sources.iter().map(|&shard| row[shard])).collect();
        Some(Plan { sources, rows })
    }

    /// A wanted shard as weights over the shards at hand; `None` if it is not determined.
    fn row_of(
        &self,
        shard: usize,
        data: &[usize],
        lost: &[usize],
        solved: &[Option<[u8; MAX_SHARDS]>],
    ) -> Option<[u8; MAX_SHARDS]> {
        let k = self.data_shards;
        if shard < k {
            let place = lost.binary_search(&shard).ok()?;
            return *solved.get(place)?;
        }
        let mut row = [0; MAX_SHARDS];
        for &column in data {
            row[column] = weight(k, self.groups, shard, column);
        }
        for (&column, solved) in lost.iter().zip(solved) {
            let factor = weight(k, self.groups, shard, column);
            if factor != 0 {
                decode::add_scaled(&mut row, solved.as_ref()?, factor);
            }
        }
        Some(row)
    }

    /// Each lost data shard as weights over the shards at hand, or `None` where they do not determine it.
    ///
    /// Local equations come first, so that what a group can repair by itself is repaired so.
    fn solve(&self, data: &[usize], parity: &[usize], lost: &[usize]) -> Vec<Option<[u8; MAX_SHARDS]>> {
        let (k, l) = (self.data_shards, self.groups);
        let mut equations: Vec<Equation> = Vec::with_capacity(parity.len());
        for &shard in parity {
            let left: Vec<u8> = lost.iter().map(|&column| weight(k, l, shard, column)).collect();
            let mut right = [0; MAX_SHARDS];
            for &column in data {
                right[column] = weight(k, l, shard, column);
            }
            right[shard] = 1;
            equations.push(Equation { left, right });
        }
        let mut pivots: Vec<Option<usize>> = vec![None; lost.len()];
        let mut step = 0;
        for (column, pivot) in pivots.iter_mut().enumerate() {
            let Some(found) = (step..equations.len()).find(|&row| equations[row].left[column] != 0) else {
                continue;
            };
            equations[step..=found].rotate_right(1);
            let scale = inv(equations[step].left[column]);
            decode::scale_row(&mut equations[step].left, scale);
            decode::scale_row(&mut equations[step].right, scale);
            let chosen = equations[step].clone();
            for (row, equation) in equations.iter_mut().enumerate() {
                let factor = equation.left[column];
                if row != step && factor != 0 {
                    decode::add_scaled(&mut equation.left, &chosen.left, factor);
                    decode::add_scaled(&mut equation.right, &chosen.right, factor);
                }
            }
            *pivot = Some(step);
            step += 1;
        }
        pivots
            .iter()
            .map(|pivot| {
                let equation = &equations[(*pivot)?];
                let alone = equation.left.iter().filter(|&&weight| weight != 0).count() == 1;
                alone.then_some(equation.right)
            })
            .collect()
    }
}

/// The group of a data shard: the first `k mod l` groups have one shard more than the others.
fn group_of(k: usize, l: usize, shard: usize) -> usize {
    let (short, longer) = (k / l, k % l);
    let in_longer = longer * (short + 1);
    if shard < in_longer { shard / (short + 1) } else { longer + (shard - in_longer) / short }
}

/// The weight of data shard `column` in a parity shard.
fn weight(k: usize, l: usize, shard: usize, column: usize) -> u8 {
    if shard < k + l {
        return u8::from(group_of(k, l, column) == shard - k);
    }
    mul(decode::parity_weight(shard + 1, column), inv(decode::parity_weight(k + l, column)))
}
