//! The code of a stripe, of whichever kind: what the shards of a row can be rebuilt from, and rebuilding
//! them.

use base::{Crc32c, Layout, StripeCode};
use erasure::{Codec, CodecError, Lrc, StreamSums, find_bad_cell};

use crate::cell::BLOCK_BYTES;

/// A code, ready to compute. Shards are numbered data first, then parity, local before global.
#[derive(Debug)]
pub(crate) struct Code {
    shape: StripeCode,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    ReedSolomon(Codec),
    Local(Lrc),
}

impl Code {
    pub(crate) fn new(shape: StripeCode) -> Result<Self, CodecError> {
        let [data, local, global] = [shape.data, shape.local, shape.global].map(usize::from);
        let engine = match local {
            0 => Engine::ReedSolomon(Codec::new(data, global)?),
            _ => Engine::Local(Lrc::new(data, local, global)?),
        };
        Ok(Code { shape, engine })
    }

    fn width(&self) -> usize {
        self.shape.width()
    }

    /// All parity of a row, and in the same pass the CRC-32C of each block of every shard, those of data
    /// shard 0 first, and of the stream that the first `bytes` of the data go on with.
    pub(crate) fn encode_with_sums(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        checksums: &mut [Crc32c],
        (stream, bytes): (&mut StreamSums, usize),
    ) -> Result<(), CodecError> {
        match &self.engine {
            Engine::ReedSolomon(codec) => {
                codec.encode_with_stream_sums(data, parity, BLOCK_BYTES, checksums, stream, bytes)
            }
            Engine::Local(lrc) => {
                lrc.encode_with_stream_sums(data, parity, BLOCK_BYTES, checksums, stream, bytes)
            }
        }
    }

    /// All parity of a row.
    pub(crate) fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) -> Result<(), CodecError> {
        match &self.engine {
            Engine::ReedSolomon(codec) => codec.encode(data, parity),
            Engine::Local(lrc) => lrc.encode(data, parity),
        }
    }

    /// The wanted shards from those present, which determine them.
    pub(crate) fn reconstruct(
        &self,
        present: &[(usize, &[u8])],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<(), CodecError> {
        match &self.engine {
            Engine::ReedSolomon(codec) => codec.reconstruct(present, wanted),
            Engine::Local(lrc) => lrc.reconstruct(present, wanted),
        }
    }

    /// As [`Code::reconstruct`], and checks the CRC-32C of each block of what it reads, in the same pass if
    /// the code has one. Each shard comes with those of its blocks. Gives the shards that were checked.
    ///
    /// [`CodecError::BadCell`] names a shard that is wrong; `wanted` holds anything then.
    pub(crate) fn reconstruct_verified(
        &self,
        present: &[(usize, &[u8], &[Crc32c])],
        wanted: &mut [(usize, &mut [u8])],
    ) -> Result<Vec<usize>, CodecError> {
        let at_hand: Vec<usize> = present.iter().map(|(shard, ..)| *shard).collect();
        match &self.engine {
            Engine::ReedSolomon(codec) => {
                let blocks = present.first().map_or(0, |(_, _, checksums)| checksums.len());
                let mut computed = vec![vec![Crc32c::default(); blocks]; wanted.len()];
                let mut wanted: Vec<(usize, &mut [u8], &mut [Crc32c])> = wanted
                    .iter_mut()
                    .zip(&mut computed)
                    .map(|((shard, bytes), checksums)| (*shard, &mut **bytes, checksums.as_mut_slice()))
                    .collect();
                codec.reconstruct_verified(present, &mut wanted, BLOCK_BYTES)?;
                Ok(self.basis(&at_hand))
            }
            Engine::Local(lrc) => {
                let shards: Vec<usize> = wanted.iter().map(|(shard, _)| *shard).collect();
                let sources = self.rebuilt_from(&at_hand, &shards).unwrap_or(at_hand);
                let read = || present.iter().filter(|(shard, ..)| sources.contains(shard));
                for (shard, bytes, checksums) in read() {
                    if let Some(cell) = find_bad_cell(bytes, BLOCK_BYTES, checksums) {
                        return Err(CodecError::BadCell { shard: *shard, cell });
                    }
                }
                let read: Vec<(usize, &[u8])> = read().map(|(shard, bytes, _)| (*shard, *bytes)).collect();
                lrc.reconstruct(&read, wanted)?;
                Ok(sources)
            }
        }
    }

    /// Whether the shards that are `good` determine all of `wanted`.
    pub(crate) fn determines(&self, good: &[usize], wanted: &[usize]) -> bool {
        wanted.iter().all(|shard| good.contains(shard)) || self.rebuilt_from(good, wanted).is_some()
    }

    /// Which of the candidates to read so as to have all of `missing`, either as they are or rebuilt; `None`
    /// if the candidates do not suffice. Candidates that stand first are preferred.
    pub(crate) fn sources(&self, candidates: &[usize], missing: &[usize]) -> Option<Vec<usize>> {
        let suffice = |count: &usize| self.determines(&candidates[..*count], missing);
        let all = candidates.len();
        if !suffice(&all) {
            return None;
        }
        // More candidates never determine less.
        let (mut too_few, mut enough) = (0, all);
        while too_few < enough {
            let half = usize::midpoint(too_few, enough);
            if suffice(&half) { enough = half } else { too_few = half + 1 }
        }
        let chosen = &candidates[..enough];
        let (direct, rebuilt): (Vec<usize>, Vec<usize>) =
            missing.iter().partition(|shard| chosen.contains(shard));
        let mut sources = if rebuilt.is_empty() { Vec::new() } else { self.rebuilt_from(chosen, &rebuilt)? };
        sources.extend(direct.into_iter().filter(|shard| !sources.contains(shard)).collect::<Vec<_>>());
        assert!(sources.iter().all(|shard| candidates.contains(shard)), "only what may be read is read");
        debug_assert!(self.determines(&sources, missing), "what is read determines what is missing");
        Some(sources)
    }

    /// The shards among `good` that a computation of `wanted` reads.
    fn rebuilt_from(&self, good: &[usize], wanted: &[usize]) -> Option<Vec<usize>> {
        match &self.engine {
            Engine::ReedSolomon(codec) => good.get(..codec.data_shards()).map(<[usize]>::to_vec),
            Engine::Local(lrc) => {
                let lost: Vec<usize> = (0..self.width()).filter(|shard| !good.contains(shard)).collect();
                let computed: Vec<usize> =
                    wanted.iter().copied().filter(|shard| !good.contains(shard)).collect();
                lrc.repair_sources(&lost, &computed)
            }
        }
    }

    /// As few of the good shards as determine all that the good ones determine; `good` ascends.
    pub(crate) fn basis(&self, good: &[usize]) -> Vec<usize> {
        match &self.engine {
            Engine::ReedSolomon(codec) => good.iter().copied().take(codec.data_shards()).collect(),
            Engine::Local(_) => {
                let mut basis = Vec::with_capacity(good.len());
                for shard in good {
                    if *shard < usize::from(self.shape.data) || !self.determines(&basis, &[*shard]) {
                        basis.push(*shard);
                    }
                }
                basis
            }
        }
    }

    /// Whether parity that does not belong to the data speaks against the data rather than against itself:
    /// there is more than one such shard, and all global ones are among them. What the local ones say counts
    /// for nothing then: data that was rebuilt from a wrong group agrees with its group.
    pub(crate) fn blames_data(&self, wrong_parity: &[usize]) -> bool {
        let first_global = usize::from(self.shape.data) + usize::from(self.shape.local);
        wrong_parity.len() >= 2 && (first_global..self.width()).all(|shard| wrong_parity.contains(&shard))
    }
}

/// Whether the data of a stripe, or of a segment, can be had without the shards or copies that are gone.
#[must_use]
pub fn survives(layout: Layout, gone: &[usize]) -> bool {
    let Layout::Striped { code } = layout else { return gone.len() <= layout.bears() };
    // A code that does not exist keeps nothing.
    if !code.exists() || gone.len() <= code.bears() || code.local == 0 {
        return code.exists() && gone.len() <= code.bears();
    }
    Code::new(code).is_ok_and(|code| {
        let there: Vec<usize> = (0..code.width()).filter(|shard| !gone.contains(shard)).collect();
        let data: Vec<usize> = (0..usize::from(code.shape.data)).collect();
        code.determines(&there, &data)
    })
}

/// Whether the data survives, whichever shard or copy goes next.
#[must_use]
pub fn survives_one_more(layout: Layout, gone: &[usize]) -> bool {
    let mut more = gone.to_vec();
    (0..layout.width()).filter(|shard| !gone.contains(shard)).all(|next| {
        more.push(next);
        let survives = survives(layout, &more);
        more.pop();
        survives
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(data: u8, local: u8, global: u8) -> Code {
        Code::new(StripeCode { data, local, global }).unwrap()
    }

    #[test]
    fn a_loss_in_a_group_is_read_from_its_group() {
        let code = code(6, 2, 2);
        let candidates = [0, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(code.sources(&candidates, &[1]), Some(vec![0, 2, 6]));
        // What is not wanted again is left alone; what can be read is read.
        assert_eq!(code.sources(&[0, 2, 6, 1], &[1]), Some(vec![0, 2, 6]));
        assert_eq!(code.sources(&[0, 1], &[1]), Some(vec![1]));
        assert_eq!(code.sources(&[0, 2, 3, 4, 5, 7], &[1]), None);
    }

    #[test]
    fn reed_solomon_reads_as_many_as_it_has_data() {
        let code = code(4, 0, 2);
        assert_eq!(code.sources(&[0, 2, 3, 5, 4], &[1]), Some(vec![0, 2, 3, 5]));
        assert_eq!(code.sources(&[0, 2, 3], &[1]), None);
        // Too few to rebuild anything, but the wanted one is there.
        assert_eq!(code.sources(&[0, 1], &[1]), Some(vec![1]));
        assert_eq!(code.basis(&[0, 2, 3, 4, 5]), [0, 2, 3, 4]);
    }

    #[test]
    fn a_basis_gives_back_every_good_shard() {
        let code = code(6, 2, 2);
        // Group 0 is whole, so its parity is no help; of group 1 data and parity are needed.
        assert_eq!(code.basis(&[0, 1, 2, 3, 4, 6, 7, 8, 9]), [0, 1, 2, 3, 4, 7]);
        for gone in 0..1usize << 10 {
            let good: Vec<usize> = (0..10).filter(|shard| gone >> shard & 1 == 0).collect();
            let basis = code.basis(&good);
            assert!(code.determines(&basis, &good), "{gone:b}");
            let rank_is_full = code.determines(&good, &[0, 1, 2, 3, 4, 5]);
            assert_eq!(basis.len() == 6, rank_is_full, "{gone:b}");
        }
    }

    #[test]
    fn survival_is_what_the_code_can_repair() {
        let shape = Layout::Striped { code: StripeCode { data: 4, local: 2, global: 2 } };
        let lrc = Lrc::new(4, 2, 2).unwrap();
        for gone in 0..1usize << 8 {
            let gone: Vec<usize> = (0..8).filter(|shard| gone >> shard & 1 == 1).collect();
            let data: Vec<usize> = gone.iter().copied().filter(|shard| *shard < 4).collect();
            let expected = lrc.repair_sources(&gone, &data).is_some();
            assert_eq!(survives(shape, &gone), expected, "{gone:?}");
        }
        // Three losses always, of four those that are in both groups.
        assert!(survives_one_more(shape, &[0, 5]) && !survives_one_more(shape, &[0, 1, 4]));
        let shape = Layout::Striped { code: StripeCode::reed_solomon(4, 2) };
        assert!(survives(shape, &[0, 5]) && !survives(shape, &[0, 1, 5]));
        assert!(survives_one_more(shape, &[0]) && !survives_one_more(shape, &[0, 5]));
        let copies = Layout::Segment { copies: 2 };
        let none = Layout::Striped { code: StripeCode { data: 4, local: 5, global: 1 } };
        assert!(!survives(none, &[]) && !survives(none, &[0]));
        assert!(survives(copies, &[0]) && !survives(copies, &[0, 1]) && !survives_one_more(copies, &[0]));
    }

    #[test]
    fn wrong_parity_speaks_against_what_it_has_in_common() {
        let rs = code(4, 0, 2);
        assert!(rs.blames_data(&[4, 5]) && !rs.blames_data(&[4]));
        assert!(!code(4, 0, 1).blames_data(&[4]));
        let local = code(4, 2, 2);
        assert!(local.blames_data(&[4, 6, 7]) && local.blames_data(&[5, 6, 7]));
        // Data that was rebuilt from its group agrees with the group.
        assert!(local.blames_data(&[6, 7]));
        assert!(!local.blames_data(&[4, 6]) && !local.blames_data(&[7]) && !local.blames_data(&[4, 5]));
        assert!(!code(4, 2, 0).blames_data(&[4]));
    }
}
