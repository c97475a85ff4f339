//! Queries that run in a loop must cost the same whether a thousand or ten million rows are
//! finished. Plans are judged by the pages that they touch, not by their names: that shows a scan
//! of the table as well as a walk along the wrong index.

use serde_json::Value;
use tokio_postgres::Client;
use tollgate_postgres::queries;
use tollgate_testkit::PgFixture;

use crate::database;

/// Finished rows; what is open is [`OPEN_ROWS`] more.
const FINISHED_ROWS: i64 = 1_000_000;
const OPEN_ROWS: i64 = 500;
const SUBMITTERS: i64 = 50;
/// Submitters that are registered, had a lease once, and have no work.
const IDLE_SUBMITTERS: i64 = 20_000;
/// Rows that a query of a batch asks for at once.
const ASKED: i64 = 100;

/// Pages for one row that a query looks up or changes: a few levels of each index that it must
/// visit, the row, and its new version. A scan of a table here touches tens of thousands.
const PAGES_PER_ROW: i64 = 40;

/// A query of a loop with literal arguments, and how many rows it is about.
struct LoopQuery {
    name: &'static str,
    arguments: String,
    rows: i64,
}

/// A session with the store's planner settings. The tests do what autovacuum would do, at the worst moment:
/// statistics are those of the empty tables until the very end.
async fn without_autovacuum() -> (PgFixture, Client) {
    let (fixture, client) = database().await;
    client.batch_execute("alter table managed_tx set (autovacuum_enabled = off)").await.unwrap();
    client.batch_execute(tollgate_postgres::PLANNER).await.unwrap();
    (fixture, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn loop_queries_touch_few_pages_on_empty_grown_and_huge_tables() {
    let (_fixture, client) = without_autovacuum().await;
    client.batch_execute("vacuum analyze").await.unwrap();
    let mut problems = Vec::new();
    judge_all(&client, "empty", &mut problems).await;

    fill(&client, FINISHED_ROWS).await;
    judge_all(&client, "grown since it was analysed while empty", &mut problems).await;
    client.batch_execute("vacuum analyze").await.unwrap();
    judge_all(&client, "huge and analysed", &mut problems).await;
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_a_new_deployment_stay_good_while_its_tables_grow() {
    let (_fixture, client) = without_autovacuum().await;
    keep_plans(&client).await;
    fill(&client, FINISHED_ROWS / 20).await;
    let mut problems = Vec::new();
    judge_kept(&client, &mut problems).await;
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[tokio::test]
async fn a_state_change_leaves_every_index_alone() {
    let (_fixture, client) = database().await;
    let insert = "insert into managed_tx (tx_id, chain_id, submitter, nonce, payload,
                    payload_digest, state, version, fencing_token, attempts)
                  select gen_random_uuid(), 1, decode(repeat('01', 20), 'hex'), i,
                    decode(repeat('ab', 300), 'hex'), sha256('x'), 20, 1, 1, 1
                    from generate_series(1, 1000) i";
    client.batch_execute(insert).await.unwrap();
    let change = "update managed_tx set state = 30, version = version + 1,
                    next_resubmit_at = clock_timestamp(), updated_at = clock_timestamp()";
    client.batch_execute(change).await.unwrap();
    client.batch_execute("select pg_stat_force_next_flush()").await.unwrap();
    let sql = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables
                where relname = 'managed_tx'";
    let row = client.query_one(sql, &[]).await.unwrap();
    let (updated, hot): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(updated, 1000);
    assert_eq!(hot, updated, "updates that had to touch the indexes");
}

async fn judge_all(client: &Client, when: &str, problems: &mut Vec<String>) {
    for mode in ["force_custom_plan", "force_generic_plan"] {
        client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
        for query in loop_queries() {
            // Lists are planned for their very parameters each time.
            if mode == "force_generic_plan" && query.name.starts_with("tx_page") {
                continue;
            }
            prepare(client, "judged", &query).await;
            problems.extend(judge(client, "judged", &query, &format!("{when}, {mode}")).await);
            client.batch_execute("deallocate judged").await.unwrap();
        }
    }
}

/// Plans every query as a connection does that was opened before the first row was written.
async fn keep_plans(client: &Client) {
    client.batch_execute("set plan_cache_mode = force_generic_plan").await.unwrap();
    for (place, query) in kept_queries().iter().enumerate() {
        prepare(client, &format!("kept_{place}"), query).await;
        run(client, &format!("kept_{place}"), query).await;
    }
}

/// Nothing has told these plans how the tables have grown since.
async fn judge_kept(client: &Client, problems: &mut Vec<String>) {
    for (place, query) in kept_queries().iter().enumerate() {
        let prepared = format!("kept_{place}");
        problems.extend(judge(client, &prepared, query, "planned while empty").await);
    }
    client.batch_execute("deallocate all").await.unwrap();
}

fn kept_queries() -> Vec<LoopQuery> {
    let mut queries = loop_queries();
    queries.retain(|query| !query.name.starts_with("tx_page"));
    queries
}

async fn prepare(client: &Client, name: &str, query: &LoopQuery) {
    let all = queries::all();
    let (_, found) = all.iter().find(|(_, known)| known.name() == query.name).unwrap();
    client.batch_execute(&format!("prepare {name} as {}", found.text())).await.unwrap();
}

/// The problem of a query that touches too many pages.
async fn judge(client: &Client, prepared: &str, query: &LoopQuery, when: &str) -> Option<String> {
    let (pages, plan) = run(client, prepared, query).await;
    let limit = query.rows * PAGES_PER_ROW;
    let problem = || format!("{}, {when}: {pages} pages > {limit}\n{plan}", query.name);
    (pages > limit).then(problem)
}

/// Runs a query for real, and takes it back.
async fn run(client: &Client, prepared: &str, query: &LoopQuery) -> (i64, String) {
    let LoopQuery { arguments, name, .. } = query;
    client.batch_execute("begin").await.unwrap();
    let explain =
        format!("explain (analyze, buffers, format json) execute {prepared} ({arguments})");
    let explained = client.simple_query(&explain).await;
    let explained = explained.unwrap_or_else(|error| panic!("{name}: {:?}", error.as_db_error()));
    client.batch_execute("rollback").await.unwrap();
    let text: String = explained
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    let plan: Value = serde_json::from_str(&text).unwrap();
    let top = &plan[0]["Plan"];
    let blocks = |key: &str| top[key].as_i64().unwrap();
    (blocks("Shared Hit Blocks") + blocks("Shared Read Blocks"), text)
}

/// Finished transactions and a few open ones, with all that goes with them.
async fn fill(client: &Client, finished: i64) {
    let (first, last) = (FINISHED_ROWS - finished, FINISHED_ROWS + OPEN_ROWS);
    let fill = format!(
        "set synchronous_commit = off;
         insert into chain (chain_id, genesis) values (1, sha256('genesis'));
         insert into submitter_cursor (chain_id, submitter, next_nonce, mode)
         select 1, {of_row}, {last}, 1 from generate_series(0, {SUBMITTERS} - 1) i;
         insert into submitter_lease (chain_id, submitter, owner_node, fencing_token, expires_at)
         select 1, {of_row}, 'me', 7, clock_timestamp() + interval '1 day'
           from generate_series(0, {SUBMITTERS} - 1) i;
         insert into submitter_cursor (chain_id, submitter, next_nonce, mode)
         select 1, {idle}, 0, 1 from generate_series(1, {IDLE_SUBMITTERS}) i;
         insert into submitter_lease (chain_id, submitter, owner_node, fencing_token, expires_at)
         select 1, {idle}, '', 2, '-infinity' from generate_series(1, {IDLE_SUBMITTERS}) i;
         insert into managed_tx (tx_id, chain_id, submitter, request_id, nonce, payload,
                                 payload_digest, state, version, fencing_token, attempts,
                                 finished_at)
         select {id}, 1, {of_row}, 'r' || i, i, '\\xab', sha256('p'),
                case when i >= {FINISHED_ROWS} then 30 when i % 100000 = 0 then 50 else 40 end,
                3, 7, 1, case when i < {FINISHED_ROWS} then clock_timestamp() end
           from generate_series({first}, {last} - 1) i;
         insert into tx_attempt (tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee)
         select {id}, 1, 1, {hash}, '\\xab', 1, 21000, 1
           from generate_series({first}, {last} - 1) i;
         insert into tx_history (tx_id, version, node, fencing_token, event, to_state)
         select {id}, 1, 'me', 7, 'created', 20 from generate_series({first}, {last} - 1) i;
         insert into tx_completion (seq, tx_id, chain_id, submitter, state)
         select i + 1, {id}, 1, {of_row}, case when i % 100000 = 0 then 50 else 40 end
           from generate_series({first}, {FINISHED_ROWS} - 1) i;
         insert into removed_tx (tx_id, chain_id, submitter, request_id, payload_digest, state,
                                 finished_at)
         select {removed_id}, 1, {of_row}, 'removed' || i, sha256('p'), 40, clock_timestamp()
           from generate_series({first}, {FINISHED_ROWS} - 1) i;
         insert into nonce_reservation
                (chain_id, submitter, nonce, state, owner_token, deadline)
         select 1, {of_row}, i, case when i >= {FINISHED_ROWS} then 3 else 2 end, {id},
                clock_timestamp()
           from generate_series({first}, {last} - 1) i where i % 10 = 3;
         insert into submitter_history (chain_id, submitter, node, fencing_token, event)
         select 1, {of_row}, 'me', 7, 'paused'
           from generate_series({first}, {FINISHED_ROWS} - 1) i where i % 1000 = 3;
         insert into alert (alert_id, kind, subject, level, detail, node, resolved_at)
         select {id}, 'stuck', 'a' || i, 2, '', 'me',
                case when i < {FINISHED_ROWS} then clock_timestamp() end
           from generate_series({first}, {last} - 1) i where i % 10 = 3;
         insert into alert_notice (sink, alert_id, phase, ended_at)
         select 'ops', {id}, 1, case when i < {FINISHED_ROWS} then clock_timestamp() end
           from generate_series({first}, {last} - 1) i where i % 10 = 3;
         update completion_counter set last_seq = {FINISHED_ROWS};
         insert into outbox (events, body, first_seq)
         select 10, '\\x01', i * 10 + 1 from generate_series(0, {FINISHED_ROWS} / 10 - 1) i;
         insert into outbox (events, body) select 3, '\\x01' from generate_series(1, {ASKED});
         update event_counter set last_seq = {FINISHED_ROWS};
         reset synchronous_commit",
        of_row = submitter_sql("i"),
        idle = "decode(lpad(to_hex(1000000 + i), 40, '0'), 'hex')",
        id = id_sql("i"),
        removed_id = id_sql("(100000000 + i)"),
        hash = hash_sql("i"),
    );
    client.batch_execute(&fill).await.unwrap();
    // Accounts are registered when a node starts, all at once: autovacuum knows them long before
    // transactions have piled up.
    client.batch_execute("analyze submitter_cursor, submitter_lease").await.unwrap();
}

fn submitter_sql(row: &str) -> String {
    format!("decode(lpad(to_hex({row} % {SUBMITTERS}), 40, '0'), 'hex')")
}

/// Ids that ascend with the row, as UUID v7 does with time.
fn id_sql(row: &str) -> String {
    format!("(lpad(to_hex({row}), 12, '0') || '70008000000000000000')::uuid")
}

fn hash_sql(row: &str) -> String {
    format!("decode(lpad(to_hex({row}), 64, '0'), 'hex')")
}

/// `array[f(first), …]` over [`ASKED`] rows of the open end of the table.
fn column(of: impl Fn(i64) -> String) -> String {
    let values: Vec<String> = (FINISHED_ROWS..FINISHED_ROWS + ASKED).map(of).collect();
    format!("array[{}]", values.join(","))
}

fn loop_queries() -> Vec<LoopQuery> {
    let query = |name, rows, arguments: String| LoopQuery { name, arguments, rows };
    let chains = column(|_| "1::bigint".to_owned());
    let submitters = column(|row| submitter_sql(&row.to_string()));
    let tokens = column(|_| "7::bigint".to_owned());
    let ids = column(|row| id_sql(&row.to_string()));
    let first = FINISHED_ROWS / 20 * 19;
    let finished = (first..first + ASKED).map(|row| id_sql(&row.to_string()));
    let finished = format!("array[{}]", finished.collect::<Vec<_>>().join(","));
    let requests = column(|row| format!("'r{row}'"));
    let unknown = column(|row| format!("'unknown{row}'"));
    let hashes = column(|row| hash_sql(&row.to_string()));
    let someone = submitter_sql("3");
    let an_id = id_sql(&FINISHED_ROWS.to_string());
    let tail = FINISHED_ROWS - ASKED;
    let nonces = column(|row| (row - 2 * ASKED).to_string());
    let stuck = "array[60, 61]::smallint[]";
    let newer = id_sql(&(FINISHED_ROWS + ASKED).to_string());
    let long_ago = "'2000-01-01'::timestamptz";
    vec![
        query("lease_find", 1, format!("1, {someone}, 0, 'me'")),
        query("lease_guard", ASKED, format!("{chains}, {submitters}, {tokens}, 'me'")),
        query("lease_renew", ASKED, format!("{chains}, {submitters}, {tokens}, 'me', 1000")),
        query("lease_owners", ASKED, format!("{chains}, {submitters}")),
        query("lease_orphans", SUBMITTERS, "1, '', 1000".to_owned()),
        query("submitter_depth", OPEN_ROWS, format!("{chains}, {submitters}")),
        query("submitter_modes", ASKED, format!("{chains}, {submitters}")),
        query("cursor_lock", ASKED, format!("{chains}, {submitters}")),
        query("request_find", ASKED, format!("{chains}, {submitters}, {requests}")),
        query("request_find", ASKED, format!("{chains}, {submitters}, {unknown}")),
        query("tx_lock", ASKED, ids.clone()),
        query("tx_update", ASKED, update_arguments(&ids, &chains, &submitters, &tokens)),
        query("tx_open_work", ASKED, format!("1, {someone}, null, {ASKED}")),
        query("tx_open_work", ASKED, format!("1, {someone}, {an_id}, {ASKED}")),
        query("tx_line_head", OPEN_ROWS, format!("1, {someone}")),
        query("tx_slots", ASKED, format!("1, {someone}, {tail}, {ASKED}")),
        query("tx_slot_states", ASKED, format!("1, {someone}, {tail}, {tail} + {ASKED}, {ASKED}")),
        query("tx_final_slots", OPEN_ROWS + ASKED, format!("1, {someone}, {ASKED}")),
        query("tx_get", ASKED, ids.clone()),
        query("tx_versions", ASKED, ids.clone()),
        query("tx_by_request", 1, format!("1, {someone}, 'r3'")),
        query("tx_by_hash", ASKED, hashes),
        query("attempt_of", ASKED, ids.clone()),
        query("confirmation_get", ASKED, ids.clone()),
        query("retention_page", ASKED, format!("0, {ASKED}, 0")),
        query("retention_take", ASKED, format!("{finished}, 0")),
        query("removed_insert", ASKED, finished.clone()),
        query("removed_slots_put", ASKED, finished.clone()),
        query("attempt_delete", ASKED, finished.clone()),
        query("history_delete", ASKED, finished.clone()),
        query("confirmation_delete", ASKED, finished.clone()),
        query("receipt_delete", ASKED, finished.clone()),
        query("diagnosis_delete", ASKED, finished.clone()),
        query("completion_delete", ASKED, finished.clone()),
        query("tx_delete", ASKED, finished),
        query("stuck_delete", 1, "1".to_owned()),
        query("removed_get", 1, an_id.clone()),
        query("removed_by_request", 1, format!("1, {someone}, 'r3'")),
        query("removed_forget", ASKED, format!("0, {ASKED}")),
        query("alert_page_open", ASKED, ASKED.to_string()),
        query("alert_page", ASKED, ASKED.to_string()),
        query("alert_notice_claim", ASKED, format!("'ops', 'me', {ASKED}, 1000")),
        query("alert_notice_resolve", 1, an_id.clone()),
        query("alert_resolve", 1, format!("{an_id}, {long_ago}")),
        query("alert_forget", ASKED, format!("0, {ASKED}")),
        query("alert_reserved", OPEN_ROWS, format!("{chains}, {submitters}")),
        query("reservation_page", ASKED, format!("1, {someone}, -1, {ASKED}")),
        query("reservation_used_from", ASKED, format!("1, {someone}, {tail}, {ASKED}")),
        query("reservation_lowest", 1, format!("1, {someone}, 0")),
        query("reservation_expire", ASKED, format!("1, {someone}")),
        query("reservation_retire", ASKED, format!("1, {someone}, {FINISHED_ROWS}")),
        query(
            "reservation_recycle",
            ASKED,
            format!("1, {someone}, {nonces}, {tail}, '', true, true"),
        ),
        query("submitter_history_page", ASKED, format!("1, {someone}, 0, {ASKED}")),
        query("history_page", ASKED, format!("{ids}, 0, {ASKED}")),
        query("completion_page", ASKED, format!("1, {tail}, {ASKED}, false")),
        query("completion_page", ASKED, format!("1, {tail}, {ASKED}, true")),
        query("completion_page", ASKED, format!("null, {tail}, {ASKED}, true")),
        query("completion_end", 1, "1, true".to_owned()),
        query("completion_end", 1, "null, true".to_owned()),
        // A chain without completions among many of another one.
        query("completion_page", 1, format!("2, 0, {ASKED}, true")),
        query("event_number", ASKED, ASKED.to_string()),
        query("event_page", ASKED, format!("{tail}, {ASKED}")),
        query("event_remove", ASKED, format!("0, 10, {ASKED}")),
        query("submitter_page", ASKED, format!("1, '', {ASKED}")),
        query("tx_top_ups", ASKED, format!("1, {someone}, {ASKED}")),
        query("tx_page", ASKED, format!("null, null, null, null, null, null, {ASKED}, null")),
        query("tx_page", ASKED, format!("null, 1, {someone}, null, null, null, {ASKED}, null")),
        // By time: the ids bound what is looked at, however old the table is.
        query(
            "tx_page",
            ASKED,
            format!("{newer}, null, null, null, {long_ago}, {long_ago}, {ASKED}, {an_id}"),
        ),
        query(
            "tx_page",
            ASKED,
            format!("{newer}, 1, {someone}, null, {long_ago}, {long_ago}, {ASKED}, {an_id}"),
        ),
        query("tx_page_open", OPEN_ROWS, format!("null, 1, {someone}, null, null, null, 10, null")),
        query(
            "tx_page_open",
            OPEN_ROWS,
            format!("null, null, null, {stuck}, null, null, 10, null"),
        ),
        query(
            "tx_page_failed",
            ASKED,
            format!("null, null, null, null, null, null, {ASKED}, null"),
        ),
    ]
}

/// A change of state of [`ASKED`] open rows, nothing else.
fn update_arguments(ids: &str, chains: &str, submitters: &str, tokens: &str) -> String {
    let unchanged = "30::smallint, 3, 31::smallint, null::bigint, false, 0::smallint, 0::smallint, \
                     0::bigint, 0, null::text, 0::smallint, null::bytea, null::bigint, null::bytea, \
                     null::bigint, null::boolean, null::text";
    let columns = unchanged.split(", ").map(|value| column(|_| value.to_owned()));
    let columns: Vec<String> = columns.collect();
    format!("{ids}, {chains}, {submitters}, {tokens}, {}", columns.join(", "))
}
