//! A chain as the engine sees it: one canonical view over however many endpoints there are.

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use thiserror::Error;

use super::record::MinedIn;
use crate::amount::Wei;
use crate::ids::{ChainId, Nonce, TxHash};

/// A block's place in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockRef {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// The hash of the block before it.
    pub parent: B256,
}

/// A block with the hashes of what it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its place.
    pub at: BlockRef,
    /// Its transactions, in order.
    pub transactions: Vec<TxHash>,
}

/// An account's counts, as high as any healthy endpoint has ever reported them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountCounts {
    /// In the canonical head.
    pub mined: Nonce,
    /// With what the nodes hold pending.
    pub pending: Nonce,
}

/// Which block to ask for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockTag {
    /// The head.
    Latest,
    /// The head that is unlikely to be reorganised.
    Safe,
    /// The head that can't be reorganised.
    Finalized,
    /// By number.
    Number(u64),
}

/// What a node's answer to a send means. `Unknown` and everything transient mean *possibly sent*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names are the specification's; docs/ has the table")]
pub enum AnswerClass {
    Accepted,
    AlreadyKnown,
    NonceTooLow,
    NonceTooHigh,
    ReplacementUnderpriced,
    Underpriced,
    FeeTooLow,
    FeeTooHigh,
    InsufficientFunds,
    GasLimit,
    Reverted,
    Invalid,
    PoolFull,
    RateLimited,
    Transient,
    Unknown,
}

/// A node's answer to a send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendAnswer {
    /// What it means.
    pub class: AnswerClass,
    /// What it said, for people.
    pub said: String,
}

/// No endpoint could answer a question. Never evidence of anything about a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the chain can't be asked: {0}")]
pub struct ChainUnavailable(pub String);

/// Reads from and sends to one chain.
#[async_trait]
pub trait Chain: Send + Sync {
    /// Which chain.
    fn chain_id(&self) -> ChainId;

    /// A block, or `None` if the chain has none there yet.
    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable>;

    /// Receipts of these transactions in this block; one that is not in it is left out.
    async fn receipts(
        &self,
        block: &BlockRef,
        of: &[TxHash],
    ) -> Result<Vec<MinedIn>, ChainUnavailable>;

    /// The receipt of one transaction wherever it is. `None` is an answer, not an error.
    async fn receipt(&self, of: TxHash) -> Result<Option<MinedIn>, ChainUnavailable>;

    /// An account's counts.
    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable>;

    /// An account's balance in the head.
    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable>;

    /// Hands signed bytes to a node. There is no error: what is not clear is
    /// [`AnswerClass::Unknown`].
    async fn send(&self, raw: &Bytes) -> SendAnswer;
}
