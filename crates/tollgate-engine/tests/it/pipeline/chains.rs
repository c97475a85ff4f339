//! The two real chains behind one interface: mine, reorg, set balances, make calls fail.
//!
//! Blocks come only when a test asks for them, so that a test decides what lies at which depth.

use serde_json::{Value, json};
use tollgate_devchain::chain::{BaseFee, Beyond, DroppedTxs, FinalityDistances, Reorg};
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain};
use tollgate_model::port::Attempt;
use tollgate_model::{Address, Bytes, TxHash, U256};
use tollgate_testkit::rpc_proxy::RpcProxy;
use tollgate_testkit::{Anvil, rpc};

/// The distance of `safe` from the head; `finalized` is twice as far.
pub(crate) const SAFE_DISTANCE: u64 = 2;

/// The chain that a scenario runs against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChainKind {
    Devchain,
    Anvil,
}

/// The fee market: with or without a base fee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Era {
    London,
    Berlin,
}

/// The fate of a transaction whose block a reorg drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    /// Another block of the new branch includes it.
    ToAnotherBlock,
    /// No pool and no block has it.
    Altogether,
    /// The same, and the new branch is shorter for a while.
    WithItsBlocks,
}

/// A running chain.
pub(crate) enum TestChain {
    Devchain(RunningDevChain),
    Anvil(Anvil),
}

impl TestChain {
    pub(crate) async fn start(kind: ChainKind, era: Era) -> Self {
        match kind {
            ChainKind::Devchain => {
                let mut options = DevChainOptions::default();
                let finalized = SAFE_DISTANCE * 2;
                options.chain.finality = FinalityDistances { safe: SAFE_DISTANCE, finalized };
                if era == Era::Berlin {
                    options.chain.base_fee = BaseFee::Absent;
                }
                Self::Devchain(DevChain::start(options).await.unwrap())
            }
            ChainKind::Anvil => {
                let epoch = SAFE_DISTANCE.to_string();
                let mut args = vec!["--slots-in-an-epoch", &epoch];
                if era == Era::Berlin {
                    args.extend(["--hardfork", "berlin"]);
                }
                Self::Anvil(Anvil::start(&args).await)
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Devchain(chain) => chain.url(),
            Self::Anvil(anvil) => anvil.url().to_owned(),
        }
    }

    pub(crate) fn ws_url(&self) -> String {
        match self {
            Self::Devchain(chain) => chain.ws_url(),
            Self::Anvil(anvil) => anvil.ws_url(),
        }
    }

    /// One more endpoint, which can be broken without harm to the first one.
    pub(crate) async fn breakable(&self) -> RpcProxy {
        RpcProxy::to(&self.url()).await
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        rpc::call(&self.url(), method, params).await
    }

    pub(crate) async fn head(&self) -> u64 {
        rpc::number(&self.call("eth_blockNumber", json!([])).await)
    }

    pub(crate) async fn mine(&self, blocks: u64) {
        match self {
            Self::Devchain(chain) => {
                chain.mine(blocks);
            }
            Self::Anvil(anvil) => {
                for _ in 0..blocks {
                    anvil.mine().await;
                }
            }
        }
    }

    /// Drops the last blocks, the lowest of which holds this transaction.
    pub(crate) async fn reorg(&self, depth: u64, gone: Gone, raw: &Bytes) {
        match self {
            Self::Devchain(chain) => {
                let (fate, replacements) = match gone {
                    Gone::ToAnotherBlock => (DroppedTxs::Kept, depth),
                    Gone::Altogether => (DroppedTxs::Dropped, depth),
                    Gone::WithItsBlocks => (DroppedTxs::Dropped, 0),
                };
                let beyond = Beyond::Finalized;
                chain.reorg(Reorg { depth, replacements, dropped_txs: fate, beyond }).unwrap();
            }
            Self::Anvil(anvil) => {
                let (method, params) = match gone {
                    Gone::ToAnotherBlock => {
                        ("anvil_reorg", json!([depth, [[raw.to_string(), depth - 1]]]))
                    }
                    Gone::Altogether => ("anvil_reorg", json!([depth, []])),
                    Gone::WithItsBlocks => ("anvil_rollback", json!([depth])),
                };
                anvil.call(method, params).await;
            }
        }
    }

    /// Calls to this address revert from now on, and say why.
    pub(crate) async fn revert_calls_to(&self, target: Address, reason: &str) {
        match self {
            Self::Devchain(chain) => {
                let params = json!([target.to_string(), "revert", reason]);
                chain.view().call("devchain_setBehaviour", &params).unwrap();
            }
            Self::Anvil(anvil) => {
                let code = Bytes::from(reverting_code(reason)).to_string();
                anvil.call("anvil_setCode", json!([target.to_string(), code])).await;
            }
        }
    }

    pub(crate) async fn set_balance(&self, of: Address, wei: U256) {
        match self {
            Self::Devchain(chain) => {
                let params = json!([of.to_string(), wei.to_string()]);
                chain.view().call("devchain_setBalance", &params).unwrap();
            }
            Self::Anvil(anvil) => {
                anvil.call("anvil_setBalance", json!([of.to_string(), format!("{wei:#x}")])).await;
            }
        }
    }

    /// Sets the base fee of the next block; later ones move on from there.
    pub(crate) async fn set_base_fee(&self, wei: u64) {
        let method = match self {
            Self::Devchain(_) => "devchain_setBaseFee",
            Self::Anvil(_) => "anvil_setNextBlockBaseFeePerGas",
        };
        self.call(method, json!([format!("{wei:#x}")])).await;
    }

    /// The pool forgets one.
    pub(crate) async fn forget(&self, hash: TxHash) {
        let method = match self {
            Self::Devchain(_) => "devchain_dropTx",
            Self::Anvil(_) => "anvil_dropTransaction",
        };
        self.call(method, json!([hash.to_string()])).await;
        assert!(!self.is_pooled(hash).await);
    }

    /// Pools still have these. Anvil forgets all that was behind one that it drops, which no other
    /// node does.
    pub(crate) async fn remember(&self, attempts: &[Attempt]) {
        for attempt in attempts {
            if !self.is_pooled(attempt.tx_hash).await {
                assert!(matches!(self, Self::Anvil(_)), "{} is gone", attempt.tx_hash);
                self.send(&attempt.raw).await;
            }
        }
    }

    /// Sends past every engine; the node must take it.
    pub(crate) async fn send(&self, raw: &Bytes) {
        self.call("eth_sendRawTransaction", json!([raw.to_string()])).await;
    }

    /// Returns whether a pool has it, and no block.
    pub(crate) async fn is_pooled(&self, hash: TxHash) -> bool {
        let found = self.call("eth_getTransactionByHash", json!([hash.to_string()])).await;
        found.is_object() && found["blockNumber"].is_null()
    }
}

/// Code that copies an ABI-encoded `Error(string)` from behind itself and reverts with it.
fn reverting_code(reason: &str) -> Vec<u8> {
    assert!(reason.len() <= 32, "one word is enough");
    let mut data = vec![0x08, 0xc3, 0x79, 0xa0];
    data.extend(U256::from(0x20).to_be_bytes::<32>());
    data.extend(U256::from(reason.len()).to_be_bytes::<32>());
    data.extend(reason.bytes().chain(std::iter::repeat(0)).take(32));
    // PUSH1 length, PUSH1 12, PUSH1 0, CODECOPY, PUSH1 length, PUSH1 0, REVERT
    let length = u8::try_from(data.len()).unwrap();
    let mut code = vec![0x60, length, 0x60, 12, 0x60, 0, 0x39, 0x60, length, 0x60, 0, 0xfd];
    code.extend(data);
    code
}
