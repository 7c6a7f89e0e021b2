//! The codes and what each survives.

use std::fmt;

/// The longest code: shards of GF(2^8).
const WIDTH_MAX: u64 = 255;

/// An erasure code as far as losses go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// Reed-Solomon: any `data` of the `data + parity` shards suffice.
    ReedSolomon {
        /// Data shards, k.
        data: u32,
        /// Parity shards, m.
        parity: u32,
    },
    /// Locally repairable: the data in `locals` groups of (almost) equal size with one parity each, and
    /// `globals` parities over all. It is taken to survive what any such code can: one loss in each local
    /// group for itself, and `globals` more anywhere.
    Local {
        /// Data shards, k.
        data: u32,
        /// Local groups, each with one parity, l.
        locals: u32,
        /// Global parities, g.
        globals: u32,
    },
}

impl Code {
    /// Reads `k+m` or `k+l+g`. `None` if malformed, without data, wider than 255 shards or with more local
    /// groups than data shards.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<u32> = text.split('+').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let code = match *parts.as_slice() {
            [data, parity] => Code::ReedSolomon { data, parity },
            [data, locals, globals] if locals > 0 && locals <= data => Code::Local { data, locals, globals },
            _ => return None,
        };
        let width: u64 = parts.iter().map(|part| u64::from(*part)).sum();
        (code.data() > 0 && width <= WIDTH_MAX).then_some(code)
    }

    /// Data shards, k.
    #[must_use]
    pub fn data(self) -> u32 {
        match self {
            Code::ReedSolomon { data, .. } | Code::Local { data, .. } => data,
        }
    }

    /// All shards, n.
    #[must_use]
    pub fn width(self) -> u32 {
        match self {
            Code::ReedSolomon { data, parity } => data + parity,
            Code::Local { data, locals, globals } => data + locals + globals,
        }
    }

    /// The largest number of losses that is survived whichever shards they are.
    #[must_use]
    pub fn tolerance(self) -> u32 {
        match self {
            Code::ReedSolomon { parity, .. } => parity,
            // A loss of data needs one more than `globals` beyond what the local parities mend, and at most
            // `globals` of those are global parities themselves: so at least one group mends one.
            Code::Local { globals, .. } => globals + 1,
        }
    }

    /// Shards read to rebuild one lost shard, the others being whole; the mean over the shards.
    #[must_use]
    pub fn repair_reads(self) -> f64 {
        match self {
            Code::ReedSolomon { data, .. } => f64::from(data),
            Code::Local { data, globals, .. } => {
                let local: f64 = self.group_sizes().map(|size| f64::from(size) * f64::from(size - 1)).sum();
                (local + f64::from(globals) * f64::from(data)) / f64::from(self.width())
            }
        }
    }

    /// Whether the data survives the loss of the shards that are `true`; data first, then the local
    /// parities, then the global ones.
    #[must_use]
    pub fn survives(self, lost: &[bool]) -> bool {
        let count = |range: &[bool]| range.iter().filter(|lost| **lost).count();
        match self {
            Code::ReedSolomon { parity, .. } => count(lost) <= parity as usize,
            Code::Local { data, locals, globals } => {
                let (data, locals) = (data as usize, locals as usize);
                let mut excess = count(&lost[data + locals..]);
                let mut from = 0;
                for (group, size) in self.group_sizes().enumerate() {
                    let to = from + size as usize - 1;
                    let here = count(&lost[from..to]) + usize::from(lost[data + group]);
                    excess += here.saturating_sub(1);
                    from = to;
                }
                excess <= globals as usize
            }
        }
    }

    /// For each number of losses 0 ..= n + 1 the share of the patterns that is survived; 0 at n + 1.
    #[must_use]
    pub fn survived_shares(self) -> Vec<f64> {
        let width = self.width() as usize;
        let mut shares = match self {
            Code::ReedSolomon { parity, .. } => {
                (0..=width).map(|lost| if lost <= parity as usize { 1.0 } else { 0.0 }).collect()
            }
            Code::Local { globals, .. } => self.local_shares(globals as usize),
        };
        shares.push(0.0);
        shares
    }

    /// Shards of each local group, its parity included.
    fn group_sizes(self) -> impl Iterator<Item = u32> {
        let (data, locals) = match self {
            Code::ReedSolomon { .. } => (0, 0),
            Code::Local { data, locals, .. } => (data, locals),
        };
        // As in the pool, the first groups are the longer ones.
        (0..locals).map(move |group| data / locals + u32::from(group < data % locals) + 1)
    }

    /// Counts patterns by losses and by losses that the local parities leave to the global ones.
    fn local_shares(self, globals: usize) -> Vec<f64> {
        let width = self.width() as usize;
        let mut counts = vec![vec![0.0; globals + 1]; width + 1];
        counts[0][0] = 1.0;
        let parts = self.group_sizes().map(|size| (size, true)).chain([(globals as u32, false)]);
        for (size, is_local) in parts {
            let mut next = vec![vec![0.0; globals + 1]; width + 1];
            for here in 0..=size as usize {
                let left = here.saturating_sub(usize::from(is_local));
                let ways = choose(size, here as u32);
                for lost in 0..=width - here {
                    for excess in 0..=globals.saturating_sub(left) {
                        if left <= globals {
                            next[lost + here][excess + left] += counts[lost][excess] * ways;
                        }
                    }
                }
            }
            counts = next;
        }
        let share = |(lost, by_excess): (usize, Vec<f64>)| {
            by_excess.iter().sum::<f64>() / choose(width as u32, lost as u32)
        };
        counts.into_iter().enumerate().map(share).collect()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::ReedSolomon { data, parity } => write!(f, "{data}+{parity}"),
            Code::Local { data, locals, globals } => write!(f, "{data}+{locals}+{globals}"),
        }
    }
}

/// Binomial coefficient as a float; 0 for `few` > `many`. Finite up to 255 of 255 and far beyond.
pub(crate) fn choose(many: u32, few: u32) -> f64 {
    if few > many {
        return 0.0;
    }
    let few = few.min(many - few);
    (0..few).fold(1.0, |ways, at| ways * f64::from(many - at) / f64::from(at + 1)).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read() {
        assert_eq!(Code::parse("12+4"), Some(Code::ReedSolomon { data: 12, parity: 4 }));
        assert_eq!(Code::parse("12+2+2"), Some(Code::Local { data: 12, locals: 2, globals: 2 }));
        for bad in ["", "12", "0+4", "12+", "12+4+1+1", "4+5+1", "4+0+1", "254+2", "4294967295+4294967295"] {
            assert_eq!(Code::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn counted_shares_equal_those_of_all_patterns() {
        for text in ["12+2+2", "7+3+2", "4+2+0", "4+2", "5+0", "2+2+3"] {
            let code = Code::parse(text).unwrap();
            let width = code.width() as usize;
            let (mut all, mut good) = (vec![0.0; width + 1], vec![0.0; width + 1]);
            for pattern in 0u32..1 << width {
                let lost: Vec<bool> = (0..width).map(|at| pattern >> at & 1 == 1).collect();
                all[pattern.count_ones() as usize] += 1.0;
                good[pattern.count_ones() as usize] += f64::from(u8::from(code.survives(&lost)));
            }
            let shares = code.survived_shares();
            for lost in 0..=width {
                let exact: f64 = good[lost] / all[lost];
                assert!((shares[lost] - exact).abs() < 1e-12, "{text}: {lost} lost");
            }
            let whole = shares.iter().take_while(|share| **share > 1.0 - 1e-12).count();
            assert!(whole > code.tolerance() as usize, "{text}: tolerance is at least what it says");
        }
    }

    #[test]
    fn a_local_code_reads_less() {
        // Fourteen shards read 6 others, the two global parities read 12.
        assert!((Code::parse("12+2+2").unwrap().repair_reads() - 6.75).abs() < 1e-12);
        assert!((Code::parse("12+4").unwrap().repair_reads() - 12.0).abs() < 1e-12);
    }
}
