//! HMAC-SHA256 (RFC 2104), and how libmacaroons makes a key of a secret.

use sha2::{Digest, Sha256};

const BLOCK_BYTES: usize = 64;

/// The code of a message. A key longer than a block is none of ours.
pub(crate) fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// The key of a macaroon: the secret is the message under a key that all implementations know.
pub(crate) fn derived(secret: &[u8; 32]) -> [u8; 32] {
    const GENERATOR: &[u8; 23] = b"macaroons-key-generator";
    let mut key = [0; 32];
    key.iter_mut().zip(GENERATOR).for_each(|(byte, letter)| *byte = *letter);
    hmac(&key, secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn codes_are_those_of_rfc_4231() {
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hex(&hmac(&key, b"Hi There")), expected);
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac(&key, b"what do ya want for nothing?")), expected);
    }
}
