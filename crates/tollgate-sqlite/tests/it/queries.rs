//! Every query can be prepared, and the table of states agrees with the model.

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
async fn every_query_can_be_prepared() {
    let (_folder, conn) = migrated().await;
    for (file, query) in queries::all() {
        let name = query.name();
        conn.prepare(query.text()).unwrap_or_else(|error| panic!("{file}.sql {name}: {error}"));
    }
}

#[tokio::test]
async fn tx_state_names_every_state_of_the_model() {
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
