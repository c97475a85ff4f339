//! `tollgate dev` as a process: the real binary with a chain and a database of its own.

use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_devchain::dev_accounts;
use tollgate_testkit::rpc;
use tollgate_testkit::wait::until;

use crate::program::{Program, command, free_port};

/// The binary under test.
pub(crate) const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

/// A node on its own dev chain; killed when it is dropped, and its database removed.
pub(crate) struct Dev {
    program: Program,
    pub(crate) url: String,
    pub(crate) rpc_url: String,
}

impl Dev {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With these variables.
    pub(crate) async fn start_with(variables: &[(&str, &str)]) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = command();
        command
            .args(["dev", "--block-interval", "50ms", "--window", "500", "--listen", &listen])
            .envs(variables.iter().copied())
            .env("RUST_LOG", "error");
        let program = Program::start(&mut command);
        let chain = program.line_with("dev chain").await;
        let rpc_url = chain.split_whitespace().last().unwrap().to_owned();
        until("the node to listen", || async { TcpStream::connect(&listen).ok() }).await;
        Self { program, url: format!("http://{listen}"), rpc_url }
    }
}

/// `tollgate dev` without any flag; its port is in a variable, because other tests run beside this one.
fn without_flags(port: u16, variables: &[(&str, &str)]) -> Program {
    let mut command = command();
    command.arg("dev").env("TOLLGATE_LISTEN", format!("127.0.0.1:{port}"));
    Program::start(command.envs(variables.iter().copied()).env("RUST_LOG", "error"))
}

async fn get(url: &str) -> (u16, String) {
    rpc::request("GET", url, "").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_without_flags_prints_all_for_a_first_payment_which_two_blocks_make_final() {
    let port = free_port();
    let node = without_flags(port, &[]);
    node.line_with("chain id   31337, final after 2 blocks").await;
    for account in dev_accounts().iter().take(3) {
        node.line_with(&format!("account    {}", account.address)).await;
        node.line_with(&format!("  key      {}", account.private_key)).await;
    }
    let url = format!("http://127.0.0.1:{port}");
    for line in [
        format!("page       {url}/"),
        format!("docs       {url}/docs"),
        format!("API        {url}"),
    ] {
        node.line_with(&line).await;
    }
    let mut pasted = Vec::new();
    for part in ["curl -s", "  -d '{\"submitter\"", "\"payload\""] {
        pasted.push(node.line_with(part).await);
    }
    let ran = tokio::task::spawn_blocking(move || {
        let mut bash = Command::new("bash");
        bash.args(["-euc", &pasted.join("\n")]).env("NO_PROXY", "*").output().unwrap()
    });
    let ran = ran.await.unwrap();
    let answer = String::from_utf8(ran.stdout).unwrap();
    let paid: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
    assert_eq!(paid["state"], "CONFIRMED", "{paid}");
    let (_, chains) = get(&format!("{url}/api/v1/chains")).await;
    let chains: Value = serde_json::from_str(&chains).unwrap();
    assert_eq!(chains["items"][0]["confirmationsNeeded"], 2, "{chains}");
    assert_eq!(get(&format!("{url}/docs")).await.0, 200);
    assert_eq!(get(&format!("{url}/")).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn finality_that_is_given_to_dev_is_kept() {
    let node = without_flags(free_port(), &[("TOLLGATE_FINALITY", "confirmations:7")]);
    node.line_with("final after 7 blocks").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_says_that_a_transaction_waits_for_a_block_and_when_blocks_come_again() {
    let dev = Dev::start().await;
    rpc::call(&dev.rpc_url, "devchain_pauseMining", json!([])).await;
    let [from, to] = [0, 1].map(|number: usize| dev_accounts()[number].address.to_string());
    dev.good(&["tx", "send", "--from", &from, "--to", &to]);
    let note = dev.program.line_with("has made no block for").await;
    assert!(note.starts_with("note       chain 31337") && note.contains("resumeMining"), "{note}");
    rpc::call(&dev.rpc_url, "devchain_resumeMining", json!([])).await;
    dev.program.line_with("chain 31337 makes blocks again").await;
}
