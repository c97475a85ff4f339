//! The conformance suite on PostgreSQL.

use tollgate_testkit::PgFixture;

async fn fixture() -> PgFixture {
    PgFixture::new().await.with_child(crate::CHILD)
}

async fn crashable_fixture() -> PgFixture {
    PgFixture::crashable().await.with_child(crate::CHILD)
}

tollgate_testkit::conformance_tests!(fixture(), every store);
tollgate_testkit::conformance_tests!(crashable_fixture(), server);
