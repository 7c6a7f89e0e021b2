//! The page.

use std::fmt::Write;

use super::style::{STYLE, colours};
use super::text::{escape, whole};
use super::{Described, bars, curve, gantt, table, words};
use crate::outcome::Outcome;
use crate::stats::{Summary, summary};

/// The report of a scenario: outcomes of each variant, one for each seed, variants in the order in which
/// they are
/// shown; the first one is what others are compared with. One HTML page that needs nothing else.
#[must_use]
pub fn html(described: &Described, variants: &[Vec<Outcome>]) -> String {
    let variants: Vec<Vec<Outcome>> =
        variants.iter().filter(|outcomes| !outcomes.is_empty()).cloned().collect();
    let summary = summary(&variants);
    let shown: Vec<&Outcome> = variants.iter().map(|outcomes| &outcomes[0]).collect();
    let mut page = String::with_capacity(1 << 20);
    let title = escape(&described.title);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <style>{STYLE}{}</style></head><body><main>\n<h1>{title}</h1>\n",
        colours()
    );
    for paragraph in described.text.split("\n\n").map(str::trim).filter(|text| !text.is_empty()) {
        let _ = writeln!(page, "<p class=\"lead\">{}</p>", escape(paragraph));
    }
    result(&mut page, &summary, &shown);
    pictures(&mut page, &summary, &shown);
    section(&mut page, "Figures", &how_sure(&variants, &table::figures(&summary)));
    section(&mut page, "Faults and checks", &table::faults_and_checks(&variants));
    let names: Vec<&str> = shown.iter().map(|outcome| outcome.variant.as_str()).collect();
    section(&mut page, "Parameters", &table::parameters(described, &names));
    if !described.source.trim().is_empty() {
        let _ = writeln!(
            page,
            "<details><summary>The scenario file</summary><pre>{}</pre></details>",
            escape(&described.source)
        );
    }
    let left_out: String =
        described.left_out.iter().map(|sentence| format!("<li>{}</li>", escape(sentence))).collect();
    if !left_out.is_empty() {
        section(&mut page, "What the model leaves out", &format!("<ul>{left_out}</ul>"));
    }
    page.push_str("<footer>Made by kist twin.</footer></main></body></html>\n");
    page
}

fn section(page: &mut String, heading: &str, inside: &str) {
    if !inside.is_empty() {
        let _ = writeln!(page, "<section><h2>{}</h2>{inside}</section>", escape(heading));
    }
}

fn result(page: &mut String, summary: &Summary, shown: &[&Outcome]) {
    let bad = if summary.variants.iter().any(|variant| variant.violation.is_some()) { " bad" } else { "" };
    let sentences: String = words::sentences(summary, shown)
        .iter()
        .map(|sentence| format!("<p>{}</p>", escape(sentence)))
        .collect();
    if !sentences.is_empty() {
        let _ = writeln!(page, "<div class=\"result{bad}\">{sentences}</div>");
    }
}

fn grid(inside: &str) -> String {
    if inside.is_empty() { String::new() } else { format!("<div class=\"grid\">{inside}</div>") }
}

fn pictures(page: &mut String, summary: &Summary, shown: &[&Outcome]) {
    let legend = curve::variants_legend(shown);
    let with_legend = |inside: String| {
        if inside.is_empty() { inside } else { format!("{legend}{}", grid(&inside)) }
    };
    let throughput = curve::throughput(shown, true) + &curve::throughput(shown, false);
    section(page, "Throughput", &throughput);
    let compared = [
        ("read from tape", "Read from tape", "mean after warm-up"),
        ("written to tape", "Written to tape", "mean after warm-up, every copy"),
        ("mounts per TB", "Mounts per TB", "of bytes read and written"),
        ("files per mount", "Files per mount", ""),
        ("efficiency", "Efficiency", "bytes moved of what drives in use could stream"),
        ("of that, moving data", "Moving data", "share of the time that drives are in use"),
        ("hit rate", "Hit rate", "wanted files that were in the pool"),
        ("age of the oldest request, most", "Longest wait in the queue", ""),
    ];
    let figures = if let [variant] = summary.variants.as_slice() {
        bars::tiles(variant, &compared)
    } else {
        let bar =
            |(name, heading, note): &(&str, &str, &str)| bars::figure_bars(summary, name, heading, note);
        grid(&compared.iter().map(bar).collect::<String>())
    };
    section(page, "Rates and efficiency", &figures);
    section(page, "Completion of campaigns", &curve::campaigns(shown));
    let drives = format!("{}{}", gantt::activities_legend(), bars::shares(shown));
    if shown.iter().any(|outcome| !outcome.drives.is_empty()) {
        section(page, "How the drives spend their time", &(drives + &gantt::over_time(shown)));
        section(page, "What each drive does", &gantt::gantt(shown));
    }
    section(page, "Queues", &with_legend(curve::queue(shown)));
    section(page, "Cache", &with_legend(curve::pool(shown)));
}

/// How the intervals in the table came to be.
fn how_sure(variants: &[Vec<Outcome>], table: &str) -> String {
    let seeds = variants.iter().map(Vec::len).max().unwrap_or(0);
    let says = if seeds > 1 {
        format!(
            "Means of {} seeds; ± is half the 95 % confidence interval (Student's t), \
             or brackets hold its ends where it would reach below 0; of two seeds \
             they hold both values. × is the ratio to the first variant, bold where the \
             difference on the same seeds is more than chance. Curves are those of the first seed.",
            whole(seeds as f64)
        )
    } else {
        "One seed. ± is shown for rates of a run in steady state only: half the 95 % confidence interval \
         from 20 batches of the run. × is the ratio to the first variant."
            .to_owned()
    };
    format!("<p class=\"note\">{}</p>{table}", escape(&says))
}
