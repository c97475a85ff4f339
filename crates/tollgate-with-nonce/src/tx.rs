//! What a caller wants to send.

use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{AccessListEntry, TxDraft, TxKind};
use tollgate_model::refusal::TX_GAS;
use tollgate_model::{Address, Bytes, GasPrice, U256, Wei};

use crate::reservation::Reservation;

/// A transaction without chain, account and nonce: the slot has those.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tx {
    /// What is called; `None` creates a contract.
    pub to: Option<Address>,
    /// What is paid.
    pub value: Wei,
    /// What is said.
    pub data: Bytes,
    /// Storage that it says it will touch.
    pub access_list: Vec<AccessListEntry>,
    /// What it pays.
    pub fees: Fees,
    /// How it is encoded.
    pub kind: TxKind,
}

impl Tx {
    /// Pays somebody (EIP-1559).
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
        TxDraft { chain_id, from, nonce, to, value, data, access_list, fees, kind }
    }
}
