//! Decodes a transaction that was signed elsewhere.
//!
//! Owns no state. Never changes the bytes: the draft describes exactly what will be sent.

use alloy_consensus::{SignableTransaction, Signed, Transaction, TxEnvelope};
use alloy_eips::eip2718::Decodable2718;
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{B256, Signature, keccak256};
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};
use thiserror::Error;
use tollgate_model::authorization::{AUTHORIZATIONS_MAX, Authorization, AuthorizationSignature};
use tollgate_model::ids::InvalidValue;
use tollgate_model::port::batch::{BatchLimits, Fees};
use tollgate_model::port::signer::{AccessListEntry, PreSigned, TxDraft, TxKind};
use tollgate_model::{Address, Bytes, ChainId, GasPrice, Nonce, Wei};

use crate::key::address_of;

/// The reason why signed bytes are refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecoverError {
    /// More bytes than a transaction may have.
    #[error("{0} bytes are more than {max}", max = BatchLimits::PAYLOAD_BYTES)]
    TooLarge(usize),
    /// A blob transaction.
    #[error("EIP-4844 (blob) transactions are not supported")]
    Blob,
    /// An authorization that has no effect on any chain: its signature is not valid, or its chain id or nonce is
    /// out of range.
    #[error("authorization {0} is not valid")]
    BadAuthorization(usize),
    /// Too many authorizations, or none.
    #[error("{0} authorizations, must be 1 to {AUTHORIZATIONS_MAX}")]
    AuthorizationCount(usize),
    /// An unknown transaction type.
    #[error("transactions of type {0} are not supported")]
    UnknownType(u8),
    /// Without a chain id it could be replayed on any chain.
    #[error("signed without a chain id (before EIP-155)")]
    NoReplayProtection,
    /// Signed for another chain.
    #[error("signed for chain {found}, not for {expected}")]
    WrongChain {
        /// The chain of the request.
        expected: ChainId,
        /// The chain of the signature.
        found: u64,
    },
    /// A number is larger than the store can hold.
    #[error(transparent)]
    OutOfRange(#[from] InvalidValue),
    /// The priority fee is above the max fee: no node accepts it.
    #[error("the priority fee is above the max fee")]
    TipAboveFee,
    /// No account made this signature, or it is the malleable (high-s) form of one.
    #[error("the signature is not valid")]
    BadSignature,
    /// Not a transaction.
    #[error("not a signed transaction: {0}")]
    Malformed(String),
}

/// Decodes signed bytes (EIP-2718) for a chain and recovers the sender.
///
/// # Errors
/// [`RecoverError`].
pub fn recover(raw: &[u8], chain_id: ChainId) -> Result<PreSigned, RecoverError> {
    if raw.len() > BatchLimits::PAYLOAD_BYTES {
        return Err(RecoverError::TooLarge(raw.len()));
    }
    match raw.first() {
        Some(3) => return Err(RecoverError::Blob),
        // Below 0xc0 is a type, of which 1, 2 and 4 are supported; an RLP list is a legacy transaction.
        Some(kind @ (0 | 5..=0x7f)) => return Err(RecoverError::UnknownType(*kind)),
        _ => {}
    }
    let envelope = TxEnvelope::decode_2718_exact(raw)
        .map_err(|error| RecoverError::Malformed(error.to_string()))?;
    let (kind, from) = match &envelope {
        TxEnvelope::Legacy(tx) => (TxKind::Legacy, signer_of(tx)),
        TxEnvelope::Eip2930(tx) => (TxKind::AccessList, signer_of(tx)),
        TxEnvelope::Eip1559(tx) => (TxKind::DynamicFee, signer_of(tx)),
        TxEnvelope::Eip4844(_) => return Err(RecoverError::Blob),
        TxEnvelope::Eip7702(tx) => (TxKind::SetCode, signer_of(tx)),
    };
    match envelope.chain_id() {
        None => return Err(RecoverError::NoReplayProtection),
        Some(found) if found != chain_id.get() => {
            return Err(RecoverError::WrongChain { expected: chain_id, found });
        }
        Some(_) => {}
    }
    let fees = fees_of(&envelope)?;
    let draft = TxDraft {
        chain_id,
        from: from?,
        nonce: Nonce::new(envelope.nonce())?,
        to: envelope.to(),
        value: Wei(envelope.value()),
        data: envelope.input().clone(),
        access_list: access_list_of(&envelope),
        authorizations: authorizations_of(&envelope)?,
        fees,
        kind,
    };
    Ok(PreSigned { tx_hash: keccak256(raw), raw: Bytes::copy_from_slice(raw), draft })
}

fn fees_of(tx: &TxEnvelope) -> Result<Fees, RecoverError> {
    let max_fee = GasPrice::from_wei(tx.max_fee_per_gas())?;
    let tip = tx.max_priority_fee_per_gas().map(GasPrice::from_wei).transpose()?;
    if tip.is_some_and(|tip| tip > max_fee) {
        return Err(RecoverError::TipAboveFee);
    }
    Ok(Fees { gas_limit: tx.gas_limit(), max_fee, max_priority_fee: tip })
}

fn access_list_of(tx: &TxEnvelope) -> Vec<AccessListEntry> {
    let items = tx.access_list().into_iter().flat_map(|list| list.0.iter());
    items
        .map(|item| AccessListEntry {
            address: item.address,
            storage_keys: item.storage_keys.clone(),
        })
        .collect()
}

fn authorizations_of(tx: &TxEnvelope) -> Result<Vec<Authorization>, RecoverError> {
    let Some(list) = tx.authorization_list() else { return Ok(Vec::new()) };
    if list.is_empty() || list.len() > AUTHORIZATIONS_MAX {
        return Err(RecoverError::AuthorizationCount(list.len()));
    }
    let read = |(place, item): (usize, &SignedAuthorization)| {
        let bad = || RecoverError::BadAuthorization(place);
        let chain_id = u64::try_from(item.chain_id).map_err(|_| bad())?;
        let y_parity = (item.y_parity() <= 1).then_some(item.y_parity() == 1).ok_or_else(bad)?;
        let signature = AuthorizationSignature { y_parity, r: item.r(), s: item.s() };
        let authority = Address::ZERO;
        let (address, nonce) = (item.address, item.nonce);
        let unknown =
            Authorization { chain_id, address, nonce, authority, signature: Some(signature) };
        authorized_by(unknown).ok_or_else(bad)
    };
    list.iter().enumerate().map(read).collect()
}

/// A signed authorization with the account that signed it; `None` if it has no effect on any chain.
pub fn authorized_by(item: Authorization) -> Option<Authorization> {
    let AuthorizationSignature { y_parity, r, s } = item.signature?;
    let signature = Signature::new(r, s, y_parity);
    let authority = signer_of_hash(&signature, item.hash()).ok()?;
    (item.nonce < u64::MAX).then_some(Authorization { authority, ..item })
}

fn signer_of<T: SignableTransaction<Signature>>(tx: &Signed<T>) -> Result<Address, RecoverError> {
    signer_of_hash(tx.signature(), tx.signature_hash())
}

fn signer_of_hash(signature: &Signature, hash: B256) -> Result<Address, RecoverError> {
    // EIP-2: the high-s form is valid arithmetic, but no node accepts it.
    if signature.normalize_s().is_some() {
        return Err(RecoverError::BadSignature);
    }
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&signature.r().to_be_bytes::<32>());
    compact[32..].copy_from_slice(&signature.s().to_be_bytes::<32>());
    let parity = if signature.v() { RecoveryId::One } else { RecoveryId::Zero };
    RecoverableSignature::from_compact(&compact, parity)
        .and_then(|signature| {
            let message = Message::from_digest(hash.0);
            SECP256K1.recover_ecdsa(message, &signature)
        })
        .map(|key| address_of(&key))
        .map_err(|_| RecoverError::BadSignature)
}
