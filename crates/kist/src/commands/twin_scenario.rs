//! Scenarios of the twin, from their files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use report::{Described, Parameter};
use scenario::{Key, Origin, Scenario, TEXT_BYTES_MAX, parse};
use terminal::{Failure, Outcome};

/// A scenario and its file's text.
pub struct Read {
    /// What it says.
    pub scenario: Scenario,
    /// As it was written.
    pub source: String,
}

/// Reads and checks a scenario; a site's file is looked for from the directory of the scenario's.
pub fn read(path: &Path) -> Outcome<Read> {
    let source = text(path).map_err(|error| Failure::io("reading the scenario", path, &error))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let resolve = |name: &str| text(&directory.join(name)).map_err(|error| error.to_string());
    let scenario = parse(&path.display().to_string(), &source, &resolve);
    let scenario = scenario.map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Read { scenario, source })
}

fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than is allowed, so that the twin refuses it and says why.
    File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Only the variant of that name, if one is named.
pub fn keep(scenario: &mut Scenario, name: Option<&str>) -> Outcome {
    let Some(name) = name else { return Ok(()) };
    scenario.variant(name).map_err(|error| Failure::usage(error.to_string()))?;
    let is_it: Vec<bool> = scenario.variants.iter().map(|model| model.name == name).collect();
    let [mut models, mut samples, mut keys] = [(); 3].map(|()| is_it.iter());
    scenario.variants.retain(|_| models.next().is_some_and(|is_it| *is_it));
    scenario.samples.retain(|_| samples.next().is_some_and(|is_it| *is_it));
    scenario.keys.retain(|_| keys.next().is_some_and(|is_it| *is_it));
    Ok(())
}

/// A key in all variants.
pub struct KeyOfAll<'a> {
    /// The key as the first variant that has it says it.
    pub key: &'a Key,
    /// Its value in each variant; nothing where it is not there.
    pub values: Vec<Option<&'a Key>>,
}

impl KeyOfAll<'_> {
    /// Whether all variants have the same.
    pub fn is_common(&self) -> bool {
        let first = self.values.first().copied().flatten().map(|key| &key.value);
        self.values.iter().all(|key| key.map(|key| &key.value) == first)
    }
}

/// The keys of all variants, in the order of the first that has each.
pub fn keys(scenario: &Scenario) -> Vec<KeyOfAll<'_>> {
    let find = |keys: &'_ [Key], path: &str| keys.iter().position(|key| key.path == path);
    let mut all: Vec<KeyOfAll<'_>> = Vec::new();
    for (at, keys) in scenario.keys.iter().enumerate() {
        let known: std::collections::BTreeSet<&str> = all.iter().map(|of| of.key.path.as_str()).collect();
        let new: Vec<&Key> = keys.iter().filter(|key| !known.contains(key.path.as_str())).collect();
        drop(known);
        let of_all = |key| KeyOfAll { key, values: vec![None; at] };
        all.extend(new.into_iter().map(of_all));
        for of in &mut all {
            of.values.push(find(keys, &of.key.path).and_then(|at| keys.get(at)));
        }
    }
    all
}

/// The scenario as its report describes it: what variants differ in, what was said, and from where; defaults
/// are left out.
pub fn described(read: &Read) -> Described {
    let Read { scenario, source } = read;
    let all = keys(scenario);
    let heading = |of: &KeyOfAll<'_>| match &of.key.origin {
        _ if !of.is_common() => Some("What the variants differ in".to_owned()),
        Origin::Default => None,
        Origin::Hardware => Some("Of the models of hardware".to_owned()),
        Origin::Scenario | Origin::Variant => Some("Said by the scenario".to_owned()),
        Origin::Site(Some(kind)) => Some(format!("Of the site: {}", kind.word())),
        Origin::Site(None) => Some("Of the site".to_owned()),
    };
    let mut parameters: Vec<(String, Parameter)> = Vec::new();
    for of in &all {
        let Some(group) = heading(of) else { continue };
        let shown = |key: &Option<&Key>| key.map_or("-".to_owned(), |key| plain(&key.value));
        let values = match of.is_common() {
            true => vec![plain(&of.key.value)],
            false => of.values.iter().map(shown).collect(),
        };
        let name = of.key.path.clone();
        parameters.push((group.clone(), Parameter { group, name, values }));
    }
    // Groups in the order of their first key, what differs first.
    let mut order: Vec<String> = vec!["What the variants differ in".to_owned()];
    for (group, _) in &parameters {
        if !order.contains(group) {
            order.push(group.clone());
        }
    }
    parameters.sort_by_key(|(group, _)| order.iter().position(|known| known == group));
    Described {
        title: scenario.title.clone(),
        text: scenario.text.clone(),
        parameters: parameters.into_iter().map(|(_, parameter)| parameter).collect(),
        source: source.clone(),
        left_out: ::twin::left_out(),
    }
}

/// A value without its quotes.
pub fn plain(value: &str) -> String {
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.filter(|inner| !inner.contains('"')).unwrap_or(value).to_owned()
}
