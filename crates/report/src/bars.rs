//! Bars: figures of all variants with their intervals, and how drives spend their time.

use std::fmt::Write;

use super::chart::{HALF, WHOLE, figure};
use super::curve::colour;
use super::scale::Axis;
use super::text::{escape, number, shorten};
use crate::outcome::{DriveActivity, Outcome};
use crate::stats::{Summary, VariantSummary};

/// The width of names at the left.
const NAMES: f64 = 170.0;
/// The height of a bar with the space below it.
const ROW: f64 = 28.0;
/// Most characters of a name.
const NAME_MAX: usize = 25;

/// A bar for each variant, with its interval, for one figure of the site.
pub fn figure_bars(summary: &Summary, name: &str, heading: &str, note: &str) -> String {
    let found: Vec<_> =
        summary.variants.iter().filter_map(|variant| Some((variant, variant.of("", name)?))).collect();
    let most = found
        .iter()
        .map(|(_, found)| found.estimate.mean + found.estimate.half_width.unwrap_or(0.0))
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let unit = found[0].1.figure.unit;
    // A share's axis ends where it must, so that small differences are seen.
    let axis = Axis::value(most, unit, 4);
    let values = 120.0;
    let width = HALF - NAMES - values;
    let height = 8.0 + ROW * found.len() as f64;
    let mut svg =
        format!("<svg viewBox=\"0 0 {HALF} {height}\" role=\"img\" aria-label=\"{}\">", escape(heading));
    let _ = write!(svg, "<path class=\"axis\" d=\"M{NAMES} 2V{:.1}\"/>", height - 2.0);
    for (at, (variant, found)) in found.iter().enumerate() {
        let y = 4.0 + ROW * at as f64;
        let long = axis.place(found.estimate.mean) * width;
        let says = variant.says(found);
        let _ = write!(
            svg,
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}<title>{full}</title></text>\
             <rect class=\"b-v{}\" x=\"{NAMES}\" y=\"{:.1}\" width=\"{long:.1}\" height=\"{:.1}\">\
             <title>{full}: {}</title></rect>",
            NAMES - 8.0,
            y + ROW / 2.0 + 3.0,
            escape(&shorten(&variant.name, NAME_MAX)),
            colour(at),
            y + 3.0,
            ROW - 9.0,
            escape(&says),
            full = escape(&variant.name),
        );
        let mut end = NAMES + long;
        if let Some(half) = found.estimate.half_width {
            let low = NAMES + axis.place((found.estimate.mean - half).max(0.0)) * width;
            end = NAMES + axis.place(found.estimate.mean + half) * width;
            let middle = y + ROW / 2.0 - 1.5;
            let _ = write!(
                svg,
                "<path class=\"interval\" d=\"M{low:.1} {middle:.1}H{end:.1}M{low:.1} {:.1}v8\
                 M{end:.1} {:.1}v8\"/>",
                middle - 4.0,
                middle - 4.0
            );
        }
        let _ = write!(
            svg,
            "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            end + 7.0,
            y + ROW / 2.0 + 3.0,
            escape(&says)
        );
    }
    svg.push_str("</svg>");
    super::chart::figure(heading, note, &svg)
}

/// Figures of a single variant, large: (name, heading, note) each. Those that are 0 are left out.
pub fn tiles(variant: &VariantSummary, figures: &[(&str, &str, &str)]) -> String {
    let mut html = String::new();
    for (name, heading, note) in figures {
        let found = variant.of("", name).filter(|found| found.estimate.mean > 0.0);
        if let Some(found) = found {
            let says = variant.says(found);
            let note = if note.is_empty() { String::new() } else { format!(", {note}") };
            let _ = write!(html, "<div><b>{}</b><span>{heading}{note}</span></div>", escape(&says));
        }
    }
    if html.is_empty() { html } else { format!("<div class=\"tiles\">{html}</div>") }
}

/// How the drives of each variant spend their time, together 100 % of it.
pub fn shares(shown: &[&Outcome]) -> String {
    let rows: Vec<&&Outcome> = shown.iter().filter(|outcome| !outcome.drives.is_empty()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let width = WHOLE - NAMES - 12.0;
    let row = 34.0;
    let height = 4.0 + row * rows.len() as f64;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WHOLE} {height}\" role=\"img\" aria-label=\"shares of drive time\">");
    for (at, outcome) in rows.iter().enumerate() {
        let y = 2.0 + row * at as f64;
        let sums = DriveActivity::ALL
            .map(|activity| outcome.drives.iter().map(|drive| drive.seconds[activity as usize]).sum::<f64>());
        let all = sums.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let _ = write!(
            svg,
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}<title>{}</title></text>",
            NAMES - 8.0,
            y + row / 2.0 + 2.0,
            escape(&shorten(&outcome.variant, NAME_MAX)),
            escape(&outcome.variant)
        );
        let mut x = NAMES;
        for (activity, sum) in DriveActivity::ALL.iter().zip(sums).filter(|(_, sum)| *sum > 0.0) {
            let share = sum / all;
            let long = share * width;
            let word = activity.word();
            let _ = write!(
                svg,
                "<rect class=\"b-{word}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{long:.1}\" height=\"{:.1}\">\
                 <title>{word}: {} % of the drives' time</title></rect>",
                y + 2.0,
                row - 8.0,
                number(share * 100.0)
            );
            let label = format!("{word} {} %", number(share * 100.0));
            let short = format!("{} %", number(share * 100.0));
            let fits = |text: &str| text.chars().count() as f64 * 6.6 + 8.0 <= long;
            if let Some(text) = [&label, &short].into_iter().find(|text| fits(text)) {
                let _ = write!(
                    svg,
                    "<text class=\"mid on-{word}\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                    x + long / 2.0,
                    y + row / 2.0 + 2.0
                );
            }
            x += long;
        }
    }
    svg.push_str("</svg>");
    figure("Shares of all drives' time", "over the whole run", &svg)
}
