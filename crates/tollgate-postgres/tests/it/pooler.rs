//! PgBouncer between a node and the server.

use std::process::Command;

use tollgate_model::port::StoreError;
use tollgate_postgres::{PgOptions, PgStore, migrate};
use tollgate_testkit::postgres::{PgServer, connect};
use tollgate_testkit::program::{Program, lasting_port};
use tollgate_testkit::wait::until;

/// Starts PgBouncer in front of a database; returns the URL of the database behind it.
async fn pooled(url: &str, mode: &str) -> (Program, String) {
    let server: tokio_postgres::Config = url.parse().unwrap();
    let (port, database) = (server.get_ports()[0], server.get_dbname().unwrap());
    let listen = lasting_port();
    let folder = tempfile::tempdir().unwrap().keep();
    let file = folder.join("pgbouncer.ini");
    let settings = format!(
        "[databases]\n{database} = host=127.0.0.1 port={port} user=postgres\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {listen}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = {mode}\nmax_client_conn = 100\n"
    );
    std::fs::write(&file, settings).unwrap();
    let mut command = Command::new("pgbouncer");
    let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).arg(&file);
    if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(&folder, Some(65_534), None).unwrap();
        command.args(["-u", "nobody"]);
    }
    let program = Program::start(&mut command);
    let url = format!("postgres://postgres@127.0.0.1:{listen}/{database}");
    until("PgBouncer to answer", || async { connect(&url).await.ok().map(drop) }).await;
    std::fs::remove_dir_all(folder).unwrap();
    (program, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn pooler_in_session_mode_is_used_and_one_in_transaction_mode_is_refused() {
    let server = PgServer::start_own().await;
    let direct = server.url(&server.fresh_database().await);
    let (_sessions, url) = pooled(&direct, "session").await;
    let options = PgOptions::new(url);
    migrate(&options).await.unwrap();
    PgStore::open(options).await.unwrap();

    for mode in ["transaction", "statement"] {
        let (_transactions, url) = pooled(&direct, mode).await;
        let refused = migrate(&PgOptions::new(url)).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Unsafe(_)), "{mode}: {refused}");
        assert!(refused.to_string().contains("pool_mode = session"), "{mode}: {refused}");
    }
}
