//! Reads the chain itself, so that the verdict does not rest on Tollgate's own records.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, U64};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tollgate_evm::endpoint::{Endpoint, EndpointConfig};
use tollgate_model::{Address, U256};

use super::plan::Plan;
use super::record::{Records, Run};
use super::verify::{Ledger, MinedTx, Verdict};
use crate::compose::Failure;

/// How long a node may take for a full block.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Blocks that are fetched at once.
const IN_FLIGHT: usize = 4;
/// How often the head is asked for while a run waits for blocks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the blocks are read anew when the chain changed meanwhile.
const TRIES_MAX: u32 = 5;

#[derive(Deserialize)]
struct RawTx {
    from: Address,
    to: Option<Address>,
    nonce: U64,
    value: U256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBlock {
    hash: B256,
    parent_hash: B256,
    transactions: Vec<RawTx>,
}

impl RawBlock {
    fn mined(&self) -> Vec<MinedTx> {
        let mined = |tx: &RawTx| MinedTx {
            from: tx.from,
            to: tx.to,
            nonce: tx.nonce.to(),
            value: tx.value,
        };
        self.transactions.iter().map(mined).collect()
    }
}

/// A chain, and where it was when the run began.
#[derive(Clone)]
pub(super) struct ChainReader {
    endpoint: Arc<Endpoint>,
    start: u64,
    next_nonces: Vec<u64>,
    client: String,
}

impl ChainReader {
    /// Notes the height and the submitters' nonces.
    pub(super) async fn connect(url: &str, plan: &Plan) -> Result<Self, Failure> {
        let config = EndpointConfig { timeout: CALL_TIMEOUT, ..EndpointConfig::new(url) };
        let endpoint = Arc::new(Endpoint::new(config)?);
        let client = ask(&endpoint, "web3_clientVersion", json!([])).await.unwrap_or_default();
        let start: U64 = ask(&endpoint, "eth_blockNumber", json!([])).await?;
        let mut next_nonces = Vec::new();
        for submitter in &plan.submitters {
            let params = json!([submitter.to_string(), "latest"]);
            let count: U64 = ask(&endpoint, "eth_getTransactionCount", params).await?;
            next_nonces.push(count.to());
        }
        Ok(Self { endpoint, start: start.to(), next_nonces, client })
    }

    /// What the node calls itself.
    pub(super) fn client(&self) -> &str {
        &self.client
    }

    async fn head(&self) -> Result<u64, Failure> {
        let head: U64 = ask(&self.endpoint, "eth_blockNumber", json!([])).await?;
        Ok(head.to())
    }

    async fn block(&self, number: u64) -> Result<RawBlock, Failure> {
        let params = json!([format!("{number:#x}"), true]);
        let block: Option<RawBlock> = ask(&self.endpoint, "eth_getBlockByNumber", params).await?;
        block.ok_or_else(|| format!("block {number} is gone").into())
    }

    /// Notes the intents that new blocks hold, until it is aborted.
    pub(super) async fn follow(&self, plan: &Plan, run: &Run) {
        let mut next = self.start + 1;
        loop {
            // What can't be read now is read at the next look; patience is the caller's.
            let head = self.head().await.unwrap_or(self.start);
            while next <= head {
                let Ok(block) = self.block(next).await else { break };
                for tx in &block.transactions {
                    if let Some(number) = plan.number_of(tx.from, tx.to, tx.value) {
                        run.finish(number, None);
                    }
                }
                next += 1;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Reads every block since the run began.
    pub(super) async fn verify(&self, plan: &Plan, records: &Records) -> Result<Verdict, Failure> {
        for _ in 0..TRIES_MAX {
            if let Some(verdict) = self.verify_once(plan, records).await? {
                return Ok(verdict);
            }
        }
        Err("the chain changed each time that its blocks were read".into())
    }

    /// `None` if the blocks are not one chain: there was a reorganisation while they were read.
    async fn verify_once(
        &self,
        plan: &Plan,
        records: &Records,
    ) -> Result<Option<Verdict>, Failure> {
        let head = self.head().await?;
        let mut ledger = Ledger::new(plan, &self.next_nonces);
        let mut blocks = stream::iter(self.start + 1..=head)
            .map(|number| self.block(number))
            .buffered(IN_FLIGHT);
        let mut parent = None;
        while let Some(block) = blocks.try_next().await? {
            if parent.is_some_and(|parent| parent != block.parent_hash) {
                return Ok(None);
            }
            parent = Some(block.hash);
            ledger.enter(&block.mined());
        }
        let fates = records.entries.iter().map(|entry| entry.fate);
        Ok(Some(ledger.judge(head.saturating_sub(self.start), fates)))
    }
}

async fn ask<T: DeserializeOwned>(
    endpoint: &Endpoint,
    method: &'static str,
    params: Value,
) -> Result<T, Failure> {
    let answer = endpoint.call(method, params).await;
    answer.map_err(|error| format!("{}: {method}: {error}", endpoint.name()).into())
}
