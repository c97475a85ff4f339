//! Signs with the development keys, on the caller's thread.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use alloy_consensus::{Transaction, TxEip1559, TxLegacy, TypedTransaction};
use alloy_primitives::TxKind as Callee;
use async_trait::async_trait;
use tollgate_devchain::chain::Tx;
use tollgate_devchain::{dev_account, sign};
use tollgate_model::port::Fees;
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft, TxKind};
use tollgate_model::{Address, Bytes, ChainId, GasPrice, Nonce, Wei, keccak256};

use crate::chain::accounts;
use crate::planted::Bug;
use crate::world::World;

/// The keys. What was signed once is remembered.
pub(crate) struct Keys {
    /// The account whose key is not there.
    missing: Option<Address>,
    /// Says that it has all keys nevertheless: a planted bug.
    pretends: bool,
    read: Mutex<HashMap<Bytes, TxDraft>>,
}

impl Keys {
    /// The keys of the node in this seat: it may lack one.
    pub(crate) fn of_node(world: &World, index: usize) -> Self {
        let lacks = world.plan.keys_missing && world.plan.nodes > 1;
        let missing = accounts().get(index).filter(|_| lacks).map(|account| account.address);
        let pretends = world.has(Bug::KeysPretended);
        Self { missing, pretends, read: Mutex::default() }
    }

    fn has(&self, address: Address) -> bool {
        self.missing != Some(address)
    }
}

fn typed(draft: &TxDraft) -> Result<TypedTransaction, SignError> {
    let TxDraft { chain_id, nonce, to, value, data, fees, kind, .. } = draft.clone();
    let to = to.map_or(Callee::Create, Callee::Call);
    match (kind, fees.max_priority_fee) {
        (TxKind::DynamicFee, Some(tip)) => Ok(TxEip1559 {
            chain_id: chain_id.get(),
            nonce: nonce.get(),
            gas_limit: fees.gas_limit,
            max_fee_per_gas: fees.max_fee.wei(),
            max_priority_fee_per_gas: tip.wei(),
            to,
            value: value.0,
            input: data,
            ..TxEip1559::default()
        }
        .into()),
        (TxKind::Legacy, None) => Ok(TxLegacy {
            chain_id: Some(chain_id.get()),
            nonce: nonce.get(),
            gas_limit: fees.gas_limit,
            gas_price: fees.max_fee.wei(),
            to,
            value: value.0,
            input: data,
        }
        .into()),
        (TxKind::DynamicFee | TxKind::Legacy | TxKind::AccessList, _) => {
            Err(SignError::Invalid("kind and fees".to_owned()))
        }
    }
}

fn draft_of(tx: &Tx) -> Result<TxDraft, SignError> {
    let invalid = |error: tollgate_model::ids::InvalidValue| SignError::Invalid(error.to_string());
    let envelope = &tx.envelope;
    let tip = envelope.max_priority_fee_per_gas();
    Ok(TxDraft {
        chain_id: ChainId::new(envelope.chain_id().unwrap_or_default()).map_err(invalid)?,
        from: tx.sender,
        nonce: Nonce::new(envelope.nonce()).map_err(invalid)?,
        to: envelope.to(),
        value: Wei(envelope.value()),
        data: envelope.input().clone(),
        access_list: Vec::new(),
        fees: Fees {
            gas_limit: envelope.gas_limit(),
            max_fee: GasPrice::from_wei(envelope.max_fee_per_gas()).map_err(invalid)?,
            max_priority_fee: tip.map(GasPrice::from_wei).transpose().map_err(invalid)?,
        },
        kind: if tip.is_some() { TxKind::DynamicFee } else { TxKind::Legacy },
    })
}

#[async_trait]
impl Signer for Keys {
    fn accounts(&self) -> Vec<Address> {
        let all = accounts().into_iter().map(|account| account.address);
        all.filter(|address| self.pretends || self.has(*address)).collect()
    }

    fn read(&self, _chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        let known = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(raw).cloned();
        if let Some(draft) = known {
            return Ok(draft);
        }
        let tx = Tx::decode(raw.clone()).map_err(|error| SignError::Invalid(error.to_string()))?;
        draft_of(&tx)
    }

    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>> {
        let sign = |draft: TxDraft| {
            let account = dev_account(draft.from).filter(|_| self.has(draft.from));
            let account = account.ok_or(SignError::NoKey(draft.from))?;
            let raw = sign::sign(typed(&draft)?, &account.private_key)
                .map_err(|error| SignError::Invalid(error.to_string()))?;
            let tx_hash = keccak256(&raw);
            self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(raw.clone(), draft);
            Ok(SignedTx { tx_hash, raw })
        };
        drafts.into_iter().map(sign).collect()
    }
}
