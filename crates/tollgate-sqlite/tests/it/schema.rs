//! Queries, schema and migrations.

use std::time::Duration;

use tollgate_model::TxState;
use tollgate_model::port::{StoreError, TxStore};
use tollgate_sqlite::{SqliteOptions, SqliteStore, migrate, queries};
use tollgate_testkit::SqliteFixture;
use tollgate_testkit::builders::{chain, setup, submitter};

use crate::{connect, database};

async fn register(store: &SqliteStore) {
    store.register_chain(&chain()).await.unwrap();
    store.register_submitters(&[setup(submitter(1))]).await.unwrap();
}

#[tokio::test]
async fn every_query_can_be_prepared() {
    let fixture = SqliteFixture::new().await;
    let conn = connect(&fixture.path());
    for (file, query) in queries::all() {
        let name = query.name();
        conn.prepare(query.text()).unwrap_or_else(|error| panic!("{file}.sql {name}: {error}"));
    }
}

#[tokio::test]
async fn tx_state_names_every_state_of_the_model() {
    let fixture = SqliteFixture::new().await;
    let conn = connect(&fixture.path());
    let mut statement =
        conn.prepare("select code, state, sub_state from tx_state order by code").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let stored: Vec<(i16, String, Option<String>)> = rows.unwrap().map(Result::unwrap).collect();
    let named = |s: TxState| (s.code(), s.name().to_owned(), s.sub_name().map(str::to_owned));
    let mut known = TxState::ALL.map(named);
    known.sort();
    assert_eq!(stored, known);
}

#[tokio::test]
async fn a_migrated_database_is_left_as_it_is() {
    let (_folder, path) = database();
    let options = SqliteOptions::file(&path);
    assert!(migrate(&options).await.unwrap() > 0);
    assert_eq!(migrate(&options).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_migrate_at_once_all_succeed_and_one_does_the_work() {
    for _ in 0..20 {
        let (_folder, path) = database();
        let start = || {
            let options = SqliteOptions::file(&path);
            tokio::spawn(async move { migrate(&options).await })
        };
        let mut applied = Vec::new();
        for opener in [start(), start(), start(), start()] {
            applied.push(opener.await.unwrap().unwrap());
        }
        assert_eq!(applied.iter().filter(|applied| **applied > 0).count(), 1, "{applied:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_open_a_new_file_at_once_all_work() {
    let (_folder, path) = database();
    let open = || tokio::spawn(SqliteStore::open(SqliteOptions::file(&path)));
    let (one, two) = (open(), open());
    let (one, two) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());
    register(&one).await;
    assert!(two.submitter(submitter(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_node_starts_on_an_up_to_date_schema_while_another_one_writes() {
    let (_folder, path) = database();
    let busy_timeout = Duration::ZERO;
    let options = SqliteOptions { busy_timeout, ..SqliteOptions::file(&path) };
    migrate(&options).await.unwrap();
    let writer = connect(&path);
    writer.execute_batch("begin immediate").unwrap();
    let store = SqliteStore::open(options).await.unwrap();
    assert!(store.submitter(submitter(1)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_newer_schema_does_not_stop_an_older_binary() {
    let (_folder, path) = database();
    let options = SqliteOptions::file(&path);
    migrate(&options).await.unwrap();
    let newer = "insert into refinery_schema_history values \
                 (9999, 'from_the_future', '2030-01-01T00:00:00Z', '1')";
    connect(&path).execute(newer, []).unwrap();
    assert_eq!(migrate(&options).await.unwrap(), 0);
    register(&SqliteStore::open(options).await.unwrap()).await;
}

#[tokio::test]
async fn a_migration_that_was_changed_after_the_fact_is_unsafe() {
    let (_folder, path) = database();
    let options = SqliteOptions::file(&path);
    migrate(&options).await.unwrap();
    let changed = "update refinery_schema_history set checksum = '1' where version = 1";
    connect(&path).execute(changed, []).unwrap();
    assert!(matches!(migrate(&options).await, Err(StoreError::Unsafe(_))));
    assert!(matches!(SqliteStore::open(options).await, Err(StoreError::Unsafe(_))));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_unsafe() {
    let (_folder, path) = database();
    std::fs::write(&path, "not a database, and long enough to be sure of it").unwrap();
    let opened = SqliteStore::open(SqliteOptions::file(&path)).await;
    assert!(matches!(opened, Err(StoreError::Unsafe(_))));
}
