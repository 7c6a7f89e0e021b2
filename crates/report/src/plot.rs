//! Pages with curves of what was measured, over sizes and the like that stand side by side.

use std::fmt::Write;

use super::chart::{Frame, HALF, Line, WHOLE, figure, legend};
use super::curve::colour;
use super::scale::Axis;
use super::style::{STYLE, colours};
use super::text::{escape, number, with_unit};

/// Values of one kind, one for each place of the picture; nothing where nothing was measured.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it is of.
    pub name: String,
    /// One for each of [`Plot::places`].
    pub values: Vec<Option<f64>>,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it is of.
    pub heading: String,
    /// Beside it, in small.
    pub note: String,
    /// What the places are: `size`.
    pub places_are: String,
    /// What stands below, from the left to the right, all equally far apart.
    pub places: Vec<String>,
    /// The unit of all values.
    pub unit: String,
    /// The curves.
    pub curves: Vec<Curve>,
    /// A bound that is drawn as a line, with its name.
    pub bound: Option<(f64, String)>,
    /// A bound that is another one at each place, drawn as a broken line.
    pub moving_bound: Option<Curve>,
}

/// Rows below the pictures.
#[derive(Clone, Debug)]
pub struct PlotTable {
    /// What it is of.
    pub heading: String,
    /// One for each column.
    pub columns: Vec<String>,
    /// As many cells as columns each.
    pub rows: Vec<Vec<String>>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct PlotPage {
    /// Its title.
    pub title: String,
    /// Sentences at its head.
    pub lead: Vec<String>,
    /// Pictures.
    pub plots: Vec<Plot>,
    /// Tables.
    pub tables: Vec<PlotTable>,
    /// What made it.
    pub footer: String,
}

/// The page, UTF-8; it loads nothing.
#[must_use]
pub fn plot_page(page: &PlotPage) -> String {
    let title = escape(&page.title);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <style>{STYLE}{}</style></head><body><main>\n<h1>{title}</h1>\n",
        colours()
    );
    for sentence in &page.lead {
        let _ = writeln!(html, "<p class=\"lead\">{}</p>", escape(sentence));
    }
    let width = if page.plots.len() == 1 { WHOLE } else { HALF };
    let pictures: String = page.plots.iter().map(|plot| picture(plot, width)).collect();
    let grid = if page.plots.len() == 1 { "grid one" } else { "grid" };
    let _ = writeln!(html, "<div class=\"{grid}\">{pictures}</div>");
    for table in &page.tables {
        rows(&mut html, table);
    }
    let _ = writeln!(html, "<footer>{}</footer></main></body></html>", escape(&page.footer));
    html
}

fn picture(plot: &Plot, width: f64) -> String {
    let curves = plot.curves.iter().chain(&plot.moving_bound);
    let values = curves.flat_map(|curve| &curve.values).flatten().copied();
    let bound = plot.bound.as_ref().map(|(value, _)| *value);
    let most = values.chain(bound).fold(0.0, f64::max);
    let last = plot.places.len().saturating_sub(1).max(1) as f64;
    let ticks = plot.places.iter().enumerate().map(|(at, name)| (at as f64, escape(name))).collect();
    // Half a place on either side, so that the first and the last have room for their names.
    let x = Axis { from: -0.5, to: last + 0.5, ticks, unit: String::new() };
    let frame = Frame::new(width, 260.0, x, Axis::value(most, &plot.unit, 4));
    let (mut inside, mut entries) = (String::new(), Vec::new());
    if let Some((value, name)) = &plot.bound {
        inside.push_str(&frame.level(*value, last + 0.5));
        let _ = write!(
            inside,
            "<text class=\"unit\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            frame.left + 5.0,
            frame.y_at(*value) - 5.0,
            escape(name)
        );
    }
    for (number, curve) in plot.curves.iter().enumerate() {
        let class = format!("v{}", colour(number));
        let points: Vec<(f64, f64)> = curve
            .values
            .iter()
            .enumerate()
            .filter_map(|(at, value)| value.map(|value| (at as f64, value)))
            .collect();
        for (at, value) in &points {
            let _ = write!(
                inside,
                "<circle class=\"b-{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\">\
                 <title>{}, {}: {}</title></circle>",
                frame.x_at(*at),
                frame.y_at(*value),
                escape(&curve.name),
                escape(plot.places.get(*at as usize).map_or("", String::as_str)),
                with_unit(*value, &plot.unit)
            );
        }
        let line = Line { stroke: format!("s-{class}"), title: curve.name.clone(), points };
        inside.push_str(&frame.line(&line));
        entries.push((format!("b-{class}"), curve.name.clone()));
    }
    if let Some(bound) = &plot.moving_bound {
        let values = bound.values.iter().enumerate();
        let points = values.filter_map(|(at, value)| value.map(|value| (at as f64, value))).collect();
        let line = Line { stroke: "mark".to_owned(), title: bound.name.clone(), points };
        inside.push_str(&frame.line(&line));
        entries.push(("bound".to_owned(), format!("{} (broken line)", bound.name)));
    }
    let mut below = String::new();
    cells(&mut below, &values_of(plot));
    let svg = frame.svg(&plot.heading, &inside);
    figure(&plot.heading, &plot.note, &format!("{}{svg}{below}", legend(&entries)))
}

/// What a picture shows, in numbers.
fn values_of(plot: &Plot) -> PlotTable {
    let unit =
        |name: &str| if plot.unit.is_empty() { name.to_owned() } else { format!("{name}, {}", plot.unit) };
    let curves = || plot.curves.iter().chain(&plot.moving_bound);
    let row = |(at, place): (usize, &String)| {
        let value = |curve: &Curve| {
            let value = curve.values.get(at).copied().flatten();
            value.map_or_else(|| "-".to_owned(), number)
        };
        [place.clone()].into_iter().chain(curves().map(value)).collect()
    };
    PlotTable {
        heading: String::new(),
        columns: [plot.places_are.clone()].into_iter().chain(curves().map(|one| unit(&one.name))).collect(),
        rows: plot.places.iter().enumerate().map(row).collect(),
    }
}

fn rows(html: &mut String, table: &PlotTable) {
    let _ = write!(html, "<section><h2>{}</h2>", escape(&table.heading));
    cells(html, table);
    html.push_str("</section>\n");
}

fn cells(html: &mut String, table: &PlotTable) {
    html.push_str("<div class=\"wide\"><table><thead><tr>");
    for column in &table.columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        html.push_str("<tr>");
        for cell in row {
            let _ = write!(html, "<td>{}</td>", escape(cell));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bound: Option<(f64, String)>) -> String {
        let curve =
            |name: &str, values: &[Option<f64>]| Curve { name: name.to_owned(), values: values.to_vec() };
        let plot = Plot {
            heading: "sequential".to_owned(),
            note: "depth 8".to_owned(),
            places_are: "size".to_owned(),
            places: vec!["4 KiB".to_owned(), "1 MiB".to_owned(), "16 MiB".to_owned()],
            unit: "MB/s".to_owned(),
            curves: vec![
                curve("read", &[Some(40.0), Some(600.0), Some(800.0)]),
                curve("write <5>", &[None, Some(100.0), None]),
            ],
            bound,
            moving_bound: Some(curve("the links <carry>", &[Some(500.0), Some(900.0), Some(900.0)])),
        };
        let table = PlotTable {
            heading: "Rows".to_owned(),
            columns: vec!["size".to_owned()],
            rows: vec![vec!["4 KiB & more".to_owned()]],
        };
        plot_page(&PlotPage {
            title: "A disk".to_owned(),
            lead: vec!["One.".to_owned()],
            plots: vec![plot],
            tables: vec![table],
            footer: "Made by kist bench disk.".to_owned(),
        })
    }

    #[test]
    fn curves_points_and_the_bound_are_drawn() {
        let html = page(Some((6302.0, "the links carry 6,302 MB/s".to_owned())));
        assert_eq!(html.matches("<circle").count(), 4, "a point for each value that was measured");
        assert_eq!(html.matches("class=\"mark\"").count(), 1);
        assert!(html.contains("the links carry 6,302 MB/s") && html.contains(">16 MiB</text>"), "{html}");
        assert!(html.contains("write &lt;5&gt;") && html.contains("4 KiB &amp; more"), "{html}");
        assert!(!page(None).contains("class=\"mark\""));
        assert_eq!(html.matches("class=\"line mark\"").count(), 1, "the bound that moves");
        // In numbers below.
        for cell in
            ["<th>size</th>", "<th>read, MB/s</th>", "<td>600</td>", "<th>the links &lt;carry&gt;, MB/s</th>"]
        {
            assert!(html.contains(cell), "{cell}");
        }
        assert_eq!(html.matches("<td>-</td>").count(), 2, "what was not measured");
        assert_eq!(html, page(Some((6302.0, "the links carry 6,302 MB/s".to_owned()))));
    }
}
