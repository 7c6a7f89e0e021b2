//! `[identity]`: whose tokens and certificates are taken, and whom they stand for.

use std::path::{Path, PathBuf};

use authority::Identities;
use base::ArchivePath;
use identity::{CertificateMapping, Issuer, IssuerKey, NAME_BYTES_MAX, TokenLimits, check_names, read_keys};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::check::Finding;
use super::value::Span;

/// The longest file of keys.
const KEYS_BYTES_MAX: u64 = 1 << 20;

/// Issuers are not asked more often.
const REFRESH_MIN: base::Duration = base::Duration::from_secs(1);
/// What was fetched is kept in this directory of the instance.
pub const FETCHED_DIRECTORY: &str = "issuer-keys";

/// `[identity]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// From its issue to its end a token has at most this long.
    #[serde(default = "token_lifetime")]
    pub token_lifetime: Span,
    /// How far the clocks of issuers may differ from ours.
    #[serde(default = "leeway")]
    pub leeway: Span,
    /// How often keys are fetched from issuers.
    #[serde(default = "refresh")]
    pub refresh: Span,
    /// The authorities that may have signed certificates of issuers' servers; those of the system, if it is
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Issuers of tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub issuers: Vec<TokenIssuer>,
    /// Whom certificates stand for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
}

/// `[[identity.issuers]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenIssuer {
    /// The claim `iss`, to the letter.
    pub issuer: Spanned<String>,
    /// Stands before names and groups that are not mapped; the issuer itself, if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Spanned<String>>,
    /// The claim `aud` holds one of these, to the letter.
    pub audiences: Spanned<Vec<String>>,
    /// The paths of scopes are below this.
    #[serde(default = "root")]
    pub base_path: Spanned<String>,
    /// Where its public keys are; without any, where it says itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeySource>,
    /// Names of subjects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Named>,
    /// Names of groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Named>,
}

/// `[[identity.issuers.keys]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySource {
    /// A JWK set or a public key in PEM, within the instance or absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Spanned<PathBuf>>,
    /// The address of a JWK set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Spanned<String>>,
    /// Of PEM: the algorithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Of PEM: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
}

/// What an issuer calls somebody, and we.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// In tokens.
    pub claim: String,
    /// Here.
    pub name: Spanned<String>,
}

/// `[[identity.certificates]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The subject, as `CN=anna,O=Lab` or `/O=Lab/CN=anna`.
    pub subject: String,
    /// Who has signed it; any authority that TLS trusts, if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The name.
    pub name: Spanned<String>,
    /// The groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Whether it is an admin's.
    #[serde(default)]
    pub admin: bool,
}

impl Default for Identity {
    fn default() -> Self {
        Identity {
            token_lifetime: token_lifetime(),
            leeway: leeway(),
            refresh: refresh(),
            ca: None,
            issuers: Vec::new(),
            certificates: Vec::new(),
        }
    }
}

fn token_lifetime() -> Span {
    Span(TokenLimits::default().lifetime)
}

fn leeway() -> Span {
    Span(TokenLimits::default().leeway)
}

fn refresh() -> Span {
    Span(base::Duration::from_secs(600))
}

fn root() -> Spanned<String> {
    Spanned::new(0..0, "/".to_owned())
}

/// What types cannot say; the files of keys are read when the server starts.
pub(super) fn check(identity: &Identity) -> Result<(), Finding> {
    if identity.refresh.0 < REFRESH_MIN {
        return Err((0..0, format!("identity.refresh: at least {}", Span(REFRESH_MIN))));
    }
    for (n, issuer) in identity.issuers.iter().enumerate() {
        let name = issuer.issuer.get_ref();
        let same = |other: &TokenIssuer| other.issuer.get_ref() == name;
        if name.is_empty() || identity.issuers.iter().take(n).any(same) {
            return Err((issuer.issuer.span(), format!("the issuer '{name}' is empty or stands here twice")));
        }
        let audiences = issuer.audiences.get_ref();
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            let message = "name the audience of this server: a token for another one is refused";
            return Err((issuer.audiences.span(), message.to_owned()));
        }
        if ArchivePath::new(issuer.base_path.get_ref()).is_err() {
            return Err((issuer.base_path.span(), "not a path of the archive, such as /cms".to_owned()));
        }
        if issuer.keys.is_empty() && !KeyAddress::may_be_asked(name) {
            let message = "keys are fetched from https:// only: add [[identity.issuers.keys]] with a file";
            return Err((issuer.issuer.span(), message.to_owned()));
        }
        issuer.keys.iter().try_for_each(|key| check_source(key, &issuer.issuer))?;
        issuer.users.iter().chain(&issuer.groups).try_for_each(|named| check_name(&named.name))?;
    }
    identity.certificates.iter().try_for_each(|certificate| check_name(&certificate.name))
}

fn check_source(key: &KeySource, issuer: &Spanned<String>) -> Result<(), Finding> {
    match (&key.file, &key.url) {
        (Some(_), None) => Ok(()),
        (None, Some(url)) if key.algorithm.is_some() || key.kid.is_some() => {
            Err((url.span(), "a set of keys names algorithms and keys itself".to_owned()))
        }
        (None, Some(url)) if !KeyAddress::may_be_asked(url.get_ref()) => {
            Err((url.span(), "keys are fetched from https:// only".to_owned()))
        }
        (None, Some(_)) => Ok(()),
        _ => Err((issuer.span(), "each of its keys has either a file or a url".to_owned())),
    }
}

fn check_name(name: &Spanned<String>) -> Result<(), Finding> {
    let text = name.get_ref();
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(char::is_control) {
        return Err((name.span(), format!("a name has 1 to {NAME_BYTES_MAX} bytes")));
    }
    Ok(())
}

impl Identity {
    /// The files that say whose signatures are good, within the instance or absolute.
    pub fn key_files(&self) -> Vec<PathBuf> {
        let keys = self.issuers.iter().flat_map(|issuer| &issuer.keys);
        let files = keys.filter_map(|key| key.file.as_ref().map(|file| file.get_ref().clone()));
        files.chain(self.ca.clone()).collect()
    }

    /// Reads the files of keys. What is wrong is said with the file.
    pub fn load(&self, instance: &Path) -> Result<Identities, String> {
        let tokens =
            TokenLimits { leeway: self.leeway.0, lifetime: self.token_lifetime.0, ..TokenLimits::default() };
        let issuers = self.issuers.iter().map(|issuer| issuer.load(instance)).collect::<Result<_, _>>()?;
        let certificates = self.certificates.iter().map(|certificate| CertificateMapping {
            subject: certificate.subject.clone(),
            issuer: certificate.issuer.clone(),
            name: certificate.name.get_ref().clone(),
            groups: certificate.groups.clone(),
            is_admin: certificate.admin,
        });
        Ok(Identities { issuers, tokens, certificates: certificates.collect() })
    }
}

/// Where keys are fetched from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyAddress {
    /// Where the metadata of this issuer say.
    Issuer(String),
    /// A JWK set.
    Set(String),
}

impl KeyAddress {
    /// Whether keys from there can be believed: over https, or from this machine.
    pub fn may_be_asked(url: &str) -> bool {
        let Ok(uri) = url.parse::<ureq::http::Uri>() else { return false };
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else { return false };
        let is_here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
        let is_believed = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => is_here,
            _ => false,
        };
        is_believed && !host.is_empty() && !authority.as_str().contains('@')
    }

    /// Where what was fetched from there is kept.
    pub fn file(&self, instance: &Path) -> PathBuf {
        let (KeyAddress::Issuer(text) | KeyAddress::Set(text)) = self;
        let name = base::Blake3::of(format!("{}{text}", matches!(self, KeyAddress::Issuer(_))).as_bytes());
        instance.join(FETCHED_DIRECTORY).join(format!("{name}.json"))
    }

    /// The keys that were fetched last; none if nothing was fetched, or what is there is no set of keys.
    fn kept(&self, instance: &Path) -> Result<Vec<IssuerKey>, String> {
        let file = self.file(instance);
        match std::fs::read_to_string(&file) {
            Ok(text) => Ok(read_keys(&text, None, None).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }
}

impl TokenIssuer {
    /// Where its keys are fetched from.
    pub fn addresses(&self) -> Vec<KeyAddress> {
        if self.keys.is_empty() {
            return vec![KeyAddress::Issuer(self.issuer.get_ref().clone())];
        }
        let urls = self.keys.iter().filter_map(|key| key.url.as_ref());
        urls.map(|url| KeyAddress::Set(url.get_ref().clone())).collect()
    }

    fn load(&self, instance: &Path) -> Result<Issuer, String> {
        let issuer = self.issuer.get_ref().clone();
        let mut keys = Vec::new();
        for key in &self.keys {
            let Some(file) = &key.file else { continue };
            let file = instance.join(file.get_ref());
            let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let length = std::fs::metadata(&file).map_err(|error| told(&error))?.len();
            if length > KEYS_BYTES_MAX {
                return Err(told(&"too long for keys"));
            }
            let text = std::fs::read_to_string(&file).map_err(|error| told(&error))?;
            let read = read_keys(&text, key.algorithm.as_deref(), key.kid.as_deref());
            keys.extend(read.map_err(|error| told(&error))?);
        }
        check_names(&keys).map_err(|error| format!("issuer {issuer}: {error}"))?;
        for address in self.addresses() {
            for key in address.kept(instance)? {
                // What an issuer publishes must not make the settings bad: a file's key of one name goes
                // before.
                keys.push(key);
                if let Err(error) = check_names(&keys) {
                    keys.pop();
                    tracing::warn!(issuer, ?address, %error, "a fetched key is passed over");
                }
            }
        }
        let named = |names: &[Named]| {
            names.iter().map(|named| (named.claim.clone(), named.name.get_ref().clone())).collect()
        };
        let base = ArchivePath::new(self.base_path.get_ref()).map_err(|error| error.to_string())?;
        Ok(Issuer {
            prefix: self.prefix.as_ref().map_or_else(|| issuer.clone(), |prefix| prefix.get_ref().clone()),
            keys,
            audiences: self.audiences.get_ref().clone(),
            base,
            users: named(&self.users),
            groups: named(&self.groups),
            issuer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Identity, String> {
        let identity: Identity = toml::from_str(text).map_err(|error| error.to_string())?;
        check(&identity).map_err(|(_, message)| message)?;
        Ok(identity)
    }

    const ISSUER: &str =
        "[[issuers]]\nissuer = \"https://cms.example\"\naudiences = [\"https://kist.example\"]\n";
    const KEY: &str = "[[issuers.keys]]\nfile = \"cms.pem\"\nkid = \"k1\"\n";

    #[test]
    fn keys_come_from_files_and_what_is_wrong_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let identity = parse(&format!("{ISSUER}{KEY}")).unwrap();
        let missing = identity.load(directory.path()).unwrap_err();
        assert!(missing.contains("cms.pem"), "{missing}");
        std::fs::write(directory.path().join("cms.pem"), "no key").unwrap();
        assert!(identity.load(directory.path()).is_err());
        // The example of RFC 8037, appendix A.2, as a set of keys.
        let set = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1",
            "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        std::fs::write(directory.path().join("cms.pem"), set).unwrap();
        let loaded = identity.load(directory.path()).unwrap();
        assert_eq!(loaded.issuers[0].prefix, "https://cms.example");
        assert_eq!(loaded.issuers[0].keys[0].kid.as_deref(), Some("k1"));
        let twice = parse(&format!("{ISSUER}{KEY}{KEY}")).unwrap();
        assert!(twice.load(directory.path()).unwrap_err().contains("two keys"));
    }

    /// Story: a key that an issuer published under the name of one in a file made the settings bad, so that
    /// no other change was taken and the next start failed.
    #[test]
    fn what_was_fetched_never_makes_the_settings_bad() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("{ISSUER}{KEY}[[issuers.keys]]\nurl = \"https://cms.example/jwk\"\n");
        let identity = parse(&text).unwrap();
        let jwk = |kid: &str| {
            let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
            format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"{kid}","x":"{x}"}}"#)
        };
        let set = |keys: &[String]| format!(r#"{{"keys":[{}]}}"#, keys.join(","));
        std::fs::write(directory.path().join("cms.pem"), set(&[jwk("k1")])).unwrap();
        let fetched = identity.issuers[0].addresses()[0].file(directory.path());
        std::fs::create_dir(fetched.parent().unwrap()).unwrap();
        let names = |text: &str| -> Vec<String> {
            std::fs::write(&fetched, text).unwrap();
            let loaded = identity.load(directory.path()).unwrap();
            loaded.issuers[0].keys.iter().map(|key| key.kid.clone().unwrap()).collect()
        };
        assert_eq!(names(&set(&[jwk("k1"), jwk("k2")])), ["k1", "k2"]);
        let many: Vec<String> = (0..60).map(|n| jwk(&format!("m{n}"))).collect();
        assert_eq!(names(&set(&many)).len(), 61);
        for text in ["", "no keys", &set(&[])] {
            assert_eq!(names(text), ["k1"], "{text}");
        }
        // What cannot be read is another thing: keys in use stay in use.
        std::fs::remove_file(&fetched).unwrap();
        std::fs::create_dir(&fetched).unwrap();
        assert!(identity.load(directory.path()).is_err());
    }

    #[test]
    fn nothing_is_guessed() {
        let good = ["", ISSUER, &format!("{ISSUER}[[issuers.keys]]\nurl = \"http://127.0.0.1:80/jwk\"\n")];
        for text in good {
            assert!(parse(text).is_ok(), "{text}");
        }
        let wrong = [
            ISSUER.replace("https://cms", "http://cms"),
            ISSUER.replace("https://cms.example", "http://localhost.example"),
            ISSUER.replace("https://cms.example", "http://localhost:80@cms.example"),
            ISSUER.replace("https://cms.example", "https://"),
            format!("{ISSUER}[[issuers.keys]]\nkid = \"a\"\n"),
            format!("{ISSUER}{KEY}url = \"https://a\"\n"),
            format!("{ISSUER}[[issuers.keys]]\nurl = \"http://a/jwk\"\n"),
            format!("refresh = \"10ms\"\n{ISSUER}{KEY}"),
            format!("{ISSUER}base_path = \"cms\"\n{KEY}"),
            format!("{}{KEY}", ISSUER.replace("[\"https://kist.example\"]", "[]")),
            format!("{ISSUER}{KEY}{ISSUER}{KEY}"),
            format!("{ISSUER}typo = 1\n{KEY}"),
            "[[certificates]]\nsubject = \"CN=anna\"\nname = \"\"\n".to_owned(),
        ];
        for text in wrong {
            assert!(parse(&text).is_err(), "{text}");
        }
    }
}
