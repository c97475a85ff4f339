//! A real `nats-server` for tests, with JetStream, and a client of a few lines that looks into its streams.
//!
//! `scripts/setup nats` installs it; without it a test fails and says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::program::{Program, lasting_port};
use crate::wait::within;

/// Debian keeps it off the PATH of users.
const PROGRAMS: [&str; 3] =
    ["/usr/sbin/nats-server", "/usr/bin/nats-server", "/usr/local/bin/nats-server"];

/// A server on a port of its own, which stays the same when it is restarted; ended when it is dropped.
pub struct NatsServer {
    port: u16,
    folder: TempDir,
    args: Vec<String>,
    running: Option<Program>,
}

/// A message of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredMessage {
    pub subject: String,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl NatsServer {
    /// Starts a server with further arguments, and waits until it is ready.
    pub async fn start(args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self { port: lasting_port(), folder, args, running: None };
        server.resume().await;
        server
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it; what it has stored stays.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts it again with other arguments.
    pub async fn with_args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self.kill();
        self.resume().await;
        self
    }

    /// Starts it again where it was.
    pub async fn resume(&mut self) {
        let program = PROGRAMS.iter().find(|program| Path::new(program).exists());
        let program = program.expect("nats-server is not there: run scripts/setup nats");
        let mut command = Command::new(program);
        command.args(["--addr", "127.0.0.1", "--port", &self.port.to_string(), "--jetstream"]);
        command.arg("--store_dir").arg(self.folder.path()).args(&self.args);
        let running = Program::start(&mut command);
        running.line_with("Server is ready").await;
        self.running = Some(running);
    }

    /// Creates a stream for subjects, with further settings.
    pub async fn create_stream(&self, name: &str, subjects: &str, more: Value) {
        let mut config = json!({
            "name": name, "subjects": [subjects], "allow_direct": true, "storage": "file",
            "retention": "limits", "discard": "new", "max_consumers": -1, "num_replicas": 1,
        });
        let (config_fields, more) =
            (config.as_object_mut().unwrap(), more.as_object().unwrap().clone());
        config_fields.extend(more);
        let answer = self.ask(&format!("$JS.API.STREAM.CREATE.{name}"), &config).await;
        assert!(answer.get("error").is_none(), "{answer}");
    }

    /// The number of messages of a stream.
    pub async fn message_count(&self, stream: &str) -> u64 {
        let answer = self.ask(&format!("$JS.API.STREAM.INFO.{stream}"), &json!({})).await;
        answer["state"]["messages"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }

    /// The message at a place in a stream, from 1.
    pub async fn message(&self, stream: &str, place: u64) -> StoredMessage {
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        let (head, body) = self.request(&subject, &json!({"seq": place})).await;
        let headers: BTreeMap<_, _> = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let subject = headers.get("nats-subject").unwrap_or_else(|| panic!("{head:?}")).clone();
        StoredMessage { subject, headers, body }
    }

    async fn ask(&self, subject: &str, question: &Value) -> Value {
        serde_json::from_slice(&self.request(subject, question).await.1).unwrap()
    }

    /// Asks a subject; the headers and the body of the answer.
    async fn request(&self, subject: &str, question: &Value) -> (String, Vec<u8>) {
        within("an answer of nats-server", async {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
            let mut stream = BufReader::new(stream);
            let body = question.to_string();
            let length = body.len();
            let ask = format!(
                "CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true}}\r\nSUB answer 1\r\n\
                 PUB {subject} answer {length}\r\n{body}\r\n"
            );
            stream.write_all(ask.as_bytes()).await.unwrap();
            loop {
                let mut line = String::new();
                assert!(stream.read_line(&mut line).await.unwrap() > 0, "the server hung up");
                let words: Vec<&str> = line.split_whitespace().collect();
                match words[..] {
                    ["INFO", ..] => {}
                    ["PING"] => stream.write_all(b"PONG\r\n").await.unwrap(),
                    ["MSG", .., all] => return read_message(&mut stream, "0", all).await,
                    ["HMSG", .., head, all] => return read_message(&mut stream, head, all).await,
                    _ => panic!("nats-server said {line:?}"),
                }
            }
        })
        .await
    }
}

async fn read_message(
    stream: &mut BufReader<TcpStream>,
    head: &str,
    all: &str,
) -> (String, Vec<u8>) {
    let (head, all): (usize, usize) = (head.parse().unwrap(), all.parse().unwrap());
    let mut message = vec![0; all];
    stream.read_exact(&mut message).await.unwrap();
    let body = message.split_off(head);
    (String::from_utf8(message).unwrap(), body)
}
