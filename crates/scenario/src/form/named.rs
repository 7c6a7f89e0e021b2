//! Tables by name, and lists of one.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Tables by name, in the order of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Named<T>(pub Vec<(String, T)>);

/// One table, or a list of them; and whether it was one.
#[derive(Clone, PartialEq, Debug)]
pub struct OneOrMore<T>(pub Vec<T>, pub bool);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(Vec::new())
    }
}

impl<T> Named<T> {
    /// The index of a name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(known, _)| known == name)
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    /// All, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(String, T)> {
        self.0.iter()
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
            type Value = Named<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table for each name, such as [class.data]")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut tables = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    tables.push(entry);
                }
                Ok(Named(tables))
            }
        }
        deserializer.deserialize_map(Tables(PhantomData))
    }
}

impl<T: Serialize> Serialize for OneOrMore<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
            type Value = OneOrMore<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table, or a list of tables")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMore<T>, A::Error> {
                let mut tables = Vec::new();
                while let Some(table) = items.next_element()? {
                    tables.push(table);
                }
                Ok(OneOrMore(tables, false))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMore<T>, A::Error> {
                let one = T::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(OneOrMore(vec![one], true))
            }
        }
        deserializer.deserialize_any(Tables(PhantomData))
    }
}
