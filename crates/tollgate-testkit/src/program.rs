//! A program as a child process: signalled, listened to, and gone with its test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use uuid::Uuid;

use crate::wait::until;

/// A command without the `TOLLGATE_` variables of this machine. Allows nodes to serve with test features.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command.env("TOLLGATE_ALLOW_TEST_FEATURES", "1");
    command
}

/// A port that nobody listens on at the moment.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Below what systems give to outgoing connections.
const LASTING_PORTS: std::ops::Range<u16> = 15_000..32_000;

/// A port that nobody listens on, and that nobody takes by accident while its owner is down.
pub fn lasting_port() -> u16 {
    let size = LASTING_PORTS.end - LASTING_PORTS.start;
    loop {
        let random = Uuid::new_v4().as_u128() % u128::from(size);
        let port = LASTING_PORTS.start + u16::try_from(random).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A program that runs. Killed when dropped.
pub struct Program {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// Its temporary files, unless the test has a place for them. One that is killed can't remove
    /// them itself.
    _temporary: TempDir,
}

/// The end of a program.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    pub lines: Vec<String>,
}

impl Program {
    pub fn start(command: &mut Command) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if !command.get_envs().any(|(name, _)| name == "TMPDIR") {
            command.env("TMPDIR", temporary.path());
        }
        let mut child = command.spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        collect(child.stdout.take().unwrap(), lines.clone());
        collect(child.stderr.take().unwrap(), lines.clone());
        Self { child, lines, _temporary: temporary }
    }

    /// Waits for a line that holds a text, and returns it.
    pub async fn line_with(&self, text: &str) -> String {
        let find = || self.lines.lock().unwrap().iter().find(|line| line.contains(text)).cloned();
        until(text, || async { find() }).await
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name: `TERM`, `KILL`, `STOP`, …
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub fn end(mut self) -> Ended {
        let code = self.child.wait().unwrap().code();
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        Ended { code, lines }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: impl Read + Send + 'static, lines: Arc<Mutex<Vec<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
}
