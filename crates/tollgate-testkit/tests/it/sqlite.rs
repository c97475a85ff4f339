//! What a store promises, on SQLite.

use tollgate_testkit::SqliteWorld;

async fn world() -> SqliteWorld {
    SqliteWorld::new().await.with_child(crate::CHILD)
}

tollgate_testkit::conformance_tests!(world(), every store);
tollgate_testkit::conformance_tests!(world(), file);
