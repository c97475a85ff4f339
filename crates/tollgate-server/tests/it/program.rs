//! The `tollgate` binary as a child process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_testkit::wait::until;

/// The binary, without what this machine's environment says to it.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOLLGATE_") {
            command.env_remove(name);
        }
    }
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// A port that nobody listens on at the moment.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// An answer of an API, if there is one.
pub(crate) async fn http_get(port: u16, path: &str) -> Option<String> {
    http(port, &format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n"))
}

/// The answer to a JSON body, if there is one.
pub(crate) async fn http_post(port: u16, path: &str, body: &str) -> Option<String> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    http(port, &format!("{head}{body}"))
}

fn http(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    // An address is taken before the node is ready: don't wait for it in the queue.
    stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// A program that runs. Killed when dropped.
pub(crate) struct Program {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) lines: Vec<String>,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        collect(child.stdout.take().unwrap(), lines.clone());
        collect(child.stderr.take().unwrap(), lines.clone());
        Self { child, lines }
    }

    /// Waits for a line that holds a text, and returns it.
    pub(crate) async fn line_with(&self, text: &str) -> String {
        let find = || self.lines.lock().unwrap().iter().find(|line| line.contains(text)).cloned();
        until(text, || async { find() }).await
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub(crate) fn end(mut self) -> Ended {
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
