//! Who issues tokens, with which keys, and what their tokens may at most do.

use base::{ArchivePath, Duration};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};

/// The least modulus of an RSA key, in bytes.
const RSA_BYTES_MIN: usize = 256;
/// Keys of an issuer at most.
pub const ISSUER_KEYS_MAX: usize = 64;

/// Somebody whose tokens are taken.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The claim `iss`, compared as it is.
    pub issuer: String,
    /// Stands before names and groups that are not mapped, with a colon: `cms` makes `cms:SUB`.
    pub prefix: String,
    /// The keys.
    pub keys: Vec<IssuerKey>,
    /// The claim `aud` has to hold one of these, compared with case.
    pub audiences: Vec<String>,
    /// The paths of scopes are below this.
    pub base: ArchivePath,
    /// Names for some of its subjects.
    pub users: Vec<(String, String)>,
    /// Names for some of its groups.
    pub groups: Vec<(String, String)>,
}

/// A public key, with the one algorithm that it is used with.
#[derive(Clone, Debug)]
pub struct IssuerKey {
    /// Its name, by which tokens ask for it.
    pub kid: Option<String>,
    /// The algorithm; tokens that name another one are refused.
    pub algorithm: Algorithm,
    pub(crate) key: DecodingKey,
}

/// Bounds of all tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenLimits {
    /// The longest token.
    pub token_bytes: usize,
    /// How far clocks may differ.
    pub leeway: Duration,
    /// From its issue to its end a token has at most this long.
    pub lifetime: Duration,
}

impl Default for TokenLimits {
    fn default() -> Self {
        TokenLimits {
            token_bytes: 16 << 10,
            leeway: Duration::from_secs(60),
            lifetime: Duration::from_secs(6 * 3600),
        }
    }
}

/// Why a key of an issuer cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssuerError {
    /// It is neither a JWK set nor a public key in PEM.
    #[error("neither a JWK set nor a public key in PEM: {0}")]
    Unreadable(String),
    /// No key of the set can be used.
    #[error("no key in it can be used: RSA with at least 2048 bits, P-256, P-384 and Ed25519 can")]
    NoKey,
    /// The algorithm is not for that key, or for none.
    #[error("the algorithm '{0}' is not one for that key: RS256 ..., PS256 ..., ES256, ES384, EdDSA")]
    Algorithm(String),
    /// Two keys have one name.
    #[error("two keys are called '{0}'")]
    Twice(String),
    /// Too many keys.
    #[error("an issuer has at most {ISSUER_KEYS_MAX} keys")]
    TooMany,
}

/// The keys of a file: a JWK set (its keys for encryption and unknown ones are passed over), or one public
/// key in PEM. `algorithm` and `kid` are for PEM; without them the usual algorithm of the key and no name.
///
/// # Errors
/// If it is neither, if no key can be used, or if two have one name.
pub fn read_keys(
    text: &str,
    algorithm: Option<&str>,
    kid: Option<&str>,
) -> Result<Vec<IssuerKey>, IssuerError> {
    if text.contains("-----BEGIN") {
        return read_pem(text, algorithm, kid).map(|key| vec![key]);
    }
    let set: JwkSet =
        serde_json::from_str(text).map_err(|error| IssuerError::Unreadable(error.to_string()))?;
    if set.keys.len() > ISSUER_KEYS_MAX {
        return Err(IssuerError::TooMany);
    }
    let keys: Vec<IssuerKey> = set.keys.iter().filter_map(of_jwk).collect();
    check_names(&keys)?;
    if keys.is_empty() { Err(IssuerError::NoKey) } else { Ok(keys) }
}

/// That no two keys have one name.
///
/// # Errors
/// [`IssuerError::Twice`], [`IssuerError::TooMany`].
pub fn check_names(keys: &[IssuerKey]) -> Result<(), IssuerError> {
    if keys.len() > ISSUER_KEYS_MAX {
        return Err(IssuerError::TooMany);
    }
    for (n, key) in keys.iter().enumerate() {
        if let Some(kid) = &key.kid
            && keys.iter().take(n).any(|other| other.kid.as_ref() == Some(kid))
        {
            return Err(IssuerError::Twice(kid.clone()));
        }
    }
    Ok(())
}

fn read_pem(text: &str, algorithm: Option<&str>, kid: Option<&str>) -> Result<IssuerKey, IssuerError> {
    type Read = fn(&[u8]) -> jsonwebtoken::errors::Result<DecodingKey>;
    const KINDS: [(Read, Algorithm); 3] = [
        (DecodingKey::from_rsa_pem, Algorithm::RS256),
        (DecodingKey::from_ec_pem, Algorithm::ES256),
        (DecodingKey::from_ed_pem, Algorithm::EdDSA),
    ];
    if text.contains("PRIVATE KEY") {
        return Err(IssuerError::Unreadable("a private key: give the public one only".to_owned()));
    }
    let found = KINDS.iter().find_map(|(read, usual)| Some((read(text.as_bytes()).ok()?, *usual)));
    let Some((key, usual)) = found else {
        return Err(IssuerError::Unreadable("no public key of RSA, P-256, P-384 or Ed25519".to_owned()));
    };
    let algorithm = match algorithm {
        Some(name) => name.parse().map_err(|_| IssuerError::Algorithm(name.to_owned()))?,
        None => usual,
    };
    if algorithm.family() != key.family() {
        return Err(IssuerError::Algorithm(format!("{algorithm:?}")));
    }
    if !is_long_enough(&key) {
        return Err(IssuerError::NoKey);
    }
    Ok(IssuerKey { kid: kid.map(str::to_owned), algorithm, key })
}

fn of_jwk(jwk: &Jwk) -> Option<IssuerKey> {
    use jsonwebtoken::jwk::PublicKeyUse;
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let usual = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Algorithm::ES256,
            EllipticCurve::P384 => Algorithm::ES384,
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
        // A shared secret would let everybody who reads the file sign.
        _ => return None,
    };
    let algorithm = match jwk.common.key_algorithm {
        Some(named) => named.to_string().parse().ok()?,
        None => usual,
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let fits = algorithm.family() == key.family()
        && (algorithm.family() != AlgorithmFamily::Ec || algorithm == usual)
        && is_long_enough(&key);
    fits.then(|| IssuerKey { kid: jwk.common.key_id.clone(), algorithm, key })
}

fn is_long_enough(key: &DecodingKey) -> bool {
    if key.family() != AlgorithmFamily::Rsa {
        return key.family() != AlgorithmFamily::Hmac;
    }
    match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => {
            n.iter().skip_while(|byte| **byte == 0).count() >= RSA_BYTES_MIN
        }
        // The modulus, the exponent, and what DER puts around them.
        DecodingKeyKind::SecretOrDer(der) => der.len() > RSA_BYTES_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(keys: &[String]) -> Result<Vec<IssuerKey>, IssuerError> {
        read_keys(&format!("{{\"keys\":[{}]}}", keys.join(",")), None, None)
    }

    fn rsa(modulus: &str, more: &str) -> String {
        format!("{{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"{modulus}\"{more}}}")
    }

    #[test]
    fn each_key_has_one_algorithm_and_weak_ones_are_none() {
        // 128 and 256 bytes of ones.
        let (short, long) = (format!("{}8", "_".repeat(170)), format!("{}w", "_".repeat(341)));
        assert_eq!(set(&[rsa(&short, "")]).unwrap_err(), IssuerError::NoKey);
        assert_eq!(set(&[rsa(&long, "")]).unwrap()[0].algorithm, Algorithm::RS256);
        assert_eq!(set(&[rsa(&long, ",\"alg\":\"PS384\"")]).unwrap()[0].algorithm, Algorithm::PS384);
        for unfit in ["HS256", "ES256", "RSA-OAEP", "none"] {
            let keys = set(&[rsa(&long, &format!(",\"alg\":\"{unfit}\""))]);
            assert!(keys.is_err(), "{unfit}");
        }
        assert!(set(&[rsa(&long, ",\"use\":\"enc\"")]).is_err(), "a key for encryption signs nothing");
        assert!(set(&["{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}".to_owned()]).is_err(), "a shared secret");
        let named = rsa(&long, ",\"kid\":\"a\"");
        assert_eq!(set(&[named.clone(), named]).unwrap_err(), IssuerError::Twice("a".to_owned()));
    }

    #[test]
    fn pem_is_a_public_key_and_nothing_else() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let key = read_keys(&pair.public_key_pem(), None, Some("k1")).unwrap().remove(0);
        assert_eq!((key.algorithm, key.kid.as_deref()), (Algorithm::ES256, Some("k1")));
        assert!(matches!(read_keys(&pair.serialize_pem(), None, None), Err(IssuerError::Unreadable(_))));
        for unfit in ["HS256", "RS256", "none", "es256"] {
            let read = read_keys(&pair.public_key_pem(), Some(unfit), None);
            assert!(matches!(read, Err(IssuerError::Algorithm(_))), "{unfit}");
        }
        for text in ["", "[]", "{}", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
            assert!(read_keys(text, None, None).is_err(), "{text}");
        }
    }
}
