//! What a store promises, on PostgreSQL.

use tollgate_testkit::PgWorld;

async fn world() -> PgWorld {
    PgWorld::new().await.with_child(crate::CHILD)
}

async fn crashable_world() -> PgWorld {
    PgWorld::crashable().await.with_child(crate::CHILD)
}

tollgate_testkit::conformance_tests!(world(), every store);
tollgate_testkit::conformance_tests!(crashable_world(), server);
