//! The table of methods in the docs is the table of methods in the code.

use std::collections::BTreeSet;

const DOCS: &str = include_str!("../../../../docs/devchain.md");
const CODE: [&str; 2] =
    [include_str!("../../src/rpc/control.rs"), include_str!("../../src/rpc/eth.rs")];

/// Names in `match` arms: `"name" =>` and `"name" | "other" =>`.
fn arms(code: &str, prefix: &str) -> BTreeSet<String> {
    let lines = code.lines().map(str::trim).filter(|line| line.starts_with('"'));
    lines
        .filter_map(|line| line.split_once("=>"))
        .flat_map(|(pattern, _)| pattern.split('|'))
        .filter_map(|name| name.trim().strip_prefix('"')?.strip_suffix('"'))
        .map(|name| format!("{prefix}{name}"))
        .collect()
}

/// The names that start a row of a table.
fn rows() -> BTreeSet<String> {
    let rows = DOCS.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split(['`', '(']).next()).map(str::to_owned).collect()
}

#[test]
fn every_method_has_a_row_and_every_row_a_method() {
    // Parameters of the methods are spelled in match arms too.
    let values = [
        "kept",
        "moved",
        "returned",
        "dropped",
        "succeed",
        "revert",
        "burn",
        "outOfGas",
        "blockReceipts",
        "feeHistory",
        "txpool",
        "webSocket",
    ]
    .map(|value| format!("devchain_{value}"));
    let mut methods = arms(CODE[0], "devchain_");
    methods.retain(|method| !values.contains(method));
    methods.extend(arms(CODE[1], ""));
    methods.extend(["eth_subscribe".to_owned(), "eth_unsubscribe".to_owned()]);
    let rows: BTreeSet<String> = rows().into_iter().filter(|row| row.contains('_')).collect();
    assert_eq!(rows, methods);
}
