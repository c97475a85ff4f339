//! Encodes and signs a draft.
//!
//! Owns no key. Never repairs a draft: an inconsistent one is refused, because its author has made a
//! mistake that a repair would hide.

use alloy_consensus::transaction::RlpEcdsaEncodableTx;
use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702::{Authorization as Unsigned, SignedAuthorization};
use alloy_primitives::{Signature, U256, keccak256};
use tollgate_model::authorization::{Authorization, AuthorizationSignature};
use tollgate_model::port::signer::{SignError, SignedTx, TxDraft, TxKind};

use crate::key::Key;

const UNSIGNED: &str = "an authorization is not signed";

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
        TxKind::SetCode => encode(
            key,
            &TxEip7702 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas: price,
                max_priority_fee_per_gas: draft.fees.max_priority_fee.unwrap_or_default().wei(),
                to: draft.to.unwrap_or_default(),
                value,
                access_list: access_list(draft),
                authorization_list: draft
                    .authorizations
                    .iter()
                    .map(signed_authorization)
                    .collect::<Option<_>>()
                    .ok_or_else(|| SignError::Invalid(UNSIGNED.to_owned()))?,
                input,
            },
        ),
    })
}

/// Signs an authorization with the key of its authority.
pub(crate) fn authorize(key: &Key, item: &Authorization) -> AuthorizationSignature {
    let signature = key.sign(item.hash());
    AuthorizationSignature { y_parity: signature.v(), r: signature.r(), s: signature.s() }
}

fn signed_authorization(item: &Authorization) -> Option<SignedAuthorization> {
    let AuthorizationSignature { y_parity, r, s } = item.signature?;
    let chain_id = U256::from(item.chain_id);
    let unsigned = Unsigned { chain_id, address: item.address, nonce: item.nonce };
    Some(SignedAuthorization::new_unchecked(unsigned, y_parity.into(), r, s))
}

fn check(draft: &TxDraft) -> Result<(), &'static str> {
    if (draft.kind == TxKind::SetCode) == draft.authorizations.is_empty() {
        return Err("an EIP-7702 transaction has authorizations, and no other has");
    }
    match (draft.kind, draft.fees.max_priority_fee) {
        (TxKind::SetCode, _) if draft.to.is_none() => {
            Err("an EIP-7702 transaction can't create a contract: it needs a recipient")
        }
        (TxKind::DynamicFee | TxKind::SetCode, None) => {
            Err("an EIP-1559 or EIP-7702 transaction needs a priority fee")
        }
        (TxKind::DynamicFee | TxKind::SetCode, Some(tip)) if tip > draft.fees.max_fee => {
            Err("the priority fee is above the max fee")
        }
        (TxKind::DynamicFee | TxKind::SetCode, Some(_)) => Ok(()),
        (TxKind::Legacy | TxKind::AccessList, Some(_)) => {
            Err("only an EIP-1559 or EIP-7702 transaction has a priority fee")
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
