//! Helpers: signed transactions, a chain, and a small HTTP client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_devchain::chain::{Admission, Chain, GWEI, MAIN_POOL, Rejection, Tx};
use tollgate_devchain::{
    DevAccount, DevChain, DevChainOptions, RunningDevChain, dev_accounts, sign,
};

pub(crate) const CHAIN_ID: u64 = 31_337;
pub(crate) const NOBODY: Address = address!("00000000000000000000000000000000deadbeef");

/// The time limit for any single wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn account(index: usize) -> DevAccount {
    dev_accounts()[index]
}

pub(crate) fn gwei(amount: u64) -> u128 {
    u128::from(amount) * u128::from(GWEI)
}

/// A transfer of 1 wei at 100 gwei, of which 1 goes to the producer; `change` makes it another.
pub(crate) fn raw(from: usize, nonce: u64, change: impl FnOnce(&mut TxEip1559)) -> Bytes {
    let mut tx = TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: gwei(100),
        max_priority_fee_per_gas: gwei(1),
        to: TxKind::Call(NOBODY),
        value: U256::from(1),
        ..TxEip1559::default()
    };
    change(&mut tx);
    sign::sign(tx, &account(from).private_key).unwrap()
}

pub(crate) fn tx(from: usize, nonce: u64, change: impl FnOnce(&mut TxEip1559)) -> Arc<Tx> {
    Tx::decode(raw(from, nonce, change)).unwrap()
}

pub(crate) fn plain(from: usize, nonce: u64) -> Arc<Tx> {
    tx(from, nonce, |_| {})
}

/// The default chain, after `change`.
pub(crate) fn chain(change: impl FnOnce(&mut DevChainOptions)) -> Chain {
    let mut options = DevChainOptions::default();
    change(&mut options);
    Chain::new(options.chain)
}

pub(crate) fn send(chain: &mut Chain, tx: &Arc<Tx>) -> Result<Admission, Rejection> {
    chain.submit(MAIN_POOL, tx, 0)
}

/// Sends and mines these, each block with what is sent before it.
pub(crate) fn mine_all(chain: &mut Chain, txs: &[Arc<Tx>]) {
    for tx in txs {
        send(chain, tx).unwrap();
    }
    chain.mine(0);
}

/// Every block names its parent, numbers are consecutive, and hashes are those of the headers.
pub(crate) fn assert_linked(chain: &Chain) {
    let blocks: Vec<_> = chain.blocks().collect();
    for pair in blocks.windows(2) {
        assert_eq!(pair[1].header.parent_hash, pair[0].hash);
        assert_eq!(pair[1].number(), pair[0].number() + 1);
        assert!(pair[1].header.timestamp > pair[0].header.timestamp);
    }
    for block in blocks {
        assert_eq!(block.hash, block.header.hash_slow());
    }
}

/// A running chain, and the URL of its first endpoint.
pub(crate) async fn start() -> (RunningDevChain, String) {
    start_with(DevChainOptions::default()).await
}

pub(crate) async fn start_with(options: DevChainOptions) -> (RunningDevChain, String) {
    let devchain = DevChain::start(options).await.unwrap();
    let url = devchain.url();
    (devchain, url)
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Posts a body on a connection of its own.
pub(crate) async fn post(url: &str, body: &str) -> io::Result<Answer> {
    let host = url.strip_prefix("http://").unwrap();
    let headers = format!("Host: {host}\r\nContent-Type: application/json\r\n");
    post_with(url, &headers, body).await
}

/// Posts a body with these headers.
pub(crate) async fn post_with(url: &str, headers: &str, body: &str) -> io::Result<Answer> {
    let host = url.strip_prefix("http://").unwrap();
    let exchange = async {
        let mut stream = TcpStream::connect(host).await?;
        let request = format!(
            "POST / HTTP/1.1\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let closed = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(closed)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(closed)?;
        Ok(Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| panic!("no answer: {body}"))
}

/// Posts a call and gives back the whole JSON answer.
pub(crate) async fn ask(url: &str, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let answer = post(url, &body.to_string()).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    assert_eq!(answer["id"], 7);
    answer
}

/// The result of a call that must work.
pub(crate) async fn result(url: &str, method: &str, params: Value) -> Value {
    let answer = ask(url, method, params.clone()).await;
    assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
    answer["result"].clone()
}

/// The error of a call that must not.
pub(crate) async fn error(url: &str, method: &str, params: Value) -> (i64, String) {
    let answer = ask(url, method, params).await;
    let error = &answer["error"];
    (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
}

/// Sends a transaction over HTTP; its hash.
pub(crate) async fn send_over(url: &str, raw: &Bytes) -> B256 {
    let hash = result(url, "eth_sendRawTransaction", json!([raw.to_string()])).await;
    hash.as_str().unwrap().parse().unwrap()
}

/// A quantity.
pub(crate) fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("not a quantity: {value}"));
    u64::from_str_radix(text.strip_prefix("0x").unwrap(), 16).unwrap()
}

/// Waits until `check` gives something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut check: impl FnMut() -> F,
) -> T {
    let wait = async {
        loop {
            if let Some(found) = check().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"))
}
