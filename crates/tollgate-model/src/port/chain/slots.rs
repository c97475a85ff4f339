//! The results of searches for the transactions in an account's used slots.

use alloy_primitives::B256;

use super::TxReceipt;
use crate::ids::{Nonce, TxHash};
use crate::reconcile::ReceiptLookup;

/// A transaction that was seen in an account's slot, in a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Occupant {
    pub nonce: Nonce,
    pub tx_hash: TxHash,
    pub block_number: u64,
    pub block_hash: B256,
    pub support: OccupantSupport,
}

/// The support of a transaction that was seen in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OccupantSupport {
    /// Two endpoints show it in the same block, or one does and the hash of the block covers it: of a block that
    /// another endpoint has as well, or that no other one has shown for long.
    Corroborated,
    /// One endpoint alone shows it, and nothing proves it: it is the only one, or no other has shown the block for
    /// long.
    Single,
}

/// The result of a search for the transactions in used slots. A slot without a result is
/// undecided: absence is never evidence (I8).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OccupantSearch {
    /// The transactions that were seen, at most one per slot.
    pub seen: Vec<Occupant>,
    /// The reason why other slots were not resolved, for operators; `None` if all were.
    pub problem: Option<String>,
}

/// The endpoints' answers about the receipts of a slot's attempts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlotSearch {
    /// For each attempt, in the order asked, the answer of each endpoint; the input of
    /// [`crate::reconcile::judge_search`].
    pub looked: Vec<Vec<ReceiptLookup>>,
    /// The receipt of the attempt that was found, if one was.
    pub found: Option<TxReceipt>,
}
