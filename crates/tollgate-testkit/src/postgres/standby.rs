//! A server with a standby that every commit waits for.

use std::fs;
use std::os::unix::fs::DirBuilderExt;

use super::directory::ServerDirectory;
use super::process::Log;
use super::programs::Programs;
use super::{PgServer, connect, template};
use crate::wait::until;

/// A server refuses a folder that others may look into.
const PRIVATE: u32 = 0o700;

impl PgServer {
    /// Starts a server, and a standby without which nothing is committed.
    pub async fn start_with_standby() -> (Self, Self) {
        let programs = Programs::find();
        let directory = ServerDirectory::create();
        template::copy(&programs, &directory.data());
        let primary = Self::run(programs.clone(), directory, Log::Streamed).await;
        let standby = primary.copy_to(programs).await;
        let client = connect(&primary.first_url()).await.unwrap();
        client.batch_execute("alter system set synchronous_standby_names = '*'").await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
        until("the standby to be waited for", || async {
            let sql = "select count(*) from pg_stat_replication where sync_state = 'sync'";
            let row = client.query_one(sql, &[]).await.unwrap();
            (row.get::<_, i64>(0) == 1).then_some(())
        })
        .await;
        (primary, standby)
    }

    /// Makes this standby the server that is written to. The one that was must be gone. It waits for
    /// nobody.
    pub async fn promote(&self) {
        let client = connect(&self.first_url()).await.unwrap();
        client.batch_execute("select pg_promote(true)").await.unwrap();
    }

    /// One URL for a database on both: whoever connects finds the one that can be written to.
    pub fn url_with(&self, standby: &Self, database: &str) -> String {
        let ports = (self.own().port, standby.own().port);
        format!(
            "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{database}?target_session_attrs=read-write",
            ports.0, ports.1
        )
    }

    async fn copy_to(&self, programs: Programs) -> Self {
        let directory = ServerDirectory::create();
        fs::DirBuilder::new().mode(PRIVATE).create(directory.data()).unwrap();
        programs.hand_over(&directory.data());
        let mut backup = programs.command("pg_basebackup");
        backup.args(["-h", "127.0.0.1", "-p", &self.own().port.to_string(), "-U", "postgres"]);
        backup.args(["-c", "fast", "-X", "stream", "-R", "-D"]).arg(directory.data());
        // A thread that lives long enough: the program dies with the one that starts it.
        let done = tokio::task::spawn_blocking(move || backup.output().unwrap()).await.unwrap();
        template::check("pg_basebackup", done);
        Self::run(programs, directory, Log::Streamed).await
    }
}
