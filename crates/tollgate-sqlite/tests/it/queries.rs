//! The statements and the tables that they are for.

use rusqlite::Connection;
use tollgate_model::TxState;
use tollgate_sqlite::{SqliteOptions, migrate, queries};

use crate::support::{Folder, connect};

async fn migrated() -> (Folder, Connection) {
    let folder = Folder::new();
    assert!(migrate(&SqliteOptions::file(folder.database())).await.unwrap() > 0);
    let conn = connect(&folder.database());
    (folder, conn)
}

#[tokio::test]
async fn every_query_prepares() {
    let (_folder, conn) = migrated().await;
    for (name, sql) in queries::ALL {
        conn.prepare(sql).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[tokio::test]
async fn the_table_of_states_says_what_the_model_says() {
    let (_folder, conn) = migrated().await;
    let mut statement =
        conn.prepare("select code, state, sub_state from tx_state order by code").unwrap();
    let stored: Vec<(i16, String, Option<String>)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut known: Vec<_> = TxState::ALL
        .into_iter()
        .map(|s| (s.code(), s.name().to_owned(), s.sub_name().map(str::to_owned)))
        .collect();
    known.sort();
    assert_eq!(stored, known);
}
