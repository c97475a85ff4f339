//! A transaction without chain, account and nonce.

use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{AccessListEntry, TxDraft, TxKind};
use tollgate_model::refusal::TX_GAS;
use tollgate_model::{Address, Bytes, GasPrice, U256, Wei};

use super::reservation::Reservation;

/// A transaction to sign for a slot, which adds chain, account and nonce.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tx {
    /// The recipient; `None` creates a contract.
    pub to: Option<Address>,
    /// The value.
    pub value: Wei,
    /// The call data.
    pub data: Bytes,
    /// The access list (EIP-2930).
    pub access_list: Vec<AccessListEntry>,
    /// Gas limit and fees.
    pub fees: Fees,
    /// The transaction type.
    pub kind: TxKind,
}

impl Tx {
    /// A plain transfer (EIP-1559).
    pub fn transfer(to: Address, wei: u64, max_fee: GasPrice, tip: GasPrice) -> Self {
        let fees = Fees { gas_limit: TX_GAS, max_fee, max_priority_fee: Some(tip) };
        Self {
            to: Some(to),
            value: Wei(U256::from(wei)),
            data: Bytes::new(),
            access_list: Vec::new(),
            fees,
            kind: TxKind::DynamicFee,
        }
    }

    pub(crate) fn for_slot(self, slot: &Reservation) -> TxDraft {
        let Self { to, value, data, access_list, fees, kind } = self;
        let (chain_id, from, nonce) = (slot.chain_id, slot.submitter, slot.nonce);
        let authorizations = Vec::new();
        TxDraft { chain_id, from, nonce, to, value, data, access_list, authorizations, fees, kind }
    }
}
