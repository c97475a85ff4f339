//! The tables of `docs/decisions.md`: situations in words, and what the rules say about them.

mod chain;
mod price;
mod slots;
mod time;

use std::path::Path;

use crate::docs::with_part;
use tollgate_model::Nonce;

fn nonce(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions.md");
    let page = std::fs::read_to_string(&path).unwrap();
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
    let written =
        parts.iter().fold(page.clone(), |page, (name, table)| with_part(&page, name, table));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, written).unwrap();
        return;
    }
    assert_eq!(page, written, "run the test with UPDATE_DOCS=1 to write the page anew");
}
