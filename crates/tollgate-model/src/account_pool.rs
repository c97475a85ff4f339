//! Account pools: named sets of accounts on a chain, and the order in which a create tries their members.
//!
//! A create for `pool:NAME` goes to the member with the fewest open transactions that can pay it. A request
//! id is assigned to one member for ever, before the create is given to that member: the request finds its
//! transaction again at any node and after any change of the pool, and is never paid twice (I7).

use std::fmt;

use alloy_primitives::Address;

use crate::ids::InvalidValue;
use crate::nonce::SubmitterStatus;
use crate::secret::masked;

/// The most members of a pool (I13).
pub const MEMBERS_MAX: usize = 1_000;

/// The start of a `submitter` that names a pool.
const PREFIX: &str = "pool:";

/// The name of a pool: letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolName(String);

impl PoolName {
    pub const MAX_BYTES: usize = 64;

    /// Takes a name from a caller.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidValue> {
        let name = name.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_long = name.len() > Self::MAX_BYTES;
        if name.is_empty() || is_long || !name.bytes().all(is_plain) {
            let form = format!("letters, digits, - and _, from 1 to {}", Self::MAX_BYTES);
            return Err(InvalidValue::new("name", format!("the name of a pool must be {form}")));
        }
        if masked(&name) != name {
            return Err(InvalidValue::new("name", "the name of a pool looks like a secret"));
        }
        Ok(Self(name))
    }

    /// The pool that a `submitter` names as `pool:NAME`; `None` if it does not begin with `pool:`.
    pub fn in_submitter(text: &str) -> Option<Result<Self, InvalidValue>> {
        text.strip_prefix(PREFIX).map(Self::new)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A pool and its members, in the order of their addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccountPool {
    pub name: PoolName,
    pub members: Vec<Address>,
}

impl AccountPool {
    /// Groups members that are listed pool by pool.
    pub fn group(entries: impl IntoIterator<Item = (PoolName, Address)>) -> Vec<Self> {
        let mut pools: Vec<Self> = Vec::new();
        for (name, address) in entries {
            match pools.last_mut().filter(|pool| pool.name == name) {
                Some(pool) => pool.members.push(address),
                None => pools.push(Self { name, members: vec![address] }),
            }
        }
        pools
    }
}

/// A member as the store has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolMember {
    pub address: Address,
    pub status: SubmitterStatus,
    /// Open transactions.
    pub open: u64,
}

/// The readiness of a member to accept a new transaction, funds aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Availability {
    Available,
    /// An operator disabled or removed the account.
    Disabled,
    /// The account is paused or in PROTECT: a new transaction would wait for an operator.
    NotActive,
    /// No live node has the key.
    Unserved,
}

names!(Availability {
    Available => "available",
    Disabled => "disabled",
    NotActive => "not_active",
    Unserved => "unserved",
});

impl Availability {
    /// Judges a member by its own settings, its status and the nodes that serve it.
    pub fn judge(is_disabled: bool, status: SubmitterStatus, is_served: bool) -> Self {
        match (is_disabled, status) {
            (true, _) => Self::Disabled,
            (false, SubmitterStatus::Paused | SubmitterStatus::Protect) => Self::NotActive,
            (false, SubmitterStatus::Active) if !is_served => Self::Unserved,
            (false, SubmitterStatus::Active) => Self::Available,
        }
    }
}

/// A member that a create may be given to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub address: Address,
    pub availability: Availability,
    /// Open transactions, and creates that were given to it since they were counted.
    pub open: u64,
}

/// The available members, in the order in which a create tries them: the fewest open transactions first.
/// Among equals the order rotates with `turn`, so that idle members share the load.
pub fn by_load(members: &[Candidate], turn: usize) -> Vec<Address> {
    let count = members.len().max(1);
    let available = members.iter().enumerate();
    let available = available.filter(|(_, one)| one.availability == Availability::Available);
    let mut ranked: Vec<_> = available
        .map(|(place, one)| ((one.open, (place + count - turn % count) % count), one.address))
        .collect();
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, address)| address).collect()
}

/// Counts the members that accept nothing, for the refusal of a create that none of them accepts.
pub fn unavailable(members: &[Candidate]) -> String {
    let count = |of: Availability| members.iter().filter(|one| one.availability == of).count();
    let kinds = [
        (Availability::Disabled, "disabled"),
        (Availability::NotActive, "paused or in PROTECT"),
        (Availability::Unserved, "served by no live node"),
    ];
    let counted = kinds.map(|(kind, name)| (count(kind), name));
    let named = counted.iter().filter(|(count, _)| *count > 0);
    named.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(n: u8, availability: Availability, open: u64) -> Candidate {
        Candidate { address: Address::repeat_byte(n), availability, open }
    }

    fn order(members: &[Candidate], turn: usize) -> Vec<u8> {
        by_load(members, turn).iter().map(|address| address[0]).collect()
    }

    #[test]
    fn pool_names_are_short_and_plain() {
        for good in ["payouts", "A-b_9", &"x".repeat(64)] {
            assert_eq!(PoolName::new(good).unwrap().as_str(), good);
            let submitter = format!("pool:{good}");
            assert_eq!(PoolName::in_submitter(&submitter).unwrap().unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a/b", "ä", "a:b", &"x".repeat(65)] {
            assert!(PoolName::new(bad).is_err(), "{bad}");
            assert!(PoolName::in_submitter(&format!("pool:{bad}")).unwrap().is_err(), "{bad}");
        }
        assert_eq!(PoolName::in_submitter("0x00"), None);
    }

    #[test]
    fn least_loaded_member_is_tried_first() {
        let members = [3, 1, 2].map(|n| candidate(n, Availability::Available, u64::from(n)));
        for turn in 0..5 {
            assert_eq!(order(&members, turn), [1, 2, 3]);
        }
    }

    #[test]
    fn equally_loaded_members_take_turns() {
        let members = [1, 2, 3].map(|n| candidate(n, Availability::Available, 7));
        assert_eq!(order(&members, 0), [1, 2, 3]);
        assert_eq!(order(&members, 1), [2, 3, 1]);
        assert_eq!(order(&members, 5), [3, 1, 2]);
        assert_eq!(order(&[], 1), [0; 0]);
    }

    #[test]
    fn unavailable_members_are_not_tried_and_are_counted() {
        let members = [
            candidate(1, Availability::Disabled, 0),
            candidate(2, Availability::NotActive, 0),
            candidate(3, Availability::Available, 9),
            candidate(4, Availability::Unserved, 0),
            candidate(5, Availability::Disabled, 0),
        ];
        assert_eq!(order(&members, 0), [3]);
        let counts = "2 disabled, 1 paused or in PROTECT, 1 served by no live node";
        assert_eq!(unavailable(&members), counts);
    }

    #[test]
    fn member_is_available_if_it_is_enabled_and_active_and_served() {
        use SubmitterStatus::{Active, Paused, Protect};
        assert_eq!(Availability::judge(false, Active, true), Availability::Available);
        assert_eq!(Availability::judge(true, Active, true), Availability::Disabled);
        assert_eq!(Availability::judge(false, Active, false), Availability::Unserved);
        for status in [Paused, Protect] {
            assert_eq!(Availability::judge(false, status, true), Availability::NotActive);
        }
    }
}
