//! The queries that run in a loop never walk over what is finished.

use rusqlite::{Connection, StatementStatus};
use tollgate_sqlite::{SqliteOptions, migrate, queries};

use crate::support::{Folder, connect};

const FINISHED: u32 = 1_000_000;

/// What grows for ever.
const HISTORY: [&str; 7] = [
    "managed_tx",
    "tx_attempt",
    "tx_history",
    "tx_completion",
    "confirmation",
    "nonce_reservation",
    "submitter_history",
];

/// Statements that run for every batch, tick or page.
const IN_LOOPS: [&str; 41] = [
    "request_find",
    "tx_lock",
    "tx_update",
    "tx_get",
    "tx_by_request",
    "tx_by_hash",
    "tx_open_work",
    "tx_line_head",
    "tx_slots",
    "tx_page",
    "tx_page_open",
    "tx_page_failed",
    "attempt_of",
    "history_page",
    "confirmation_get",
    "completion_number",
    "completion_end",
    "completion_page",
    "submitter_depth",
    "cursor_lock",
    "cursor_move",
    "status_change",
    "mode_change",
    "submitter_modes",
    "submitter_page",
    "lease_find",
    "lease_lock_expired",
    "lease_take_over",
    "lease_renew",
    "lease_release",
    "lease_owners",
    "lease_orphans",
    "lease_guard",
    "recyclable_lock",
    "reservation_page",
    "reservation_used_from",
    "reservation_lowest",
    "reservation_expire",
    "reservation_retire",
    "reservation_adopt",
    "submitter_history_page",
];

#[tokio::test]
async fn no_query_in_a_loop_walks_over_a_million_finished_rows() {
    let folder = Folder::new();
    migrate(&SqliteOptions::file(folder.database())).await.unwrap();
    let conn = connect(&folder.database());
    check_plans(&conn, "empty");
    grow(&conn);
    check_plans(&conn, "grown");
    conn.execute_batch("pragma analysis_limit = 1000; analyze").unwrap();
    // Plans are made anew with what the analysis found.
    check_plans(&connect(&folder.database()), "analysed");
}

fn check_plans(conn: &Connection, when: &str) {
    for name in IN_LOOPS {
        let (_, sql) = queries::ALL.iter().find(|(known, _)| *known == name).unwrap();
        for step in plan(conn, sql) {
            let walks = HISTORY.iter().any(|table| scans(sql, &step, table));
            assert!(!walks, "{name}, {when}: {step}");
        }
    }
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
    assert!(!steps.is_empty() || sql.contains("insert"), "no plan for {sql}");
    steps
}

/// A walk over all of `table`, under its own name or one that the query gives it.
fn scans(sql: &str, step: &str, table: &str) -> bool {
    let Some(what) = step.strip_prefix("SCAN ") else { return false };
    let name = what.split_whitespace().next().unwrap_or_default();
    name == table || sql.contains(&format!("{table} {name} "))
}

#[test]
fn a_walk_is_seen_under_any_name() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch("create table managed_tx (state)").unwrap();
    for sql in ["select * from managed_tx", "select 1 from managed_tx t where t.state = 1"] {
        assert!(plan(&conn, sql).iter().any(|step| scans(sql, step, "managed_tx")), "{sql}");
    }
}

/// The look for orphans runs every second on every node: what it costs must not grow with the accounts
/// that are registered, only with those that have work.
#[tokio::test]
async fn look_for_orphans_costs_the_same_with_any_number_of_idle_submitters() {
    let folder = Folder::new();
    migrate(&SqliteOptions::file(folder.database())).await.unwrap();
    let conn = connect(&folder.database());
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
           select 1, submitter, '', 2, 0, 0 from submitter_cursor;",
    )
    .unwrap();
    let many = orphan_look_steps(&conn);
    assert!(many <= few + 20, "{few} steps without idle submitters, {many} with 20,000");
}

/// Steps of SQLite's machine for one look that finds the one orphan.
fn orphan_look_steps(conn: &Connection) -> i32 {
    let (_, sql) = queries::ALL.iter().find(|(name, _)| *name == "lease_orphans").unwrap();
    let mut statement = conn.prepare(sql).unwrap();
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
