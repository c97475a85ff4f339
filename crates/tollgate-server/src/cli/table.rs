//! Aligned tables without control characters.

use super::remote::{Failed, print_line};

/// Between two columns.
const GAP: &str = "  ";

/// Rows under a head.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<const N: usize>(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| clean(cell)).collect());
    }

    pub(super) fn print(&self) -> Result<(), Failed> {
        lines(&self.rows).iter().try_for_each(|line| print_line(line))
    }

    /// Prints a page, and on stderr the cursor of the next one.
    pub(super) fn print_page(&self, next: Option<&str>) -> Result<(), Failed> {
        self.print()?;
        if let Some(next) = next {
            eprintln!("more with --cursor {next}");
        }
        Ok(())
    }
}

/// Names and values, one pair in a line.
#[derive(Default)]
pub(super) struct Fields(Vec<Vec<String>>);

impl Fields {
    pub(super) fn add(&mut self, name: &str, value: impl ToString) {
        self.0.push(vec![name.to_owned(), clean(&value.to_string())]);
    }

    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.add(name, value);
        self
    }

    pub(super) fn add_some(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    pub(super) fn print(&self) -> Result<(), Failed> {
        lines(&self.0).iter().try_for_each(|line| print_line(line))
    }
}

/// A value in a table; `-` where there is none.
pub(super) fn cell(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Replaces the characters with which a text from outside could change how a terminal shows the rest.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if changes_display(c) { '\u{fffd}' } else { c }).collect()
}

/// Control characters, line and paragraph separators, and those that change the direction of text.
pub(super) fn changes_display(c: char) -> bool {
    let is_bidi = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_bidi || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_is_as_wide_as_its_widest_cell_and_lines_are_not_padded() {
        let mut table = Table::new(["STATE", "TX", "NOTE"]);
        table.row(["CONFIRMED".to_owned(), "1".to_owned(), String::new()]);
        table.row(["é".to_owned(), "22".to_owned(), "x".to_owned()]);
        let shown = lines(&table.rows);
        assert_eq!(shown, ["STATE      TX  NOTE", "CONFIRMED  1", "é          22  x"]);
    }

    #[test]
    fn control_and_bidi_characters_are_not_printed() {
        assert_eq!(clean("a\u{1b}[31mb\nc"), "a\u{fffd}[31mb\u{fffd}c");
        assert_eq!(clean("pay\u{202e}001\u{2069}é"), "pay\u{fffd}001\u{fffd}é");
    }
}
