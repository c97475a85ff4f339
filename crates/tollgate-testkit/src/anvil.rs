//! A real anvil for tests: a chain with a real EVM and pool that somebody else wrote.
//!
//! `scripts/setup anvil` puts it into `.tools/bin`; without it a test fails and says so.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::rpc;
use crate::wait::until;

/// Tries of a start when another process takes the port first.
const PORTS_TRIED_MAX: u32 = 10;

/// A running anvil that mines when it is told to; ended when it is dropped.
pub struct Anvil {
    url: String,
    child: Child,
    /// anvil keeps the states of old blocks below its home directory, and one that is killed never
    /// removes them.
    home: TempDir,
}

impl Anvil {
    /// Starts it on a free port, with further arguments, and waits until it answers.
    pub async fn start(args: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin/anvil");
        assert!(program.exists(), "anvil is not there: run scripts/setup anvil");
        for _ in 0..PORTS_TRIED_MAX {
            // A free port, by taking and leaving one.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let home = tempfile::tempdir().unwrap();
            let mut child = Command::new(&program)
                .env("HOME", home.path())
                .env("TMPDIR", home.path())
                .args(["--silent", "--no-mining", "--port", &port.to_string()])
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let url = format!("http://127.0.0.1:{port}");
            let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
            let answers = until("anvil to answer", || {
                let ended = child.try_wait().unwrap().is_some();
                let url = &url;
                async move {
                    if ended {
                        return Some(false);
                    }
                    rpc::post(url, body).await.ok().map(|_| true)
                }
            });
            if answers.await {
                return Self { url, child, home };
            }
        }
        panic!("anvil {args:?} ended at once, {PORTS_TRIED_MAX} times");
    }

    pub fn process_id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its home directory, which is removed with it.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn ws_url(&self) -> String {
        self.url.replacen("http", "ws", 1)
    }

    pub async fn mine(&self) {
        self.call("evm_mine", json!([])).await;
        self.forget_unmineable().await;
    }

    /// anvil checks a transaction against the state from before the block that it is mining. One that
    /// comes meanwhile can be queued for a predecessor that is mined already: it is never mined then,
    /// and sent again it is "already known". Such an account's pool is emptied, as if the node had
    /// lost it, so that what is sent again counts.
    async fn forget_unmineable(&self) {
        let status = self.call("txpool_status", json!([])).await;
        if rpc::number(&status["pending"]) > 0 || rpc::number(&status["queued"]) == 0 {
            return;
        }
        let content = self.call("txpool_content", json!([])).await;
        for (account, queued) in content["queued"].as_object().into_iter().flatten() {
            let mined = self.call("eth_getTransactionCount", json!([account, "latest"])).await;
            if queued.get(rpc::number(&mined).to_string()).is_some() {
                eprintln!("anvil queued what it could mine: the pool of {account} is emptied");
                self.call("anvil_removePoolTransactions", json!([account])).await;
            }
        }
    }

    pub async fn call(&self, method: &str, params: Value) -> Value {
        rpc::call(&self.url, method, params).await
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        // The process ends before its home is removed, or it would create the home again.
        let _ = self.child.start_kill();
        while matches!(self.child.try_wait(), Ok(None)) {
            std::thread::yield_now();
        }
    }
}
