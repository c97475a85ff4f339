//! The PostgreSQL programs of this machine, and the user that runs them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the server's programs on Debian, with one folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The server's programs.
#[derive(Clone)]
pub(super) struct Programs {
    folder: PathBuf,
    runner: Runner,
}

/// As whom the server runs: it refuses to be root.
#[derive(Clone, Copy)]
enum Runner {
    Ourselves,
    Other { uid: u32, gid: u32 },
}

impl Programs {
    /// The newest on this machine.
    pub(super) fn find() -> Self {
        let folder = newest_debian().or_else(on_path).unwrap_or_else(|| {
            panic!(
                "PostgreSQL's server programs (postgres, initdb) are neither in {DEBIAN} nor on \
                 the PATH: install PostgreSQL, or set {}",
                super::DATABASE_URL
            )
        });
        let is_root = rustix::process::getuid().is_root();
        let runner = if is_root { other_user() } else { Runner::Ourselves };
        Self { folder, runner }
    }

    /// The version, as a word that a path may hold.
    pub(super) fn version(&self) -> String {
        let output = Command::new(self.folder.join("postgres")).arg("--version").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text.split_whitespace().nth(2);
        number.unwrap_or_else(|| panic!("not a version: {text:?}")).to_owned()
    }

    /// One of the programs as the server's user. It dies with the thread that starts it, as a
    /// crash would end it: a test process that is killed leaves no server behind.
    pub(super) fn command(&self, program: &str) -> Command {
        let program = self.folder.join(program);
        let Some(setpriv) = find_on_path("setpriv") else {
            assert!(
                matches!(self.runner, Runner::Ourselves),
                "PostgreSQL can't run as root, and setpriv (util-linux) is not on the PATH"
            );
            return Command::new(program);
        };
        let mut command = Command::new(setpriv);
        if let Runner::Other { uid, gid } = self.runner {
            command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string()]);
            command.arg("--clear-groups");
        }
        command.args(["--pdeathsig", "QUIT", "--"]).arg(program);
        command
    }

    /// Gives a folder to the server's user.
    pub(super) fn hand_over(&self, folder: &Path) {
        if let Runner::Other { uid, gid } = self.runner {
            std::os::unix::fs::chown(folder, Some(uid), Some(gid)).unwrap();
        }
    }
}

fn newest_debian() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?.filter_map(|entry| {
        let version: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        Some((version, Path::new(DEBIAN).join(version.to_string()).join("bin")))
    });
    let whole = versions.filter(|(_, folder)| folder.join("initdb").exists());
    whole.filter(|(_, folder)| folder.join("postgres").exists()).max().map(|(_, folder)| folder)
}

fn on_path() -> Option<PathBuf> {
    find_on_path("initdb")?.parent().map(Path::to_path_buf)
}

fn find_on_path(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&path).map(|folder| folder.join(program.as_ref()));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

fn other_user() -> Runner {
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
        let (uid, gid) = (user.get(2)?.parse().ok()?, user.get(3)?.parse().ok()?);
        Some(Runner::Other { uid, gid })
    };
    find("postgres")
        .or_else(|| find("nobody"))
        .expect("PostgreSQL can't run as root: a user postgres or nobody is needed")
}
