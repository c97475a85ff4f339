//! Signs transactions with development keys, for foreign transactions and for tests.
//!
//! Deterministic (RFC 6979). Keeps no key and zeroises none: these keys are public.

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope, TxLegacy, TypedTransaction};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use secp256k1::{Message, SECP256K1, SecretKey};
use thiserror::Error;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not a private key of secp256k1")]
pub struct BadKey;

/// Signs a transaction: the EIP-2718 bytes as a node takes them.
pub fn sign(tx: impl Into<TypedTransaction>, key: &B256) -> Result<Bytes, BadKey> {
    let tx = tx.into();
    let key = SecretKey::from_byte_array(key.0).map_err(|_| BadKey)?;
    let message = Message::from_digest(tx.signature_hash().0);
    let signature: Signature = SECP256K1.sign_ecdsa_recoverable(message, &key).into();
    let envelope: TxEnvelope = tx.into_signed(signature).into();
    Ok(envelope.encoded_2718().into())
}

pub fn address_of(key: &B256) -> Result<Address, BadKey> {
    let key = SecretKey::from_byte_array(key.0).map_err(|_| BadKey)?;
    Ok(Address::from_raw_public_key(&key.public_key(SECP256K1).serialize_uncompressed()[1..]))
}

/// A transfer with the fees of a chain: type 2 where there is a base fee, legacy elsewhere.
pub fn transfer(
    chain_id: u64,
    nonce: u64,
    (to, value): (Address, U256),
    next_base_fee: Option<u64>,
    tip_wei: u128,
) -> TypedTransaction {
    let gas_limit = crate::chain::gas::TRANSFER_GAS;
    match next_base_fee {
        Some(base_fee) => TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: u128::from(base_fee) * 2 + tip_wei,
            max_priority_fee_per_gas: tip_wei,
            to: TxKind::Call(to),
            value,
            ..TxEip1559::default()
        }
        .into(),
        None => TxLegacy {
            chain_id: Some(chain_id),
            nonce,
            gas_limit,
            gas_price: tip_wei,
            to: TxKind::Call(to),
            value,
            ..TxLegacy::default()
        }
        .into(),
    }
}
