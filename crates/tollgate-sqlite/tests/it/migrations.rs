//! Schemas that are new, old, newer, or not what they were.

use std::time::Duration;

use tollgate_model::port::{StoreError, TxStore};
use tollgate_sqlite::{SqliteOptions, SqliteStore, migrate};

use crate::support::{Folder, connect, register, submitter};

#[tokio::test]
async fn a_migrated_database_is_left_as_it_is() {
    let folder = Folder::new();
    let options = SqliteOptions::file(folder.database());
    assert!(migrate(&options).await.unwrap() > 0);
    assert_eq!(migrate(&options).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_migrate_at_once_all_succeed_and_one_does_the_work() {
    for _ in 0..20 {
        let folder = Folder::new();
        let start = || {
            let options = SqliteOptions::file(folder.database());
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
    let folder = Folder::new();
    let open = || tokio::spawn(SqliteStore::open(SqliteOptions::file(folder.database())));
    let (one, two) = (open(), open());
    let (one, two) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());
    register(&one).await;
    assert!(two.submitter(submitter()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_node_starts_on_an_up_to_date_schema_while_another_one_writes() {
    let folder = Folder::new();
    let busy_timeout = Duration::ZERO;
    let options = SqliteOptions { busy_timeout, ..SqliteOptions::file(folder.database()) };
    migrate(&options).await.unwrap();
    let writer = connect(&folder.database());
    writer.execute_batch("begin immediate").unwrap();
    let store = SqliteStore::open(options).await.unwrap();
    assert!(store.submitter(submitter()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_newer_schema_does_not_stop_an_older_binary() {
    let folder = Folder::new();
    let options = SqliteOptions::file(folder.database());
    migrate(&options).await.unwrap();
    let newer = "insert into refinery_schema_history values \
                 (9999, 'from_the_future', '2030-01-01T00:00:00Z', '1')";
    connect(&folder.database()).execute(newer, []).unwrap();
    assert_eq!(migrate(&options).await.unwrap(), 0);
    register(&SqliteStore::open(options).await.unwrap()).await;
}

#[tokio::test]
async fn a_migration_that_was_changed_after_the_fact_is_unsafe() {
    let folder = Folder::new();
    let options = SqliteOptions::file(folder.database());
    migrate(&options).await.unwrap();
    let changed = "update refinery_schema_history set checksum = '1' where version = 1";
    connect(&folder.database()).execute(changed, []).unwrap();
    assert!(matches!(migrate(&options).await, Err(StoreError::Unsafe(_))));
    assert!(matches!(SqliteStore::open(options).await, Err(StoreError::Unsafe(_))));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_unsafe() {
    let folder = Folder::new();
    std::fs::write(folder.database(), "not a database, and long enough to be sure of it").unwrap();
    let opened = SqliteStore::open(SqliteOptions::file(folder.database())).await;
    assert!(matches!(opened, Err(StoreError::Unsafe(_))));
}
