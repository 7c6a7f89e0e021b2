//! Where the value of a key is from: published, fitted, assumed, said by the scenario, or a default.

use std::collections::BTreeSet;

use serde::Serialize;

use super::error::ScenarioError;
use super::form;
use super::node::{Layer, Node, Value, write_path};
use super::parse::Files;
use crate::model::{LibraryModel, Model};
use quantity::{Bytes, Rate, Span};

/// How a figure of a site came to be known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Read in a source.
    Published,
    /// Chosen once so that a published result comes out.
    Fitted,
    /// Nobody says it; what is usual.
    Assumed,
    /// Computed from what is published.
    Derived,
}

/// Where a site's figure is from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Provenance {
    /// The key, or the first words of several: `library.main`.
    pub key: String,
    /// How it came to be known.
    pub kind: Kind,
    /// From where, in words.
    pub source: String,
    #[serde(skip)]
    path: Vec<String>,
    #[serde(skip)]
    line: usize,
}

/// Where the value of a key is from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Nobody said it.
    Default,
    /// The model of the drives, the medium or the library has it.
    Hardware,
    /// The scenario says it.
    Scenario,
    /// The variant says it.
    Variant,
    /// The site says it, and how it came to be known; nothing: it does not say how.
    Site(Option<Kind>),
}

/// A key of a variant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Key {
    /// Its full path.
    pub path: String,
    /// Its value as it would be written.
    pub value: String,
    /// Where it is from.
    pub origin: Origin,
    /// From where, in words; empty if the site does not say.
    pub source: String,
}

impl Kind {
    /// All, in order.
    pub const ALL: [Kind; 4] = [Kind::Published, Kind::Fitted, Kind::Assumed, Kind::Derived];

    /// In one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Published => "published",
            Kind::Fitted => "fitted",
            Kind::Assumed => "assumed",
            Kind::Derived => "derived",
        }
    }
}

impl Origin {
    /// In one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Hardware => "model",
            Origin::Scenario => "scenario",
            Origin::Variant => "variant",
            Origin::Site(Some(kind)) => kind.word(),
            Origin::Site(None) => "site",
        }
    }
}

/// Takes `[provenance]` out of a site's tree.
pub fn take_provenance(site: &mut Node, files: &Files) -> Result<Vec<Provenance>, ScenarioError> {
    let mut found = Vec::new();
    if let Some(node) = site.take("provenance") {
        collect(&node, &mut Vec::new(), files, &mut found)?;
    }
    Ok(found)
}

/// Tables of tables, and keys with points in them, lead to tables with `kind` and `source`.
fn collect(
    node: &Node,
    path: &mut Vec<String>,
    files: &Files,
    found: &mut Vec<Provenance>,
) -> Result<(), ScenarioError> {
    let key = || write_path(&[&["provenance".to_owned()], path.as_slice()].concat());
    let wrong = |node: &Node, key: String, problem: &str| {
        Err(ScenarioError::Value { place: files.place(node.from), key, problem: problem.to_owned() })
    };
    if !matches!(node.value, Value::Table(_)) {
        return wrong(node, key(), "write { kind = \"published\", source = \"where it says so\" }");
    }
    let text = |name: &str| match node.get(name).map(|node| &node.value) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let Some(kind) = text("kind") else {
        for (name, below) in node.entries() {
            let words = split(name);
            let length = path.len();
            path.extend(words);
            collect(below, path, files, found)?;
            path.truncate(length);
        }
        return Ok(());
    };
    let Some(kind) = Kind::ALL.into_iter().find(|known| known.word() == kind) else {
        let problem = format!("'{kind}' is none of published, fitted, assumed, derived");
        return wrong(node, key() + ".kind", &problem);
    };
    let Some(source) = text("source").filter(|source| !source.trim().is_empty()) else {
        return wrong(node, key() + ".source", "say in words from where it is");
    };
    if let Some((other, node)) = node.entries().iter().find(|(name, _)| name != "kind" && name != "source") {
        return wrong(node, format!("{}.{other}", key()), "unknown key; known here: kind, source");
    }
    found.push(Provenance { key: write_path(path), kind, source, path: path.clone(), line: node.from.line });
    Ok(())
}

/// The words of a key such as `library.main.drives`; a word with points in it cannot be named so.
fn split(key: &str) -> Vec<String> {
    key.split('.').map(|word| word.trim().trim_matches('"').to_owned()).collect()
}

/// That each entry is about something that is there.
pub fn check_used(site: &Node, provenance: &[Provenance], files: &Files) -> Result<(), ScenarioError> {
    let paths = leaf_paths(site);
    for entry in provenance {
        if !paths.iter().any(|path| path.starts_with(&entry.path)) {
            let place = files.place(super::node::From { layer: Layer::Site, line: entry.line });
            let key = write_path(&[&["provenance".to_owned()], entry.path.as_slice()].concat());
            let problem = "the site's file has no such key: name one that it has, or the first words of it";
            return Err(ScenarioError::Value { place, key, problem: problem.to_owned() });
        }
    }
    Ok(())
}

fn leaf_paths(site: &Node) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    site.leaves(&mut Vec::new(), &mut |path, _| paths.push(path.to_vec()));
    paths
}

/// The entry that says most exactly where a key is from.
fn of<'a>(provenance: &'a [Provenance], path: &[String]) -> Option<&'a Provenance> {
    let about = provenance.iter().filter(|entry| path.starts_with(&entry.path));
    about.max_by_key(|entry| entry.path.len())
}

/// Keys of a site that no entry is about; title and text need none.
pub fn missing(site: &Node, provenance: &[Provenance]) -> Vec<String> {
    let paths = leaf_paths(site).into_iter();
    let paths = paths.filter(|path| path.first().is_some_and(|first| first != "title" && first != "text"));
    paths.filter(|path| of(provenance, path).is_none()).map(|path| write_path(&path)).collect()
}

/// All keys of a variant: what was said, in order, then figures of hardware, then what is left at its
/// default.
pub fn keys(tree: &Node, form: &form::Scenario, model: &Model, provenance: &[Provenance]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut said = Said::new();
    tree.leaves(&mut Vec::new(), &mut |path, node| {
        said.insert(path.to_vec());
        let (origin, source) = match node.from.layer {
            Layer::Scenario => (Origin::Scenario, String::new()),
            Layer::Variant(_) => (Origin::Variant, String::new()),
            Layer::Site => match of(provenance, path) {
                Some(entry) => (Origin::Site(Some(entry.kind)), entry.source.clone()),
                None => (Origin::Site(None), String::new()),
            },
        };
        keys.push(Key { path: write_path(path), value: node.to_string(), origin, source });
    });
    for (library, (_, form)) in model.site.libraries.iter().zip(form.library.iter()) {
        hardware(library, form, &mut said, &mut keys);
    }
    // What serde wrote out and nobody said. The form can always be written; if it could not, defaults would
    // not be listed.
    if let Ok(all) = toml::Value::try_from(form) {
        defaults(&all, &mut Vec::new(), &said, &mut keys);
    }
    keys
}

/// Paths that are listed.
type Said = BTreeSet<Vec<String>>;

/// Adds what the models of a library's hardware have and the scenario does not say otherwise.
fn hardware(library: &LibraryModel, form: &form::Library, said: &mut Said, keys: &mut Vec<Key>) {
    let name = library.name.clone();
    let below = |words: &[&str]| {
        let words = words.iter().map(|word| (*word).to_owned());
        ["library".to_owned(), name.clone()].into_iter().chain(words).collect::<Vec<_>>()
    };
    let mut add = |path: Vec<String>, value: String, source: &str| {
        if said.insert(path.clone()) {
            let source = format!("kist plan mechanics {source}");
            keys.push(Key { path: write_path(&path), value, origin: Origin::Hardware, source });
        }
    };
    let span = |micros: u64| format!("\"{}\"", Span(micros));
    add(below(&["robots"]), library.robots.robots.to_string(), &form.robot);
    add(below(&["move"]), span(library.robots.move_us), &form.robot);
    let medium = form.medium.clone().unwrap_or_else(|| form.drives.0[0].model.clone());
    add(below(&["capacity"]), format!("\"{}\"", Bytes(library.tape.capacity.0)), &medium);
    for (at, (group, drives)) in library.drives.iter().zip(&form.drives.0).enumerate() {
        let timing = &group.timing;
        let figures = [
            ("rate", format!("\"{}\"", Rate(timing.native_rate as f64))),
            ("least_rate", format!("\"{}\"", Rate(timing.least_rate as f64))),
            ("buffer", format!("\"{}\"", Bytes(timing.buffer.0))),
            ("load", span(timing.load_us)),
            ("unload", span(timing.unload_us)),
            ("rewind", span(timing.rewind_us)),
            ("flush", span(timing.flush_us)),
            ("backhitch", span(timing.backhitch_us)),
        ];
        for (key, value) in figures {
            let mut path = below(&["drives", &at.to_string(), key]);
            if form.drives.1 {
                path = without_first_index(&path);
            }
            add(path, value, &drives.model);
        }
    }
}

/// Adds keys of the form that were not said.
fn defaults(value: &toml::Value, path: &mut Vec<String>, said: &Said, keys: &mut Vec<Key>) {
    let below: Vec<(String, &toml::Value)> = match value {
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), value)).collect(),
        toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
            items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => {
            // What a list of one drive was written as, a table or a list, is the same.
            let is_said = said.contains(path) || said.contains(&without_first_index(path));
            if !is_said {
                let (origin, source) = (Origin::Default, String::new());
                keys.push(Key { path: write_path(path), value: written(value), origin, source });
            }
            return;
        }
    };
    for (key, value) in below {
        path.push(key);
        // Laws and workloads may be written out below the name of their kind, which the file has as a key.
        if value.is_table() && is_kind(path) {
            let kind = path.pop();
            defaults(value, path, said, keys);
            path.extend(kind);
        } else {
            defaults(value, path, said, keys);
        }
        path.pop();
    }
}

fn is_kind(path: &[String]) -> bool {
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(words.as_slice(), ["workload", _, _] | ["class", _, "sizes", _])
}

fn without_first_index(path: &[String]) -> Vec<String> {
    path.iter().filter(|word| *word != "0").cloned().collect()
}

fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("{text:?}"),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => format!("{number:?}"),
        toml::Value::Boolean(is) => is.to_string(),
        toml::Value::Array(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        toml::Value::Datetime(when) => when.to_string(),
        toml::Value::Table(_) => "{ … }".to_owned(),
    }
}
