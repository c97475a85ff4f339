//! Queries, schema and migrations.

use tollgate_model::TxState;
use tollgate_model::port::StoreError;
use tollgate_postgres::{PgOptions, PgStore, migrate, queries};
use tollgate_testkit::postgres::{PgServer, connect};

use crate::database;

#[tokio::test]
async fn every_query_can_be_prepared() {
    let (_fixture, client) = database().await;
    for (file, query) in queries::all() {
        if let Err(error) = client.prepare(query.text()).await {
            panic!("{file}.sql {}: {:?}", query.name(), error.as_db_error());
        }
    }
}

#[tokio::test]
async fn tx_state_names_every_state_of_the_model() {
    let (_fixture, client) = database().await;
    let rows = client.query("select code, state, sub_state from tx_state order by code", &[]).await;
    let stored: Vec<(i16, String, Option<String>)> =
        rows.unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let named = |s: TxState| (s.code(), s.name().to_owned(), s.sub_name().map(str::to_owned));
    assert_eq!(stored, TxState::ALL.map(named));
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_of_concurrent_nodes_are_applied_once() {
    let server = PgServer::start().await;
    let options = PgOptions::new(server.url(&server.fresh_database().await));
    let runs = futures_util::future::join_all((0..6).map(|_| migrate(&options)));
    let mut applied: Vec<u32> = runs.await.into_iter().map(Result::unwrap).collect();
    applied.sort_unstable();
    assert!(applied.pop() > Some(0), "one of them did it");
    assert!(applied.iter().all(|count| *count == 0), "{applied:?}");
    PgStore::open(options).await.unwrap();
}

/// A prepared `select *` fails once its table has another column: a node of the version before could not
/// read until it is restarted.
#[tokio::test]
async fn no_migration_changes_the_columns_that_running_nodes_read() {
    let server = PgServer::start().await;
    let url = server.url(&server.fresh_database().await);
    let client = connect(&url).await.unwrap();
    let migrations = migrations();
    client.batch_execute(&migrations[0]).await.unwrap();
    let tables = "select tablename::text from pg_tables where schemaname = 'public'";
    let mut prepared = Vec::new();
    for row in client.query(tables, &[]).await.unwrap() {
        let read = match row.get::<_, String>(0).as_str() {
            // No version reads all columns of these two: they may get more.
            "node" => "select node_id, advertise_url, draining from node".to_owned(),
            "submitter_lease" => {
                "select owner_node, fencing_token, expires_at from submitter_lease".to_owned()
            }
            // No version has read these before V25 and V33 replaced them.
            "api_key" | "outbox" => continue,
            table => format!("select * from {table}"),
        };
        prepared.push((client.prepare(&read).await.unwrap(), read));
    }
    let beat =
        "insert into node (node_id, advertise_url, draining) values ('a/1', 'http://a', false)
                on conflict (node_id) do update set heartbeat_at = clock_timestamp()";
    prepared.push((client.prepare(beat).await.unwrap(), beat.to_owned()));
    for migration in &migrations[1..] {
        client.batch_execute(migration).await.unwrap();
    }
    for (statement, read) in prepared {
        let answer = client.query(&statement, &[]).await;
        assert!(answer.is_ok(), "{read}: {:?}", answer.unwrap_err().as_db_error());
    }
    let unsaid = client.query_one("select count(*) from node where chain_id is null", &[]).await;
    assert_eq!(unsaid.unwrap().get::<_, i64>(0), 1, "an older node does not say its chain");
}

/// The texts of all migrations, oldest first.
fn migrations() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let mut numbered = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let number: u32 = name[1..name.find("__").unwrap()].parse().unwrap();
        numbered.insert(number, std::fs::read_to_string(&path).unwrap());
    }
    numbered.into_values().collect()
}

#[tokio::test]
async fn a_newer_schema_does_not_stop_an_older_program() {
    let (fixture, client) = database().await;
    let newer = "insert into refinery_schema_history (version, name, applied_on, checksum)
                 values (999, 'later', '2030-01-01T00:00:00Z', '1')";
    client.batch_execute(newer).await.unwrap();
    assert_eq!(migrate(&PgOptions::new(fixture.url())).await, Ok(0));
}

#[tokio::test]
async fn a_history_that_differs_is_refused() {
    let (fixture, client) = database().await;
    client.batch_execute("update refinery_schema_history set checksum = '1'").await.unwrap();
    let refused = migrate(&PgOptions::new(fixture.url())).await;
    assert!(matches!(refused, Err(StoreError::Unsafe(_))), "{refused:?}");
}
