//! A real PostgreSQL server for tests.
//!
//! Started from the programs on this machine, in a directory of its own that is gone afterwards;
//! or, with `TEST_DATABASE_URL`, the server that it names, of which only fresh databases are used.
//! A start takes a fraction of a second: the cluster is a copy of a template that is made once.

mod directory;
mod process;
mod programs;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Mutex;

pub use tokio_postgres::Client;
use tokio_postgres::NoTls;
use uuid::Uuid;

use crate::program::lasting_port;
use crate::wait::until;
use directory::{ServerDirectory, check, copy_template, init_cluster};
use process::{Log, ServerProcess};
use programs::Programs;

/// The variable with the URL of a server that runs already.
pub const DATABASE_URL: &str = "TEST_DATABASE_URL";

/// Tries of a start when another process takes the port first.
const PORTS_TRIED_MAX: u32 = 20;

/// A server refuses a folder that others may look into.
const PRIVATE: u32 = 0o700;

/// A server; stopped and removed when it is dropped.
pub struct PgServer {
    place: Place,
}

enum Place {
    Own(OwnServer),
    Given(GivenServer),
}

/// A server that the tests did not start.
struct GivenServer {
    /// A database on it, whose user may create databases.
    url: String,
    /// Databases to drop at the end.
    databases: Mutex<Vec<String>>,
}

struct OwnServer {
    programs: Programs,
    // Declared before the directory: stopped first.
    process: Mutex<Option<ServerProcess>>,
    directory: ServerDirectory,
    port: u16,
    settings: Settings,
}

/// The settings of a server that differ between tests.
#[derive(Clone, Default)]
struct Settings {
    log: Log,
    /// `name=value`; they win over all others.
    further: Vec<String>,
}

impl PgServer {
    /// The server of `TEST_DATABASE_URL`, else a new one.
    pub async fn start() -> Self {
        match std::env::var(DATABASE_URL) {
            Ok(url) => {
                Self { place: Place::Given(GivenServer { url, databases: Mutex::default() }) }
            }
            Err(_) => Self::start_own().await,
        }
    }

    /// A new server in any case, which a test may crash.
    pub async fn start_own() -> Self {
        Self::start_with_log(Log::Minimal).await
    }

    /// A new server whose files are on the disk of the folder for temporary files, never in memory, with a cluster
    /// of its own. For measurements: `settings` are `name=value`, and all that makes commits durable is on.
    pub async fn start_on_disk(settings: &[&str]) -> Self {
        let programs = Programs::find();
        let directory = ServerDirectory::create_on_disk();
        init_cluster(&programs, &directory.data());
        let further = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Self::run(programs, directory, Settings { log: Log::Streamed, further }).await
    }

    async fn start_with_log(log: Log) -> Self {
        let programs = Programs::find();
        let directory = ServerDirectory::create();
        copy_template(&programs, &directory.data());
        Self::run(programs, directory, Settings { log, ..Settings::default() }).await
    }

    async fn run(programs: Programs, directory: ServerDirectory, settings: Settings) -> Self {
        for _ in 0..PORTS_TRIED_MAX {
            let port = lasting_port();
            if let Some(process) = launch(&programs, &directory, port, &settings).await {
                let process = Mutex::new(Some(process));
                let own = OwnServer { programs, process, directory, port, settings };
                return Self { place: Place::Own(own) };
            }
        }
        panic!("no port for PostgreSQL after {PORTS_TRIED_MAX} tries");
    }

    pub fn url(&self, database: &str) -> String {
        match &self.place {
            Place::Own(own) => own_url(own.port, database),
            Place::Given(given) => with_database(&given.url, database),
        }
    }

    /// The URL of a database that is there from the start.
    fn first_url(&self) -> String {
        match &self.place {
            Place::Own(own) => own_url(own.port, "postgres"),
            Place::Given(given) => given.url.clone(),
        }
    }

    /// Makes an empty database; returns its name.
    pub async fn fresh_database(&self) -> String {
        let name = format!("tollgate_{}", Uuid::new_v4().simple());
        let client = connect(&self.first_url()).await.expect("the server takes connections");
        client.batch_execute(&format!("create database {name}")).await.unwrap();
        if let Place::Given(given) = &self.place {
            given.databases.lock().unwrap().push(name.clone());
        }
        name
    }

    /// Ends the server as a crash does: nothing is flushed, nobody is told.
    pub fn crash(&self) {
        let process = self.own().process.lock().unwrap().take();
        process.expect("the server runs").end();
    }

    /// Ends the server in the ordinary way: its clients are told, and their transactions are rolled
    /// back (SIGINT, what `pg_ctl -m fast` sends).
    pub fn shut_down(&self) {
        let process = self.own().process.lock().unwrap().take();
        process.expect("the server runs").shut_down();
    }

    /// Starts it again after a [`Self::crash`] or [`Self::shut_down`], on the same port, and waits
    /// for its recovery.
    pub async fn restart(&self) {
        let own = self.own();
        let process = launch(&own.programs, &own.directory, own.port, &own.settings).await;
        *own.process.lock().unwrap() = Some(process.expect("the port is still ours"));
    }

    /// Starts a server, and a standby without which nothing is committed.
    pub async fn start_with_standby() -> (Self, Self) {
        let primary = Self::start_with_log(Log::Streamed).await;
        let standby = primary.start_copy(primary.own().programs.clone()).await;
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

    async fn start_copy(&self, programs: Programs) -> Self {
        let directory = ServerDirectory::create();
        fs::DirBuilder::new().mode(PRIVATE).create(directory.data()).unwrap();
        programs.hand_over(&directory.data());
        let mut backup = programs.command("pg_basebackup");
        backup.args(["-h", "127.0.0.1", "-p", &self.own().port.to_string(), "-U", "postgres"]);
        backup.args(["-c", "fast", "-X", "stream", "-R", "-D"]).arg(directory.data());
        // A thread that lives long enough: the program dies with the one that starts it.
        let done = tokio::task::spawn_blocking(move || backup.output().unwrap()).await.unwrap();
        check("pg_basebackup", done);
        let settings = Settings { log: Log::Streamed, ..Settings::default() };
        Self::run(programs, directory, settings).await
    }

    /// The server's first process, which has started all others.
    pub fn process_id(&self) -> u32 {
        self.own().process.lock().unwrap().as_ref().expect("the server runs").id()
    }

    fn own(&self) -> &OwnServer {
        match &self.place {
            Place::Own(own) => own,
            Place::Given(_) => panic!(
                "the server of {DATABASE_URL} can't be crashed: this test needs PgServer::start_own \
                 and PostgreSQL's programs on this machine"
            ),
        }
    }
}

impl Drop for GivenServer {
    fn drop(&mut self) {
        let url = self.url.clone();
        let databases = std::mem::take(&mut *self.databases.lock().unwrap());
        // A drop can't wait inside the caller's runtime.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let Ok(client) = connect(&url).await else { return };
                for name in databases {
                    let sql = format!("drop database if exists {name} with (force)");
                    let _ = client.batch_execute(&sql).await;
                }
            });
        });
        let _ = dropped.join();
    }
}

/// Starts the server and waits until it answers; `None` if another process has the port.
async fn launch(
    programs: &Programs,
    directory: &ServerDirectory,
    port: u16,
    settings: &Settings,
) -> Option<ServerProcess> {
    let process = ServerProcess::start(programs, directory, port, settings);
    let data = directory.data();
    let ready = until("PostgreSQL to answer", || async {
        if process.has_ended() {
            return Some(false);
        }
        let client = connect(&own_url(port, "postgres")).await.ok()?;
        let row = client.query_one("show data_directory", &[]).await.ok()?;
        // Another test's server may have been faster on this port.
        Some(std::path::Path::new(row.get::<_, &str>(0)) == data)
    })
    .await;
    if ready {
        return Some(process);
    }
    process.end();
    let log = directory.log();
    let clash = log.contains("could not bind") || log.contains("Address already in use");
    assert!(clash, "PostgreSQL did not start:\n{log}");
    None
}

/// Connects; the connection lives as long as the client.
pub async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn own_url(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}")
}

/// The URL of another database on the same server.
fn with_database(url: &str, database: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL has a scheme");
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, q)| (rest, Some(q)));
    let authority = rest.split('/').next().unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}/{database}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_url_keeps_all_but_its_database() {
        for (url, other) in [
            ("postgres://u:p@h:1/a?sslmode=disable", "postgres://u:p@h:1/b?sslmode=disable"),
            ("postgresql://h/a", "postgresql://h/b"),
            ("postgres://h", "postgres://h/b"),
        ] {
            assert_eq!(with_database(url, "b"), other);
        }
    }
}
