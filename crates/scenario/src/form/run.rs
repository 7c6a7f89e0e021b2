//! `[run]`.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use quantity::Span;

/// `[run]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// How long at most.
    pub span: Span,
    /// Whether it ends when everything is done.
    #[serde(default)]
    pub until_done: bool,
    /// What does not count in means, if not found by the twin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Span>,
    /// The width of a bin, if not a five-hundredth of the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Span>,
    /// How many, or which.
    #[serde(default)]
    pub seeds: Seeds,
}

/// So many seeds from 1 on, or these.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Seeds {
    /// From 1.
    Count(u64),
    /// These.
    List(Vec<u64>),
}

impl Default for Seeds {
    fn default() -> Self {
        Seeds::Count(1)
    }
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrList;
        impl<'de> Visitor<'de> for NumberOrList {
            type Value = Seeds;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("how many seeds (3), or a list of them ([1, 2, 3])")
            }
            fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Seeds, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Signed(count), &self);
                u64::try_from(count).map(Seeds::Count).map_err(|_| wrong())
            }
            fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Seeds, E> {
                Ok(Seeds::Count(count))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Seeds, A::Error> {
                let mut seeds = Vec::new();
                while let Some(seed) = items.next_element()? {
                    seeds.push(seed);
                }
                Ok(Seeds::List(seeds))
            }
        }
        deserializer.deserialize_any(NumberOrList)
    }
}
