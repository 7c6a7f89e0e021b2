//! The instruction sets that shards are multiplied with, and the unit of work they share.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512_gfni;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod portable;

use crate::product::GROUP_MAX;
use std::fmt;
use std::ops::Range;

/// A way to multiply shards; all give the same bytes and differ only in speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Plain Rust, on every processor.
    Portable,
    /// Nibble tables with AVX2 shuffles.
    Avx2,
    /// Affine transformations of 32 bytes (GFNI with AVX2).
    Gfni,
    /// Affine transformations of 64 bytes (GFNI with AVX-512F).
    Avx512Gfni,
}

impl Kernel {
    /// The kernels that this processor can run, slowest first; never empty.
    pub fn available() -> Vec<Kernel> {
        let all = [Kernel::Portable, Kernel::Avx2, Kernel::Gfni, Kernel::Avx512Gfni];
        all.into_iter().filter(|kernel| kernel.is_available()).collect()
    }

    /// The fastest kernel that this processor can run.
    pub fn best() -> Kernel {
        let fastest_first = [Kernel::Avx512Gfni, Kernel::Gfni, Kernel::Avx2];
        fastest_first.into_iter().find(|kernel| kernel.is_available()).unwrap_or(Kernel::Portable)
    }

    /// Whether this processor has the instructions.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            Kernel::Avx2 => is_x86_feature_detected!("avx2"),
            Kernel::Gfni => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni"),
            Kernel::Avx512Gfni => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("gfni"),
        }
    }

    /// Whether this processor has the instructions.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn is_available(self) -> bool {
        self == Kernel::Portable
    }

    /// Bytes of the kernel's registers: shorter shards go to the portable kernel.
    pub(crate) fn vector_bytes(self) -> usize {
        match self {
            Kernel::Portable => 0,
            Kernel::Avx2 | Kernel::Gfni => 32,
            Kernel::Avx512Gfni => 64,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kernel::Portable => "portable",
            Kernel::Avx2 => "avx2",
            Kernel::Gfni => "gfni",
            Kernel::Avx512Gfni => "avx512-gfni",
        })
    }
}

/// One pass: the same range of all sources and of 1 to [`GROUP_MAX`] outputs, within the bounds of each.
pub(crate) struct Tile<'t, 'o> {
    sources: &'t [&'t [u8]],
    outputs: &'t mut [&'o mut [u8]],
    range: Range<usize>,
}

impl<'t, 'o> Tile<'t, 'o> {
    /// Checks the bounds on which the kernels' memory accesses rest.
    pub(crate) fn new(
        sources: &'t [&'t [u8]],
        outputs: &'t mut [&'o mut [u8]],
        range: Range<usize>,
    ) -> Tile<'t, 'o> {
        assert!((1..=GROUP_MAX).contains(&outputs.len()));
        assert!(range.start <= range.end);
        assert!(sources.iter().all(|source| source.len() >= range.end));
        assert!(outputs.iter().all(|output| output.len() >= range.end));
        Tile { sources, outputs, range }
    }

    /// The end of the range. A vector kernel may write again the bytes before the range, with equal values,
    /// so that its last vector ends here; the end must therefore be at least one vector from the shard's
    /// start.
    pub(crate) fn end(&self) -> usize {
        self.range.end
    }
}

pub(crate) fn portable(tile: Tile<'_, '_>, weights: &[[u8; 8]]) {
    match tile.outputs.len() {
        1 => portable::run::<1>(tile, weights),
        2 => portable::run::<2>(tile, weights),
        3 => portable::run::<3>(tile, weights),
        _ => portable::run::<GROUP_MAX>(tile, weights),
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn nibbles(tile: Tile<'_, '_>, weights: &[[u8; 32]]) {
    assert!(Kernel::Avx2.is_available() && tile.end() >= Kernel::Avx2.vector_bytes());
    // SAFETY: the processor has AVX2, the tile's bounds were checked when it was made, it ends at least one
    // vector from the start, and the number of outputs is that of the match.
    unsafe {
        match tile.outputs.len() {
            1 => avx2::run::<1>(tile, weights),
            2 => avx2::run::<2>(tile, weights),
            3 => avx2::run::<3>(tile, weights),
            _ => avx2::run::<GROUP_MAX>(tile, weights),
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn affine(kernel: Kernel, tile: Tile<'_, '_>, weights: &[u64]) {
    assert!(kernel.is_available() && tile.end() >= kernel.vector_bytes());
    let wide = kernel == Kernel::Avx512Gfni;
    assert!(wide || kernel == Kernel::Gfni);
    // SAFETY: the processor has the kernel's instructions, the tile's bounds were checked when it was made,
    // it ends at least one vector from the start, and the number of outputs is that of the match.
    unsafe {
        match (tile.outputs.len(), wide) {
            (1, true) => avx512_gfni::run::<1>(tile, weights),
            (2, true) => avx512_gfni::run::<2>(tile, weights),
            (3, true) => avx512_gfni::run::<3>(tile, weights),
            (_, true) => avx512_gfni::run::<GROUP_MAX>(tile, weights),
            (1, false) => gfni::run::<1>(tile, weights),
            (2, false) => gfni::run::<2>(tile, weights),
            (3, false) => gfni::run::<3>(tile, weights),
            (_, false) => gfni::run::<GROUP_MAX>(tile, weights),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn nibbles(_: Tile<'_, '_>, _: &[[u8; 32]]) {
    unreachable!("no codec is made with a kernel that is not available");
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn affine(_: Kernel, _: Tile<'_, '_>, _: &[u64]) {
    unreachable!("no codec is made with a kernel that is not available");
}
