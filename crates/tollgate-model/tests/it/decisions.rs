//! The tables of `docs/decisions.md`: situations in words, and what the rules say about them.

mod chain;
mod price;
mod slots;
mod time;

use crate::docs::check_page;

/// A table with these columns and rows.
fn table<const N: usize>(
    columns: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", "---|".repeat(N));
    let head = line(&columns.map(str::to_owned));
    rows.into_iter().fold(head + &rule, |table, row| table + &line(&row))
}

#[test]
fn the_page_on_decisions_has_the_answers_of_the_code() {
    let parts = [
        ("expiry", time::expiry()),
        ("resubmit", time::resubmit()),
        ("pauses", time::pauses()),
        ("holds", time::holds()),
        ("bump", price::bump()),
        ("diagnose", chain::diagnose()),
        ("triggers", slots::triggers()),
        ("plans", slots::plans()),
        ("rejected", slots::rejected()),
        ("search", chain::search()),
        ("reconcile", chain::reconcile()),
        ("holes", slots::holes()),
        ("resume", chain::resume()),
    ];
    check_page("decisions", &parts);
}
