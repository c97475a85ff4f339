//! The folder of a server, and the template that its cluster is copied from.
//!
//! A lock file beside it says that its test process lives; what a killed process left behind is
//! swept away by the next start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use uuid::Uuid;

use super::programs::Programs;

/// A server's own folder; removed when it is dropped.
pub(super) struct ServerDirectory {
    path: PathBuf,
    // Held for as long as the folder is in use.
    _lock: File,
}

impl ServerDirectory {
    pub(super) fn create() -> Self {
        Self::create_in(&base())
    }

    /// One that is never in memory, unless the folder for temporary files is.
    pub(super) fn create_on_disk() -> Self {
        Self::create_in(&base_in(&std::env::temp_dir()))
    }

    fn create_in(base: &Path) -> Self {
        let servers = base.join("servers");
        fs::create_dir_all(&servers).unwrap();
        let _sweeping = locked(&base.join("servers.lock"));
        sweep(&servers);
        let path = servers.join(Uuid::new_v4().simple().to_string());
        let lock = locked(&lock_of(&path));
        fs::create_dir(&path).unwrap();
        Self { path, _lock: lock }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// The file that the server's output goes to.
    pub(super) fn log_file(&self) -> File {
        File::options().append(true).create(true).open(self.path.join("log")).unwrap()
    }

    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.path.join("log")).unwrap_or_default()
    }
}

impl Drop for ServerDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = fs::remove_file(lock_of(&self.path));
    }
}

/// A file system in memory, where there is one.
const IN_MEMORY: &str = "/dev/shm";

/// Names a run of the test command, which removes what belongs to it at its end.
const RUN: &str = "TOLLGATE_TEST_RUN";

/// Space that must be free there; a server takes a tenth of it.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// The folder for everything of this user, and of this run if it has a name, that outlives one
/// test. Others may look into it: the server's user has to.
///
/// In memory if that can be: copying a cluster to a disk takes ten times as long. A crash of the
/// server is no crash of the machine, so what it had written survives there as it does on a disk.
fn base() -> PathBuf {
    let free = rustix::fs::statvfs(IN_MEMORY).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    let folder =
        if free >= FREE_BYTES_MIN { PathBuf::from(IN_MEMORY) } else { std::env::temp_dir() };
    base_in(&folder)
}

fn base_in(folder: &Path) -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    let run = std::env::var(RUN).map(|run| format!("-{run}")).unwrap_or_default();
    let path = folder.join(format!("tollgate-testkit-{uid}{run}"));
    fs::create_dir_all(&path).unwrap();
    path
}

/// Opens a file and waits for the right to it; dropping the file gives it back.
fn locked(path: &Path) -> File {
    let file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
    file.lock().unwrap();
    file
}

fn lock_of(server: &Path) -> PathBuf {
    server.with_extension("lock")
}

fn sweep(servers: &Path) {
    for entry in fs::read_dir(servers).unwrap().flatten() {
        let lock = entry.path();
        if lock.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        // Gone since the listing: its owner ended in good order.
        let Ok(file) = File::open(&lock) else { continue };
        if file.try_lock().is_ok() {
            let _ = fs::remove_dir_all(lock.with_extension(""));
            let _ = fs::remove_file(&lock);
        }
    }
}

/// Puts a fresh cluster at `data`.
pub(super) fn copy_template(programs: &Programs, data: &Path) {
    let template = template(programs);
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto"]).arg(template).arg(data);
    check("cp", copy.output().unwrap());
}

/// A freshly initialised cluster, made once for each version of PostgreSQL.
fn template(programs: &Programs) -> PathBuf {
    let name = format!("template-{}", programs.version());
    let base = base();
    let template = base.join(&name);
    if template.exists() {
        return template;
    }
    let _making = locked(&base.join(format!("{name}.lock")));
    if !template.exists() {
        make(programs, &template);
    }
    template
}

/// Made beside its place and moved there when it is whole: a template that exists is complete.
fn make(programs: &Programs, template: &Path) {
    let parts = template.with_extension("parts");
    let _ = fs::remove_dir_all(&parts);
    fs::create_dir(&parts).unwrap();
    programs.hand_over(&parts);
    let cluster = parts.join("cluster");
    // Small segments: less to copy.
    initdb(programs, &cluster, &["--no-sync", "--wal-segsize=1"]);
    fs::rename(&cluster, template).unwrap();
    let _ = fs::remove_dir_all(&parts);
}

/// Makes a cluster at `data` as a deployment would.
pub(super) fn init_cluster(programs: &Programs, data: &Path) {
    fs::create_dir(data).unwrap();
    programs.hand_over(data);
    initdb(programs, data, &[]);
}

fn initdb(programs: &Programs, data: &Path, args: &[&str]) {
    let mut initdb = programs.command("initdb");
    initdb.args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]).args(args);
    check("initdb", initdb.arg("-D").arg(data).output().unwrap());
}

pub(super) fn check(what: &str, output: Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {errors}");
}
