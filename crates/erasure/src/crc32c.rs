//! CRC-32C at the speed of the cache: carry-less multiplication on 64-byte registers where the processor has
//! it, the workspace's general routine otherwise.

use base::Crc32c;

/// Bytes folded at once by the fast routine; what is shorter goes to `crc32` instructions.
#[cfg(target_arch = "x86_64")]
const FOLD_BYTES: usize = 256;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{State, begin, finish, fold_in};

/// Whether this processor has the instructions of the fast routine.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_fast() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("sse4.2")
}

/// The checksum of the stream with checksum `before`, followed by `bytes`. Meanwhile `next` is fetched into
/// the second-level cache, of which it does not read a byte.
pub(crate) fn extend(before: Crc32c, bytes: &[u8], next: &[u8]) -> Crc32c {
    #[cfg(target_arch = "x86_64")]
    if is_fast() {
        // SAFETY: the processor has the instructions.
        return Crc32c(!unsafe { x86::register(!before.0, bytes, next) });
    }
    let _ = next;
    before.extend(bytes)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::FOLD_BYTES;
    use std::arch::x86_64::{
        __m512i, _MM_HINT_T1, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_prefetch,
        _mm512_castsi128_si512, _mm512_clmulepi64_epi128, _mm512_loadu_si512, _mm512_set_epi64,
        _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
    };

    /// The Castagnoli polynomial, bit 31 for x^0.
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    /// Bytes of a cache line.
    const LINE: usize = 64;
    /// The truth table of `a XOR b XOR c`.
    const XOR3: i32 = 0x96;
    const FAR: [i64; 2] = fold_by(8 * FOLD_BYTES);
    const NEAR: [i64; 2] = fold_by(8 * 64);

    /// What the first and the second eight bytes of sixteen are multiplied by to move on by so many bits.
    const fn fold_by(bits: usize) -> [i64; 2] {
        [(power(bits + 32) as i64) << 1, (power(bits - 32) as i64) << 1]
    }

    /// x^exponent modulo the polynomial, bit 31 for x^0.
    const fn power(exponent: usize) -> u32 {
        let mut value = 1u32 << 31;
        let mut step = 0;
        while step < exponent {
            value = (value >> 1) ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
            step += 1;
        }
        value
    }

    /// 256 bytes that take the shift register from zero to where all bytes so far take it.
    pub(crate) type State = [__m512i; 4];

    /// The shift register after `bytes`, begun from `register`. Lines of `next` are fetched meanwhile.
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(super) fn register(mut register: u32, bytes: &[u8], next: &[u8]) -> u32 {
        let (blocks, rest) = bytes.as_chunks::<FOLD_BYTES>();
        if let Some((first, blocks)) = blocks.split_first() {
            let mut state = begin(register, load(first));
            let mut ahead = next.chunks(FOLD_BYTES);
            for block in blocks {
                for line in ahead.next().unwrap_or_default().chunks(LINE) {
                    _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast());
                }
                state = fold_in(state, load(block));
            }
            register = finish(state);
        }
        let (words, rest) = rest.as_chunks::<8>();
        let mut wide = u64::from(register);
        for word in words {
            wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
        }
        rest.iter().fold(wide as u32, |register, &byte| _mm_crc32_u8(register, byte))
    }

    /// The state after the first block of a stream that goes on from `register`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn begin(register: u32, mut block: State) -> State {
        let register = _mm512_zextsi128_si512(_mm_cvtsi32_si128(register.cast_signed()));
        block[0] = _mm512_xor_si512(block[0], register);
        block
    }

    /// The state after one more block.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(crate) fn fold_in(mut state: State, block: State) -> State {
        let far = constants(FAR);
        for (sum, block) in state.iter_mut().zip(block) {
            *sum = step(*sum, far, block);
        }
        state
    }

    /// The shift register that a state stands for.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(crate) fn finish([first, second, third, fourth]: State) -> u32 {
        let near = constants(NEAR);
        let sum = step(step(step(first, near, second), near, third), near, fourth);
        let mut words = [0u64; 8];
        // SAFETY: the array has 64 bytes.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), sum) };
        words.iter().fold(0, |register, &word| _mm_crc32_u64(register, word)) as u32
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn constants([low, high]: [i64; 2]) -> __m512i {
        _mm512_set_epi64(high, low, high, low, high, low, high, low)
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn step(sum: __m512i, constants: __m512i, next: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(sum, constants);
        let high = _mm512_clmulepi64_epi128::<0x11>(sum, constants);
        _mm512_ternarylogic_epi64::<XOR3>(low, high, next)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(block: &[u8; FOLD_BYTES]) -> State {
        let at = block.as_ptr();
        let mut vectors = [_mm512_castsi128_si512(_mm_cvtsi32_si128(0)); 4];
        for (unit, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: the block has four times 64 bytes.
            *vector = unsafe { _mm512_loadu_si512(at.add(64 * unit).cast()) };
        }
        vectors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_general_routine() {
        let bytes: Vec<u8> = (0..5000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for length in (0..600).chain([1023, 1024, 4095, 4096, 4990]) {
            for offset in [0, 1, 7] {
                let (before, bytes) = bytes[offset..offset + length].split_at(length / 3);
                let before = Crc32c::of(before);
                assert_eq!(
                    extend(before, bytes, &bytes[..length / 5]),
                    before.extend(bytes),
                    "{length} bytes at {offset}"
                );
            }
        }
    }
}
