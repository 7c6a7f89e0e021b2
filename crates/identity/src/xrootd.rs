//! Callers that an XRootD server in front of Kist has authenticated: whom they stand for here. That the
//! server is the one that the configuration names is checked before.

use base::Blake3;

use crate::caller::{Caller, How, NAME_BYTES_MAX};
use crate::certificate::CertificateMapping;
use crate::token::GROUPS_MAX;

/// Whom an XRootD server says that it talks to: its `XrdSecEntity`, as far as Kist looks at it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct XrootdEntity {
    /// The protocol that authenticated them: `gsi`, `ztn`, `sss`, `krb5`, `unix`, `host`, …
    pub protocol: String,
    /// The name by that protocol.
    pub name: String,
    /// Virtual organisations, separated by spaces: of a column each, as `roles` and `groups`.
    pub organisations: String,
    /// Roles in them; `NULL` is none.
    pub roles: String,
    /// Groups, separated by spaces or commas; those of VOMS begin with `/`.
    pub groups: String,
    /// Of a certificate: its subject, as `/C=CH/O=Lab/CN=anna`.
    pub subject: String,
}

/// What Kist believes an XRootD server.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct XrootdTrust {
    /// Protocols whose names and groups are taken as they are, such as `sss`. Not `gsi` and `ztn`, which have
    /// rules of their own.
    pub protocols: Vec<String>,
    /// Whether members of a virtual organisation come in without a mapping of their own: their VOMS groups
    /// say what they may. The server has to verify the signatures of those (`-vomsfun`).
    pub voms: bool,
}

/// Why somebody does not come in. For the log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XrootdRefusal {
    /// The protocol's name for them is none that Kist can have.
    #[error("the {0} name '{1}' is empty, too long or has control characters")]
    Name(String, String),
    /// No subject came with a certificate.
    #[error("XRootD tells no subject: add -moninfo:1 to its sec.protocol line for gsi")]
    NoSubject,
    /// Nobody has this subject.
    #[error(
        "no [[identity.certificates]] without an issuer names the subject '{0}', and no VOMS group is trusted"
    )]
    Unknown(String),
}

/// Whom an XRootD server talks to. Nobody becomes an admin by its word.
///
/// # Errors
/// If the protocol is trusted and what it says makes nobody. What is not trusted makes nobody in particular.
pub fn xrootd_caller(
    entity: &XrootdEntity,
    trust: &XrootdTrust,
    mappings: &[CertificateMapping],
) -> Result<Caller, XrootdRefusal> {
    match entity.protocol.as_str() {
        "gsi" => by_certificate(entity, trust, mappings),
        protocol if protocol != "ztn" && trust.protocols.iter().any(|trusted| trusted == protocol) => {
            let name = &entity.name;
            if !is_name(name) {
                return Err(XrootdRefusal::Name(protocol.to_owned(), name.chars().take(64).collect()));
            }
            Ok(named(name, words(&entity.groups).map(str::to_owned)))
        }
        _ => Ok(Caller { how: How::Nothing, ..Caller::anonymous() }),
    }
}

fn by_certificate(
    entity: &XrootdEntity,
    trust: &XrootdTrust,
    mappings: &[CertificateMapping],
) -> Result<Caller, XrootdRefusal> {
    let subject = &entity.subject;
    if !subject.starts_with('/') {
        return Err(XrootdRefusal::NoSubject);
    }
    // XRootD does not say who signed a certificate, so a mapping that asks for somebody fits none.
    let fits = |mapping: &&CertificateMapping| {
        mapping.issuer.is_none()
            && (mapping.subject == *subject || slashes_of(&mapping.subject).as_ref() == Some(subject))
    };
    let groups = if trust.voms { voms_groups(entity) } else { Vec::new() };
    if let Some(found) = mappings.iter().find(fits) {
        let mut caller = named(&found.name, found.groups.iter().cloned().chain(groups));
        caller.how = How::Xrootd;
        return Ok(caller);
    }
    if groups.is_empty() {
        return Err(XrootdRefusal::Unknown(subject.chars().take(256).collect()));
    }
    // A name of their own, so that what they make is theirs and not their whole organisation's.
    let hash = Blake3::of(subject.as_bytes()).to_string();
    Ok(named(&format!("dn-{}", hash.get(..40).unwrap_or(&hash)), groups))
}

fn named(name: &str, groups: impl IntoIterator<Item = String>) -> Caller {
    let mut kept: Vec<String> = Vec::new();
    for group in groups {
        if is_name(&group) && !kept.contains(&group) && kept.len() < GROUPS_MAX {
            kept.push(group);
        }
    }
    Caller { name: name.to_owned(), groups: kept, how: How::Xrootd, ..Caller::default() }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',']).filter(|word| !word.is_empty())
}

/// Groups of VOMS without the slash before them, and each role as `GROUP/Role=ROLE`.
fn voms_groups(entity: &XrootdEntity) -> Vec<String> {
    let bare = |group: &str| group.strip_prefix('/').filter(|bare| !bare.is_empty()).map(str::to_owned);
    let roles = words(&entity.roles).map(Some).chain(std::iter::repeat(None));
    let mut all = Vec::new();
    for (group, role) in words(&entity.groups).zip(roles) {
        let Some(group) = bare(group) else { continue };
        if let Some(role) = role.filter(|role| *role != "NULL") {
            all.push(format!("{group}/Role={role}"));
        }
        all.push(group);
    }
    if all.is_empty() {
        all.extend(words(&entity.organisations).map(str::to_owned));
    }
    all
}

/// `CN=anna,O=Lab,C=CH` as `/C=CH/O=Lab/CN=anna`; `None` where that would be ambiguous.
fn slashes_of(rfc2253: &str) -> Option<String> {
    let is_plain = |part: &&str| part.split_once('=').is_some_and(|(word, _)| !word.is_empty());
    let parts: Vec<&str> = rfc2253.split(',').collect();
    if rfc2253.contains(['\\', '+', '"', '/']) || !parts.iter().all(is_plain) {
        return None;
    }
    Some(parts.iter().rev().fold(String::new(), |text, part| text + "/" + part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(protocol: &str, name: &str, groups: &str) -> XrootdEntity {
        let (protocol, name, groups) = (protocol.to_owned(), name.to_owned(), groups.to_owned());
        XrootdEntity { protocol, name, groups, ..XrootdEntity::default() }
    }

    fn trust(protocols: &[&str]) -> XrootdTrust {
        XrootdTrust { protocols: protocols.iter().map(|&name| name.to_owned()).collect(), voms: false }
    }

    #[test]
    fn names_are_taken_of_trusted_protocols_alone() {
        // Protocol, what is trusted, the name that comes of it ("": nobody in particular).
        let table: [(&str, &[&str], &str); 10] = [
            ("sss", &["sss"], "anna"),
            ("sss", &[], ""),
            ("sss", &["krb5"], ""),
            ("krb5", &["sss", "krb5"], "anna"),
            ("unix", &["sss"], ""),
            ("unix", &["unix"], "anna"),
            ("host", &["sss", "krb5"], ""),
            ("", &["sss"], ""),
            // A token is verified by Kist or not at all, whatever the server says of it.
            ("ztn", &["ztn"], ""),
            ("https", &["sss"], ""),
        ];
        for (protocol, trusted, name) in table {
            let caller = xrootd_caller(&entity(protocol, "anna", "cms,atlas"), &trust(trusted), &[]).unwrap();
            assert_eq!(caller.name, name, "{protocol} {trusted:?}");
            let groups = if name.is_empty() { vec![] } else { vec!["cms", "atlas"] };
            assert_eq!(caller.groups, groups, "{protocol} {trusted:?}");
            assert!(!caller.is_admin && !caller.is_operator);
        }
    }

    #[test]
    fn a_name_that_cannot_be_one_is_refused_and_a_group_left_out() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["", "a\nb", long.as_str()] {
            assert!(xrootd_caller(&entity("sss", name, ""), &trust(&["sss"]), &[]).is_err(), "{name:?}");
        }
        let groups = format!("a {long} b a");
        let caller = xrootd_caller(&entity("sss", "anna", &groups), &trust(&["sss"]), &[]).unwrap();
        assert_eq!(caller.groups, ["a", "b"]);
    }

    fn mapping(subject: &str, issuer: Option<&str>, is_admin: bool) -> CertificateMapping {
        CertificateMapping {
            subject: subject.to_owned(),
            issuer: issuer.map(str::to_owned),
            name: "anna".to_owned(),
            groups: vec!["lab".to_owned()],
            is_admin,
        }
    }

    #[test]
    fn subjects_go_by_the_mappings_of_certificates() {
        let with = |subject: &str| XrootdEntity { subject: subject.to_owned(), ..entity("gsi", "x", "/cms") };
        let who = |subject: &str, mapping: &CertificateMapping| {
            xrootd_caller(&with(subject), &XrootdTrust::default(), std::slice::from_ref(mapping))
        };
        let anna = "/C=CH/O=Lab/CN=anna";
        for named in [anna, "CN=anna,O=Lab,C=CH"] {
            let caller = who(anna, &mapping(named, None, true)).unwrap();
            assert_eq!((caller.name.as_str(), caller.how), ("anna", How::Xrootd));
            assert_eq!(caller.groups, ["lab"], "VOMS is not trusted");
            assert!(!caller.is_admin, "nobody becomes an admin by the word of XRootD");
        }
        let unknown = [
            (anna, mapping("/CN=anna", None, false)),
            ("/C=CH/O=Lab/CN=anna/CN=123", mapping(anna, None, false)),
            (anna, mapping(anna, Some("/CN=ca"), false)),
            // The value of an attribute with a slash in it could pass for two attributes.
            ("/O=Lab/CN=anna", mapping("O=Lab/CN=anna", None, false)),
        ];
        for (subject, mapping) in unknown {
            assert!(matches!(who(subject, &mapping), Err(XrootdRefusal::Unknown(_))), "{subject}");
        }
        assert_eq!(who("anna", &mapping(anna, None, false)), Err(XrootdRefusal::NoSubject));
    }

    #[test]
    fn groups_of_voms_count_where_they_are_trusted() {
        let mut member = XrootdEntity {
            subject: "/CN=bert".to_owned(),
            organisations: "cms cms".to_owned(),
            roles: "NULL production".to_owned(),
            ..entity("gsi", "bert", "/cms /cms/higgs")
        };
        let voms = XrootdTrust { voms: true, ..XrootdTrust::default() };
        let caller = xrootd_caller(&member, &voms, &[]).unwrap();
        assert_eq!(caller.groups, ["cms", "cms/higgs/Role=production", "cms/higgs"]);
        assert!(caller.name.starts_with("dn-") && caller.name.len() == 43);
        let mapped = xrootd_caller(&member, &voms, &[mapping("/CN=bert", None, false)]).unwrap();
        assert_eq!((mapped.name.as_str(), mapped.groups[0].as_str()), ("anna", "lab"));
        assert!(mapped.groups.contains(&"cms".to_owned()));
        (member.groups, member.roles) = (String::new(), String::new());
        assert_eq!(xrootd_caller(&member, &voms, &[]).unwrap().groups, ["cms"]);
        member.organisations = String::new();
        assert!(xrootd_caller(&member, &voms, &[]).is_err());
    }
}
