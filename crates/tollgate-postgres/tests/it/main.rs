//! What only PostgreSQL has: plans, schema and migrations. What both stores promise is tested by the
//! conformance suite.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod plans;
mod pooler;
mod schema;
mod tls;

use tokio_postgres::{Client, NoTls};
use tollgate_postgres::{PgOptions, migrate};
use tollgate_testkit::postgres::PgServer;

/// A server with a database that has the schema and nothing else.
struct Database {
    url: String,
    _server: PgServer,
}

impl Database {
    async fn create() -> Self {
        let server = PgServer::start().await;
        let url = server.url(&server.fresh_database().await);
        migrate(&PgOptions::new(&url)).await.unwrap();
        Self { url, _server: server }
    }

    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Database {
    /// The database and a connection to it.
    async fn connected(self) -> (Self, Client) {
        let client = self.connect().await;
        (self, client)
    }
}
