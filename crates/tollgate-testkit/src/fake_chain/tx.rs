//! Transactions of accounts without keys, and the signer that makes them.

use std::sync::Arc;

use alloy_consensus::{
    SignableTransaction, Transaction as _, TxEip1559, TxEnvelope, TxLegacy, TypedTransaction,
};
use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use async_trait::async_trait;
use tollgate_devchain::chain::Tx;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft, TxKind};
use tollgate_model::{Address, Bytes, ChainId, GasPrice, Nonce, TxHash, U256, Wei, keccak256};

/// The id of every fake chain.
pub(super) const CHAIN_ID: u64 = 7;

/// The parts of a transaction that tests look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FakeTx {
    /// The sender.
    pub from: Address,
    pub nonce: u64,
    pub value: U256,
    /// The recipient.
    pub to: Option<Address>,
    /// The call data.
    pub data: Bytes,
    pub fees: Fees,
}

impl FakeTx {
    /// A price of the core is one of the model: both come from [`encode`].
    pub(super) fn of(tx: &Tx) -> Self {
        let price = |wei| GasPrice::from_wei(wei).unwrap();
        let fees = Fees {
            gas_limit: tx.gas_limit(),
            max_fee: price(tx.fee_cap()),
            max_priority_fee: tx.envelope.max_priority_fee_per_gas().map(price),
        };
        Self {
            from: tx.sender,
            nonce: tx.nonce(),
            value: tx.envelope.value(),
            to: tx.envelope.to(),
            data: tx.envelope.input().clone(),
            fees,
        }
    }
}

/// The bytes that are sent: of a legacy transaction, or of an EIP-1559 one if there is a tip. The
/// sender takes the place of the signature's `r`.
pub fn encode(tx: &FakeTx) -> Bytes {
    let FakeTx { from, nonce, value, to, data: input, fees } = tx.clone();
    let (to, gas_limit, price) = (to.into(), fees.gas_limit, fees.max_fee.wei());
    let tx: TypedTransaction = match fees.max_priority_fee {
        Some(tip) => TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit,
            max_fee_per_gas: price,
            max_priority_fee_per_gas: tip.wei(),
            to,
            value,
            input,
            ..TxEip1559::default()
        }
        .into(),
        None => {
            let chain_id = Some(CHAIN_ID);
            TxLegacy { chain_id, nonce, gas_price: price, gas_limit, to, value, input }.into()
        }
    };
    let sender = U256::from_be_slice(from.as_slice());
    let signature = alloy_primitives::Signature::new(sender, U256::ONE, false);
    TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
}

/// The core's form of a transaction; `None` for bytes that [`encode`] did not make.
pub(super) fn decode_tx(raw: &Bytes) -> Option<Arc<Tx>> {
    let envelope = TxEnvelope::decode_2718_exact(raw).ok()?;
    let sender = Address::from_word(envelope.signature().r().into());
    let (hash, authorities, raw) = (*envelope.tx_hash(), Vec::new(), raw.clone());
    Some(Arc::new(Tx { hash, sender, envelope, authorities, raw }))
}

/// Decodes a transaction; `None` for bytes that [`encode`] did not make.
pub fn decode(raw: &Bytes) -> Option<FakeTx> {
    decode_tx(raw).map(|tx| FakeTx::of(&tx))
}

/// The hash of an encoded transaction.
pub fn hash_of(raw: &Bytes) -> TxHash {
    keccak256(raw)
}

/// Signs for these accounts, none of which has a key.
pub struct FakeSigner(pub Vec<Address>);

#[async_trait]
impl Signer for FakeSigner {
    fn accounts(&self) -> Vec<Address> {
        self.0.clone()
    }

    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        let unreadable = || SignError::Invalid("not a transaction of this chain".to_owned());
        let FakeTx { from, nonce, value, to, data, fees } = decode(raw).ok_or_else(unreadable)?;
        let nonce = Nonce::new(nonce).map_err(|error| SignError::Invalid(error.to_string()))?;
        let kind =
            if fees.max_priority_fee.is_some() { TxKind::DynamicFee } else { TxKind::Legacy };
        let (value, access_list) = (Wei(value), Vec::new());
        let authorizations = Vec::new();
        Ok(TxDraft {
            chain_id,
            from,
            nonce,
            to,
            value,
            data,
            access_list,
            authorizations,
            fees,
            kind,
        })
    }

    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>> {
        let sign = |draft: TxDraft| {
            let TxDraft { from, nonce, value, to, data, fees, .. } = draft;
            let raw = encode(&FakeTx { from, nonce: nonce.get(), value: value.0, to, data, fees });
            Ok(SignedTx { tx_hash: hash_of(&raw), raw })
        };
        drafts.into_iter().map(sign).collect()
    }
}
