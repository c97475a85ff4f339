//! A chain as the engine sees it: one canonical view over however many endpoints there are.

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::MinedIn;
use crate::amount::{GasPrice, Wei};
use crate::ids::{ChainId, Nonce, TxHash};
use crate::text::Text;

pub use crate::answer::AnswerClass;
use crate::answer::{AnswerAction, action_for};
use crate::diagnose::EndpointWord;
use crate::reconcile::Looked;

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

/// An account's counts, as high as they were ever confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountCounts {
    /// In the canonical head.
    pub mined: Nonce,
    /// With what the nodes hold pending.
    pub pending: Nonce,
    /// The highest count, mined or pending, that is more than one endpoint's word (I16): two say at
    /// least so much; or it is the mined count of a chain's only endpoint.
    pub sure: Nonce,
    /// The highest mined count that any endpoint tells now, on its word alone; never below `mined`.
    pub highest: Nonce,
    /// The highest count, mined or pending, that any endpoint that was asked tells now; never below
    /// `mined` and `pending`. For people only.
    pub told: Nonce,
}

impl AccountCounts {
    /// Counts that more than one endpoint confirms.
    pub fn confirmed(mined: Nonce, pending: Nonce) -> Self {
        let sure = mined.max(pending);
        Self { mined, pending, sure, highest: mined, told: sure }
    }

    /// The mined count as far as more than one endpoint confirms it, for people (I16). `None` if
    /// nothing was confirmed yet.
    pub fn confirmed_mined(&self) -> Option<Nonce> {
        let is_known = self.sure > Nonce::MIN || self.mined == Nonce::MIN;
        is_known.then(|| self.mined.min(self.sure))
    }
}

/// An account's count in a past block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PastCount {
    /// What two endpoints confirm, where there are several.
    pub count: Nonce,
    /// The highest count that any endpoint tells, on its word alone; never below `count`.
    pub highest: Nonce,
}

impl PastCount {
    /// A count that nobody contradicts.
    pub const fn undisputed(count: Nonce) -> Self {
        Self { count, highest: count }
    }
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

/// A node's answer to a send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendAnswer {
    /// What it means.
    pub class: AnswerClass,
    /// What it said, for people.
    pub said: String,
}

/// How fast a transaction should be mined; a price level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Speed {
    /// Whenever it is cheap.
    Slow,
    /// Within a few blocks.
    #[default]
    Normal,
    /// In the next block.
    Fast,
}

/// What a transaction has to pay now. A chain without a base fee quotes a legacy gas price.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeeQuote {
    /// The base fee of the next block, where the chain has one.
    pub base_fee: Option<GasPrice>,
    /// `maxFeePerGas`, or the legacy gas price.
    pub max_fee: GasPrice,
    /// `maxPriorityFeePerGas`; `None` on a chain without a base fee.
    pub max_priority_fee: Option<GasPrice>,
}

impl FeeQuote {
    /// The same quote with nothing above a price.
    #[must_use]
    pub fn limited_to(self, most: GasPrice) -> Self {
        Self {
            max_fee: self.max_fee.min(most),
            max_priority_fee: self.max_priority_fee.map(|tip| tip.min(most)),
            ..self
        }
    }

    /// The same quote with at least this as the price; the tip stays.
    #[must_use]
    pub fn raised_to(self, least: GasPrice) -> Self {
        Self { max_fee: self.max_fee.max(least), ..self }
    }
}

/// A call to be tried without sending it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Who calls.
    pub from: Address,
    /// What is called; `None` creates a contract.
    pub to: Option<Address>,
    /// What is paid.
    pub value: Wei,
    /// What is said.
    pub data: Bytes,
}

/// How a tried call went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trial {
    /// It would use this much gas.
    Gas(u64),
    /// It would revert, with this reason.
    Reverts(Text<2000>),
    /// A node would not take it.
    Refused(SendAnswer),
}

/// What the newest blocks allow, as far as it is known without asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChainLimits {
    /// The gas of a block, by the endpoint that says most; `None` if nobody has said.
    pub block_gas: Option<u64>,
    /// Call data has a floor price (EIP-7623), as every endpoint's head shows.
    pub has_calldata_floor: bool,
}

/// One endpoint's word on what an account has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Funds {
    /// Its balance in the head.
    pub balance: Wei,
    /// Its count in the head, read after the balance: what is below it is off the balance, or more.
    pub mined: Nonce,
}

/// Where a transaction was seen by its hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sighting {
    /// A node holds it.
    Pending,
    /// It is in this block.
    InBlock {
        /// The block's number.
        number: u64,
        /// The block's hash.
        hash: B256,
    },
}

/// A transaction that was seen in an account's slot, in a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Occupant {
    /// The slot.
    pub nonce: Nonce,
    /// The transaction.
    pub tx_hash: TxHash,
    /// The block's number.
    pub block_number: u64,
    /// The block's hash.
    pub block_hash: B256,
}

/// What the search for the transactions in used slots has brought. A slot that nobody showed says
/// nothing: absence is never evidence (I8).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OccupantSearch {
    /// What was seen, at most one for each slot.
    pub seen: Vec<Occupant>,
    /// Why the others were not seen, for people; `None` if all were.
    pub problem: Option<String>,
}

/// What the endpoints say about the receipts of a slot's attempts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlotSearch {
    /// For each attempt, in the order asked, the word of each endpoint: what
    /// [`crate::reconcile::judge_search`] judges.
    pub looked: Vec<Vec<Looked>>,
    /// The receipt of the attempt that was found, if one was.
    pub found: Option<MinedIn>,
}

/// What the endpoints delivered of the receipts of one block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockReceipts {
    /// The receipts that could be read, each of the very block that was asked for.
    pub found: Vec<MinedIn>,
    /// Why the others could not be read now, for people. A receipt that is missing here is to be
    /// asked for again; that it is missing is never evidence of anything (I8).
    pub problem: Option<String>,
}

impl BlockReceipts {
    /// Nothing could be read.
    pub fn unreadable(problem: String) -> Self {
        Self { found: Vec::new(), problem: Some(problem) }
    }
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

    /// Waits until the head is another one than `known`, however it is learnt, and returns it. A
    /// head that was replaced by one of the same or a lower number is another one.
    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable>;

    /// A block, or `None` if the chain has none there (yet).
    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable>;

    /// Receipts of these transactions in this very block, without reasons for reverts unless the
    /// node gives them by itself. There is no error: each receipt is found or missing by itself.
    async fn receipts(&self, block: &BlockRef, of: &[TxHash]) -> BlockReceipts;

    /// Why a mined transaction failed, as far as a replay can tell: for people, never evidence.
    async fn revert_reason(&self, _of: &MinedIn) -> Option<Text<2000>> {
        None
    }

    /// The receipt of one transaction wherever it is. `None` is an answer, not an error.
    async fn receipt(&self, of: TxHash) -> Result<Option<MinedIn>, ChainUnavailable>;

    /// Where any endpoint has seen a transaction. `None`: none of those that answered knows it,
    /// which proves nothing.
    async fn sighting(&self, of: TxHash) -> Result<Option<Sighting>, ChainUnavailable>;

    /// An account's counts.
    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable>;

    /// An account's count in the canonical block with this number.
    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable>;

    /// Looks for the receipts of all attempts in an account's slot at *every* endpoint that is read
    /// from, those included that are not preferred now. An endpoint's "there is none" counts only
    /// if its own count is past the slot.
    async fn search(&self, of: Address, nonce: Nonce, attempts: &[TxHash]) -> SlotSearch;

    /// What each endpoint that is read from has of an account in its pool, and whether it knows any
    /// of these attempts by hash; one entry each, those that could not tell included.
    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointWord>;

    /// Looks for the transactions that used an account's slots, by its count in past blocks as far
    /// back as there are blocks. Where an endpoint has no old states, `lookback` whole blocks are
    /// read instead, and the next call goes on below them.
    async fn occupants(&self, of: Address, slots: &[Nonce], lookback: u64) -> OccupantSearch;

    /// An account's balance in the head.
    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable>;

    /// What up-to-date endpoints say an account has; at least one word.
    async fn funds(&self, of: Address) -> Result<Vec<Funds>, ChainUnavailable> {
        let balance = self.balance(of).await?;
        Ok(vec![Funds { balance, mined: self.counts(of).await?.mined }])
    }

    /// What the newest blocks allow. Never asks.
    fn limits(&self) -> ChainLimits {
        ChainLimits::default()
    }

    /// What a transaction has to pay now.
    async fn fee_quote(&self, speed: Speed) -> Result<FeeQuote, ChainUnavailable>;

    /// Tries a call on the head.
    async fn try_call(&self, call: &Call) -> Result<Trial, ChainUnavailable>;

    /// Hands signed bytes to a node. There is no error: what is not clear is
    /// [`AnswerClass::Unknown`], and it is [`AnswerClass::Invalid`] and the like only if every
    /// endpoint that was asked says so.
    async fn send(&self, raw: &Bytes) -> SendAnswer;

    /// Hands several over in this order: none reaches a node before those ahead of it were handed
    /// over. Stops at the first one whose answer calls for the same bytes again
    /// ([`AnswerAction::ResendSame`](crate::answer::AnswerAction::ResendSame)): there are no answers
    /// for what is behind it, and nothing is known of it.
    async fn send_in_order(&self, raws: &[Bytes]) -> Vec<SendAnswer> {
        let mut answers = Vec::with_capacity(raws.len());
        for raw in raws {
            let answer = self.send(raw).await;
            let unclear = action_for(answer.class) == AnswerAction::ResendSame;
            answers.push(answer);
            if unclear {
                break;
            }
        }
        answers
    }
}
