//! Keys: who may come in.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base::Blake3;
use tokio::sync::Semaphore;

use crate::headers::single;
use crate::server::KeyEntry;

/// Someone with a key.
#[derive(Debug)]
pub(crate) struct Principal {
    /// The name, for requests, idempotency and the audit log.
    pub name: String,
    /// Requests that may still begin.
    pub requests: Arc<Semaphore>,
}

/// All keys, as hashes.
#[derive(Debug)]
pub(crate) struct Keys(Vec<([u8; 32], Arc<Principal>)>);

impl Keys {
    /// Several keys of one name are one principal, with one allowance of `requests` at once.
    pub(crate) fn new(entries: Vec<KeyEntry>, requests: usize) -> Self {
        let mut principals: HashMap<String, Arc<Principal>> = HashMap::new();
        let keys = entries.into_iter().map(|entry| {
            let principal = principals.entry(entry.name.clone()).or_insert_with(|| {
                let requests = Arc::new(Semaphore::new(requests.min(Semaphore::MAX_PERMITS)));
                Arc::new(Principal { name: entry.name.clone(), requests })
            });
            (entry.hash, principal.clone())
        });
        Keys(keys.collect())
    }

    /// Whose key the request carries. The time does not depend on how much of a key is right: the key is
    /// hashed, and its hash is compared with all of them in full.
    pub(crate) fn principal(&self, headers: &HeaderMap) -> Option<Arc<Principal>> {
        let value = single(headers, &AUTHORIZATION).ok()??.as_bytes();
        let (scheme, key) = value.split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return None;
        }
        let presented = Blake3::of(key.trim_ascii()).0;
        let mut found = None;
        for (hash, principal) in &self.0 {
            let difference = hash.iter().zip(&presented).fold(0u8, |sum, (a, b)| black_box(sum | (a ^ b)));
            if difference == 0 {
                found = Some(principal.clone());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_is_a_key() {
        let entry =
            |name: &str, key: &str| KeyEntry { name: name.into(), hash: Blake3::of(key.as_bytes()).0 };
        let keys = Keys::new(vec![entry("anna", "k1"), entry("bert", "k2"), entry("anna", "k3")], 5);
        let who = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            values.iter().for_each(|v| {
                headers.append(AUTHORIZATION, v.parse().unwrap());
            });
            keys.principal(&headers).map(|p| p.name.clone())
        };
        assert_eq!(who(&["Bearer k1"]).as_deref(), Some("anna"));
        assert_eq!(who(&["bearer  k3 "]).as_deref(), Some("anna"));
        assert_eq!(who(&["Bearer k2"]).as_deref(), Some("bert"));
        for bad in
            [&[][..], &["Bearer k"], &["Bearer k11"], &["Bearer "], &["Bearer"], &["Basic k1"], &["k1"]]
        {
            assert_eq!(who(bad), None, "{bad:?}");
        }
        assert_eq!(who(&["Bearer k1", "Bearer k1"]), None);
        let one = keys.0.iter().filter(|(_, p)| p.name == "anna").map(|(_, p)| Arc::as_ptr(&p.requests));
        assert_eq!(one.collect::<std::collections::HashSet<_>>().len(), 1);
    }
}
