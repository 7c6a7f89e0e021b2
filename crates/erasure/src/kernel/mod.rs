//! The instruction sets that shards are multiplied with, and the unit of work they share.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512_gfni;
#[cfg(target_arch = "x86_64")]
mod checked;
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use std::fmt;
use std::ops::Range;

/// The most outputs computed in one pass over the sources: their sums stay in registers.
pub(crate) const ROWS_MAX: usize = 6;

/// A way to multiply shards; all give the same bytes and differ only in speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Plain Rust, on every processor.
    Portable,
    /// Nibble tables with NEON look-ups (every 64-bit ARM processor).
    Neon,
    /// Nibble tables with AVX2 shuffles.
    Avx2,
    /// Affine transformations of 32 bytes (GFNI with AVX2).
    Gfni,
    /// Affine transformations of 64 bytes (GFNI with AVX-512F).
    Avx512Gfni,
}

impl Kernel {
    /// All kernels, slowest first, whether this processor can run them or not.
    pub const ALL: [Kernel; 5] =
        [Kernel::Portable, Kernel::Neon, Kernel::Avx2, Kernel::Gfni, Kernel::Avx512Gfni];

    /// The kernels that this processor can run, slowest first; never empty.
    pub fn available() -> Vec<Kernel> {
        Kernel::ALL.into_iter().filter(|kernel| kernel.is_available()).collect()
    }

    /// The fastest kernel that this processor can run.
    pub fn best() -> Kernel {
        Kernel::ALL.into_iter().rfind(|kernel| kernel.is_available()).unwrap_or(Kernel::Portable)
    }

    /// Whether this processor has the instructions.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            Kernel::Neon => false,
            Kernel::Avx2 => is_x86_feature_detected!("avx2"),
            Kernel::Gfni => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni"),
            Kernel::Avx512Gfni => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("gfni"),
        }
    }

    /// Whether this processor has the instructions.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn is_available(self) -> bool {
        match self {
            Kernel::Portable => true,
            Kernel::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Kernel::Avx2 | Kernel::Gfni | Kernel::Avx512Gfni => false,
        }
    }

    /// Whether this processor has the instructions.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(crate) fn is_available(self) -> bool {
        self == Kernel::Portable
    }

    /// Bytes of the kernel's registers: shorter shards go to the portable kernel.
    pub(crate) fn vector_bytes(self) -> usize {
        match self {
            Kernel::Portable => 1,
            Kernel::Neon => 16,
            Kernel::Avx2 | Kernel::Gfni => 32,
            Kernel::Avx512Gfni => 64,
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kernel::Portable => "portable",
            Kernel::Neon => "neon",
            Kernel::Avx2 => "avx2",
            Kernel::Gfni => "gfni",
            Kernel::Avx512Gfni => "avx512-gfni",
        })
    }
}

/// What becomes of the bytes that an output holds before a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// They are overwritten.
    Zero,
    /// The pass is added to them.
    Sum,
}

/// One pass: the same range of some sources, weighted and summed into 1 to [`ROWS_MAX`] outputs.
pub(crate) struct Pass<'p, 'o> {
    sources: &'p [&'p [u8]],
    range: Range<usize>,
    outputs: &'p mut [&'o mut [u8]],
    start: Start,
    /// How much further on in the same sources lie the bytes to fetch into the cache meanwhile; 0 for none.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no kernel there fetches"))]
    ahead: usize,
}

impl<'p, 'o> Pass<'p, 'o> {
    /// Checks the bounds on which the kernels' memory accesses rest.
    ///
    /// Every output holds exactly the bytes of the range.
    pub(crate) fn new(
        sources: &'p [&'p [u8]],
        range: Range<usize>,
        outputs: &'p mut [&'o mut [u8]],
        start: Start,
    ) -> Pass<'p, 'o> {
        assert!((1..=ROWS_MAX).contains(&outputs.len()));
        assert!(range.start <= range.end);
        assert!(sources.iter().all(|source| source.len() >= range.end));
        assert!(outputs.iter().all(|output| output.len() == range.len()));
        Pass { sources, range, outputs, start, ahead: 0 }
    }

    /// The same pass, which fetches the bytes `distance` further on into the cache meanwhile.
    pub(crate) fn fetching(self, distance: usize) -> Pass<'p, 'o> {
        Pass { ahead: distance, ..self }
    }

    /// Bytes of the range.
    pub(crate) fn length(&self) -> usize {
        self.range.len()
    }

    /// Weights of the pass, one for each source and output.
    pub(crate) fn weights(&self) -> usize {
        self.sources.len() * self.outputs.len()
    }

    /// Whether a kernel with registers of `vector` bytes can do this pass. Its last vector ends where the
    /// range does and may overlap the one before, which only a pass that starts from zero allows.
    fn fits(&self, vector: usize) -> bool {
        let length = self.range.len();
        length >= vector && (self.start == Start::Zero || length.is_multiple_of(vector))
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn output_pointers<const R: usize>(&mut self) -> [*mut u8; R] {
        assert_eq!(self.outputs.len(), R);
        let mut outputs = self.outputs.iter_mut();
        std::array::from_fn(|_| outputs.next().map_or(std::ptr::null_mut(), |output| output.as_mut_ptr()))
    }
}

/// Calls `$kernel::run::<R, U>` for the number of outputs, with the unrolling that fits the registers.
macro_rules! by_rows {
    (
        $kernel:ident, $pass:expr, $weights:expr,
        [$u1:literal, $u2:literal, $u3:literal, $u4:literal, $u5:literal, $u6:literal]
    ) => {
        match $pass.outputs.len() {
            1 => $kernel::run::<1, $u1>($pass, $weights),
            2 => $kernel::run::<2, $u2>($pass, $weights),
            3 => $kernel::run::<3, $u3>($pass, $weights),
            4 => $kernel::run::<4, $u4>($pass, $weights),
            5 => $kernel::run::<5, $u5>($pass, $weights),
            _ => $kernel::run::<6, $u6>($pass, $weights),
        }
    };
}

pub(crate) fn portable(pass: Pass<'_, '_>, weights: &[[u8; 8]]) {
    match pass.outputs.len() {
        1 => portable::run::<1>(pass, weights),
        2 => portable::run::<2>(pass, weights),
        3 => portable::run::<3>(pass, weights),
        4 => portable::run::<4>(pass, weights),
        5 => portable::run::<5>(pass, weights),
        _ => portable::run::<6>(pass, weights),
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn nibbles(kernel: Kernel, pass: Pass<'_, '_>, weights: &[[u8; 32]]) {
    assert!(kernel == Kernel::Avx2 && kernel.is_available() && pass.fits(kernel.vector_bytes()));
    // SAFETY: the processor has AVX2, the bounds were checked when the pass was made, and it fits.
    unsafe { by_rows!(avx2, pass, weights, [4, 4, 2, 2, 1, 1]) }
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn nibbles(kernel: Kernel, pass: Pass<'_, '_>, weights: &[[u8; 32]]) {
    assert!(kernel == Kernel::Neon && kernel.is_available() && pass.fits(kernel.vector_bytes()));
    // SAFETY: the processor has NEON, the bounds were checked when the pass was made, and it fits.
    unsafe { by_rows!(neon, pass, weights, [4, 4, 4, 3, 2, 2]) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn affine(kernel: Kernel, pass: Pass<'_, '_>, weights: &[u64]) {
    assert!(kernel.is_available() && pass.fits(kernel.vector_bytes()));
    // SAFETY: the processor has the kernel's instructions, the bounds were checked when the pass was made,
    // and it fits.
    unsafe {
        match kernel {
            Kernel::Avx512Gfni => by_rows!(avx512_gfni, pass, weights, [4, 2, 4, 4, 3, 3]),
            Kernel::Gfni => by_rows!(gfni, pass, weights, [4, 4, 3, 2, 2, 2]),
            _ => unreachable!("not a kernel of affine transformations"),
        }
    }
}

/// The most outputs, and the most sources side by side, of a pass that computes checksums as it goes.
pub(crate) const CHECKED_ROWS_MAX: usize = 4;
#[cfg(target_arch = "x86_64")]
pub(crate) const CHECKED_COLUMNS_MAX: usize = 16;
/// Bytes that such a pass handles at once; its range is a multiple of them.
pub(crate) const CHECKED_STEP: usize = 256;

/// Whether a kernel has passes that compute checksums as they go, on this processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_checked(kernel: Kernel) -> bool {
    kernel == Kernel::Avx512Gfni && crate::crc32c::is_fast()
}

/// Whether a kernel has passes that compute checksums as they go, on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn has_checked(_: Kernel) -> bool {
    false
}

/// A pass that also moves on the CRC-32C shift registers of its sources and, unless `output_registers` is
/// empty, of its outputs.
#[cfg(target_arch = "x86_64")]
pub(crate) fn affine_checked(
    pass: Pass<'_, '_>,
    weights: &[u64],
    registers: &mut [u32],
    output_registers: &mut [u32],
) {
    assert!(Kernel::Avx512Gfni.is_available() && has_checked(Kernel::Avx512Gfni));
    assert!(pass.length().is_multiple_of(CHECKED_STEP) && pass.sources.len() <= CHECKED_COLUMNS_MAX);
    assert!(registers.len() == pass.sources.len());
    assert!(output_registers.is_empty() || output_registers.len() == pass.outputs.len());
    // SAFETY: the processor has the instructions, and the bounds were checked when the pass was made.
    unsafe {
        match pass.outputs.len() {
            1 => checked::run::<1>(pass, weights, registers, output_registers),
            2 => checked::run::<2>(pass, weights, registers, output_registers),
            3 => checked::run::<3>(pass, weights, registers, output_registers),
            4 => checked::run::<CHECKED_ROWS_MAX>(pass, weights, registers, output_registers),
            _ => unreachable!("more outputs than a pass with checksums has"),
        }
    }
}

/// There are no such passes.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn affine_checked(_: Pass<'_, '_>, _: &[u64], _: &mut [u32], _: &mut [u32]) {
    unreachable!("not asked for where has_checked says no");
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn nibbles(_: Kernel, _: Pass<'_, '_>, _: &[[u8; 32]]) {
    unreachable!("no codec is made with a kernel that is not available");
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn affine(_: Kernel, _: Pass<'_, '_>, _: &[u64]) {
    unreachable!("no codec is made with a kernel that is not available");
}
