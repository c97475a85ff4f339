//! The conformance suite on SQLite.

use tollgate_testkit::SqliteFixture;

async fn fixture() -> SqliteFixture {
    SqliteFixture::new().await.with_child(crate::CHILD)
}

tollgate_testkit::conformance_tests!(fixture(), every store);
tollgate_testkit::conformance_tests!(fixture(), file);
