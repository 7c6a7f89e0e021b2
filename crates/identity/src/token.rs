//! Tokens: signed statements of an issuer about who somebody is or what they may do.

use base::Timestamp;
use jsonwebtoken::{Algorithm, Header, Validation, dangerous, decode, decode_header};
use serde::Deserialize;

use crate::caller::{Caller, How, NAME_BYTES_MAX};
use crate::issuer::{Issuer, IssuerKey, TokenLimits};
use crate::scope::{Profile, ScopeError, capabilities};
use crate::strict::Strict;

/// The most groups of a token; one with more is refused.
pub const GROUPS_MAX: usize = 64;

/// Why a token is refused. For the log: its bearer is told less.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not three parts of base64url with JSON in them, or a claim has the wrong type.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// Longer than any token may be.
    #[error("it has {0} bytes")]
    TooLong(usize),
    /// The header asks for something that we do not do.
    #[error("its header has {0}, which is not understood")]
    Header(&'static str),
    /// We do not know the issuer.
    #[error("its issuer is not known")]
    Issuer,
    /// No key of the issuer has that name, or the token names none of several.
    #[error("it names no key of its issuer")]
    Key,
    /// The key is used with another algorithm.
    #[error("its algorithm is not the one of its key")]
    Algorithm,
    /// The signature is not the issuer's.
    #[error("its signature is wrong")]
    Signature,
    /// It is for somebody else.
    #[error("its audience is another one")]
    Audience,
    /// It has ended.
    #[error("it has expired")]
    Expired,
    /// It has not begun, or was issued in the future.
    #[error("it is not valid yet")]
    NotYet,
    /// It is valid for longer than is allowed.
    #[error("it is valid for too long")]
    Lifetime,
    /// It follows no profile that we know, or two.
    #[error("it says neither wlcg.ver 1 nor ver scitoken 1 or 2")]
    Version,
    /// It does not say whom it is about.
    #[error("its subject is missing or too long: map it to a name in the settings")]
    Subject,
    /// A scope is malformed.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// It has too many groups.
    #[error("it has more than {GROUPS_MAX} groups")]
    Groups,
    /// A group's name is none here.
    #[error("the name of one of its groups is too long or has control characters: map it in the settings")]
    GroupName,
    /// It has neither scopes for storage nor groups.
    #[error("it has neither scopes for storage nor groups: it allows nothing here")]
    Nothing,
}

/// The claims that are looked at. That none comes twice, of others too, is seen to by [`Strict`].
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: Option<String>,
    aud: Option<Audience>,
    exp: Option<i64>,
    nbf: Option<i64>,
    iat: Option<i64>,
    scope: Option<String>,
    ver: Option<String>,
    #[serde(rename = "wlcg.ver")]
    wlcg_ver: Option<String>,
    #[serde(rename = "wlcg.groups", default)]
    wlcg_groups: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct IssuerOnly {
    iss: String,
}

/// Whom a token stands for. Nothing of it is believed before its signature is verified with a key that the
/// settings name for its issuer, by the one algorithm of that key.
///
/// # Errors
/// Says what is wrong with it.
pub fn verify_token(
    token: &str,
    issuers: &[Issuer],
    limits: &TokenLimits,
    now: Timestamp,
) -> Result<Caller, TokenError> {
    if token.len() > limits.token_bytes {
        return Err(TokenError::TooLong(token.len()));
    }
    let malformed = |error: jsonwebtoken::errors::Error| TokenError::Malformed(error.to_string());
    let header = decode_header(token).map_err(malformed)?;
    check_header(&header)?;
    check_header_names(token)?;
    // Only to find the keys; the claims are read again behind the signature.
    let claimed: IssuerOnly = dangerous::insecure_decode_claims(token).map_err(malformed)?;
    let issuer = issuers.iter().find(|issuer| issuer.issuer == claimed.iss).ok_or(TokenError::Issuer)?;
    let key = key_for(issuer, header.kid.as_deref())?;
    if header.alg != key.algorithm || is_shared(key.algorithm) {
        return Err(TokenError::Algorithm);
    }
    let mut validation = Validation::new(key.algorithm);
    // Times and audience are checked below, with the time that was given.
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    let claims = decode::<Strict>(token, &key.key, &validation).map_err(of_library)?.claims;
    let claims: Claims = read(claims)?;
    if claims.iss != issuer.issuer {
        return Err(TokenError::Issuer);
    }
    check_times(&claims, limits, now)?;
    check_audience(&claims, issuer)?;
    caller_of(&claims, issuer)
}

/// For the fuzz targets: whom these claims stand for, if they came behind a signature of the issuer.
pub(crate) fn behind_signature(
    claims: &[u8],
    issuer: &Issuer,
    limits: &TokenLimits,
    now: Timestamp,
) -> Result<Caller, TokenError> {
    let claims: Strict =
        serde_json::from_slice(claims).map_err(|error| TokenError::Malformed(error.to_string()))?;
    let claims: Claims = read(claims)?;
    check_times(&claims, limits, now)?;
    check_audience(&claims, issuer)?;
    caller_of(&claims, issuer)
}

fn read(claims: Strict) -> Result<Claims, TokenError> {
    claims.read().map_err(|error| TokenError::Malformed(error.to_string()))
}

/// That no parameter of the header comes twice. The library reads claims strictly if asked to, and the header
/// only in its own way, so it is given the header in the place of the claims.
fn check_header_names(token: &str) -> Result<(), TokenError> {
    let header = token.split('.').next().unwrap_or_default();
    let read = dangerous::insecure_decode_claims::<Strict>(format!(".{header}."));
    read.map(drop).map_err(|error| TokenError::Malformed(error.to_string()))
}

fn check_header(header: &Header) -> Result<(), TokenError> {
    if header.crit.is_some() {
        return Err(TokenError::Header("crit"));
    }
    if header.enc.is_some() || header.zip.is_some() {
        return Err(TokenError::Header("enc or zip"));
    }
    if header.extras.inner().contains_key("b64") {
        return Err(TokenError::Header("b64"));
    }
    let known = |typ: &String| ["jwt", "at+jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known));
    if header.typ.as_ref().is_some_and(|typ| !known(typ)) {
        return Err(TokenError::Header("another typ"));
    }
    Ok(())
}

/// The key that the token names; the only one of its issuer, if one of the two says nothing.
fn key_for<'a>(issuer: &'a Issuer, kid: Option<&str>) -> Result<&'a IssuerKey, TokenError> {
    if let Some(kid) = kid
        && let Some(key) = issuer.keys.iter().find(|key| key.kid.as_deref() == Some(kid))
    {
        return Ok(key);
    }
    match issuer.keys.as_slice() {
        [only] if kid.is_none() || only.kid.is_none() => Ok(only),
        _ => Err(TokenError::Key),
    }
}

fn is_shared(algorithm: Algorithm) -> bool {
    algorithm.family() == jsonwebtoken::AlgorithmFamily::Hmac
}

fn of_library(error: jsonwebtoken::errors::Error) -> TokenError {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::InvalidSignature => TokenError::Signature,
        ErrorKind::InvalidAlgorithm => TokenError::Algorithm,
        _ => TokenError::Malformed(error.to_string()),
    }
}

fn check_times(claims: &Claims, limits: &TokenLimits, now: Timestamp) -> Result<(), TokenError> {
    let seconds = |span: base::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let (leeway, lifetime) = (seconds(limits.leeway), seconds(limits.lifetime));
    let now = now.0.div_euclid(1_000_000_000);
    let exp = claims.exp.ok_or_else(|| TokenError::Malformed("exp is missing".to_owned()))?;
    if now >= exp.saturating_add(leeway) {
        return Err(TokenError::Expired);
    }
    let begins = [claims.nbf, claims.iat].into_iter().flatten();
    if begins.clone().any(|begin| begin > now.saturating_add(leeway)) {
        return Err(TokenError::NotYet);
    }
    let ends_late = exp > now.saturating_add(lifetime).saturating_add(leeway);
    if ends_late || claims.iat.or(claims.nbf).is_some_and(|begin| exp.saturating_sub(begin) > lifetime) {
        return Err(TokenError::Lifetime);
    }
    Ok(())
}

fn check_audience(claims: &Claims, issuer: &Issuer) -> Result<(), TokenError> {
    let ours = |audience: &String| issuer.audiences.contains(audience);
    let is_ours = match &claims.aud {
        None => false,
        Some(Audience::One(audience)) => ours(audience),
        Some(Audience::Several(audiences)) => audiences.iter().any(ours),
    };
    if is_ours { Ok(()) } else { Err(TokenError::Audience) }
}

fn caller_of(claims: &Claims, issuer: &Issuer) -> Result<Caller, TokenError> {
    let profile = match (&claims.wlcg_ver, &claims.ver) {
        (Some(version), None) if version == "1" || version.starts_with("1.") => Profile::Wlcg,
        (None, Some(version)) if is_scitoken(version) => Profile::SciTokens,
        _ => return Err(TokenError::Version),
    };
    let subject = claims.sub.as_deref().filter(|sub| !sub.is_empty()).ok_or(TokenError::Subject)?;
    let name = mapped(&issuer.users, &issuer.prefix, subject).ok_or(TokenError::Subject)?;
    let scope = claims.scope.as_deref().unwrap_or_default();
    let capabilities = capabilities(scope, profile, &issuer.base)?;
    // A token for something else, such as computing, does not become one for storage by its subject's groups.
    let is_no_right = |word: &str| word.starts_with("wlcg") || !word.contains(['.', ':']);
    let is_by_group = scope.split(' ').all(is_no_right);
    // Some of them would be no groups of the caller: what lists and quotas say of those would not hold.
    if claims.wlcg_groups.len() > GROUPS_MAX {
        return Err(TokenError::Groups);
    }
    let mut groups = Vec::new();
    for group in &claims.wlcg_groups {
        groups.push(mapped(&issuer.groups, &issuer.prefix, group).ok_or(TokenError::GroupName)?);
    }
    if capabilities.is_empty() && (groups.is_empty() || !is_by_group) {
        return Err(TokenError::Nothing);
    }
    let until = claims.exp.map(|end| Timestamp(end.saturating_mul(1_000_000_000)));
    let (how, origin) = (How::Token, issuer.issuer.clone());
    Ok(Caller { name, groups, capabilities, how, origin, until, ..Caller::default() })
}

fn is_scitoken(version: &str) -> bool {
    matches!(
        version.to_ascii_lowercase().as_str(),
        "scitoken:1.0" | "scitokens:1.0" | "scitoken:2.0" | "scitokens:2.0"
    )
}

/// The name in the settings, or the issuer's prefix and the word; `None` if that is no name.
fn mapped(map: &[(String, String)], prefix: &str, word: &str) -> Option<String> {
    let name = match map.iter().find(|(from, _)| from == word) {
        Some((_, to)) => to.clone(),
        None => format!("{prefix}:{word}"),
    };
    (name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control)).then_some(name)
}

#[cfg(test)]
mod tests {
    use base::ArchivePath;

    use super::*;

    const NOW: i64 = 1000;

    fn behind(claims: &[u8]) -> Result<Caller, TokenError> {
        let issuer = Issuer {
            issuer: "https://issuer".to_owned(),
            prefix: "vo".to_owned(),
            keys: Vec::new(),
            audiences: vec!["https://kist".to_owned()],
            base: ArchivePath::root(),
            users: Vec::new(),
            groups: Vec::new(),
        };
        behind_signature(claims, &issuer, &TokenLimits::default(), Timestamp(NOW * 1_000_000_000))
    }

    fn claims(more: &[u8]) -> Vec<u8> {
        let known = format!(
            "{{\"iss\":\"https://issuer\",\"sub\":\"anna\",\"aud\":\"https://kist\",\"exp\":{},\
             \"wlcg.ver\":\"1.0\"",
            NOW + 600
        );
        [known.as_bytes(), more, b"}"].concat()
    }

    #[test]
    fn claims_that_nobody_knows_are_read_all_the_same() {
        let scope = b",\"scope\":\"storage.read:/\"";
        let with = |more: &[u8]| behind(&claims(&[&scope[..], more].concat()));
        assert!(with(b",\"jti\":\"1\",\"acr\":{\"a\":[1]}").is_ok());
        let bad: [&[u8]; 5] = [
            b",\"jti\":\"1\",\"jti\":\"1\"",
            b",\"act\":{\"sub\":\"a\",\"sub\":\"b\"}",
            b",\"jti\":\"\xff\"",
            b",\"jti\":\"\\udc00\"",
            b",\"exp\":1900",
        ];
        for more in bad {
            let refused = with(more);
            let text = String::from_utf8_lossy(more);
            assert!(matches!(refused, Err(TokenError::Malformed(_))), "{text}: {refused:?}");
        }
    }

    #[test]
    fn no_parameter_of_a_header_comes_twice() {
        // {"alg":"ES256","x":1,"x":2}, and the same without the last.
        let twice = "eyJhbGciOiJFUzI1NiIsIngiOjEsIngiOjJ9.e30.c2ln";
        let once = "eyJhbGciOiJFUzI1NiIsIngiOjF9.e30.c2ln";
        assert!(decode_header(twice).is_ok(), "the library takes one of them");
        assert!(matches!(
            verify_token(twice, &[], &TokenLimits::default(), Timestamp(0)),
            Err(TokenError::Malformed(_))
        ));
        assert_eq!(check_header_names(once), Ok(()));
    }

    #[test]
    fn groups_are_taken_all_or_not_at_all() {
        let with = |count: usize| {
            let groups: Vec<String> = (0..count).map(|n| format!("\"/g{n}\"")).collect();
            behind(&claims(format!(",\"wlcg.groups\":[{}]", groups.join(",")).as_bytes()))
        };
        assert_eq!(with(GROUPS_MAX).unwrap().groups.len(), GROUPS_MAX);
        assert_eq!(with(GROUPS_MAX + 1).unwrap_err(), TokenError::Groups);
    }

    /// A group whose name was too long was left out: what its bearer put was the next group's, and counted
    /// for that one's quota.
    #[test]
    fn a_group_without_a_name_here_is_not_left_out() {
        let with =
            |first: &str| behind(&claims(format!(",\"wlcg.groups\":[\"{first}\",\"/cms\"]").as_bytes()));
        assert_eq!(with("/lofar").unwrap().groups, ["vo:/lofar", "vo:/cms"]);
        let longest = "g".repeat(NAME_BYTES_MAX - "vo:".len());
        assert_eq!(with(&longest).unwrap().groups.len(), 2);
        for bad in [&format!("{longest}g"), "a\\u0007"] {
            assert_eq!(with(bad).unwrap_err(), TokenError::GroupName, "{bad}");
        }
    }
}
