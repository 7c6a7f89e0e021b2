//! Arithmetic in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1.

/// The field polynomial; part of the stripe format.
const POLYNOMIAL: u16 = 0x11D;

/// Powers of the generator 2, twice over, so that a sum of two logarithms needs no reduction.
const EXP: [u8; 512] = exponentials();
const LOG: [u8; 256] = logarithms();

/// For each constant, the 8x8 bit matrix that `gf2p8affineqb` multiplies by.
pub(crate) static AFFINE: [u64; 256] = affine_matrices();

/// For each constant, its products with the 16 low nibbles, then with the 16 high nibbles.
pub(crate) static NIBBLES: [[u8; 32]; 256] = nibble_products();

/// Product of two field elements.
pub(crate) const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXP[LOG[a as usize] as usize + LOG[b as usize] as usize]
}

/// Multiplicative inverse; zero has none, and asking for it is a broken invariant.
pub(crate) const fn inv(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    EXP[255 - LOG[a as usize] as usize]
}

/// The products of a constant with the eight powers 2^0 to 2^7.
pub(crate) const fn bit_products(constant: u8) -> [u8; 8] {
    let mut products = [0; 8];
    let mut bit = 0;
    while bit < 8 {
        products[bit] = mul(constant, 1 << bit);
        bit += 1;
    }
    products
}

const fn exponentials() -> [u8; 512] {
    let mut table = [0; 512];
    let mut value: u16 = 1;
    let mut power = 0;
    while power < 512 {
        table[power] = value as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= POLYNOMIAL;
        }
        power += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut power = 0;
    while power < 255 {
        table[EXP[power] as usize] = power as u8;
        power += 1;
    }
    table
}

const fn affine_matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        matrices[constant] = affine_matrix(constant as u8);
        constant += 1;
    }
    matrices
}

/// The instruction takes output bit `i` as the parity of the input byte masked by matrix byte `7 - i`; bit
/// `j` of that mask therefore is bit `i` of the constant times 2^j.
const fn affine_matrix(constant: u8) -> u64 {
    let columns = bit_products(constant);
    let mut matrix = 0;
    let mut cell = 0;
    while cell < 64 {
        let (i, j) = (cell / 8, cell % 8);
        let bit = (columns[j] >> i) & 1;
        matrix |= (bit as u64) << ((7 - i) * 8 + j);
        cell += 1;
    }
    matrix
}

const fn nibble_products() -> [[u8; 32]; 256] {
    let mut tables = [[0; 32]; 256];
    let mut cell = 0;
    while cell < 256 * 16 {
        let (constant, nibble) = (cell / 16, cell % 16);
        tables[constant][nibble] = mul(constant as u8, nibble as u8);
        tables[constant][16 + nibble] = mul(constant as u8, (nibble as u8) << 4);
        cell += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mul_bitwise(a: u8, b: u8) -> u8 {
        let mut wide = 0u16;
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                wide ^= u16::from(a) << bit;
            }
        }
        for bit in (8..15).rev() {
            if wide >> bit & 1 == 1 {
                wide ^= 0x11D << (bit - 8);
            }
        }
        u8::try_from(wide).unwrap()
    }

    #[test]
    fn products_agree_with_bitwise_multiplication() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(mul(a, b), mul_bitwise(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_its_inverse() {
        for a in 1..=255 {
            assert_eq!(mul_bitwise(a, inv(a)), 1, "{a}");
        }
    }

    #[test]
    fn tables_multiply() {
        for constant in 0..=255u8 {
            for x in 0..=255u8 {
                let product = mul_bitwise(constant, x);
                let nibbles = &NIBBLES[usize::from(constant)];
                assert_eq!(nibbles[usize::from(x & 15)] ^ nibbles[usize::from(16 + (x >> 4))], product);
                let rows = AFFINE[usize::from(constant)].to_le_bytes();
                let affine =
                    (0..8).fold(0u8, |sum, i| sum | (((rows[7 - i] & x).count_ones() as u8 & 1) << i));
                assert_eq!(affine, product);
            }
        }
    }
}
