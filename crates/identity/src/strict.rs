//! JSON of tokens as strictly as two readers can agree on it: no name comes twice, and all text is text, in
//! members that nobody looks at too. A derived reader passes over what it does not know without a look, and
//! takes the first or the last of two where another program takes the other one.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// A value in which no object has two members of one name.
pub(crate) struct Strict(Value);

impl Strict {
    /// As what it is wanted.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.0)
    }
}

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any).map(Strict)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON in which no name comes twice")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is none"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = list.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a name comes twice"));
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken(text: &[u8]) -> bool {
        serde_json::from_slice::<Strict>(text).is_ok()
    }

    #[test]
    fn what_two_readers_may_read_in_two_ways_is_not_taken() {
        for good in [&b"{}"[..], b"{\"a\":{\"b\":[1,-1,1.5,null,true,\"\\u00e9\\ud83d\\ude00\"]},\"b\":{}}"] {
            assert!(is_taken(good), "{}", String::from_utf8_lossy(good));
        }
        let bad: [&[u8]; 7] = [
            b"{\"a\":1,\"a\":1}",
            b"{\"a\":1,\"\\u0061\":2}",
            b"{\"a\":{\"b\":1,\"b\":1}}",
            b"{\"a\":[{\"b\":1,\"b\":1}]}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":\"\\ud800\"}",
            b"{\"\xc3\":1}",
        ];
        for bad in bad {
            assert!(!is_taken(bad), "{}", String::from_utf8_lossy(bad));
        }
        // It is not only what serde_json refuses by itself.
        assert!(serde_json::from_slice::<serde::de::IgnoredAny>(b"{\"a\":\"\xff\"}").is_ok());
    }
}
