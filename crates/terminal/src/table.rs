//! Aligned tables for people.

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows under headings; a column is as wide as its widest cell.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. A heading that begins with `>` is that of a column of numbers.
    pub fn new(headings: &[&str]) -> Self {
        let column = |heading: &&str| match heading.strip_prefix('>') {
            Some(heading) => (heading.to_owned(), Align::Right),
            None => ((*heading).to_owned(), Align::Left),
        };
        Table { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row with as many cells as there are columns.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has one cell for each column");
        self.rows.push(cells.iter().map(|cell| one_line(cell)).collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text, each line ended.
    pub fn render(&self) -> String {
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (heading, _))| {
                self.rows.iter().map(|row| width(&row[at])).max().unwrap_or(0).max(width(heading))
            })
            .collect();
        let headings: Vec<String> = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, (_, align)), width) in row.iter().zip(&self.columns).zip(&widths) {
                match align {
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Control characters of a name must not move the cursor of the reader's terminal.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", ">size"]);
        table.row(vec!["a".to_owned(), "1 B".to_owned()]);
        table.row(vec!["long\nname".to_owned(), "1.21 GB".to_owned()]);
        assert_eq!(table.render(), "name          size\na              1 B\nlong?name  1.21 GB\n");
    }
}
