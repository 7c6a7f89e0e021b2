//! From the tree of a scenario to typed forms, by serde; errors have the path of the key and where it stands.

use std::cell::RefCell;
use std::fmt::{self, Display};

use serde::de::{self, DeserializeSeed, Expected, Unexpected, Visitor};

use super::node::{From, Node, Value};

/// The key that says what kind of thing a table is.
const KIND: &str = "kind";

/// What is wrong with a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// The key means nothing there.
    Key(&'static [&'static str]),
    /// The word is none of these.
    Word(String, &'static [&'static str]),
    /// A key is not there.
    Missing,
    /// Anything else.
    Problem(String),
}

/// Why a form cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadError {
    /// The key.
    pub path: Vec<String>,
    /// Where it stands.
    pub from: Option<From>,
    /// What is wrong.
    pub what: What,
    /// The key of `path`'s table that it is about, until its path is known.
    key: Option<String>,
}

/// What the keys of a table are, and which of them were there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The type that the table becomes; one for each kind of table.
    pub form: &'static str,
    /// The keys that it may have.
    pub known: &'static [&'static str],
    /// Those that it had.
    pub given: Vec<String>,
}

/// Reads a node.
pub struct Reader<'n> {
    node: &'n Node,
    path: Vec<String>,
    /// The node is a table, and its `kind` was read already.
    is_kind_read: bool,
    seen: &'n RefCell<Vec<Seen>>,
}

impl<'n> Reader<'n> {
    /// Reads a whole tree; what its tables may hold is noted in `seen`.
    pub fn new(node: &'n Node, seen: &'n RefCell<Vec<Seen>>) -> Self {
        Reader { node, path: Vec::new(), is_kind_read: false, seen }
    }

    fn below(&self, key: &str, node: &'n Node) -> Reader<'n> {
        let path = self.path.iter().cloned().chain([key.to_owned()]).collect();
        Reader { node, path, is_kind_read: false, seen: self.seen }
    }

    /// Says where an error was found, unless that is known.
    fn located<T>(path: &[String], from: From, result: Result<T, ReadError>) -> Result<T, ReadError> {
        result.map_err(|error| match error.from {
            Some(_) => error,
            None => {
                let path = path.iter().cloned().chain(error.key).collect();
                ReadError { path, from: Some(from), what: error.what, key: None }
            }
        })
    }

    fn entries(&self) -> Vec<&'n (String, Node)> {
        let entries = self.node.entries().iter();
        entries.filter(|(key, _)| !(self.is_kind_read && key == KIND)).collect()
    }

    fn map<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let entries = self.entries();
        visitor.visit_map(Entries { reader: self, entries: entries.into_iter(), next: None })
    }

    fn any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Bool(is) => visitor.visit_bool(*is),
            Value::List(items) => visitor.visit_seq(Items { items: items.iter().enumerate(), reader: self }),
            Value::Table(_) if self.node.get(KIND).is_some() && !self.is_kind_read => {
                visitor.visit_enum(Tagged(self))
            }
            Value::Table(_) => self.map(visitor),
        }
    }

    fn record(&self, form: &'static str, known: &'static [&'static str]) {
        let given = self.entries().iter().map(|(key, _)| key.clone()).collect();
        self.seen.borrow_mut().push(Seen { form, known, given });
    }
}

/// The entries of a table.
struct Entries<'n, I> {
    reader: Reader<'n>,
    entries: I,
    next: Option<(&'n str, &'n Node)>,
}

impl<'n, I: Iterator<Item = &'n (String, Node)>> de::MapAccess<'n> for Entries<'n, I> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'n>>(&mut self, seed: K) -> Result<Option<K::Value>, ReadError> {
        let Some((key, node)) = self.entries.next() else { return Ok(None) };
        self.next = Some((key, node));
        let read = seed.deserialize(de::value::StrDeserializer::new(key));
        Reader::located(&self.reader.path, node.from, read).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'n>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some((key, node)) = self.next.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(self.reader.below(key, node))
    }
}

/// The items of a list.
struct Items<'n, I> {
    items: I,
    reader: Reader<'n>,
}

impl<'n, I: Iterator<Item = (usize, &'n Node)>> de::SeqAccess<'n> for Items<'n, I> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<Option<T::Value>, ReadError> {
        let Some((at, node)) = self.items.next() else { return Ok(None) };
        seed.deserialize(self.reader.below(&at.to_string(), node)).map(Some)
    }
}

/// A word, or a table that says its kind.
struct Tagged<'n>(Reader<'n>);

impl<'n> de::EnumAccess<'n> for Tagged<'n> {
    type Error = ReadError;
    type Variant = Tagged<'n>;

    fn variant_seed<V: DeserializeSeed<'n>>(self, seed: V) -> Result<(V::Value, Tagged<'n>), ReadError> {
        let reader = self.0;
        let read = match &reader.node.value {
            Value::Text(word) => {
                let word = seed.deserialize(de::value::StrDeserializer::new(word));
                Reader::located(&reader.path, reader.node.from, word)?
            }
            _ => match reader.node.get(KIND) {
                Some(kind) => {
                    let at = reader.below(KIND, kind);
                    let Value::Text(word) = &kind.value else {
                        let wrong = de::Error::invalid_type(unexpected(kind), &"a word in quotes");
                        return Reader::located(&at.path, kind.from, Err(wrong));
                    };
                    let word = seed.deserialize(de::value::StrDeserializer::new(word));
                    Reader::located(&at.path, kind.from, word)?
                }
                None => {
                    let missing = Err(de::Error::missing_field(KIND));
                    return Reader::located(&reader.path, reader.node.from, missing);
                }
            },
        };
        Ok((read, Tagged(Reader { is_kind_read: true, ..reader })))
    }
}

impl<'n> de::VariantAccess<'n> for Tagged<'n> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        match self.0.entries().first() {
            Some((key, node)) => {
                let unknown = Err(de::Error::unknown_field(key, &[KIND]));
                Reader::located(&self.0.path, node.from, unknown)
            }
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'n>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'n>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        de::Deserializer::deserialize_any(self.0, visitor)
    }

    fn struct_variant<V: Visitor<'n>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        de::Deserializer::deserialize_struct(self.0, "", fields, visitor)
    }
}

/// A value for messages.
fn unexpected(node: &Node) -> Unexpected<'_> {
    match &node.value {
        Value::Text(text) => Unexpected::Str(text),
        Value::Integer(number) => Unexpected::Signed(*number),
        Value::Float(number) => Unexpected::Float(*number),
        Value::Bool(is) => Unexpected::Bool(*is),
        Value::List(_) => Unexpected::Seq,
        Value::Table(_) => Unexpected::Map,
    }
}

impl<'n> de::Deserializer<'n> for Reader<'n> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let (path, from) = (self.path.clone(), self.node.from);
        Reader::located(&path, from, self.any(visitor))
    }

    fn deserialize_option<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let (path, from) = (self.path.clone(), self.node.from);
        Reader::located(&path, from, visitor.visit_some(self))
    }

    fn deserialize_newtype_struct<V: Visitor<'n>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let (path, from) = (self.path.clone(), self.node.from);
        Reader::located(&path, from, visitor.visit_newtype_struct(self))
    }

    fn deserialize_map<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let (path, from) = (self.path.clone(), self.node.from);
        let read = match &self.node.value {
            Value::Table(_) => self.map(visitor),
            _ => Err(de::Error::invalid_type(unexpected(self.node), &visitor)),
        };
        Reader::located(&path, from, read)
    }

    fn deserialize_struct<V: Visitor<'n>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let (path, from) = (self.path.clone(), self.node.from);
        let read = match &self.node.value {
            Value::Table(_) => {
                self.record(name, fields);
                self.map(visitor)
            }
            _ => Err(de::Error::invalid_type(unexpected(self.node), &"a table of keys")),
        };
        Reader::located(&path, from, read)
    }

    fn deserialize_enum<V: Visitor<'n>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let (path, from) = (self.path.clone(), self.node.from);
        let read = match &self.node.value {
            Value::Text(_) | Value::Table(_) => visitor.visit_enum(Tagged(self)),
            _ => {
                let words = format!("one of the words {}", variants.join(", "));
                Err(de::Error::invalid_type(unexpected(self.node), &words.as_str()))
            }
        };
        Reader::located(&path, from, read)
    }

    serde::forward_to_deserialize_any! {
        <W: Visitor<'n>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct identifier ignored_any
    }
}

impl ReadError {
    fn new(what: What, key: Option<String>) -> Self {
        ReadError { path: Vec::new(), from: None, what, key }
    }
}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.what, self.path.join("."))
    }
}

impl std::error::Error for ReadError {}

/// What is expected, in words for people: serde calls numbers after their types.
fn expected(expected: &dyn Expected) -> String {
    let words = expected.to_string();
    match words.as_str() {
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number from 0".to_owned(),
        "f64" => "a number".to_owned(),
        "a string" => "words in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        _ => words,
    }
}

/// What is there, in words for people.
fn there(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Str(text) => format!("{text:?}"),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Float(number) => format!("{number:?}"),
        Unexpected::Bool(is) => is.to_string(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map | Unexpected::Enum => "a table".to_owned(),
        other => other.to_string(),
    }
}

impl de::Error for ReadError {
    fn custom<T: Display>(message: T) -> Self {
        ReadError::new(What::Problem(message.to_string()), None)
    }

    fn invalid_type(unexpected: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        ReadError::custom(format!("{} stands where {} is expected", there(unexpected), expected(wanted)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        ReadError::invalid_type(unexpected, wanted)
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        ReadError::new(What::Word(word.to_owned(), known), None)
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        ReadError::new(What::Key(known), Some(key.to_owned()))
    }

    fn missing_field(key: &'static str) -> Self {
        ReadError::new(What::Missing, Some(key.to_owned()))
    }

    fn duplicate_field(key: &'static str) -> Self {
        ReadError::new(What::Problem("the key is there twice".to_owned()), Some(key.to_owned()))
    }
}
