//! The same questions to anvil: where both answer, the shapes must be the same.
//!
//! anvil is put into `.tools/bin` by `scripts/setup anvil`, which the test command runs; without it
//! the test fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::support::{ask, post, raw, result, send_over, start, until};

pub(crate) fn anvil() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin/anvil");
    path.exists().then_some(path)
}

pub(crate) async fn start_anvil(program: &Path, home: &Path) -> (Child, String) {
    // A free port, by taking and leaving one.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let child = Command::new(program)
        // It keeps the states of old blocks below its home directory.
        .env("HOME", home)
        .args(["--silent", "--no-mining", "--port", &port.to_string()])
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}"#;
    until("anvil answers", || async { post(&url, body).await.ok() }).await;
    (child, url)
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The differences between two answers, without the known ones.
fn assert_same_keys(what: &str, ours: &Value, anvils: &Value, allowed: &[&str]) {
    let (ours, anvils) = (keys(ours), keys(anvils));
    let differing: Vec<_> =
        ours.symmetric_difference(&anvils).filter(|key| !allowed.contains(key)).collect();
    assert!(differing.is_empty(), "{what}: {differing:?}\nours {ours:?}\nanvil {anvils:?}");
}

#[tokio::test]
async fn answers_have_the_shape_of_anvils() {
    let program = anvil().expect("anvil is there: scripts/setup anvil installs it");
    let home = tempfile::tempdir().unwrap();
    let (mut child, anvil) = start_anvil(&program, home.path()).await;
    let (_devchain, ours) = start().await;

    let sent = raw(0, 0, |_| {});
    let hash = send_over(&ours, &sent).await;
    assert_eq!(send_over(&anvil, &sent).await, hash);
    let both = async |method: &str, params: Value| {
        (result(&ours, method, params.clone()).await, result(&anvil, method, params).await)
    };
    let (pooled, anvils) = both("eth_getTransactionByHash", json!([hash])).await;
    assert_same_keys("a pooled transaction", &pooled, &anvils, &[]);
    result(&ours, "devchain_mine", json!([1])).await;
    result(&anvil, "evm_mine", json!([])).await;

    let (receipt, anvils) = both("eth_getTransactionReceipt", json!([hash])).await;
    // The price of blobs is in anvil's receipts of all types; geth gives it for type 3 only.
    let blobs = ["blobGasPrice", "blobGasUsed", "blockTimestamp"];
    assert_same_keys("a receipt", &receipt, &anvils, &blobs);
    for key in ["status", "gasUsed", "from", "to", "type", "transactionIndex", "logs"] {
        assert_eq!(receipt[key], anvils[key], "{key}");
    }
    let (mined, anvils) = both("eth_getTransactionByHash", json!([hash])).await;
    assert_same_keys("a mined transaction", &mined, &anvils, &["blockTimestamp"]);
    for key in ["v", "r", "s", "yParity", "nonce", "gas", "value", "input", "chainId"] {
        assert_eq!(mined[key], anvils[key], "{key}");
    }
    let (block, anvils) = both("eth_getBlockByNumber", json!(["0x1", false])).await;
    assert_same_keys("a block", &block, &anvils, &["requestsHash", "totalDifficulty"]);

    let (history, anvils) = both("eth_feeHistory", json!(["0x2", "latest", [50.0]])).await;
    assert_same_keys("a fee history", &history, &anvils, &[]);
    for key in ["baseFeePerGas", "gasUsedRatio", "reward"] {
        let length = |value: &Value| value[key].as_array().unwrap().len();
        assert_eq!(length(&history), length(&anvils), "{key}");
    }
    let error =
        async |url: &str| ask(url, "eth_sendRawTransaction", json!([sent])).await["error"].clone();
    let (ours, anvils) = (error(&ours).await, error(&anvil).await);
    for error in [&ours, &anvils] {
        assert!(error["code"].is_i64());
        assert!(error["message"].as_str().unwrap().contains("nonce too low"), "{error}");
    }
    // Before its home is removed.
    child.kill().await.unwrap();
}
