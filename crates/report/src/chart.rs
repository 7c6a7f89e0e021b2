//! A chart's frame: grid, axes, and lines in it.

use std::fmt::Write;

use super::scale::Axis;
use super::text::escape;

/// A half of the page's width, and all of it.
pub const HALF: f64 = 580.0;
pub const WHOLE: f64 = 1180.0;
/// A third of it.
pub const THIRD: f64 = 380.0;

/// A frame with two axes; places are in units of the SVG.
#[derive(Clone, Debug)]
pub struct Frame {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x: Axis,
    pub y: Axis,
}

/// A line in a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The class of its stroke.
    pub stroke: String,
    /// What it is, for its tooltip.
    pub title: String,
    pub points: Vec<(f64, f64)>,
}

impl Frame {
    pub fn new(width: f64, height: f64, x: Axis, y: Axis) -> Frame {
        let widest = y.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(1);
        let left = 16.0 + 7.0 * widest.max(3) as f64;
        Frame { width, height, left, right: 16.0, top: 22.0, bottom: 34.0, x, y }
    }

    pub fn x_at(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * (self.width - self.left - self.right)
    }

    pub fn y_at(&self, value: f64) -> f64 {
        self.height - self.bottom - self.y.place(value) * (self.height - self.top - self.bottom)
    }

    /// The whole picture: what is drawn in the frame lies between the grid and the axes' labels.
    pub fn svg(&self, name: &str, inside: &str) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
            self.width,
            self.height,
            escape(name)
        );
        self.draw_y(&mut svg);
        self.draw_x(&mut svg);
        svg.push_str(inside);
        svg.push_str("</svg>");
        svg
    }

    fn draw_y(&self, svg: &mut String) {
        let (left, right) = (self.left, self.width - self.right);
        for (value, label) in &self.y.ticks {
            let y = self.y_at(*value);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
                left - 7.0,
                y + 4.0
            );
        }
        if !self.y.unit.is_empty() && !self.y.ticks.is_empty() {
            let _ = write!(svg, "<text class=\"unit\" x=\"2\" y=\"11\">{}</text>", escape(&self.y.unit));
        }
    }

    fn draw_x(&self, svg: &mut String) {
        let base = self.height - self.bottom;
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{:.1} {base:.1}H{:.1}\"/>",
            self.left,
            self.width - self.right
        );
        // The unit stands at the right end; a tick's label that would touch it is left out.
        let unit_at = self.width - 8.0;
        let unit_from = unit_at - 8.0 * self.x.unit.chars().count() as f64 - 6.0;
        for (value, label) in &self.x.ticks {
            let x = self.x_at(*value);
            let _ = write!(svg, "<path class=\"axis\" d=\"M{x:.1} {base:.1}v4\"/>");
            if x + 3.6 * label.chars().count() as f64 > unit_from {
                continue;
            }
            let _ = write!(svg, "<text class=\"mid\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>", base + 18.0);
        }
        let unit = escape(&self.x.unit);
        let _ =
            write!(svg, "<text class=\"unit end\" x=\"{unit_at:.1}\" y=\"{:.1}\">{unit}</text>", base + 18.0);
    }

    /// A line through points.
    pub fn line(&self, line: &Line) -> String {
        let mut path = String::new();
        for (index, (x, y)) in line.points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", self.x_at(*x), self.y_at(*y));
        }
        self.path(&line.stroke, &line.title, &path)
    }

    /// A line in steps: each value from its time on until the next one's, the last one until `end`. A value
    /// that is not a number is a gap.
    pub fn steps(&self, line: &Line, end: f64) -> String {
        let mut path = String::new();
        let mut is_on = false;
        for (index, (x, y)) in line.points.iter().enumerate() {
            if !y.is_finite() {
                is_on = false;
                continue;
            }
            let until = line.points.get(index + 1).map_or(end, |(next, _)| *next);
            let (x, y, until) = (self.x_at(*x), self.y_at(*y), self.x_at(until));
            let _ = if is_on { write!(path, "V{y:.1}") } else { write!(path, "M{x:.1} {y:.1}") };
            let _ = write!(path, "H{until:.1}");
            is_on = true;
        }
        self.path(&line.stroke, &line.title, &path)
    }

    /// The area below a line in steps.
    pub fn area(&self, fill: &str, points: &[(f64, f64)], end: f64) -> String {
        let Some((first, _)) = points.first() else {
            return String::new();
        };
        let mut path = format!("M{:.1} {:.1}", self.x_at(*first), self.y_at(0.0));
        for (index, (_, y)) in points.iter().enumerate() {
            let until = points.get(index + 1).map_or(end, |(next, _)| *next);
            let _ = write!(path, "V{:.1}H{:.1}", self.y_at(*y), self.x_at(until));
        }
        format!("<path class=\"area {fill}\" d=\"{path}V{:.1}z\"/>", self.y_at(0.0))
    }

    /// A level from the beginning to a time.
    pub fn level(&self, value: f64, end: f64) -> String {
        let (y, right) = (self.y_at(value), self.x_at(end));
        format!("<path class=\"mark\" d=\"M{:.1} {y:.1}H{right:.1}\"/>", self.left)
    }

    /// A part of the time that does not count.
    pub fn shade(&self, from: f64, to: f64) -> String {
        let (x, until) = (self.x_at(from), self.x_at(to));
        format!(
            "<rect class=\"shade\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            self.top,
            (until - x).max(0.0),
            self.height - self.top - self.bottom
        )
    }

    fn path(&self, stroke: &str, title: &str, path: &str) -> String {
        if path.is_empty() {
            return String::new();
        }
        format!("<path class=\"line {stroke}\" d=\"{path}\"><title>{}</title></path>", escape(title))
    }

    /// A column that is not seen but says something when it is pointed at.
    pub fn tip(&self, from: f64, to: f64, text: &str) -> String {
        let (x, until) = (self.x_at(from), self.x_at(to));
        format!(
            "<rect class=\"tip\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{}</title></rect>",
            self.top,
            (until - x).max(0.5),
            self.height - self.top - self.bottom,
            escape(text)
        )
    }
}

/// A legend: (class of the swatch, name) each.
pub fn legend(entries: &[(String, String)]) -> String {
    let mut html = String::from("<div class=\"legend\">");
    for (class, name) in entries {
        let _ = write!(html, "<span><i class=\"{class}\"></i>{}</span>", escape(name));
    }
    html.push_str("</div>");
    html
}

/// A picture with its heading.
pub fn figure(heading: &str, note: &str, inside: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<small>{}</small>", escape(note)) };
    format!("<figure><figcaption>{}{note}</figcaption>{inside}</figure>", escape(heading))
}
