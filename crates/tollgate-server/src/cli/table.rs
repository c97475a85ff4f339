//! Aligned tables without control characters, that fit a terminal of 80 columns.
//!
//! Widths are those on a terminal: a Chinese character takes two columns. A table that is too wide is narrowed by its
//! own rules: ids and addresses lose their middle, texts their end. `--wide` and `--json` show everything.

mod narrow;
mod wrap;

use unicode_width::UnicodeWidthStr;

use super::remote::{Failed, print_line};
use crate::cli::output::errln;
pub(super) use narrow::{cut, without_middle};
pub(super) use wrap::wrapped;

/// The columns of a terminal that everybody has.
pub(super) const WIDTH: usize = 80;

/// Between two columns.
const GAP: &str = "  ";

/// A text is not cut below this width.
const TEXT_MIN: usize = 8;

/// Rows under a head.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    shortened: Vec<&'static str>,
    cut: Vec<&'static str>,
    is_wide: bool,
}

impl Table {
    pub(super) fn new<const N: usize>(head: [&str; N]) -> Self {
        let rows = vec![head.map(str::to_owned).to_vec()];
        Self { rows, shortened: Vec::new(), cut: Vec::new(), is_wide: false }
    }

    /// The columns of ids, hashes and addresses: where the table is too wide they lose their middle, in this order.
    pub(super) fn shortens(mut self, columns: &[&'static str]) -> Self {
        self.shortened = columns.to_vec();
        self
    }

    /// The columns of texts: where the table is still too wide they lose their end, in this order.
    pub(super) fn cuts(mut self, columns: &[&'static str]) -> Self {
        self.cut = columns.to_vec();
        self
    }

    /// Shows everything, however wide.
    pub(super) fn wide(mut self, is_wide: bool) -> Self {
        self.is_wide = is_wide;
        self
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.iter().map(|cell| clean(cell)).collect());
    }

    pub(super) fn print(&self) -> Result<(), Failed> {
        self.lines().iter().try_for_each(|line| print_line(line))
    }

    /// Prints a page, and on stderr the cursor of the next one.
    pub(super) fn print_page(&self, next: Option<&str>) -> Result<(), Failed> {
        self.print()?;
        if let Some(next) = next {
            errln!("more with --cursor {next}");
        }
        Ok(())
    }

    /// The lines as they are printed.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut rows = self.rows.clone();
        if !self.is_wide {
            self.narrow(&mut rows);
        }
        lines(&rows)
    }

    fn narrow(&self, rows: &mut [Vec<String>]) {
        for name in &self.shortened {
            if width_of(rows) <= WIDTH {
                return;
            }
            self.change(rows, name, without_middle);
        }
        for name in &self.cut {
            let excess = width_of(rows).saturating_sub(WIDTH);
            if excess == 0 {
                return;
            }
            let Some(column) = self.column(name) else { continue };
            let narrower = width_of_column(rows, column).saturating_sub(excess);
            self.change(rows, name, |text| cut(text, narrower.max(TEXT_MIN)));
        }
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.rows.first()?.iter().position(|head| head == name)
    }

    fn change(&self, rows: &mut [Vec<String>], name: &str, to: impl Fn(&str) -> String) {
        let Some(column) = self.column(name) else { return };
        for cell in rows.iter_mut().skip(1).filter_map(|row| row.get_mut(column)) {
            *cell = to(cell);
        }
    }
}

/// Names and values, one pair in a line. A long text goes on below, beside its name.
#[derive(Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn add(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_owned(), clean(&value.to_string())));
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
        self.lines().iter().try_for_each(|line| print_line(line))
    }

    /// The lines as they are printed.
    pub(super) fn lines(&self) -> Vec<String> {
        let names = self.0.iter().map(|(name, _)| name.width()).max().unwrap_or_default();
        let room = WIDTH.saturating_sub(names + GAP.len());
        let mut rows = Vec::new();
        for (name, value) in &self.0 {
            let mut name = name.clone();
            for line in wrapped(value, room) {
                rows.push(vec![std::mem::take(&mut name), line]);
            }
        }
        lines(&rows)
    }
}

/// A value in a table; `-` where there is none.
pub(super) fn cell(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn width_of_column(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or_default()
}

fn columns(rows: &[Vec<String>]) -> usize {
    rows.iter().map(Vec::len).max().unwrap_or_default()
}

fn width_of(rows: &[Vec<String>]) -> usize {
    let columns = columns(rows);
    let cells: usize = (0..columns).map(|column| width_of_column(rows, column)).sum();
    cells + GAP.len() * columns.saturating_sub(1)
}

fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> =
        (0..columns(rows)).map(|column| width_of_column(rows, column)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| {
            format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())))
        });
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
        let shown = table.lines();
        assert_eq!(shown, ["STATE      TX  NOTE", "CONFIRMED  1", "é          22  x"]);
    }

    #[test]
    fn chinese_character_takes_two_columns() {
        let mut table = Table::new(["REQUEST", "STATE"]);
        table.row(["提币-1".to_owned(), "QUEUED".to_owned()]);
        table.row(["order-1".to_owned(), "STUCK".to_owned()]);
        assert_eq!(table.lines(), ["REQUEST  STATE", "提币-1   QUEUED", "order-1  STUCK"]);
    }

    #[test]
    fn table_that_is_too_wide_loses_middles_of_ids_before_ends_of_texts() {
        let address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".to_owned();
        let note = |length: usize| "n".repeat(length);
        let table = |length: usize| {
            let table = Table::new(["FROM", "TO", "NOTE"]).shortens(&["FROM", "TO"]);
            let mut table = table.cuts(&["NOTE"]);
            table.row([address.clone(), address.clone(), note(length)]);
            table
        };
        let last = |length: usize| table(length).lines().pop().unwrap();
        assert_eq!(last(10), format!("0xf39Fd6…2266  {address}  {}", note(10)));
        assert_eq!(last(40), format!("0xf39Fd6…2266  0xf39Fd6…2266  {}", note(40)));
        assert_eq!(last(90), format!("0xf39Fd6…2266  0xf39Fd6…2266  {}…", note(49)));
        assert_eq!(last(90).width(), WIDTH);
        let wide = table(90).wide(true).lines().pop().unwrap();
        assert_eq!(wide, format!("{address}  {address}  {}", note(90)));
    }

    #[test]
    fn long_value_goes_on_beside_its_name() {
        let mut fields = Fields::default();
        fields.add("state", "STUCK");
        fields.add("last error", "word ".repeat(30));
        let lines = fields.lines();
        assert!(lines.len() > 2 && lines.iter().all(|line| line.width() <= WIDTH), "{lines:?}");
        assert!(lines[2].starts_with("            word"), "{lines:?}");
        let hash = format!("0x{}", "a".repeat(64));
        let of_hash = Fields::default().with("hash", &hash).with("data", hash.repeat(3));
        assert_eq!(of_hash.lines()[0], format!("hash  {hash}"), "it can be copied whole");
        assert_eq!(of_hash.lines().len(), 2);
    }

    #[test]
    fn control_and_bidi_characters_are_not_printed() {
        assert_eq!(clean("a\u{1b}[31mb\nc"), "a\u{fffd}[31mb\u{fffd}c");
        assert_eq!(clean("pay\u{202e}001\u{2069}é"), "pay\u{fffd}001\u{fffd}é");
    }
}
