//! The tree of a scenario file: values with the place that each was written at, laid one over the other.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Place, ScenarioError};
use super::limits::{DEPTH_MAX, TEXT_BYTES_MAX};

/// What removes a key.
const NONE: &str = "none";

/// Whose file, or which part of it, a value was written in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layer {
    /// The site that a scenario starts from.
    Site,
    /// The scenario.
    Scenario,
    /// One of its variants, by index.
    Variant(usize),
}

/// Where a value was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct From {
    /// In what.
    pub layer: Layer,
    /// The line, from 1.
    pub line: usize,
}

/// A value and where it was written.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// What was written.
    pub value: Value,
    /// Where.
    pub from: From,
}

/// What was written.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// In quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// In brackets.
    List(Vec<Node>),
    /// Keys, in the order in which they were written first.
    Table(Vec<(String, Node)>),
}

/// Where lines begin in a text.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Lines(std::iter::once(0).chain(ends).collect())
    }

    fn line(&self, at: usize) -> usize {
        self.0.partition_point(|begin| *begin <= at)
    }
}

/// What turns a parsed file into nodes.
struct Planting<'a> {
    lines: Lines,
    layer: Layer,
    file: &'a str,
}

impl Node {
    /// Reads a TOML file, `file` being its name for messages.
    pub fn parse(file: &str, text: &str, layer: Layer) -> Result<Node, ScenarioError> {
        if text.len() > TEXT_BYTES_MAX {
            let place = Box::new(Place { file: file.to_owned(), line: 0 });
            let (found, most) = (text.len() as u64, TEXT_BYTES_MAX as u64);
            let (key, limit) = (String::new(), "TEXT_BYTES_MAX");
            return Err(ScenarioError::Limit { place, key, what: "bytes of text", found, most, limit });
        }
        let lines = Lines::of(text);
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(0, |span| lines.line(span.start));
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            ScenarioError::Syntax { place: Box::new(Place { file: file.to_owned(), line }), message }
        })?;
        let planting = Planting { lines, layer, file };
        planting.table(table.get_ref(), table.span().start, 0)
    }

    /// The node of a key; nothing if this is no table or has no such key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Takes the node of a key out.
    pub fn take(&mut self, key: &str) -> Option<Node> {
        let Value::Table(entries) = &mut self.value else { return None };
        let at = entries.iter().position(|(name, _)| name == key)?;
        Some(entries.remove(at).1)
    }

    /// The entries of a table; of anything else none.
    pub fn entries(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The node that a path leads to, or the last one on the way to it.
    pub fn nearest(&self, path: &[String]) -> &Node {
        let mut node = self;
        for key in path {
            let next = match &node.value {
                Value::List(items) => key.parse().ok().and_then(|at: usize| items.get(at)),
                _ => node.get(key),
            };
            let Some(next) = next else { break };
            node = next;
        }
        node
    }

    /// Lays another tree over this one: its tables key by key, everything else in the place of what was
    /// there. A table of another `kind` takes the place of the one before as a whole.
    pub fn lay_over(&mut self, over: Node) {
        let is_of_another_kind = over
            .get("kind")
            .is_some_and(|kind| self.get("kind").is_some_and(|mine| mine.value != kind.value));
        match (&mut self.value, over.value) {
            (Value::Table(mine), Value::Table(over)) if !is_of_another_kind => {
                for (key, node) in over {
                    match mine.iter_mut().find(|(name, _)| *name == key) {
                        Some((_, mine)) => mine.lay_over(node),
                        None => mine.push((key, node)),
                    }
                }
            }
            (mine, value) => {
                *mine = value;
                self.from = over.from;
            }
        }
    }

    /// The first key of `over` that removes what this tree does not have, with its path; nothing if there is
    /// none.
    pub fn removed_in_vain<'a>(&self, over: &'a Node) -> Option<(Vec<String>, &'a Node)> {
        over.entries().iter().find_map(|(key, node)| {
            let mine = self.get(key);
            let mut found = match mine {
                None if node.value == Value::Text(NONE.to_owned()) => Some((Vec::new(), node)),
                Some(mine) => mine.removed_in_vain(node),
                None => Node { value: Value::Table(Vec::new()), from: node.from }.removed_in_vain(node),
            }?;
            found.0.insert(0, key.clone());
            Some(found)
        })
    }

    /// Says that all of it was written in that layer.
    pub fn set_layer(&mut self, layer: Layer) {
        self.from.layer = layer;
        match &mut self.value {
            Value::Table(entries) => entries.iter_mut().for_each(|(_, node)| node.set_layer(layer)),
            Value::List(items) => items.iter_mut().for_each(|node| node.set_layer(layer)),
            _ => {}
        }
    }

    /// Removes what is set to `"none"`.
    pub fn prune(&mut self) {
        if let Value::Table(entries) = &mut self.value {
            entries.retain(|(_, node)| node.value != Value::Text(NONE.to_owned()));
            entries.iter_mut().for_each(|(_, node)| node.prune());
        }
    }

    /// Calls `visit` with each value that is no table, and its path.
    pub fn leaves<'a>(&'a self, path: &mut Vec<String>, visit: &mut impl FnMut(&[String], &'a Node)) {
        match &self.value {
            Value::Table(entries) => {
                for (key, node) in entries {
                    path.push(key.clone());
                    node.leaves(path, visit);
                    path.pop();
                }
            }
            Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Table(_))) => {
                for (at, node) in items.iter().enumerate() {
                    path.push(at.to_string());
                    node.leaves(path, visit);
                    path.pop();
                }
            }
            _ => visit(path, self),
        }
    }
}

impl Planting<'_> {
    fn table(&self, table: &DeTable<'_>, at: usize, depth: usize) -> Result<Node, ScenarioError> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entries = entries
            .into_iter()
            .map(|(key, value)| Ok((key.get_ref().to_string(), self.value(value, key.span().start, depth)?)));
        let entries = entries.collect::<Result<_, ScenarioError>>()?;
        Ok(self.node(Value::Table(entries), at))
    }

    fn value(&self, value: &Spanned<DeValue<'_>>, at: usize, depth: usize) -> Result<Node, ScenarioError> {
        if depth > DEPTH_MAX {
            let place = Box::new(Place { file: self.file.to_owned(), line: self.lines.line(at) });
            let (key, what, limit) = (String::new(), "tables inside of tables", "DEPTH_MAX");
            let (found, most) = (depth as u64, DEPTH_MAX as u64);
            return Err(ScenarioError::Limit { place, key, what, found, most, limit });
        }
        let planted = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(is) => Value::Bool(*is),
            DeValue::Datetime(when) => Value::Text(when.to_string()),
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                let digits = digits.trim_start_matches('+');
                let read = i64::from_str_radix(digits, number.radix());
                Value::Integer(read.map_err(|_| self.wrong_number(at, number.as_str()))?)
            }
            DeValue::Float(number) => {
                let read = number.as_str().replace('_', "").parse();
                Value::Float(read.map_err(|_| self.wrong_number(at, number.as_str()))?)
            }
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.value(item, item.span().start, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => return self.table(table, at, depth + 1),
        };
        Ok(self.node(planted, at))
    }

    fn node(&self, value: Value, at: usize) -> Node {
        Node { value, from: From { layer: self.layer, line: self.lines.line(at) } }
    }

    fn wrong_number(&self, at: usize, number: &str) -> ScenarioError {
        let place = Box::new(Place { file: self.file.to_owned(), line: self.lines.line(at) });
        ScenarioError::Syntax { place, message: format!("{number} is no number that can be held") }
    }
}

/// A path as it is written in a file: names in quotes where they need them.
pub fn write_path(path: &[String]) -> String {
    let bare = |key: &str| {
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    let word = |key: &String| if bare(key) { key.clone() } else { format!("{key:?}") };
    path.iter().map(word).collect::<Vec<_>>().join(".")
}

impl fmt::Display for Node {
    /// As it would be written, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number:?}"),
            Value::Bool(is) => write!(f, "{is}"),
            Value::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Table(entries) => {
                f.write_str("{")?;
                for (at, (key, node)) in entries.iter().enumerate() {
                    let key = write_path(std::slice::from_ref(key));
                    write!(f, "{} {key} = {node}", if at == 0 { "" } else { "," })?;
                }
                f.write_str(" }")
            }
        }
    }
}
