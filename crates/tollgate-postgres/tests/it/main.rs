//! Plans, schema and migrations of PostgreSQL. The conformance suite tests what both stores promise.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod hosts;
mod plans;
mod pooler;
mod schema;
mod tls;

use tollgate_testkit::PgFixture;
use tollgate_testkit::postgres::{Client, connect};

/// A database with the schema, and a connection to it.
async fn database() -> (PgFixture, Client) {
    let fixture = PgFixture::new().await;
    let client = connect(&fixture.url()).await.unwrap();
    (fixture, client)
}
