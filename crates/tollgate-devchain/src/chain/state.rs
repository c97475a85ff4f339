//! Accounts, with their past: what each was after every block that is still kept.
//!
//! Owns balances, nonces and who has code. Never decides whether a change is allowed.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};

/// An account after some block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Account {
    pub nonce: u64,
    pub balance: U256,
    /// A transaction created it.
    pub has_code: bool,
    /// The contract whose code it runs (EIP-7702).
    pub delegate: Option<Address>,
}

/// An account from a block on, until the next entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    from_block: u64,
    account: Account,
}

/// Somebody set a balance by hand: it outlives a reorg, as no block made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Edit {
    at_block: u64,
    address: Address,
    balance: U256,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Accounts {
    versions: BTreeMap<Address, Vec<Version>>,
    edits: Vec<Edit>,
    /// Blocks before this one can't be asked for.
    oldest_block: u64,
    /// An account that no block and nobody has changed.
    untouched: Account,
}

impl Accounts {
    /// No account has changed yet, and each has this balance.
    pub(super) fn new(balance: U256) -> Self {
        Self { untouched: Account { balance, ..Account::default() }, ..Self::default() }
    }

    pub fn now(&self, address: Address) -> Account {
        let versions = self.versions.get(&address);
        versions.and_then(|list| list.last()).map_or(self.untouched, |version| version.account)
    }

    /// An account after block `number`.
    pub fn at(&self, address: Address, number: u64) -> Account {
        let Some(versions) = self.versions.get(&address) else { return self.untouched };
        let after = versions.partition_point(|version| version.from_block <= number);
        after.checked_sub(1).map_or(self.untouched, |at| versions[at].account)
    }

    pub fn all(&self) -> impl Iterator<Item = (Address, Account)> + '_ {
        self.versions.keys().map(|address| (*address, self.now(*address)))
    }

    /// The state of `address` from block `number` on. Blocks only come in order.
    pub(super) fn set(&mut self, number: u64, address: Address, account: Account) {
        let oldest_block = self.oldest_block;
        let versions = self.versions.entry(address).or_default();
        match versions.last_mut() {
            Some(last) if last.from_block == number => last.account = account,
            _ => versions.push(Version { from_block: number, account }),
        }
        let needless =
            versions.iter().skip(1).take_while(|next| next.from_block <= oldest_block).count();
        versions.drain(..needless);
    }

    /// Sets a balance by hand, from block `number` on.
    pub(super) fn edit_balance(&mut self, number: u64, address: Address, balance: U256) {
        let account = self.now(address);
        self.set(number, address, Account { balance, ..account });
        self.edits.push(Edit { at_block: number, address, balance });
    }

    /// Forgets what happened after block `number`, but keeps what was set by hand.
    pub(super) fn rewind(&mut self, number: u64) {
        self.versions.retain(|_, versions| {
            versions.retain(|version| version.from_block <= number);
            !versions.is_empty()
        });
        for edit in std::mem::take(&mut self.edits) {
            if edit.at_block > number {
                self.edit_balance(number, edit.address, edit.balance);
            } else {
                self.edits.push(edit);
            }
        }
    }

    /// Blocks before `number` won't be asked for again, nor rewound to.
    pub(super) fn forget_before(&mut self, number: u64) {
        self.oldest_block = number;
        self.edits.retain(|edit| edit.at_block >= number);
    }
}
