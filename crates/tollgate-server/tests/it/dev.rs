//! `tollgate dev` as a process: the real binary with a chain and a database of its own.

use std::io::{BufRead, BufReader, Lines};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use tollgate_testkit::wait::until;

/// The binary under test.
pub(crate) const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

/// A node on its own dev chain; killed when it is dropped.
pub(crate) struct Dev {
    process: Child,
    /// Kept open: a program that can't print ends.
    _said: Lines<BufReader<ChildStdout>>,
    pub(crate) url: String,
    pub(crate) rpc_url: String,
}

impl Dev {
    pub(crate) async fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("127.0.0.1:{port}");
        let args = ["dev", "--block-interval", "50ms", "--finality", "confirmations:2"];
        let mut process = Command::new(TOLLGATE)
            .args(args)
            .args(["--window", "500", "--listen", &listen])
            .env("RUST_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let chain = said.by_ref().map_while(Result::ok).find_map(|line| {
            line.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned)
        });
        let rpc_url = chain.expect("dev says where its chain is");
        until("the node to listen", || async { TcpStream::connect(&listen).ok() }).await;
        Self { process, _said: said, url: format!("http://{listen}"), rpc_url }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
