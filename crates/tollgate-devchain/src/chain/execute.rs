//! Runs one transaction against the accounts. There is no EVM: an address has one fixed behaviour.

use std::collections::BTreeMap;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, Bytes, U256};

use super::block::{PRODUCER, Receipt};
use super::gas;
use super::state::{Account, Accounts};
use super::tx::Tx;

/// Gas of a revert beyond the intrinsic gas: some, so that it shows.
const REVERT_GAS: u64 = 500;

/// The behaviour of an address when called.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Behaviour {
    /// Takes the value and succeeds, for the intrinsic gas.
    #[default]
    Succeed,
    /// Reverts with `Error(string)`.
    Revert(String),
    /// Succeeds, but uses this much gas beyond the intrinsic gas.
    Burn(u64),
    /// Uses all the gas it is given, and fails.
    OutOfGas,
}

/// The outcome of a call, with all gas that it used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    Success {
        gas_used: u64,
    },
    Reverted {
        gas_used: u64,
        reason: String,
    },
    /// The gas was not enough; all of it is used.
    OutOfGas {
        gas_used: u64,
    },
}

impl Outcome {
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    pub fn gas_used(&self) -> u64 {
        match self {
            Self::Success { gas_used }
            | Self::Reverted { gas_used, .. }
            | Self::OutOfGas { gas_used } => *gas_used,
        }
    }
}

impl Behaviour {
    /// Runs with this much gas, of which `intrinsic` (the larger of intrinsic and floor) is gone
    /// already.
    pub fn run(&self, gas_limit: u64, intrinsic: u64) -> Outcome {
        let needs = match self {
            Self::Succeed => intrinsic,
            Self::Revert(_) => intrinsic.saturating_add(REVERT_GAS).min(gas_limit),
            Self::Burn(gas) => intrinsic.saturating_add(*gas),
            Self::OutOfGas => u64::MAX,
        };
        match self {
            _ if needs > gas_limit => Outcome::OutOfGas { gas_used: gas_limit },
            Self::Revert(reason) => Outcome::Reverted { gas_used: needs, reason: reason.clone() },
            Self::Succeed | Self::Burn(_) | Self::OutOfGas => Outcome::Success { gas_used: needs },
        }
    }
}

/// `Error(string)` with this text, ABI-encoded.
pub fn encode_revert(reason: &str) -> Bytes {
    const ERROR_SELECTOR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
    let mut data = Vec::with_capacity(4 + 64 + reason.len().next_multiple_of(32));
    data.extend(ERROR_SELECTOR);
    data.extend(U256::from(32).to_be_bytes::<32>());
    data.extend(U256::from(reason.len()).to_be_bytes::<32>());
    data.extend(reason.as_bytes());
    data.resize(4 + 64 + reason.len().next_multiple_of(32), 0);
    data.into()
}

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
    pub chain_id: u64,
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
        let sender = Account { nonce: sender.nonce + 1, ..sender };
        self.accounts.set(self.number, tx.sender, sender);
        self.authorize(tx);
        let called = tx.envelope.to().map(|to| self.accounts.now(to).delegate.unwrap_or(to));
        let behaviour = called.and_then(|to| self.behaviours.get(&to));
        let floor = self.base_fee.map_or(0, |_| gas::floor(tx.envelope.input()));
        let intrinsic = gas::intrinsic_of(tx).max(floor);
        let outcome = behaviour.unwrap_or(&Behaviour::Succeed).run(tx.gas_limit(), intrinsic);
        let gas_used = outcome.gas_used();
        let price = tx.price_at(self.base_fee);
        let fee = U256::from(gas_used) * U256::from(price);
        let sender = self.accounts.now(tx.sender);
        let balance = sender.balance - fee;
        self.accounts.set(self.number, tx.sender, Account { balance, ..sender });
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

    /// Applies the authorizations (EIP-7702). Those that don't fit their authority are skipped; none is undone if the
    /// call fails.
    fn authorize(&mut self, tx: &Tx) {
        let list = tx.envelope.authorization_list().unwrap_or_default();
        for (item, authority) in list.iter().zip(&tx.authorities) {
            let is_here = item.chain_id.is_zero() || item.chain_id == U256::from(self.chain_id);
            let Some(authority) = authority.filter(|_| is_here) else { continue };
            let account = self.accounts.now(authority);
            if account.nonce != item.nonce || item.nonce == u64::MAX || account.has_code {
                continue;
            }
            let delegate = Some(item.address).filter(|address| !address.is_zero());
            let account = Account { nonce: account.nonce + 1, delegate, ..account };
            self.accounts.set(self.number, authority, account);
        }
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
