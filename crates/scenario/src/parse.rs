//! From texts to models.

use std::cell::RefCell;

use serde::Deserialize;

use super::build::{self, Finding, Problem};
use super::error::{Place, ScenarioError, nearest};
use super::form;
use super::limits::VARIANTS_MAX;
use super::node::{From, Layer, Node, Value, write_path};
use super::origin::{self, Key, Provenance};
use super::read::{ReadError, Reader, Seen, What};
use super::site;
use crate::model::Model;
use crate::sampling::Sampling;

/// The name of the only variant of a scenario without `[variant.NAME]`.
pub const BASE: &str = "base";

/// Keys of a scenario that a variant does not have.
const NOT_OF_VARIANTS: [&str; 5] = ["site", "title", "text", "variant", "provenance"];
/// Keys of a scenario that a site's file does not have.
const NOT_OF_SITES: [&str; 2] = ["site", "variant"];

/// Reads a site's file by its name in a scenario; the caller knows directories, the twin does not.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A scenario that was read and checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// In a few words.
    pub title: String,
    /// What it is about, in sentences; may be empty.
    pub text: String,
    /// The site that it starts from, as the scenario names it.
    pub site: Option<String>,
    /// What the site's file says of itself; empty without one.
    pub site_title: String,
    /// What is to be run: at least one.
    pub variants: Vec<Model>,
    /// Of each variant, in the same order: how many such there are, and how many of them are run, if its
    /// model is one unit of a larger site.
    pub samples: Vec<Option<Sampling>>,
    /// All keys of each variant with their values and where these are from, defaults included; in the order
    /// of
    /// `variants`.
    pub keys: Vec<Vec<Key>>,
    /// Where the site's figures are from, in the order of its file.
    pub provenance: Vec<Provenance>,
    /// Keys of the site's file that have no provenance.
    pub missing_provenance: Vec<String>,
    /// What the tables of the files may hold, and what they held.
    pub seen: Vec<Seen>,
}

impl Scenario {
    /// A variant by its name.
    ///
    /// # Errors
    /// If there is none; the error lists all.
    pub fn variant(&self, name: &str) -> Result<&Model, ScenarioError> {
        let found = self.variants.iter().find(|model| model.name == name);
        found.ok_or_else(|| {
            let known: Vec<String> = self.variants.iter().map(|model| model.name.clone()).collect();
            let nearest = nearest(name, known.iter().map(String::as_str));
            ScenarioError::NoVariant { name: name.to_owned(), nearest, known }
        })
    }
}

/// Reads a scenario. `file` is its name for messages; `resolve` reads the site's file if the scenario names
/// one (`site = "./ours.toml"`).
///
/// # Errors
/// If anything is not as docs/reference/twin.md has it; the error names the line, the key and what would be
/// right.
pub fn parse(file: &str, text: &str, resolve: Resolver<'_>) -> Result<Scenario, ScenarioError> {
    let mut own = Node::parse(file, text, Layer::Scenario)?;
    let mut files = Files { scenario: file.to_owned(), site: String::new(), variants: Vec::new() };
    let variants = take_variants(&mut own, &mut files)?;
    let site = take_site(&mut own, &mut files, resolve)?;
    let (mut provenance, mut missing_provenance) = (Vec::new(), Vec::new());
    let mut base = own;
    let mut site_name = None;
    let mut site_title = String::new();
    if let Some((name, mut below)) = site {
        site_title = title_of(&below);
        provenance = origin::take_provenance(&mut below, &files)?;
        missing_provenance = origin::missing(&below, &provenance);
        origin::check_used(&below, &provenance, &files)?;
        below.lay_over(base);
        base = below;
        site_name = Some(name);
    }
    if let Some(node) = base.take("provenance") {
        let problem = "only a site's file has it: write the site into a file of its own".to_owned();
        let (place, key) = (files.place(node.from), "provenance".to_owned());
        return Err(ScenarioError::Value { place, key, problem });
    }
    let seen = RefCell::new(Vec::new());
    let mut scenario = Scenario {
        title: title_of(&base),
        text: base.get("text").map_or(String::new(), words),
        site: site_name,
        site_title,
        variants: Vec::new(),
        samples: Vec::new(),
        keys: Vec::new(),
        provenance,
        missing_provenance,
        seen: Vec::new(),
    };
    for (name, over) in variants {
        let mut tree = base.clone();
        if let Some(over) = over {
            if let Some((path, node)) = tree.removed_in_vain(&over) {
                let problem = "there is nothing to remove: look at how the key is written".to_owned();
                let (place, key) = (files.place(node.from), write_path(&path));
                return Err(ScenarioError::Value { place, key, problem });
            }
            tree.lay_over(over);
        }
        tree.prune();
        let (model, form) = one(&tree, &name, &files, &seen)?;
        scenario.keys.push(origin::keys(&tree, &form, &model, &scenario.provenance));
        scenario.samples.push(sampling(&form, &tree, &files)?);
        scenario.variants.push(model);
    }
    scenario.seen = seen.into_inner();
    Ok(scenario)
}

fn words(node: &Node) -> String {
    if let Value::Text(text) = &node.value { text.clone() } else { String::new() }
}

fn title_of(node: &Node) -> String {
    node.get("title").map_or(String::new(), words)
}

/// The names of files and variants, for messages.
pub struct Files {
    scenario: String,
    site: String,
    variants: Vec<String>,
}

impl Files {
    /// Where something was written.
    pub fn place(&self, from: From) -> Box<Place> {
        let file = if from.layer == Layer::Site { &self.site } else { &self.scenario };
        Box::new(Place { file: file.clone(), line: from.line })
    }

    /// A key as its file has it.
    pub fn key(&self, from: From, path: &[String]) -> String {
        match from.layer {
            Layer::Variant(index) => {
                let variant = self.variants.get(index).cloned().unwrap_or_default();
                write_path(&[&["variant".to_owned(), variant], path].concat())
            }
            _ => write_path(path),
        }
    }
}

type Variants = Vec<(String, Option<Node>)>;

/// Takes the variants out of a scenario: their names, and what each lays over it.
fn take_variants(own: &mut Node, files: &mut Files) -> Result<Variants, ScenarioError> {
    let Some(table) = own.take("variant") else { return Ok(vec![(BASE.to_owned(), None)]) };
    let place = files.place(table.from);
    let wrong = |place: Box<Place>, key: String, problem: &str| {
        Err(ScenarioError::Value { place, key, problem: problem.to_owned() })
    };
    let Value::Table(entries) = table.value else {
        let problem = "variants are tables by name: write [variant.\"with more drives\"]";
        return wrong(place, "variant".to_owned(), problem);
    };
    if entries.is_empty() {
        return wrong(place, "variant".to_owned(), "at least one variant: [variant.NAME]");
    }
    if entries.len() > VARIANTS_MAX {
        let (what, limit, key) = ("variants", "VARIANTS_MAX", "variant".to_owned());
        let (found, most) = (entries.len() as u64, VARIANTS_MAX as u64);
        return Err(ScenarioError::Limit { place, key, what, found, most, limit });
    }
    files.variants = entries.iter().map(|(name, _)| name.clone()).collect();
    let mut variants = Vec::new();
    for (index, (name, mut over)) in entries.into_iter().enumerate() {
        let (place, key) = (files.place(over.from), write_path(&["variant".to_owned(), name.clone()]));
        if !matches!(over.value, Value::Table(_)) {
            let problem = "a variant holds tables of the scenario: write [variant.NAME.tape] and so on";
            return wrong(place, key, problem);
        }
        if name.is_empty() || name.chars().any(char::is_control) {
            return wrong(place, key, "a variant has a name of visible letters");
        }
        if let Some((word, node)) = over.entries().iter().find(|(word, _)| is_one(&NOT_OF_VARIANTS, word)) {
            let problem = "variants have it in common: it stands at the top of the scenario";
            return wrong(files.place(node.from), format!("{key}.{word}"), problem);
        }
        over.set_layer(Layer::Variant(index));
        variants.push((name, Some(over)));
    }
    Ok(variants)
}

fn is_one(words: &[&str], word: &str) -> bool {
    words.contains(&word)
}

/// Takes the site out of a scenario: its name and what its file holds.
fn take_site(
    own: &mut Node,
    files: &mut Files,
    resolve: Resolver<'_>,
) -> Result<Option<(String, Node)>, ScenarioError> {
    let Some(node) = own.take("site") else { return Ok(None) };
    let place = files.place(node.from);
    let Value::Text(name) = node.value else {
        let problem = "write the name of a built-in site, or the path of a file such as \"./ours.toml\"";
        return Err(ScenarioError::Value { place, key: "site".to_owned(), problem: problem.to_owned() });
    };
    let text = if name.contains('/') || name.ends_with(".toml") {
        files.site.clone_from(&name);
        resolve(&name).map_err(|problem| ScenarioError::Site { place, name: name.clone(), problem })?
    } else {
        files.site = format!("site {name}");
        let known: Vec<String> = site::sites().iter().map(|site| site.name.to_owned()).collect();
        let Some(found) = site::site(&name) else {
            let nearest = nearest(&name, known.iter().map(String::as_str));
            let (kind, key) = ("built-in site", "site".to_owned());
            return Err(ScenarioError::NotThere { place, key, kind, name, nearest, known });
        };
        found.text.to_owned()
    };
    let tree = Node::parse(&files.site, &text, Layer::Site)?;
    if let Some((word, node)) = tree.entries().iter().find(|(word, _)| is_one(&NOT_OF_SITES, word)) {
        let problem = "a site's file does not have it: it belongs into a scenario".to_owned();
        return Err(ScenarioError::Value { place: files.place(node.from), key: word.clone(), problem });
    }
    Ok(Some((name, tree)))
}

/// The model of one tree.
fn one(
    tree: &Node,
    name: &str,
    files: &Files,
    seen: &RefCell<Vec<Seen>>,
) -> Result<(Model, form::Scenario), ScenarioError> {
    let form = form::Scenario::deserialize(Reader::new(tree, seen));
    let form = form.map_err(|error| read_error(error, tree, files))?;
    if form.title.trim().is_empty() {
        let place = files.place(tree.nearest(&["title".to_owned()]).from);
        let problem = "say in a few words what it is".to_owned();
        return Err(ScenarioError::Value { place, key: "title".to_owned(), problem });
    }
    check_names(&form)
        .and_then(|()| build::model(&form, name))
        .map_err(|found| finding(found, tree, files))
        .map(|model| (model, form))
}

/// What `[sample]` says.
fn sampling(form: &form::Scenario, tree: &Node, files: &Files) -> Result<Option<Sampling>, ScenarioError> {
    let found = form.sample.as_ref().map(build::sampling).transpose();
    found.map_err(|found| finding(found, tree, files))
}

/// The longest name of a library, a tape pool and so on.
const NAME_MAX: usize = 64;

/// Names are the words that the server allows.
fn check_names(form: &form::Scenario) -> Result<(), Finding> {
    let tables = [
        ("library", form.library.names()),
        ("tape_pool", form.tape_pool.names()),
        ("class", form.class.names()),
        ("holding", form.holding.names()),
        ("workload", form.workload.names()),
        ("fault", form.fault.names()),
    ];
    for (table, names) in tables {
        for name in names {
            let allowed = |c: char| !c.is_control();
            if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(allowed) {
                let problem = format!("a name has 1 to {NAME_MAX} bytes of visible letters");
                return Err(Finding { path: vec![table.to_owned(), name], problem: Problem::Words(problem) });
            }
        }
    }
    Ok(())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn read_error(error: ReadError, tree: &Node, files: &Files) -> ScenarioError {
    let from = error.from.unwrap_or(tree.from);
    let (place, key) = (files.place(from), files.key(from, &error.path));
    match error.what {
        What::Key(known) => {
            // What is read before the form is known, too.
            let word = error.path.last().map_or("", String::as_str);
            let nearest = nearest(word, known.iter().copied());
            ScenarioError::UnknownKey { place, key, nearest, known: owned(known) }
        }
        What::Word(word, known) => {
            let nearest = nearest(&word, known.iter().copied());
            ScenarioError::UnknownWord { place, key, word, nearest, known: owned(known) }
        }
        What::Missing => ScenarioError::Missing { place, key },
        What::Problem(problem) => ScenarioError::Value { place, key, problem },
    }
}

fn finding(found: Finding, tree: &Node, files: &Files) -> ScenarioError {
    let from = tree.nearest(&found.path).from;
    let (place, key) = (files.place(from), files.key(from, &found.path));
    match found.problem {
        Problem::Words(problem) => ScenarioError::Value { place, key, problem },
        Problem::Missing => ScenarioError::Missing { place, key },
        Problem::Limit { what, found, most, limit } => {
            ScenarioError::Limit { place, key, what, found, most, limit }
        }
        Problem::NotThere { kind, name, known } => {
            let nearest = nearest(&name, known.iter().map(String::as_str));
            ScenarioError::NotThere { place, key, kind, name, nearest, known }
        }
    }
}
