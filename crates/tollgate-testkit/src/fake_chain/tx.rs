//! Transactions as the fake chain knows them, and the signer that makes them.

use async_trait::async_trait;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft, TxKind};
use tollgate_model::{Address, Bytes, ChainId, GasPrice, Nonce, TxHash, U256, Wei, keccak256};

/// The gas that every mined transaction uses.
pub(super) const GAS_USED: u64 = 21_000;
/// The minimum price bump of a replacement, in percent of price and tip.
const REPLACEMENT_PERCENT: u128 = 10;
/// Sender, nonce, value, gas limit, price, whether there is a tip, tip, whether there is a
/// recipient, recipient. The data follows.
const HEADER: usize = 20 + 8 + 32 + 8 + 8 + 1 + 8 + 1 + 20;

/// A transaction as the fake encodes it: all that makes it differ from others.
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
    /// The fees that it offers.
    pub fees: Fees,
}

impl FakeTx {
    /// The maximum that it may cost.
    pub(super) fn cost(&self) -> U256 {
        let gas = U256::from(self.fees.gas_limit) * U256::from(self.fees.max_fee.wei());
        self.value.saturating_add(gas)
    }

    /// Its cost in a block with this base fee.
    pub(super) fn spent(&self, base_fee: Option<GasPrice>) -> U256 {
        let price = match (base_fee, self.fees.max_priority_fee) {
            (Some(base), Some(tip)) => self.fees.max_fee.wei().min(base.wei() + tip.wei()),
            (None, _) | (_, None) => self.fees.max_fee.wei(),
        };
        self.value.saturating_add(U256::from(GAS_USED) * U256::from(price))
    }

    /// Whether a pool takes it in the place of another one of the same slot.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        let beats = |new: GasPrice, old: GasPrice| {
            new > old && new.wei() * 100 >= old.wei() * (100 + REPLACEMENT_PERCENT)
        };
        beats(self.fees.max_fee, other.fees.max_fee) && beats(self.tip(), other.tip())
    }

    fn tip(&self) -> GasPrice {
        self.fees.max_priority_fee.unwrap_or(self.fees.max_fee)
    }
}

/// The bytes that are sent.
pub fn encode(tx: &FakeTx) -> Bytes {
    let price = |price: GasPrice| u64::from(price).to_be_bytes();
    let mut bytes = tx.from.to_vec();
    bytes.extend(tx.nonce.to_be_bytes());
    bytes.extend(tx.value.to_be_bytes::<32>());
    bytes.extend(tx.fees.gas_limit.to_be_bytes());
    bytes.extend(price(tx.fees.max_fee));
    bytes.push(tx.fees.max_priority_fee.is_some().into());
    bytes.extend(price(tx.fees.max_priority_fee.unwrap_or_default()));
    bytes.push(tx.to.is_some().into());
    bytes.extend(tx.to.unwrap_or_default());
    bytes.extend(&tx.data);
    bytes.into()
}

/// Decodes a transaction; `None` for bytes that [`encode`] did not make.
pub fn decode(raw: &Bytes) -> Option<FakeTx> {
    let (mut header, data) = raw.split_at_checked(HEADER)?;
    let mut take = |length: usize| {
        let (taken, rest) = header.split_at(length);
        header = rest;
        taken
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let from = Address::from_slice(take(20));
    let nonce = number(take(8));
    let value = U256::from_be_slice(take(32));
    let gas_limit = number(take(8));
    let max_fee = GasPrice::try_from(number(take(8))).ok()?;
    let has_tip = take(1) == [1];
    let tip = GasPrice::try_from(number(take(8))).ok()?;
    let has_recipient = take(1) == [1];
    let to = Address::from_slice(take(20));
    let fees = Fees { gas_limit, max_fee, max_priority_fee: has_tip.then_some(tip) };
    let data = Bytes::copy_from_slice(data);
    Some(FakeTx { from, nonce, value, to: has_recipient.then_some(to), data, fees })
}

/// The hash of an encoded transaction.
pub fn hash_of(raw: &Bytes) -> TxHash {
    keccak256(raw)
}

/// Signs for anybody.
pub struct FakeSigner(
    /// The accounts that it has.
    pub Vec<Address>,
);

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
        Ok(TxDraft { chain_id, from, nonce, to, value, data, access_list, fees, kind })
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
