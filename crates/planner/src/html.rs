//! A plan as one page that needs nothing else: bars of what is used, and every line with its formula.

use std::fmt::Write as _;

use super::line::{Line, Section, Unit, Verdict};
use super::{ASSUMPTIONS, Plan};

/// Bars of one picture; what comes after is in the tables.
const BARS_MAX: usize = 60;

/// Length of a picture's names, and of a bar of the whole scale, in the picture's units.
const NAMES: f64 = 300.0;
const SCALE: f64 = 460.0;

/// A bar's height with the space below it.
const ROW: f64 = 24.0;

const STYLE: &str = "\
:root{--ink:#1c2530;--soft:#5d6b7a;--page:#fff;--rule:#dfe4ea;--bar:#3b78b5;--tail:#d18f2c;--bad:#c0392b;\
--good:#2e7d4f;--box:#f5f7f9}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e9ee;--soft:#9aa7b4;--page:#14191f;--rule:#2e3844;\
--bar:#6aa5e0;--tail:#e0aa55;--bad:#e8695b;--good:#65b98a;--box:#1c232b}}\
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:62rem;\
margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}\
.lead{font-size:1.05rem;background:var(--box);border-left:4px solid var(--bar);padding:.6rem .9rem}\
.soft,figcaption{color:var(--soft)}figure{margin:1rem 0}svg{width:100%;height:auto}\
svg text{fill:var(--ink);font:13px system-ui,sans-serif}svg .soft{fill:var(--soft)}\
table{border-collapse:collapse;width:100%}td{border-top:1px solid var(--rule);padding:.3rem .5rem;\
vertical-align:top}td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
code{font:12.5px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}summary{cursor:pointer}\
.meets{color:var(--good)}.busy{font-weight:600}.misses{color:var(--bad);font-weight:600}";

/// The page, UTF-8; it loads nothing.
#[must_use]
pub fn html(plan: &Plan) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><h1>{title}</h1>\n\
         <p class=\"soft\">A plan by kist plan site. Open a line to see its formula.</p>\n",
        title = escape(&plan.site)
    );
    if let Some(bottleneck) = &plan.bottleneck {
        let _ = writeln!(page, "<p class=\"lead\">Used up first, {}.</p>", escape(bottleneck));
    }
    page.push_str(&uses(plan));
    page.push_str(&drives(plan));
    page.push_str(&limits(plan));
    for section in Section::ALL {
        let lines: Vec<&Line> = plan.lines.iter().filter(|line| line.section == section).collect();
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(page, "<h2>{}</h2>\n<table>", capital(&section.to_string()));
        lines.iter().for_each(|line| page.push_str(&row(plan, line)));
        page.push_str("</table>\n");
    }
    page.push_str("<h2>What is taken for granted</h2>\n<ul>\n");
    for sentence in ASSUMPTIONS {
        let _ = writeln!(page, "<li>{}</li>", escape(sentence));
    }
    page.push_str("</ul>\n</body></html>\n");
    page
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn row(plan: &Plan, line: &Line) -> String {
    let symbols: Vec<String> = line
        .inputs
        .iter()
        .map(|input| format!("<code>{}</code> {}", input.symbol, escape(&input.meaning)))
        .collect();
    let currency = match (line.unit, &plan.currency) {
        (Unit::Money, Some(currency)) => format!(" {}", escape(currency)),
        _ => String::new(),
    };
    let (class, word) = match line.verdict {
        Some(Verdict::Meets) => ("meets", "enough"),
        Some(Verdict::Busy) => ("busy", "busy: waits grow"),
        Some(Verdict::Misses) => ("misses", "too little"),
        None => ("", ""),
    };
    format!(
        "<tr><td>{}</td><td><details><summary>{}</summary><code>{}<br>{}</code><br>{}<br>\
         <span class=\"soft\">{}</span></details></td><td class=\"n\">{}{currency}</td>\
         <td class=\"{class}\" title=\"{}\">{word}</td></tr>\n",
        escape(&line.subject),
        escape(&line.name),
        escape(&line.formula),
        escape(&line.figures),
        symbols.join(", "),
        escape(&line.source),
        escape(&line.text),
        escape(&line.reason),
    )
}

/// A bar of one or two parts.
struct Bar {
    name: String,
    parts: [f64; 2],
    text: String,
    is_marked: bool,
}

/// A picture; `mark` is where a line stands across all bars.
fn picture(heading: &str, note: &str, bars: &[Bar], mark: Option<f64>) -> String {
    if bars.is_empty() {
        return String::new();
    }
    let shown = &bars[..bars.len().min(BARS_MAX)];
    let longest = shown.iter().map(|bar| bar.parts[0] + bar.parts[1]).fold(mark.unwrap_or(0.0), f64::max);
    let scale = if longest > 0.0 { SCALE / longest } else { 0.0 };
    let height = ROW * shown.len() as f64 + 6.0;
    let mut svg =
        format!("<svg viewBox=\"0 0 900 {height}\" role=\"img\" aria-label=\"{}\">", escape(heading));
    for (index, bar) in shown.iter().enumerate() {
        let top = ROW * index as f64 + 4.0;
        let (first, second) = (bar.parts[0] * scale, bar.parts[1] * scale);
        let colour = if bar.is_marked { "--bad" } else { "--bar" };
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{top}\" width=\"{first:.1}\" height=\"16\" \
             style=\"fill:var({colour})\"/>\
             <rect x=\"{:.1}\" y=\"{top}\" width=\"{second:.1}\" height=\"16\" style=\"fill:var(--tail)\"/>\
             <text class=\"soft\" x=\"{:.1}\" y=\"{}\">{}</text>",
            NAMES - 8.0,
            top + 13.0,
            escape(&bar.name),
            NAMES + first,
            NAMES + first + second + 8.0,
            top + 13.0,
            escape(&bar.text),
        );
    }
    if let Some(mark) = mark {
        let x = NAMES + mark * scale;
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height}\" style=\"stroke:var(--ink)\" \
             stroke-dasharray=\"4 3\"/>"
        );
    }
    let left_out = bars.len() - shown.len();
    let more = if left_out > 0 { format!(" {left_out} more are in the tables.") } else { String::new() };
    format!(
        "<h2>{}</h2>\n<figure>{svg}</svg><figcaption>{}{more}</figcaption></figure>\n",
        escape(heading),
        escape(note)
    )
}

fn uses(plan: &Plan) -> String {
    let lines = plan.lines.iter().filter(|line| line.section == Section::Bottleneck);
    let bars: Vec<Bar> = lines
        .map(|line| Bar {
            name: line.name.clone(),
            parts: [line.value.unwrap_or(0.0), 0.0],
            text: line.text.clone(),
            is_marked: line.verdict == Some(Verdict::Misses),
        })
        .collect();
    picture("How much of each part is used", "The dashed line is all of it.", &bars, Some(1.0))
}

fn drives(plan: &Plan) -> String {
    let writing = plan.lines.iter().filter(|line| line.name == "drives writing");
    let bars: Vec<Bar> = writing
        .map(|line| {
            let parts =
                [line.value, plan.value(&line.subject, "drives reading")].map(|part| part.unwrap_or(0.0));
            let text = format!("{} + {}", Unit::Of("").write(parts[0]), Unit::Of("").write(parts[1]));
            Bar { name: line.subject.clone(), parts, text, is_marked: false }
        })
        .collect();
    picture("Drives busy on the mean day", "By class: writing, then reading with positioning.", &bars, None)
}

fn limits(plan: &Plan) -> String {
    let of_rates = |line: &&Line| line.section == Section::Bandwidth && line.unit == Unit::Rate;
    let lines = plan.lines.iter().filter(of_rates).filter(|line| !line.subject.is_empty());
    let bars: Vec<Bar> = lines
        .map(|line| Bar {
            name: format!("{}, {}", line.subject, line.name),
            parts: [line.value.unwrap_or(0.0), 0.0],
            text: line.text.clone(),
            is_marked: line.name.starts_with("limit of"),
        })
        .collect();
    picture(
        "What JBODs and servers carry",
        "In colour: the least of each, which is what is left.",
        &bars,
        None,
    )
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Site, plan};

    #[test]
    fn the_page_has_every_line_and_loads_nothing() {
        let text = include_str!("../../../examples/sites/tier1.toml").replace("100 PB\"", "<b>&\"");
        let plan = plan(&Site::parse(&text).unwrap()).unwrap();
        let page = html(&plan);
        assert!(page.contains("Tier-1, &lt;b&gt;&amp;") && !page.contains("<b>"));
        assert_eq!(page.matches("<tr>").count(), plan.lines.len());
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw_is_no_picture() {
        let plan = plan(&Site::parse("name = \"x\"\n[[server]]\nname = \"s\"").unwrap()).unwrap();
        assert!(!html(&plan).contains("<svg"));
    }
}
