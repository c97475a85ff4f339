//! The `tollgate` binary as a child process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

pub(crate) use tollgate_testkit::program::{Program, free_port};

/// The binary, without what this machine's environment says to it.
pub(crate) fn command() -> Command {
    tollgate_testkit::program::command(env!("CARGO_BIN_EXE_tollgate"))
}

/// The output of a command, and its end.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// An answer of an API, if there is one.
pub(crate) async fn http_get(port: u16, path: &str) -> Option<String> {
    http(port, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

/// The answer to a JSON body, if there is one.
pub(crate) async fn http_post(port: u16, path: &str, body: &str) -> Option<String> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    http(port, &format!("{head}{body}"))
}

/// The answer to these bytes, if there is one.
pub(crate) fn http(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    // An address is taken before the node is ready: don't wait for it in the queue.
    stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
