//! The figures as Markdown tables and charts. Pure but for the files at the end.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::load::Sample;
use crate::stats::{Bound, Metric, Row, Runs, grouped};
use crate::svg::{self, Bar, Group};

/// A part of the page, between its marks.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) text: String,
    /// Charts: names of files, and their contents.
    pub(crate) charts: Vec<(String, String)>,
}

/// Puts a part into a page: in place of what is between its marks, or at the end.
pub(crate) fn put_into(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- measured: {name} -->"), format!("<!-- end: {name} -->"));
    let block = format!("{begin}\n\n{}\n\n{end}", text.trim());
    match (page.find(&begin), page.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{block}{}", &page[..from], &page[to + end.len()..])
        }
        _ => format!("{}\n\n{block}\n", page.trim_end()).trim_start().to_owned(),
    }
}

/// Writes a part and its charts below a folder.
pub(crate) fn write(part: &Part, folder: &Path) {
    let page = folder.join("performance.md");
    let charts = folder.join("img");
    fs::create_dir_all(&charts).unwrap();
    let before = fs::read_to_string(&page).unwrap_or_default();
    fs::write(&page, put_into(&before, part.name, &part.text)).unwrap();
    for (name, chart) in &part.charts {
        fs::write(charts.join(name), chart).unwrap();
    }
    eprintln!("written: {}", page.display());
}

/// Ceiling beside Tollgate: a table of what has a target, one of all costs, and charts.
pub(crate) fn comparison(rows: &[Row], observed: &[(&str, Runs)], about: &str) -> Part {
    let rounds = rows.first().map_or(0, |row| row.tollgate.len());
    let text = format!(
        "{about}\n\nRuns of each kind: {rounds}. Figures are medians, with the lowest and the highest in brackets; ceiling and \
         Tollgate took turns.\n\n\
         {}\n![Throughput](img/bench-rates.svg)\n\n![Latency](img/bench-latency.svg)\n\n\
         What one transaction cost:\n\n{}\n![Processor time](img/bench-cpu.svg)\n\n\
         Whole lives with metrics (scraped each second, with balances and series for each account) and with events \
         (written, and followed by a reader), in turns with neither; wanted: at least 0.95 of neither.\n\n{}",
        targets(rows),
        costs(rows),
        ratios(observed),
    );
    let charts = vec![
        ("bench-rates.svg".to_owned(), chart("Transactions per second", rows, Metric::Rate)),
        ("bench-latency.svg".to_owned(), chart("Latency of a create, median", rows, Metric::P50)),
        ("bench-cpu.svg".to_owned(), processor_chart(rows)),
    ];
    Part { name: "comparison", text, charts }
}

/// One line for each target.
fn targets(rows: &[Row]) -> String {
    let mut out =
        "| what | ceiling | Tollgate | ratio | wanted | reached |\n|---|---:|---:|---:|---:|---|\n"
            .to_owned();
    for row in rows {
        for (metric, bound) in row.targets {
            let _ = writeln!(out, "{}", target(row, *metric, *bound));
        }
    }
    out
}

fn target(row: &Row, metric: Metric, bound: Bound) -> String {
    let of = |sample: &Sample| metric.of(sample);
    let cell = |runs: &Runs| match runs.median(of) {
        Some(value) => {
            let (low, high) = runs.range(of);
            format!("{} ({}–{})", metric.format(value), metric.number(low), metric.number(high))
        }
        None => "–".to_owned(),
    };
    let (ceiling, tollgate) = (row.ceiling.median(of), row.tollgate.median(of));
    let ratio =
        ceiling.zip(tollgate).map(|(ceiling, tollgate)| format!("{:.2}", tollgate / ceiling));
    let holds = tollgate.is_some_and(|tollgate| bound.holds(ceiling, tollgate));
    format!(
        "| {}: {} | {} | {} | {} | {} | {} |",
        row.name,
        metric.title(),
        cell(&row.ceiling),
        cell(&row.tollgate),
        ratio.unwrap_or_else(|| "–".to_owned()),
        bound.format(metric),
        if holds { "yes" } else { "no" },
    )
}

/// One line for each scenario and side.
fn costs(rows: &[Row]) -> String {
    let mut out = "| scenario | side | per second | p50, ms | p99, ms | service, µs | database, µs | chain, µs | \
                   generator, µs | WAL, bytes | statements | RPC calls | others |\n\
                   |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in rows {
        for (side, runs) in [("ceiling", &row.ceiling), ("Tollgate", &row.tollgate)] {
            if runs.len() == 0 {
                continue;
            }
            let cell = |of: fn(&Sample) -> f64, digits: usize| match runs.median(of) {
                Some(value) => format!("{value:.digits$}"),
                None => "–".to_owned(),
            };
            let _ = writeln!(
                out,
                "| {} | {side} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} % |",
                row.name,
                grouped(runs.median(|sample| sample.rate).unwrap_or(0.0)),
                cell(|sample| sample.p50, 1),
                cell(|sample| sample.p99, 1),
                cell(|sample| sample.service, 0),
                cell(|sample| sample.database, 0),
                cell(|sample| sample.chain, 0),
                cell(|sample| sample.generator, 0),
                cell(|sample| sample.wal_bytes, 0),
                cell(|sample| sample.statements, 2),
                cell(|sample| sample.rpc_calls, 2),
                cell(|sample| sample.foreign * 100.0, 0),
            );
        }
    }
    out.push_str(
        "\n\"Others\" is the share of the machine that programs outside the measurement took.\n",
    );
    out
}

/// Rates, and what they are of the first.
fn ratios(ways: &[(&str, Runs)]) -> String {
    let mut out = "| with | whole lives per second | of neither |\n|---|---:|---:|\n".to_owned();
    let of = |sample: &Sample| sample.rate;
    let first = ways.first().and_then(|(_, runs)| runs.median(of));
    for (name, runs) in ways {
        let (Some(rate), Some(first)) = (runs.median(of), first) else { continue };
        let (low, high) = runs.range(of);
        let (low, high) = (grouped(low), grouped(high));
        let _ =
            writeln!(out, "| {name} | {} ({low}–{high}) | {:.3} |", grouped(rate), rate / first);
    }
    out
}

/// Scenarios with a target of this kind.
fn chart(title: &str, rows: &[Row], metric: Metric) -> String {
    let groups = rows.iter().filter(|row| row.targets.iter().any(|(of, _)| *of == metric));
    let groups: Vec<Group> = groups.map(|row| group(row.name, row, |s| metric.of(s))).collect();
    svg::bars(title, &["ceiling", "Tollgate"], &groups, |value| metric.format(value))
}

/// The parts of the processor time of the scenario with targets for it.
fn processor_chart(rows: &[Row]) -> String {
    let row = rows.iter().find(|row| row.targets.iter().any(|(of, _)| *of == Metric::ServiceCpu));
    let groups = row.map(|row| {
        [
            group("service", row, |sample| sample.service),
            group("database", row, |sample| sample.database),
            group("chain", row, |sample| sample.chain),
            group("load generator", row, |sample| sample.generator),
        ]
    });
    svg::bars(
        "Processor time of a whole life, a node that costs nothing",
        &["ceiling", "Tollgate"],
        groups.as_ref().map_or(&[], |groups| &groups[..]),
        |value| Metric::ServiceCpu.format(value),
    )
}

fn group(label: &str, row: &Row, of: impl Fn(&Sample) -> f64 + Copy) -> Group {
    let bar = |runs: &Runs| {
        let (low, high) = runs.range(of);
        runs.median(of).map(|value| Bar { value, low, high })
    };
    Group { label: label.to_owned(), bars: vec![bar(&row.ceiling), bar(&row.tollgate)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        let mut row = Row::new("accept", &[(Metric::Rate, Bound::RatioAtLeast(0.8))]);
        for (ceiling, tollgate) in [(10_000.0, 7_000.0), (12_000.0, 9_000.0), (9_000.0, 8_500.0)] {
            row.ceiling.push(Sample { rate: ceiling, ..Sample::default() });
            row.tollgate.push(Sample { rate: tollgate, ..Sample::default() });
        }
        row
    }

    #[test]
    fn target_shows_medians_ranges_ratio_and_whether_it_is_reached() {
        let (metric, bound) = row().targets[0];
        assert_eq!(
            target(&row(), metric, bound),
            "| accept: per second | 10,000 (9,000–12,000) | 8,500 (7,000–9,000) | 0.85 | ≥ 0.8 × | yes |"
        );
        let alone = Row { ceiling: Runs::default(), ..row() };
        let line = target(&alone, metric, Bound::AtLeast(8_600.0));
        assert!(line.contains("| – | 8,500 (7,000–9,000) | – | ≥ 8,600 | no |"), "{line}");
    }

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_head() {
        let rows = [row()];
        for table in [targets(&rows), costs(&rows), ratios(&[("neither", row().tollgate)])] {
            let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
            assert!(lines.len() > 2, "{table}");
            let cells = |line: &str| line.matches('|').count();
            assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{table}");
        }
    }

    #[test]
    fn part_replaces_what_is_between_its_marks_and_nothing_else() {
        let first = put_into("# Title\n", "a", "old");
        let both = put_into(&first, "b", "other");
        let newer = put_into(&both, "a", "new");
        assert!(
            newer.starts_with("# Title\n")
                && newer.contains("\nnew\n")
                && newer.contains("\nother\n")
        );
        assert!(!newer.contains("old"));
        assert_eq!(put_into(&newer, "a", "new"), newer);
    }
}
