//! Settings of single accounts: a floor, and payments that restore the balance.

use tollgate_model::top_up::TopUpRule;
use tollgate_model::{Address, ChainId, Submitter, Wei};

use crate::config::field::NUMBER_MAX;
use crate::config::table::{EntryForm, entry_types, settings};
use crate::config::types::Age;

settings! {
    /// An account with a floor.
    struct TopUpEntry {
        /// The account. This cluster need not serve it.
        account: Address;
        /// Id of its chain. Required if the node serves several.
        chain: Option<ChainId>, range = (1, NUMBER_MAX);
        /// Balance below which `low_balance` is raised, in place of `alerts.balance_floor`, and the account is paid.
        floor: Wei, example = "\"0.1 ether\"";
        /// Account that pays. A node of this cluster must serve it, and its own rules apply. Without it nothing is paid.
        from: Option<Address>;
        /// Balance that a payment restores. Required with `from`.
        target: Option<Wei>, example = "\"1 ether\"";
        /// The most that is paid to the account within 24 hours. Required with `from`.
        daily_cap: Option<Wei>, example = "\"5 ether\"";
        /// At most one payment is made in each period, counted from 1970.
        period: Age = "1h", min = "10m";
    }
}

entry_types! {
    TopUpEntry: EntryForm {
        noun: "a top-up",
        list_words: "list of accounts",
        example: "{ account = \"0x…\", floor = \"0.1 ether\" }",
        may_be_text: false,
    };
}

impl TopUpEntry {
    /// Returns whether the entry is about an account of this chain.
    pub(crate) fn is_on(&self, chain_id: ChainId) -> bool {
        self.chain.is_none_or(|chain| chain == chain_id)
    }

    /// The account on a chain that it is on.
    pub(crate) fn submitter(&self, chain_id: ChainId) -> Submitter {
        Submitter::new(chain_id, self.account)
    }

    /// The funding account and the rule on a chain that it is on; `None` if nothing is paid.
    pub(crate) fn payer(&self, chain_id: ChainId) -> Option<(Submitter, TopUpRule)> {
        let rule = TopUpRule {
            chain_id,
            account: self.account,
            floor: self.floor,
            target: self.target?,
            daily_cap: self.daily_cap?,
            period: self.period.0,
        };
        Some((Submitter::new(chain_id, self.from?), rule))
    }
}
