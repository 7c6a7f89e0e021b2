//! `kist twin check`.

use std::path::PathBuf;

use serde_json::json;
use terminal::{Outcome, Table, output, text};

use crate::cli::Common;
use crate::commands::twin_scenario::{self, KeyOfAll, plain};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A key is \"published\", \"fitted\", \"derived\" or \"assumed\" if the site's file says so,
else from the scenario, a variant, the hardware's model, or a default.

Example: kist twin check examples/twin/small.toml")]
pub struct Args {
    /// The scenario
    scenario: PathBuf,
    /// Only this variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let mut read = twin_scenario::read(&args.scenario)?;
    twin_scenario::keep(&mut read.scenario, args.variant.as_deref())?;
    let scenario = &read.scenario;
    if common.json {
        let variants = scenario.variants.iter().zip(&scenario.keys);
        let variants = variants.map(|(model, keys)| json!({ "name": model.name, "keys": keys }));
        return output::json(&json!({
            "title": scenario.title,
            "text": scenario.text,
            "site": scenario.site,
            "site_title": scenario.site_title,
            "variants": variants.collect::<Vec<_>>(),
            "provenance": scenario.provenance,
            "missing_provenance": scenario.missing_provenance,
        }));
    }
    output::write(&written(&read))
}

fn written(read: &twin_scenario::Read) -> String {
    let scenario = &read.scenario;
    let all = twin_scenario::keys(scenario);
    let (common, differing): (Vec<_>, Vec<_>) = all.into_iter().partition(KeyOfAll::is_common);
    let mut text = format!("{}\n", scenario.title);
    if let Some(site) = &scenario.site {
        text.push_str(&format!("site {site}: {}\n", scenario.site_title));
    }
    let seeds: usize = scenario.variants.iter().map(|model| model.seeds.len()).sum();
    let variants = text::plural(scenario.variants.len() as u64, "variant");
    text.push_str(&format!("{variants}, {} in all\n\n", text::plural(seeds as u64, "run")));
    let mut table = Table::new(&["key", "value", "from", "source"]);
    for of in &common {
        let key = of.key;
        let from = key.origin.word().to_owned();
        table.row(vec![key.path.clone(), shown(&key.value), from, key.source.clone()]);
    }
    text.push_str(&table.render());
    if !differing.is_empty() {
        let names = scenario.variants.iter().map(|model| model.name.as_str());
        let headings: Vec<&str> = std::iter::once("what variants differ in").chain(names).collect();
        let mut table = Table::new(&headings);
        for of in &differing {
            let value = |key: &Option<&scenario::Key>| key.map_or("-".to_owned(), |key| shown(&key.value));
            table.row(std::iter::once(of.key.path.clone()).chain(of.values.iter().map(value)).collect());
        }
        text.push_str(&format!("\n{}", table.render()));
    }
    if !scenario.missing_provenance.is_empty() {
        let missing = scenario.missing_provenance.join(", ");
        text.push_str(&format!("\nThe site's file does not say where these are from: {missing}\n"));
    }
    text
}

/// Letters of a value that are shown.
const VALUE_CHARS: usize = 48;

fn shown(value: &str) -> String {
    text::shortened(&plain(value), VALUE_CHARS)
}
