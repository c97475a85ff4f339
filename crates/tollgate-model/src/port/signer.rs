//! Signing.

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::batch::Fees;
use crate::amount::Wei;
use crate::authorization::{Authorization, AuthorizationSignature};
use crate::ids::{ChainId, Nonce, TxHash};

/// The encoding of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TxKind {
    /// Pre-EIP-2718, with replay protection (EIP-155).
    Legacy,
    /// EIP-2930.
    AccessList,
    /// EIP-1559.
    DynamicFee,
    /// EIP-7702, with the fees of EIP-1559.
    SetCode,
}

impl TxKind {
    /// Returns whether this kind has a priority fee (EIP-1559).
    pub const fn has_tip(self) -> bool {
        match self {
            Self::DynamicFee | Self::SetCode => true,
            Self::Legacy | Self::AccessList => false,
        }
    }
}

/// One entry of an access list.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccessListEntry {
    pub address: Address,
    pub storage_keys: Vec<B256>,
}

/// A transaction, complete but for its signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxDraft {
    pub chain_id: ChainId,
    pub from: Address,
    pub nonce: Nonce,
    /// The called contract or recipient; `None` creates a contract.
    pub to: Option<Address>,
    pub value: Wei,
    pub data: Bytes,
    /// The access list; empty for [`TxKind::Legacy`].
    pub access_list: Vec<AccessListEntry>,
    /// The signed authorizations; only [`TxKind::SetCode`] has any.
    pub authorizations: Vec<Authorization>,
    /// The fees. [`TxKind::DynamicFee`] and [`TxKind::SetCode`] need a priority fee, the others have none.
    pub fees: Fees,
    pub kind: TxKind,
}

/// A signed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedTx {
    pub tx_hash: TxHash,
    /// The encoded bytes (EIP-2718).
    pub raw: Bytes,
}

/// A transaction that the caller signed, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreSigned {
    pub tx_hash: TxHash,
    /// The encoded bytes (EIP-2718).
    pub raw: Bytes,
    /// The decoded transaction and its recovered sender.
    pub draft: TxDraft,
}

/// The reason why signing failed. Never holds key material.
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
    #[error("signer refused: {0}")]
    Refused(String),
}

/// Signs for the accounts whose keys it has.
#[async_trait]
pub trait Signer: Send + Sync {
    /// The accounts of the node's settings. Keys that are opened later belong to accounts of single chains.
    fn accounts(&self) -> Vec<Address>;

    /// Returns whether it has the key of an account.
    fn signs_for(&self, account: Address) -> bool {
        self.accounts().contains(&account)
    }

    /// Decodes a signed transaction and recovers its sender.
    ///
    /// # Errors
    /// The bytes are not a transaction for this chain.
    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError>;

    /// Signs drafts and returns a result for each, in order. The signer decides how many it signs
    /// concurrently.
    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>>;

    /// Signs an authorization with the key of its authority.
    async fn authorize(&self, item: &Authorization) -> Result<AuthorizationSignature, SignError> {
        let _ = item;
        Err(SignError::Invalid("this signer signs no authorizations".to_owned()))
    }
}
