//! Settings of the database.

use std::time::Duration;

use crate::config::field::AppliesTo;
use crate::config::table::settings;
use crate::config::types::DatabaseUrl;

settings! {
    /// The database.
    struct DatabaseSettings {
        /// The database that holds the state. With the built-in chain of `dev` the default is a
        /// temporary file.
        url: DatabaseUrl = "sqlite:tollgate.db", flag = "database-url", has_file = true;
        /// Connections for batches and reads.
        connections: usize = "8", range = (1, 1_000), applies_to = AppliesTo::Postgres;
        /// Connections reserved for leases and heartbeats, so that they never wait for other work.
        upkeep_connections: usize = "2", range = (1, 100), applies_to = AppliesTo::Postgres;
        /// The longest wait of a call for a free connection; then it fails as temporarily unavailable.
        pool_timeout: Duration = "3s", min = "100ms", applies_to = AppliesTo::Postgres;
        /// The longest time for one statement; then the server cancels it.
        statement_timeout: Duration = "15s", min = "100ms", applies_to = AppliesTo::Postgres;
        /// The longest wait for a lock; then the statement fails.
        lock_timeout: Duration = "3s", min = "10ms", applies_to = AppliesTo::Postgres;
        /// The longest idle time inside a transaction; then the server ends the session. A node
        /// that stops responding inside a transaction delays a takeover by no more than this.
        idle_in_transaction_timeout: Duration = "5s", min = "100ms",
            applies_to = AppliesTo::Postgres;
        /// The longest wait of a call for another process's write; then it fails as temporarily
        /// unavailable.
        busy_timeout: Duration = "5s", min = "10ms", applies_to = AppliesTo::Sqlite;
    }
}
