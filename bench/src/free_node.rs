//! A chain that costs nearly nothing: what is measured against it is the service alone.
//!
//! Keeps the hash, nonce and sender of a transaction, mines all that have no gap below them at each block, and answers
//! the calls of Tollgate and of the ceiling. Balances are endless, nothing is executed, hashes of blocks are invented.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_consensus::{Transaction, TxEnvelope};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B256, hex};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::CHAIN_ID;

/// Settings of the chain.
#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    port: u16,
    /// Milliseconds between blocks.
    #[arg(long)]
    interval: u64,
    /// All transactions are from this account: no sender is recovered from a signature, which would cost more than all
    /// else.
    #[arg(long)]
    only: Option<Address>,
    /// Blocks stay empty.
    #[arg(long)]
    hold: bool,
    /// Transactions of this account are taken and never mined; may be repeated.
    #[arg(long)]
    never: Vec<Address>,
}

/// Answers until the process is ended.
pub(crate) async fn serve(options: Options) {
    let interval = Duration::from_millis(options.interval);
    let listener =
        tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.unwrap();
    let chain = Arc::new(Mutex::new(Chain::new(options)));
    let mined = chain.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        loop {
            ticks.tick().await;
            mined.lock().unwrap().mine();
        }
    });
    let routes = Router::new().route("/", post(answer)).layer(DefaultBodyLimit::disable());
    axum::serve(listener, routes.with_state(chain)).await.unwrap();
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(default)]
    params: Vec<serde_json::Value>,
}

async fn answer(State(chain): State<Arc<Mutex<Chain>>>, body: Bytes) -> String {
    let mut out = String::with_capacity(body.len());
    if body.first() == Some(&b'[') {
        let calls: Vec<Call> = serde_json::from_slice(&body).unwrap();
        for (place, call) in calls.iter().enumerate() {
            out.push(if place == 0 { '[' } else { ',' });
            answer_one(&chain, call, &mut out);
        }
        out.push(']');
    } else {
        answer_one(&chain, &serde_json::from_slice(&body).unwrap(), &mut out);
    }
    out
}

fn answer_one(chain: &Mutex<Chain>, call: &Call, out: &mut String) {
    let _ = write!(out, r#"{{"jsonrpc":"2.0","id":{},"#, call.id);
    // What is costly is done before the lock is taken.
    let sent = (call.method == "eth_sendRawTransaction").then(|| decode(call));
    let mut chain = chain.lock().unwrap();
    chain.calls += 1;
    match sent {
        Some(tx) => chain.add(tx, out),
        None => chain.read(call, out),
    }
    out.push('}');
}

fn decode(call: &Call) -> TxEnvelope {
    let raw = hex::decode(call.params[0].as_str().unwrap()).unwrap();
    TxEnvelope::decode_2718_exact(&raw).unwrap()
}

struct Block {
    hash: B256,
    txs: Vec<B256>,
}

#[derive(Default)]
struct Account {
    mined: u64,
    waiting: BTreeMap<u64, B256>,
}

struct Chain {
    options: Options,
    blocks: Vec<Block>,
    numbers: HashMap<B256, u64>,
    accounts: HashMap<Address, Account>,
    /// Accounts with something to mine.
    changed: HashSet<Address>,
    /// Blocks of transactions; 0 is not mined.
    found: HashMap<B256, u64>,
    /// Calls so far, each of a batch counted.
    calls: u64,
}

impl Chain {
    fn new(options: Options) -> Self {
        let mut chain = Self {
            options,
            blocks: Vec::new(),
            numbers: HashMap::new(),
            accounts: HashMap::new(),
            changed: HashSet::new(),
            found: HashMap::new(),
            calls: 0,
        };
        chain.append(Vec::new());
        chain
    }

    fn append(&mut self, txs: Vec<B256>) {
        let number = self.blocks.len() as u64;
        let hash = alloy_primitives::keccak256(number.to_be_bytes());
        self.numbers.insert(hash, number);
        for tx in &txs {
            self.found.insert(*tx, number);
        }
        self.blocks.push(Block { hash, txs });
    }

    fn mine(&mut self) {
        let mut txs = Vec::new();
        if !self.options.hold {
            for address in std::mem::take(&mut self.changed) {
                let account = self.accounts.entry(address).or_default();
                while let Some(hash) = account.waiting.remove(&account.mined) {
                    txs.push(hash);
                    account.mined += 1;
                }
            }
        }
        self.append(txs);
    }

    fn add(&mut self, tx: TxEnvelope, out: &mut String) {
        let sender = self.options.only.unwrap_or_else(|| {
            tx.signature().recover_address_from_prehash(&tx.signature_hash()).unwrap()
        });
        let hash = *tx.tx_hash();
        let account = self.accounts.entry(sender).or_default();
        let is_new = self.found.insert(hash, 0).is_none();
        let refusal = match tx.nonce() < account.mined {
            _ if !is_new => Some("already known"),
            true => Some("nonce too low"),
            false => None,
        };
        if let Some(refusal) = refusal {
            let _ = write!(out, r#""error":{{"code":-32000,"message":"{refusal}"}}"#);
            return;
        }
        account.waiting.insert(tx.nonce(), hash);
        if !self.options.never.contains(&sender) {
            self.changed.insert(sender);
        }
        let _ = write!(out, r#""result":"{hash}""#);
    }

    fn head(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    fn read(&self, call: &Call, out: &mut String) {
        let first = call.params.first().and_then(|value| value.as_str()).unwrap_or_default();
        out.push_str(r#""result":"#);
        let _ = match call.method {
            "web3_clientVersion" => write!(out, r#""free""#),
            "net_version" => write!(out, r#""{CHAIN_ID}""#),
            "eth_chainId" => write!(out, r#""{CHAIN_ID:#x}""#),
            "eth_blockNumber" => write!(out, r#""{:#x}""#, self.head()),
            "eth_syncing" => write!(out, "false"),
            "eth_getBlockByNumber" => self.block(self.number(first), out),
            "eth_getBlockByHash" => self.block(
                first.parse().ok().and_then(|hash: B256| self.numbers.get(&hash)).copied(),
                out,
            ),
            "eth_getBlockReceipts" => self.receipts(self.number(first), out),
            "eth_getTransactionReceipt" => {
                let hash: B256 = first.parse().unwrap_or_default();
                match self.found.get(&hash).filter(|number| **number > 0) {
                    Some(number) => {
                        let block = &self.blocks[*number as usize];
                        let place = block.txs.iter().position(|tx| *tx == hash).unwrap();
                        receipt(*number, block, place, out)
                    }
                    None => write!(out, "null"),
                }
            }
            "eth_getTransactionByHash" => self.transaction(first, out),
            "eth_getTransactionCount" => {
                let account =
                    first.parse().ok().and_then(|address: Address| self.accounts.get(&address));
                let pending = call.params.get(1).and_then(|at| at.as_str()) == Some("pending");
                let count = account.map_or(0, |account| match pending {
                    true => account.waiting.keys().fold(account.mined, |next, nonce| {
                        if *nonce == next { next + 1 } else { next }
                    }),
                    false => account.mined,
                });
                write!(out, r#""{count:#x}""#)
            }
            "eth_getBalance" => write!(out, r#""0xffffffffffffffffffffffffff""#),
            "eth_getCode" => write!(out, r#""0x""#),
            "eth_gasPrice" => write!(out, r#""0x77359400""#),
            "eth_maxPriorityFeePerGas" => write!(out, r#""0x3b9aca00""#),
            "eth_estimateGas" => write!(out, r#""0x5208""#),
            "eth_feeHistory" => self.fees(first, out),
            // What the bench asks, outside the protocol.
            "bench_calls" => write!(out, "{}", self.calls),
            _ => write!(out, "null"),
        };
    }

    fn number(&self, tag: &str) -> Option<u64> {
        let number = match tag {
            "latest" | "pending" | "safe" | "finalized" => self.head(),
            "earliest" => 0,
            number => u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?,
        };
        (number <= self.head()).then_some(number)
    }

    fn block(&self, number: Option<u64>, out: &mut String) -> std::fmt::Result {
        let Some(number) = number else { return write!(out, "null") };
        let block = &self.blocks[number as usize];
        let parent = number.checked_sub(1).map(|parent| self.blocks[parent as usize].hash);
        write!(
            out,
            r#"{{"number":"{number:#x}","hash":"{}","parentHash":"{}","baseFeePerGas":"0x3b9aca00","gasLimit":"0xe8d4a51000","gasUsed":"{:#x}","timestamp":"{:#x}","transactions":["#,
            block.hash,
            parent.unwrap_or_default(),
            block.txs.len() * 21_000,
            1_700_000_000 + number,
        )?;
        for (place, tx) in block.txs.iter().enumerate() {
            write!(out, r#"{}"{tx}""#, if place > 0 { "," } else { "" })?;
        }
        write!(out, "]}}")
    }

    fn receipts(&self, number: Option<u64>, out: &mut String) -> std::fmt::Result {
        let Some(number) = number else { return write!(out, "null") };
        let block = &self.blocks[number as usize];
        out.push('[');
        for place in 0..block.txs.len() {
            if place > 0 {
                out.push(',');
            }
            receipt(number, block, place, out)?;
        }
        write!(out, "]")
    }

    /// As much of a transaction as tells that it is known, and where it is.
    fn transaction(&self, hash: &str, out: &mut String) -> std::fmt::Result {
        let number = hash.parse().ok().and_then(|hash: B256| self.found.get(&hash));
        match number {
            None => write!(out, "null"),
            Some(0) => write!(out, r#"{{"hash":"{hash}","blockNumber":null,"blockHash":null}}"#),
            Some(number) => {
                let at = self.blocks[*number as usize].hash;
                write!(out, r#"{{"hash":"{hash}","blockNumber":"{number:#x}","blockHash":"{at}"}}"#)
            }
        }
    }

    fn fees(&self, count: &str, out: &mut String) -> std::fmt::Result {
        let count = u64::from_str_radix(count.trim_start_matches("0x"), 16).unwrap_or(1);
        let count = count.clamp(1, self.head() + 1);
        let list = |item: &str, count: u64| vec![item; count as usize].join(",");
        write!(
            out,
            r#"{{"oldestBlock":"{:#x}","baseFeePerGas":[{}],"gasUsedRatio":[{}],"reward":[{}]}}"#,
            self.head() + 1 - count,
            list(r#""0x3b9aca00""#, count + 1),
            list("0.5", count),
            list(r#"["0x3b9aca00","0x3b9aca00","0x3b9aca00"]"#, count),
        )
    }
}

/// About a kilobyte, as from a real node.
fn receipt(number: u64, block: &Block, place: usize, out: &mut String) -> std::fmt::Result {
    const BLOOM: &str =
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000";
    write!(
        out,
        r#"{{"type":"0x2","status":"0x1","cumulativeGasUsed":"{:#x}","logs":[],"logsBloom":"0x"#,
        (place + 1) * 21_000
    )?;
    // 256 bytes.
    for _ in 0..6 {
        out.push_str(BLOOM);
    }
    write!(
        out,
        r#"{}","transactionHash":"{}","transactionIndex":"{place:#x}","blockHash":"{}","blockNumber":"{number:#x}","gasUsed":"0x5208","effectiveGasPrice":"0x77359400","from":"{ZERO}","to":"{ZERO}","contractAddress":null}}"#,
        &BLOOM[..32],
        block.txs[place],
        block.hash,
        ZERO = Address::ZERO,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(chain: &Mutex<Chain>, method: &str, params: serde_json::Value) -> serde_json::Value {
        let call = serde_json::json!({ "id": 1, "method": method, "params": params }).to_string();
        let mut out = String::new();
        answer_one(chain, &serde_json::from_str(&call).unwrap(), &mut out);
        serde_json::from_str(&out).unwrap()
    }

    fn send(chain: &Mutex<Chain>, nonce: u64) -> serde_json::Value {
        let account = tollgate_devchain::dev_accounts()[0];
        let to = Address::repeat_byte(1);
        let unsigned = tollgate_devchain::sign::transfer(
            CHAIN_ID,
            nonce,
            (to, alloy_primitives::U256::ZERO),
            Some(1),
            1,
        );
        let raw = tollgate_devchain::sign::sign(unsigned, &account.private_key).unwrap();
        ask(chain, "eth_sendRawTransaction", serde_json::json!([raw]))["result"].clone()
    }

    #[test]
    fn a_block_takes_what_has_no_gap_below_and_gives_it_receipts() {
        let options =
            Options { port: 0, interval: 100, only: None, hold: false, never: Vec::new() };
        let chain = Mutex::new(Chain::new(options));
        let sender = tollgate_devchain::dev_accounts()[0].address;
        let (first, third) = (send(&chain, 0), send(&chain, 2));
        chain.lock().unwrap().mine();
        let receipts = ask(&chain, "eth_getBlockReceipts", serde_json::json!(["latest"]));
        assert_eq!(receipts["result"][0]["transactionHash"], first);
        assert_eq!(receipts["result"].as_array().unwrap().len(), 1);
        let count = ask(&chain, "eth_getTransactionCount", serde_json::json!([sender, "latest"]));
        assert_eq!(count["result"], "0x1");
        send(&chain, 1);
        chain.lock().unwrap().mine();
        let block = ask(&chain, "eth_getBlockByNumber", serde_json::json!(["0x2", false]));
        assert_eq!(block["result"]["transactions"][1], third);
        let receipt = ask(&chain, "eth_getTransactionReceipt", serde_json::json!([third]));
        assert_eq!(receipt["result"]["blockHash"], block["result"]["hash"]);
        let fees = ask(&chain, "eth_feeHistory", serde_json::json!(["0x2", "latest", [50]]));
        assert_eq!(fees["result"]["baseFeePerGas"].as_array().unwrap().len(), 3);
    }
}
