//! Objects of JSON. What serde derives for a structure also takes a list of its members, in their order.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that was written as an object.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(Object)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize, PartialEq, Debug)]
    struct Pair<'a> {
        name: &'a str,
        count: Option<u32>,
    }

    #[test]
    fn an_object_is_one_and_a_list_of_its_members_is_none() {
        let read = |text: &'static str| {
            serde_json::from_str::<Object<Pair<'static>>>(text).map(|object| object.0).ok()
        };
        assert_eq!(read(r#"{"name":"a","more":[1]}"#), Some(Pair { name: "a", count: None }));
        assert_eq!(read(r#" {"count":3,"name":"b"} "#), Some(Pair { name: "b", count: Some(3) }));
        for wrong in [r#"["a",3]"#, r#"["a"]"#, "[]", "null", "3", r#""a""#, r#"{"name":3}"#, "{}"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(
            serde_json::from_str::<Pair<'_>>(r#"["a",3]"#).is_ok(),
            "serde takes lists no more: not needed"
        );
    }
}
