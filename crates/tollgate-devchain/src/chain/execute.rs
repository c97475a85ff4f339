//! Runs one transaction against the accounts. No EVM: see [`super::behaviour`].

use std::collections::BTreeMap;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U256};

use super::behaviour::Behaviour;
use super::block::{PRODUCER, Receipt};
use super::gas;
use super::state::{Account, Accounts};
use super::tx::Tx;

/// The reason why a transaction can't be in this block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Skip {
    /// Its nonce is not the account's.
    Nonce,
    /// The max fee is below the base fee.
    Fee,
    /// Its gas does not fit into what is left.
    Gas,
    /// Its sender can't pay.
    Funds,
}

/// The block context of a transaction.
pub(super) struct Place<'a> {
    pub accounts: &'a mut Accounts,
    pub behaviours: &'a BTreeMap<Address, Behaviour>,
    pub number: u64,
    pub base_fee: Option<u64>,
    pub gas_left: u64,
    pub cumulative_gas_used: u64,
}

impl Place<'_> {
    /// Runs it and changes the accounts, or changes nothing.
    pub(super) fn run(&mut self, tx: &Tx) -> Result<Receipt, Skip> {
        let sender = self.accounts.now(tx.sender);
        if sender.nonce != tx.nonce() {
            return Err(Skip::Nonce);
        }
        let tip = tx.tip_at(self.base_fee).ok_or(Skip::Fee)?;
        if tx.gas_limit() > self.gas_left {
            return Err(Skip::Gas);
        }
        if tx.cost() > sender.balance {
            return Err(Skip::Funds);
        }
        let behaviour = tx.envelope.to().and_then(|to| self.behaviours.get(&to));
        let floor = self.base_fee.map_or(0, |_| gas::floor(tx.envelope.input()));
        let intrinsic = gas::intrinsic_of(tx).max(floor);
        let outcome = behaviour.unwrap_or(&Behaviour::Succeed).run(tx.gas_limit(), intrinsic);
        let gas_used = outcome.gas_used();
        let price = tx.price_at(self.base_fee);
        let fee = U256::from(gas_used) * U256::from(price);
        self.accounts.set(
            self.number,
            tx.sender,
            Account { nonce: sender.nonce + 1, balance: sender.balance - fee, ..sender },
        );
        self.credit(PRODUCER, U256::from(gas_used) * U256::from(tip));
        let contract_address = tx.envelope.is_create().then(|| tx.sender.create(tx.nonce()));
        if outcome.is_success() {
            let to = tx.envelope.to().or(contract_address).unwrap_or(PRODUCER);
            self.transfer(tx.sender, to, tx.envelope.value());
            if contract_address == Some(to) {
                let account = self.accounts.now(to);
                let account = Account { nonce: 1, has_code: true, ..account };
                self.accounts.set(self.number, to, account);
            }
        }
        self.gas_left -= gas_used;
        self.cumulative_gas_used += gas_used;
        Ok(Receipt {
            is_success: outcome.is_success(),
            gas_used,
            cumulative_gas_used: self.cumulative_gas_used,
            effective_gas_price: price,
            contract_address,
        })
    }

    fn transfer(&mut self, from: Address, to: Address, value: U256) {
        if value.is_zero() || from == to {
            return;
        }
        let account = self.accounts.now(from);
        let balance = account.balance - value;
        self.accounts.set(self.number, from, Account { balance, ..account });
        self.credit(to, value);
    }

    fn credit(&mut self, to: Address, value: U256) {
        if value.is_zero() {
            return;
        }
        let account = self.accounts.now(to);
        let balance = account.balance.saturating_add(value);
        self.accounts.set(self.number, to, Account { balance, ..account });
    }
}
