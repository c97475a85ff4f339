//! `tollgate dev` as a process: the real binary with a chain and a database of its own.

use std::net::TcpStream;

use tollgate_testkit::wait::until;

use crate::program::{Program, command, free_port};

/// The binary under test.
pub(crate) const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

/// A node on its own dev chain; killed when it is dropped, and its database removed.
pub(crate) struct Dev {
    _program: Program,
    pub(crate) url: String,
    pub(crate) rpc_url: String,
}

impl Dev {
    pub(crate) async fn start() -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = command();
        command
            .args(["dev", "--block-interval", "50ms", "--finality", "confirmations:2"])
            .args(["--window", "500", "--listen", &listen])
            .env("RUST_LOG", "error");
        let program = Program::start(&mut command);
        let chain = program.line_with("dev chain").await;
        let rpc_url = chain.split_whitespace().last().unwrap().to_owned();
        until("the node to listen", || async { TcpStream::connect(&listen).ok() }).await;
        Self { _program: program, url: format!("http://{listen}"), rpc_url }
    }
}
