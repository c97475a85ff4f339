//! A signed transaction: decoded once, its sender recovered once. Knows no chain.

use std::sync::Arc;

use alloy_consensus::{Transaction, TxEnvelope};
use alloy_eips::eip2718::Decodable2718;
use alloy_eips::eip7702::SignedAuthorization;
use alloy_primitives::{Address, B256, Bytes, U256};

use super::rejection::Rejection;

/// A transaction as it came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tx {
    pub hash: B256,
    pub sender: Address,
    pub envelope: TxEnvelope,
    /// The signers of its authorizations (EIP-7702); `None` where the signature is not valid.
    pub authorities: Vec<Option<Address>>,
    /// The bytes as sent.
    pub raw: Bytes,
}

impl Tx {
    /// Decodes EIP-2718 bytes and recovers the sender: the costly part of a send, so callers do it
    /// before they take any lock.
    pub fn decode(raw: Bytes) -> Result<Arc<Self>, Rejection> {
        let first = *raw.first().ok_or(Rejection::Undecodable)?;
        // 0xc0 and above starts an RLP list: a legacy transaction.
        if first < 0xc0 && !matches!(first, 1 | 2 | 4) {
            let is_type = first <= 0x7f;
            return Err(if is_type {
                Rejection::TypeNotSupported(first)
            } else {
                Rejection::Undecodable
            });
        }
        let envelope = TxEnvelope::decode_2718_exact(&raw).map_err(|_| Rejection::Undecodable)?;
        let signature = envelope.signature();
        // EIP-2: the upper half of s is malleable, and refused.
        if signature.normalize_s().is_some() {
            return Err(Rejection::BadSignature);
        }
        let sender = signature
            .recover_address_from_prehash(&envelope.signature_hash())
            .map_err(|_| Rejection::BadSignature)?;
        let authorities = envelope.authorization_list().unwrap_or_default();
        let authorities: Vec<_> = authorities.iter().map(authority_of).collect();
        if envelope.is_eip7702() && authorities.is_empty() {
            return Err(Rejection::Undecodable);
        }
        Ok(Arc::new(Self { hash: *envelope.tx_hash(), sender, envelope, authorities, raw }))
    }

    pub fn nonce(&self) -> u64 {
        self.envelope.nonce()
    }

    pub fn gas_limit(&self) -> u64 {
        self.envelope.gas_limit()
    }

    /// The most it pays per gas: the fee cap, or the gas price.
    pub fn fee_cap(&self) -> u128 {
        self.envelope.max_fee_per_gas()
    }

    /// The most it tips per gas: the priority fee, or the gas price.
    pub fn tip_cap(&self) -> u128 {
        self.envelope.priority_fee_or_price()
    }

    /// The producer's tip per gas at this base fee; `None` if it can't be mined at it.
    pub fn tip_at(&self, base_fee: Option<u64>) -> Option<u128> {
        let left = self.fee_cap().checked_sub(u128::from(base_fee.unwrap_or(0)))?;
        Some(left.min(self.tip_cap()))
    }

    /// The effective gas price at this base fee.
    pub fn price_at(&self, base_fee: Option<u64>) -> u128 {
        self.envelope.effective_gas_price(base_fee)
    }

    /// gas limit × fee cap.
    pub fn max_fee(&self) -> U256 {
        U256::from(self.gas_limit()).saturating_mul(U256::from(self.fee_cap()))
    }

    /// The most it can cost its sender: gas limit × fee cap + value.
    pub fn cost(&self) -> U256 {
        self.max_fee().saturating_add(self.envelope.value())
    }
}

fn authority_of(item: &SignedAuthorization) -> Option<Address> {
    let signature = item.signature().ok().filter(|it| it.normalize_s().is_none())?;
    signature.recover_address_from_prehash(&item.signature_hash()).ok()
}
