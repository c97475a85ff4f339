//! The conformance suite on both stores, the proof that it can fail, and the house rules.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod anvil;
mod fake_chain;
mod listed;
mod planted;
mod server;
mod sql;
mod tidy;

mod postgres {
    use tollgate_testkit::PgFixture;

    async fn fixture() -> PgFixture {
        PgFixture::new().await.with_child(crate::CHILD)
    }

    async fn crashable_fixture() -> PgFixture {
        PgFixture::crashable().await.with_child(crate::CHILD)
    }

    tollgate_testkit::conformance_tests!(fixture(), every store);
    tollgate_testkit::conformance_tests!(crashable_fixture(), server);
}

mod sqlite {
    use tollgate_testkit::SqliteFixture;

    async fn fixture() -> SqliteFixture {
        SqliteFixture::new().await.with_child(crate::CHILD)
    }

    tollgate_testkit::conformance_tests!(fixture(), every store);
    tollgate_testkit::conformance_tests!(fixture(), file);
}

/// The program that runs a node in a process of its own.
const CHILD: &str = env!("CARGO_BIN_EXE_store-child");
