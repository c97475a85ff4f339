//! A URL with several hosts.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tollgate_model::port::NodeStore as _;
use tollgate_postgres::{PgOptions, PgStore, migrate};
use tollgate_testkit::builders::{CHAIN, chain_id};
use tollgate_testkit::postgres::PgServer;

#[tokio::test(flavor = "multi_thread")]
async fn first_host_that_accepts_and_never_answers_does_not_block_the_second() {
    let server = PgServer::start_own().await;
    let url = server.url(&server.fresh_database().await);
    // The kernel accepts for it, as for a server whose process stands still.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let both = url.replacen('@', &format!("@{},", silent.local_addr().unwrap()), 1);
    let options = PgOptions { pool_timeout: Duration::from_secs(3), ..PgOptions::new(both) };
    let begun = Instant::now();
    migrate(&options).await.unwrap();
    let store = PgStore::open(options).await.unwrap();
    store.live_nodes(chain_id(CHAIN), Duration::from_secs(1)).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
