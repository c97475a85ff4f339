//! One chain as the engine sees it: a canonical view over all configured endpoints.

mod counts;
mod fees;
mod funds;
mod slots;

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use thiserror::Error;

use super::record::TxReceipt;
use crate::amount::Wei;
use crate::ids::{ChainId, Nonce, TxHash};
use crate::text::Text;
use crate::time::Timestamp;

pub use crate::answer::AnswerClass;
use crate::answer::{AnswerAction, action_for};
use crate::diagnose::EndpointReport;
use crate::receipt_support::ReceiptSupport;
use crate::route::Route;
pub use counts::{AccountCounts, CountSupport, PastCount};
pub use fees::{FeeQuote, Speed};
pub use funds::{ChainLimits, Funds, agreed_balance};
pub use slots::{Occupant, OccupantSearch, OccupantSupport, SlotSearch};

/// A block's position in the chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockRef {
    pub number: u64,
    pub hash: B256,
    pub parent: B256,
}

/// A block with the hashes of its transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    pub at: BlockRef,
    /// The transaction hashes, in block order.
    pub transactions: Vec<TxHash>,
    /// The block's time; `None` if the node does not report one that can be read.
    pub time: Option<Timestamp>,
}

/// A block to read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockTag {
    /// The head.
    Latest,
    /// The newest block that is unlikely to be reorganised.
    Safe,
    /// The newest block that can't be reorganised.
    Finalized,
    /// The block with this number.
    Number(u64),
}

/// A node's classified answer to a send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendAnswer {
    pub class: AnswerClass,
    /// The node's text, for operators.
    pub said: String,
}

/// A call to estimate without sending it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub from: Address,
    /// The called contract or recipient; `None` creates a contract.
    pub to: Option<Address>,
    pub value: Wei,
    pub data: Bytes,
}

/// The result of an estimated call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallEstimate {
    /// The call succeeds and uses this much gas.
    Gas(u64),
    /// The call reverts with this reason.
    Reverts(Text<2000>),
    /// A node refuses the call.
    Refused(SendAnswer),
}

/// The place in which a transaction was found by its hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxLocation {
    /// In a node's pool.
    Pending,
    /// In this block.
    InBlock { number: u64, hash: B256 },
}

/// The receipts of one block that the endpoints delivered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlockReceipts {
    /// The receipts that could be read, each from exactly the requested block.
    pub found: Vec<TxReceipt>,
    /// The reason why other receipts could not be read, for operators. Ask again for a missing receipt; its
    /// absence is never evidence (I8).
    pub problem: Option<String>,
}

impl BlockReceipts {
    /// No receipt could be read.
    pub fn unreadable(problem: String) -> Self {
        Self { found: Vec::new(), problem: Some(problem) }
    }
}

/// A log entry of a mined transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// The contract that wrote the entry.
    pub address: Address,
    /// Up to four indexed words.
    pub topics: Vec<B256>,
    pub data: Bytes,
    /// The position among all log entries of the block; `None` if the node does not report it.
    pub index: Option<u64>,
}

/// The log entries of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Logs {
    pub entries: Vec<LogEntry>,
    /// Two endpoints show exactly these, or the chain has one endpoint only.
    pub is_confirmed: bool,
}

/// No endpoint answered. This is never evidence about a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the chain can't be asked: {0}")]
pub struct ChainUnavailable(pub String);

/// Reads from and sends to one chain.
#[async_trait]
pub trait Chain: Send + Sync {
    fn chain_id(&self) -> ChainId;

    /// Waits until the head differs from `known` and returns the new head. A head that was replaced
    /// by one of the same or a lower number counts as different.
    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable>;

    /// Reads a block; `None` if the chain has no such block (yet).
    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable>;

    /// Reads receipts of these transactions in exactly this block, without revert reasons unless the
    /// node includes them. Each receipt is found or missing by itself, so there is no error.
    async fn receipts(&self, block: &BlockRef, of: &[TxHash]) -> BlockReceipts;

    /// Returns whether several endpoints are configured, so that a receipt is final only with support
    /// ([`Self::receipt_support`]).
    fn has_several_endpoints(&self) -> bool {
        false
    }

    /// Asks the endpoints about receipts, all of one block, and has the block prove them where endpoints
    /// contradict each other. There is one result per receipt, in their order.
    async fn receipt_support(&self, receipts: &[TxReceipt]) -> Vec<ReceiptSupport> {
        vec![ReceiptSupport::Confirmed; receipts.len()]
    }

    /// Replays a mined transaction at several endpoints to find out why it failed. Reasons that contradict each
    /// other are all in the text. For people, never evidence.
    async fn revert_reason(&self, _of: &TxReceipt) -> Option<Text<2000>> {
        None
    }

    /// Reads the log entries of a mined transaction, in order. `None` means that no endpoint that answered
    /// has the receipt of that block; endpoints that contradict each other are an error. For callers, never
    /// evidence.
    async fn logs(&self, _of: &TxReceipt) -> Result<Option<Logs>, ChainUnavailable> {
        Ok(None)
    }

    /// Returns whether private transactions can be sent.
    fn has_private_endpoints(&self) -> bool {
        false
    }

    /// Reads the receipt of one transaction in any block from the endpoints of its route. `None` is an
    /// answer, not an error.
    async fn receipt(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxReceipt>, ChainUnavailable>;

    /// Finds a transaction at any endpoint of its route. `None` means that no endpoint that answered
    /// knows it, which proves nothing.
    async fn sighting(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxLocation>, ChainUnavailable>;

    /// Reads an account's nonce counts.
    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable>;

    /// Has a disputed mined count of an account proven or contradicted by blocks, in the background; the
    /// next [`Self::counts`] tell the result. Returns at once. Call it again while the count is disputed.
    fn prove_count(&self, _of: Address, _lookback: u64) {}

    /// Reads an account's nonce count at the canonical block with this number.
    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable>;

    /// Looks for the receipts of all attempts in an account's slot at *every* readable endpoint,
    /// including those that are not preferred now. Only for a slot that the chain has used: then a private
    /// attempt in it is mined, or can't be mined any more, and its hash discloses nothing. An endpoint's "not found" counts only
    /// if its own count is past the slot.
    async fn search(&self, of: Address, nonce: Nonce, attempts: &[TxHash]) -> SlotSearch;

    /// Reads what each readable endpoint has of an account in its pool and whether it knows any of
    /// these attempts by hash. Never for private attempts. There is one entry per endpoint, including those that did not answer.
    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointReport>;

    /// Searches for the transactions that used an account's slots by its count at past blocks, as
    /// far back as there are blocks. Where an endpoint has no old states, `lookback` whole blocks are
    /// read instead, and the next call continues below them.
    async fn occupants(&self, of: Address, slots: &[Nonce], lookback: u64) -> OccupantSearch;

    /// Reads an account's balance at the head, by several endpoints ([`agreed_balance`]).
    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable>;

    /// Reads an account's funds from the up-to-date endpoints. Empty while only one of several endpoints
    /// answers, until it has been the only one for long: a refusal has to be certain.
    async fn funds(&self, of: Address) -> Result<Vec<Funds>, ChainUnavailable> {
        let balance = self.balance(of).await?;
        Ok(vec![Funds { balance, mined: self.counts(of).await?.mined }])
    }

    /// Returns the cached limits of the newest blocks. Never performs I/O.
    fn limits(&self) -> ChainLimits {
        ChainLimits::default()
    }

    /// Quotes the current price.
    async fn fee_quote(&self, speed: Speed) -> Result<FeeQuote, ChainUnavailable>;

    /// Estimates a call on the head, by the endpoints of its route alone.
    async fn estimate_call(
        &self,
        call: &Call,
        route: Route,
    ) -> Result<CallEstimate, ChainUnavailable>;

    /// Sends signed bytes to nodes of a route, and to no other endpoint. There is no error: an unclear result is
    /// [`AnswerClass::Unknown`], and a rejection such as [`AnswerClass::Invalid`] is returned only if every
    /// endpoint that was asked agrees.
    async fn send(&self, raw: &Bytes, route: Route) -> SendAnswer;

    /// Sends several transactions of one route in this order: none reaches a node before those ahead of it were
    /// sent. Stops at the first one whose answer calls for the same bytes again
    /// ([`AnswerAction::ResendSame`](crate::answer::AnswerAction::ResendSame)): there are no answers
    /// for the transactions behind it, and their outcome is unknown.
    async fn send_in_order(&self, raws: &[Bytes], route: Route) -> Vec<SendAnswer> {
        let mut answers = Vec::with_capacity(raws.len());
        for raw in raws {
            let answer = self.send(raw, route).await;
            let unclear = action_for(answer.class) == AnswerAction::ResendSame;
            answers.push(answer);
            if unclear {
                break;
            }
        }
        answers
    }
}
