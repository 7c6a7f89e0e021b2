//! Tables: figures with intervals, faults, checks, parameters.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Described;
use super::text::{escape, number, whole};
use crate::outcome::Outcome;
use crate::stats::{Comparison, FigureSummary, Summary};

fn head(first: &str, names: &[&str]) -> String {
    let mut html = format!("<div class=\"wide\"><table><thead><tr><th>{}</th>", escape(first));
    for name in names {
        let _ = write!(html, "<th class=\"n\">{}</th>", escape(name));
    }
    html.push_str("</tr></thead><tbody>");
    html
}

/// A row that spans the table.
fn group(html: &mut String, name: &str, columns: usize) {
    let _ = write!(html, "<tr class=\"group\"><th colspan=\"{columns}\">{}</th></tr>", escape(name));
}

/// All figures of all variants; against the first one where there are more.
pub fn figures(summary: &Summary) -> String {
    let names: Vec<&str> = summary.variants.iter().map(|variant| variant.name.as_str()).collect();
    let mut html = head("", &names);
    let mut of = "";
    for figure in summary.figures() {
        let found: Vec<Option<&FigureSummary>> =
            summary.variants.iter().map(|variant| variant.of(&figure.of, figure.name)).collect();
        // What never happened has no row; that nothing was refused is worth a row.
        let is_nothing = found.iter().flatten().all(|found| found.estimate.mean == 0.0);
        if is_nothing && !figure.name.starts_with("files refused") {
            continue;
        }
        if figure.of != of {
            of = &figure.of;
            group(&mut html, of, names.len() + 1);
        }
        let main = if figure.is_main { " class=\"main\"" } else { "" };
        let _ = write!(html, "<tr{main}><th>{}</th>", escape(figure.name));
        for (variant, found) in summary.variants.iter().zip(found) {
            let cell = found.map_or_else(
                || "–".to_owned(),
                |found| {
                    let against =
                        found.against_first.map(|comparison| against(&comparison)).unwrap_or_default();
                    format!("{}{against}", escape(&variant.says(found)))
                },
            );
            let _ = write!(html, "<td>{cell}</td>");
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// A ratio, and whether it is more than chance.
fn against(comparison: &Comparison) -> String {
    let Some(ratio) = comparison.ratio else {
        return String::new();
    };
    let (class, says) = match comparison.is_different {
        Some(true) => ("yes", "differs from the first variant on the same seeds (95 %)"),
        Some(false) => ("no", "within chance of the first variant on the same seeds (95 %)"),
        None => ("one", "one seed: no interval"),
    };
    format!("<small class=\"{class}\" title=\"{says}\">× {}</small>", number(ratio))
}

/// What went wrong, and what was checked: sums over all seeds of each variant.
pub fn faults_and_checks(variants: &[Vec<Outcome>]) -> String {
    let shown: Vec<&Vec<Outcome>> = variants.iter().filter(|outcomes| !outcomes.is_empty()).collect();
    let names: Vec<&str> = shown.iter().map(|outcomes| outcomes[0].variant.as_str()).collect();
    let mut html = head("all seeds together", &names);
    let mut section = |title: &str, count: &dyn Fn(&Outcome) -> &std::collections::BTreeMap<String, u64>| {
        let keys: BTreeSet<&String> =
            shown.iter().copied().flatten().flat_map(|outcome| count(outcome).keys()).collect();
        group(
            &mut html,
            if keys.is_empty() { "No faults, or nothing checked" } else { title },
            names.len() + 1,
        );
        for key in keys {
            let _ = write!(html, "<tr><th>{}</th>", escape(key));
            for outcomes in &shown {
                let sum: u64 =
                    outcomes.iter().map(|outcome| count(outcome).get(key).copied().unwrap_or(0)).sum();
                let _ = write!(html, "<td>{}</td>", whole(sum as f64));
            }
            html.push_str("</tr>");
        }
    };
    section("Faults that happened", &|outcome| &outcome.faults);
    section("Invariants, and how often each was checked", &|outcome| &outcome.checks);
    group(&mut html, "The run", names.len() + 1);
    type Cell = fn(&Vec<Outcome>) -> String;
    let rows: [(&str, Cell); 4] = [
        ("events", |all| whole(all.iter().map(|outcome| outcome.events as f64).sum())),
        ("steps of the scheduler", |all| whole(all.iter().map(|outcome| outcome.steps as f64).sum())),
        ("seeds", |all| shorten_seeds(all)),
        ("all work done", |all| {
            format!("{} of {} runs", all.iter().filter(|outcome| outcome.is_drained).count(), all.len())
        }),
    ];
    for (name, cell) in rows {
        let _ = write!(html, "<tr><th>{name}</th>");
        for outcomes in &shown {
            let _ = write!(html, "<td>{}</td>", cell(outcomes));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

fn shorten_seeds(outcomes: &[Outcome]) -> String {
    let seeds: Vec<String> = outcomes.iter().take(8).map(|outcome| outcome.seed.to_string()).collect();
    let more = if outcomes.len() > 8 { format!(" … ({})", outcomes.len()) } else { String::new() };
    format!("{}{more}", seeds.join(", "))
}

/// What the scenario was run with.
pub fn parameters(described: &Described, variants: &[&str]) -> String {
    if described.parameters.is_empty() {
        return String::new();
    }
    let mut html = head("", variants);
    let mut of = "";
    for parameter in &described.parameters {
        if parameter.group != of {
            of = &parameter.group;
            group(&mut html, of, variants.len() + 1);
        }
        let _ = write!(html, "<tr><th>{}</th>", escape(&parameter.name));
        match parameter.values.as_slice() {
            [one] => {
                let _ = write!(html, "<td colspan=\"{}\">{}</td>", variants.len().max(1), escape(one));
            }
            each => {
                for value in each {
                    let _ = write!(html, "<td class=\"differs\">{}</td>", escape(value));
                }
            }
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}
