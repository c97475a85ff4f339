//! Who signs.

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::batch::Fees;
use crate::amount::Wei;
use crate::ids::{ChainId, Nonce, TxHash};

/// The form in which a transaction is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TxKind {
    /// Before EIP-2718, with replay protection (EIP-155).
    Legacy,
    /// EIP-2930.
    AccessList,
    /// EIP-1559.
    DynamicFee,
}

/// Storage that a transaction says it will touch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessListEntry {
    /// Of this contract.
    pub address: Address,
    /// At these places.
    pub storage_keys: Vec<B256>,
}

/// A transaction, complete but for its signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxDraft {
    /// The chain that it is for.
    pub chain_id: ChainId,
    /// Whose it is.
    pub from: Address,
    /// Its slot.
    pub nonce: Nonce,
    /// What is called; `None` creates a contract.
    pub to: Option<Address>,
    /// What is paid.
    pub value: Wei,
    /// What is said.
    pub data: Bytes,
    /// Storage that it says it will touch; empty for [`TxKind::Legacy`].
    pub access_list: Vec<AccessListEntry>,
    /// What it pays. [`TxKind::DynamicFee`] needs a priority fee, the others have none.
    pub fees: Fees,
    /// How it is encoded.
    pub kind: TxKind,
}

/// A transaction that can be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedTx {
    /// Its hash.
    pub tx_hash: TxHash,
    /// The bytes to send (EIP-2718).
    pub raw: Bytes,
}

/// A transaction that somebody else has signed, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreSigned {
    /// Its hash.
    pub tx_hash: TxHash,
    /// The bytes to send (EIP-2718).
    pub raw: Bytes,
    /// What was signed, and by whom.
    pub draft: TxDraft,
}

/// Why there is no signature. Never holds key material.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignError {
    /// The signer has no key for this account.
    #[error("no key for {0}")]
    NoKey(Address),
    /// The draft contradicts itself.
    #[error("can't be signed: {0}")]
    Invalid(String),
    /// The signing service did not answer; try again later.
    #[error("signer unavailable: {0}")]
    Unavailable(String),
    /// The signing service refused.
    #[error("signer refused: {0}")]
    Refused(String),
}

/// Signs for the accounts that it has keys of.
#[async_trait]
pub trait Signer: Send + Sync {
    /// The accounts that it signs for.
    fn accounts(&self) -> Vec<Address>;

    /// Whether it signs for an account.
    fn signs_for(&self, account: Address) -> bool {
        self.accounts().contains(&account)
    }

    /// Reads back what was signed, by whomever.
    ///
    /// # Errors
    /// The bytes are not a transaction for this chain.
    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError>;

    /// Signs drafts, with an answer for each, in order. How much of it runs side by side is the
    /// signer's business.
    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>>;
}
