//! Encodes and signs a draft.
//!
//! Owns no key. Never repairs a draft: an inconsistent one is refused, because its author has made a
//! mistake that a repair would hide.

use alloy_consensus::transaction::RlpEcdsaEncodableTx;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxLegacy};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Signature, keccak256};
use tollgate_model::port::signer::{SignError, SignedTx, TxDraft, TxKind};

use crate::key::Key;

/// Signs a draft with the key of its account.
pub(crate) fn sign(key: &Key, draft: &TxDraft) -> Result<SignedTx, SignError> {
    check(draft).map_err(|why| SignError::Invalid(why.to_owned()))?;
    let (chain_id, nonce) = (draft.chain_id.get(), draft.nonce.get());
    let gas_limit = draft.fees.gas_limit;
    let price = draft.fees.max_fee.wei();
    let (to, value, input) = (draft.to.into(), draft.value.0, draft.data.clone());
    Ok(match draft.kind {
        TxKind::Legacy => encode(
            key,
            &TxLegacy {
                chain_id: Some(chain_id), // EIP-155
                nonce,
                gas_price: price,
                gas_limit,
                to,
                value,
                input,
            },
        ),
        TxKind::AccessList => encode(
            key,
            &TxEip2930 {
                chain_id,
                nonce,
                gas_price: price,
                gas_limit,
                to,
                value,
                access_list: access_list(draft),
                input,
            },
        ),
        TxKind::DynamicFee => encode(
            key,
            &TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: price,
                max_priority_fee_per_gas: draft.fees.max_priority_fee.unwrap_or_default().wei(),
                to,
                value,
                access_list: access_list(draft),
                input,
            },
        ),
    })
}

fn check(draft: &TxDraft) -> Result<(), &'static str> {
    match (draft.kind, draft.fees.max_priority_fee) {
        (TxKind::DynamicFee, None) => Err("an EIP-1559 transaction needs a priority fee"),
        (TxKind::DynamicFee, Some(tip)) if tip > draft.fees.max_fee => {
            Err("the priority fee is above the max fee")
        }
        (TxKind::DynamicFee, Some(_)) => Ok(()),
        (TxKind::Legacy | TxKind::AccessList, Some(_)) => {
            Err("only an EIP-1559 transaction has a priority fee")
        }
        (TxKind::Legacy, None) if !draft.access_list.is_empty() => {
            Err("a legacy transaction has no access list")
        }
        (TxKind::Legacy | TxKind::AccessList, None) => Ok(()),
    }
}

fn access_list(draft: &TxDraft) -> AccessList {
    let items = draft.access_list.iter().map(|entry| AccessListItem {
        address: entry.address,
        storage_keys: entry.storage_keys.clone(),
    });
    AccessList(items.collect())
}

fn encode<T>(key: &Key, tx: &T) -> SignedTx
where
    T: SignableTransaction<Signature> + RlpEcdsaEncodableTx,
{
    let signature = key.sign(tx.signature_hash());
    let mut raw = Vec::with_capacity(tx.eip2718_encoded_length(&signature));
    tx.eip2718_encode(&signature, &mut raw);
    SignedTx { tx_hash: keccak256(&raw), raw: raw.into() }
}
