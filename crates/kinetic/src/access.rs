//! Access lists: which identity may do what with which keys.

use bytes::Bytes;

use crate::auth::Secret;
use crate::code::{HMAC_SHA1, Permission, Priority, StatusCode};
use crate::ids::Identity;
use crate::request::Refusal;
use crate::wire;

/// Most scopes of one identity. The protocol has no such number; it bounds what a request costs.
pub const SCOPES_MAX: usize = 64;

/// Keys for which a list of permissions holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// Where in the key `value` has to stand.
    pub offset: u64,
    /// What has to stand there; empty: every key is meant.
    pub value: Bytes,
    /// What is allowed.
    pub permissions: Vec<Permission>,
    /// Only over TLS.
    pub tls_required: bool,
}

impl Scope {
    /// Every permission there is, for every key, on every connection.
    #[must_use]
    pub fn everything() -> Self {
        let permissions = Permission::ALL.to_vec();
        Scope { offset: 0, value: Bytes::new(), permissions, tls_required: false }
    }

    /// Whether a key has the value at the offset.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        self.value.is_empty() || key.get(offset..).is_some_and(|rest| rest.starts_with(&self.value))
    }
}

/// One identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl {
    /// Its number.
    pub identity: Identity,
    /// Its key for HMAC-SHA1.
    pub key: Secret,
    /// What it may do. One scope has to allow a request as a whole.
    pub scopes: Vec<Scope>,
    /// The highest priority that it may ask for.
    pub max_priority: Priority,
}

impl Acl {
    /// The identity that a new device has: number 1, key `asdfasdf`, allowed everything.
    #[must_use]
    pub fn factory() -> Self {
        let (identity, key) = (Identity(1), Secret::new(&b"asdfasdf"[..]));
        Acl { identity, key, scopes: vec![Scope::everything()], max_priority: Priority::HIGHEST }
    }

    /// Whether a scope with this permission holds on such a connection, for some key.
    #[must_use]
    pub fn allows(&self, permission: Permission, is_tls: bool) -> bool {
        self.holding(permission, is_tls).next().is_some()
    }

    /// Whether a scope with this permission holds for this key.
    #[must_use]
    pub fn allows_key(&self, permission: Permission, is_tls: bool, key: &[u8]) -> bool {
        self.holding(permission, is_tls).any(|scope| scope.has(key))
    }

    /// Which keys are seen with this permission.
    #[must_use]
    pub fn filter(&self, permission: Permission, is_tls: bool) -> KeyFilter {
        let scopes: Vec<Scope> = self.holding(permission, is_tls).cloned().collect();
        let sees_all = scopes.iter().any(|scope| scope.value.is_empty());
        KeyFilter { scopes: if sees_all { None } else { Some(scopes) } }
    }

    fn holding(&self, permission: Permission, is_tls: bool) -> impl Iterator<Item = &Scope> {
        self.scopes
            .iter()
            .filter(move |scope| (is_tls || !scope.tls_required) && scope.permissions.contains(&permission))
    }

    /// From a message. What this program cannot hold to is refused, not left out.
    pub fn read(from: &wire::Acl) -> Result<Self, Refusal> {
        let invalid = |text| Refusal::new(StatusCode::InvalidRequest, text);
        let identity = Identity(from.identity.ok_or(invalid("an access list has no identity"))?);
        let key = from.key.clone().filter(|key| !key.is_empty());
        let key = Secret::new(key.ok_or(invalid("an access list has no key"))?);
        if from.hmac_algorithm.is_some_and(|algorithm| algorithm != HMAC_SHA1) {
            return Err(Refusal::new(StatusCode::NoSuchHmacAlgorithm, "only HmacSHA1 is known"));
        }
        if from.scope.is_empty() || from.scope.len() > SCOPES_MAX {
            return Err(invalid("an identity has 1 to 64 scopes"));
        }
        let scopes = from.scope.iter().map(read_scope).collect::<Result<Vec<_>, _>>()?;
        let max_priority = match from.max_priority {
            None => Priority::HIGHEST,
            Some(number) => Priority::from_number(number).ok_or(invalid("a priority is 1 to 9"))?,
        };
        Ok(Acl { identity, key, scopes, max_priority })
    }

    /// As a message.
    #[must_use]
    pub fn write(&self) -> wire::Acl {
        wire::Acl {
            identity: Some(self.identity.0),
            key: Some(self.key.bytes().clone()),
            hmac_algorithm: Some(HMAC_SHA1),
            scope: self.scopes.iter().map(write_scope).collect(),
            max_priority: Some(self.max_priority.number()),
        }
    }
}

/// Which keys an identity sees when it asks for neighbours and ranges: others are passed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyFilter {
    /// `None`: all.
    scopes: Option<Vec<Scope>>,
}

impl KeyFilter {
    /// All keys.
    #[must_use]
    pub fn all() -> Self {
        KeyFilter { scopes: None }
    }

    /// Whether this key is seen.
    #[must_use]
    pub fn sees(&self, key: &[u8]) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.iter().any(|scope| scope.has(key)))
    }
}

fn read_scope(from: &wire::Scope) -> Result<Scope, Refusal> {
    let invalid = |text| Refusal::new(StatusCode::InvalidRequest, text);
    let offset = u64::try_from(from.offset.unwrap_or(0)).map_err(|_| invalid("an offset is negative"))?;
    if from.permission.is_empty() {
        return Err(invalid("a scope allows nothing"));
    }
    let mut permissions = Vec::new();
    for number in &from.permission {
        let permission = Permission::from_number(*number).ok_or(invalid("a permission is unknown"))?;
        if !permissions.contains(&permission) {
            permissions.push(permission);
        }
    }
    let value = from.value.clone().unwrap_or_default();
    Ok(Scope { offset, value, permissions, tls_required: from.tls_required.unwrap_or(false) })
}

fn write_scope(scope: &Scope) -> wire::Scope {
    wire::Scope {
        offset: Some(i64::try_from(scope.offset).unwrap_or(i64::MAX)),
        value: (!scope.value.is_empty()).then(|| scope.value.clone()),
        permission: scope.permissions.iter().map(|permission| permission.number()).collect(),
        tls_required: Some(scope.tls_required),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(offset: u64, value: &'static str, permissions: &[Permission], tls_required: bool) -> Scope {
        let value = Bytes::from_static(value.as_bytes());
        Scope { offset, value, permissions: permissions.to_vec(), tls_required }
    }

    #[test]
    fn a_key_has_the_value_at_the_offset() {
        let at_2 = scope(2, "ab", &[], false);
        for (key, has) in [
            ("xxab", true),
            ("xxabc", true),
            ("xab", false),
            ("abab", true),
            ("ab", false),
            ("", false),
            ("xxa", false),
        ] {
            assert_eq!(at_2.has(key.as_bytes()), has, "{key}");
        }
        assert!(scope(9, "", &[], false).has(b""), "an empty value is in every key");
        assert!(!scope(u64::MAX, "a", &[], false).has(b"a"));
    }

    #[test]
    fn one_scope_has_to_allow_all() {
        use Permission::{Delete, Range, Read, Write};
        let scopes = vec![scope(0, "a", &[Read, Range], false), scope(0, "", &[Write], true)];
        let acl = Acl { scopes, ..Acl::factory() };
        assert!(acl.allows_key(Read, false, b"a1") && !acl.allows_key(Read, false, b"b"));
        assert!(acl.allows_key(Write, true, b"b") && !acl.allows_key(Write, false, b"b"));
        assert!(!acl.allows(Delete, true) && !acl.allows(Write, false) && acl.allows(Write, true));
        let seen = acl.filter(Range, false);
        assert!(seen.sees(b"a") && !seen.sees(b"b"));
        assert_eq!(Acl::factory().filter(Range, false), KeyFilter::all());
    }

    #[test]
    fn lists_come_back_and_what_is_not_understood_is_refused() {
        let list = Acl {
            scopes: vec![scope(3, "x", &[Permission::Read], true), Scope::everything()],
            ..Acl::factory()
        };
        let wire = list.write();
        assert_eq!(Acl::read(&wire), Ok(list));
        let refused = |change: fn(&mut wire::Acl)| {
            let mut wire = wire.clone();
            change(&mut wire);
            Acl::read(&wire).unwrap_err().code
        };
        use StatusCode::{InvalidRequest, NoSuchHmacAlgorithm};
        assert_eq!(refused(|acl| acl.hmac_algorithm = Some(2)), NoSuchHmacAlgorithm);
        assert_eq!(refused(|acl| acl.identity = None), InvalidRequest);
        assert_eq!(refused(|acl| acl.key = Some(Bytes::new())), InvalidRequest);
        assert_eq!(refused(|acl| acl.scope.clear()), InvalidRequest);
        assert_eq!(refused(|acl| acl.scope[0].permission.clear()), InvalidRequest);
        assert_eq!(refused(|acl| acl.scope[0].permission.push(6)), InvalidRequest);
        assert_eq!(refused(|acl| acl.scope[0].offset = Some(-1)), InvalidRequest);
        assert_eq!(refused(|acl| acl.max_priority = Some(10)), InvalidRequest);
        assert_eq!(refused(|acl| acl.scope = vec![acl.scope[0].clone(); SCOPES_MAX + 1]), InvalidRequest);
        let mut most = wire.clone();
        most.scope = vec![most.scope[0].clone(); SCOPES_MAX];
        assert!(Acl::read(&most).is_ok());
    }
}
