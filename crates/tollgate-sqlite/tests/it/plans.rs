//! No query reads all finished rows.

use rusqlite::{Connection, StatementStatus};
use tollgate_sqlite::queries;
use tollgate_testkit::SqliteFixture;

use crate::connect;

const FINISHED: u32 = 1_000_000;

/// Tables that grow for ever.
const HISTORY: [&str; 9] = [
    "managed_tx",
    "tx_attempt",
    "tx_history",
    "tx_completion",
    "tx_stuck_entry",
    "confirmation",
    "nonce_reservation",
    "removed_tx",
    "submitter_history",
];

#[tokio::test]
async fn no_query_in_a_loop_walks_over_a_million_finished_rows() {
    let fixture = SqliteFixture::new().await;
    let conn = connect(&fixture.path());
    check_plans(&conn, "empty");
    grow(&conn);
    check_plans(&conn, "grown");
    conn.execute_batch("pragma analysis_limit = 1000; analyze").unwrap();
    // Plans are made anew with what the analysis found.
    let conn = connect(&fixture.path());
    check_plans(&conn, "analysed");
    lists_by_time_read_the_rows_between_their_ids(&conn);
}

/// Rows whose ids are between the bounds of a list by time.
const BETWEEN: u32 = 100;

/// None of the rows between the ids is of the wanted time, so that no page is full before its end.
fn lists_by_time_read_the_rows_between_their_ids(conn: &Connection) {
    let id = |n: u32| u128::from(n).to_be_bytes();
    let (lowest, below) = (id(FINISHED / 2), id(FINISHED / 2 + BETWEEN));
    let long_ago = (Some(-2), Some(-1));
    let account = [&[0; 17][..], &(FINISHED / 2 / 1000).to_be_bytes()[1..]].concat();
    for name in ["tx_page", "tx_page_open", "tx_page_failed"] {
        for of in [None, Some(&account)] {
            let mut statement = conn.prepare(text(name)).unwrap();
            let states = (name != "tx_page").then_some("[50]");
            let (from, to) = long_ago;
            let params = rusqlite::params![1, of, &below[..], states, from, to, 50, &lowest[..]];
            assert_eq!(statement.query_map(params, |_| Ok(())).unwrap().count(), 0, "{name}");
            let steps = statement.get_status(StatementStatus::VmStep);
            // Open work without an account is looked for account by account: there are a thousand.
            let limit = if name == "tx_page_open" && of.is_none() { 50_000 } else { 5_000 };
            assert!(steps < limit, "{name} of {of:?}: {steps} steps for {BETWEEN} rows");
        }
    }
}

fn check_plans(conn: &Connection, when: &str) {
    for (_, query) in queries::all().into_iter().filter(|(_, query)| query.name() != "begin") {
        let (name, sql) = (query.name(), query.text());
        for step in plan(conn, sql) {
            let reads_all = HISTORY.iter().any(|table| scans(sql, &step, table));
            assert!(!reads_all, "{name}, {when}: {step}");
        }
    }
}

fn text(name: &str) -> &'static str {
    let all = queries::all();
    all.iter().find(|(_, query)| query.name() == name).unwrap().1.text()
}

fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
    for parameter in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(parameter, rusqlite::types::Null).unwrap();
    }
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    // An insert of values, and a delete of all rows, have no steps.
    let plain = sql.contains("insert") || (sql.contains("delete") && !sql.contains("where"));
    assert!(!steps.is_empty() || plain, "no plan for {sql}");
    steps
}

/// True if a step reads all of `table`, under its own name or an alias of the query.
fn scans(sql: &str, step: &str, table: &str) -> bool {
    let Some(what) = step.strip_prefix("SCAN ") else { return false };
    // The partial index of open work: finished rows are not in it.
    if what.ends_with(" USING INDEX managed_tx_open") {
        return false;
    }
    let name = what.split_whitespace().next().unwrap_or_default();
    name == table || sql.contains(&format!("{table} {name} "))
}

#[test]
fn a_scan_is_noticed_under_any_alias() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch("create table managed_tx (state)").unwrap();
    for sql in ["select * from managed_tx", "select 1 from managed_tx t where t.state = 1"] {
        assert!(plan(&conn, sql).iter().any(|step| scans(sql, step, "managed_tx")), "{sql}");
    }
}

/// The search for orphans runs every second on every node: its cost must not grow with registered
/// accounts, only with those that have work.
#[tokio::test]
async fn look_for_orphans_costs_the_same_with_any_number_of_idle_submitters() {
    let fixture = SqliteFixture::new().await;
    let conn = connect(&fixture.path());
    conn.execute_batch(
        "insert into chain values (1, zeroblob(32), 0);
         insert into submitter_cursor values (1, unhex(printf('%040x', 7)), 0, 1, 1, null, 0);
         insert into managed_tx (
             tx_id, chain_id, submitter, payload, payload_digest, state, version, fencing_token,
             attempts, created_at, updated_at)
           values (zeroblob(16), 1, unhex(printf('%040x', 7)), x'00', zeroblob(32), 10, 1, 1, 0, 0, 0);",
    )
    .unwrap();
    let few = orphan_look_steps(&conn);
    conn.execute_batch(
        "with recursive n(n) as (select 100 union all select n + 1 from n where n < 20099)
         insert into submitter_cursor
           select 1, unhex(printf('%040x', n)), 0, 1, 1, null, 0 from n;
         insert into submitter_lease
             (chain_id, submitter, owner_node, fencing_token, expires_at, updated_at)
           select 1, submitter, '', 2, 0, 0 from submitter_cursor;",
    )
    .unwrap();
    let many = orphan_look_steps(&conn);
    assert!(many <= few + 20, "{few} steps without idle submitters, {many} with 20,000");
}

/// Steps of SQLite's machine for one look that finds the one orphan.
fn orphan_look_steps(conn: &Connection) -> i32 {
    let mut statement = conn.prepare(text("lease_orphans")).unwrap();
    let found = statement.query_map((1, &[][..] as &[u8], 1_000), |_| Ok(())).unwrap().count();
    assert_eq!(found, 1);
    statement.get_status(StatementStatus::VmStep)
}

/// A thousand submitters with a thousand finished transactions each, in the order of the indexes.
fn grow(conn: &Connection) {
    let rows = format!(
        "with recursive n(n) as (select 0 union all select n + 1 from n where n < {FINISHED} - 1)"
    );
    conn.execute_batch(&format!(
        "pragma synchronous = off;
         pragma cache_size = -200000;
         begin immediate;
         insert into chain values (1, zeroblob(32), 0);
         {rows} insert into submitter_cursor
           select 1, unhex(printf('%040x', n)), 1000, 1, 1, null, 0 from n limit 1000;
         {rows} insert into managed_tx (
             tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest, state, version,
             fencing_token, attempts, created_at, updated_at, finished_at)
           select unhex(printf('%032x', n)), 1, unhex(printf('%040x', n / 1000)),
             printf('%08d', n), n % 1000, x'00', zeroblob(32), 40, 4, 1, 1, n, n, n from n;
         {rows} insert into tx_completion
           select n + 1, unhex(printf('%032x', n)), 1, unhex(printf('%040x', n / 1000)), null,
             iif(n % 100 = 0, 50, 40), null, n from n;
         commit;"
    ))
    .unwrap();
    let finished: u32 =
        conn.query_row("select count(*) from managed_tx", [], |row| row.get(0)).unwrap();
    assert_eq!(finished, FINISHED);
}
