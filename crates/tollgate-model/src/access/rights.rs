//! The rights of a key: roles, a tenant, a scope and a rate.
//!
//! Pure questions with one answer each: may a caller with these rights use this account, see this transaction,
//! make a key with those rights.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use alloy_primitives::Address;

use super::{Role, Roles};
use crate::account_pool::PoolName;
use crate::ids::{ChainId, InvalidValue, RequestId, Submitter, parse_address};
use crate::secret::masked;

/// The most chains, submitters and pools, each, in the scope of a key (I13).
pub const SCOPE_MAX: usize = 100;
/// The highest rate that can be set, in requests per second.
pub const RATE_MAX: u32 = 100_000;

/// A team or customer with request ids and transactions of its own: letters, digits, `-`, `_` and `.`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tenant(String);

impl Tenant {
    pub const MAX_BYTES: usize = 40;

    /// Takes a name from a caller.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidValue> {
        let name = name.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > Self::MAX_BYTES || !name.bytes().all(is_plain) {
            let form = format!("letters, digits, -, _ and ., from 1 to {}", Self::MAX_BYTES);
            return Err(InvalidValue::new("tenant", format!("must be {form}")));
        }
        if masked(&name) != name {
            return Err(InvalidValue::new("tenant", "looks like a secret"));
        }
        Ok(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The accounts that a key may use: those that are listed, and the members of the listed pools, through the pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Senders {
    pub submitters: BTreeSet<Address>,
    pub pools: BTreeSet<PoolName>,
}

/// The chains and accounts that a key is for. The default is all of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyScope {
    /// `None` is every chain.
    chains: Option<BTreeSet<ChainId>>,
    /// `None` is every account and pool.
    senders: Option<Senders>,
}

impl KeyScope {
    /// Takes the listed chains, submitters and pools. No chain is every chain; neither a submitter nor a pool is
    /// every account.
    pub fn new(
        chains: impl IntoIterator<Item = ChainId>,
        submitters: impl IntoIterator<Item = Address>,
        pools: impl IntoIterator<Item = PoolName>,
    ) -> Result<Self, InvalidValue> {
        let chains: BTreeSet<ChainId> = chains.into_iter().collect();
        let senders = Senders {
            submitters: submitters.into_iter().collect(),
            pools: pools.into_iter().collect(),
        };
        for (field, count) in [
            ("chains", chains.len()),
            ("submitters", senders.submitters.len()),
            ("pools", senders.pools.len()),
        ] {
            if count > SCOPE_MAX {
                return Err(InvalidValue::new(field, format!("{count} are more than {SCOPE_MAX}")));
            }
        }
        Ok(Self {
            chains: (!chains.is_empty()).then_some(chains),
            senders: (senders != Senders::default()).then_some(senders),
        })
    }

    /// Reads the lists as stores hold them: separated by commas, empty for all.
    pub fn parse(chains: &str, submitters: &str, pools: &str) -> Result<Self, InvalidValue> {
        let chain = |text: &str| {
            let id = text.parse().map_err(|_| InvalidValue::new("chains", "not a chain id"))?;
            ChainId::new(id)
        };
        Self::new(
            list(chains, chain)?,
            list(submitters, parse_address)?,
            list(pools, |name| PoolName::new(name))?,
        )
    }

    /// The chains, or `None` for all.
    pub const fn chains(&self) -> Option<&BTreeSet<ChainId>> {
        self.chains.as_ref()
    }

    /// The accounts and pools, or `None` for all.
    pub const fn senders(&self) -> Option<&Senders> {
        self.senders.as_ref()
    }

    /// The pools whose members are in scope.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.senders.iter().flat_map(|senders| &senders.pools)
    }

    /// Returns whether all chains and accounts are in scope.
    pub const fn is_everything(&self) -> bool {
        self.chains.is_none() && self.senders.is_none()
    }

    pub fn has_chain(&self, chain_id: ChainId) -> bool {
        self.chains.as_ref().is_none_or(|chains| chains.contains(&chain_id))
    }

    /// Returns whether an account is in scope by its own address. Members of a pool in scope are not.
    pub fn has_submitter(&self, submitter: Submitter) -> bool {
        let lists = |senders: &Senders| senders.submitters.contains(&submitter.address);
        self.has_chain(submitter.chain_id) && self.senders.as_ref().is_none_or(lists)
    }

    pub fn has_pool(&self, chain_id: ChainId, pool: &PoolName) -> bool {
        let lists = |senders: &Senders| senders.pools.contains(pool);
        self.has_chain(chain_id) && self.senders.as_ref().is_none_or(lists)
    }

    /// Returns whether everything in another scope is in this one.
    fn covers(&self, other: &Self) -> bool {
        let has_chains = match (&self.chains, &other.chains) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => others.is_subset(own),
        };
        let has_senders = match (&self.senders, &other.senders) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(others)) => {
                others.submitters.is_subset(&own.submitters) && others.pools.is_subset(&own.pools)
            }
        };
        has_chains && has_senders
    }

    /// The chains as stores hold them.
    pub fn stored_chains(&self) -> String {
        joined(self.chains.iter().flatten())
    }

    /// The submitters as stores hold them.
    pub fn stored_submitters(&self) -> String {
        let lists = self.senders.iter().flat_map(|senders| &senders.submitters);
        joined(lists.map(|address| address.to_checksum(None)))
    }

    /// The pools as stores hold them.
    pub fn stored_pools(&self) -> String {
        joined(self.pools())
    }
}

fn list<T>(
    text: &str,
    read: impl Fn(&str) -> Result<T, InvalidValue>,
) -> Result<Vec<T>, InvalidValue> {
    text.split(',').filter(|part| !part.is_empty()).map(read).collect()
}

fn joined(parts: impl Iterator<Item = impl ToString>) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(",")
}

/// The requests that a key may make in a second, and how many at once after a pause. Each node counts for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    per_second: u32,
    burst: u32,
}

impl RateLimit {
    /// Takes a rate; both numbers are at least one.
    pub fn new(per_second: u32, burst: u32) -> Result<Self, InvalidValue> {
        for number in [per_second, burst] {
            if !(1..=RATE_MAX).contains(&number) {
                let problem = format!("{number} is not 1 to {RATE_MAX}");
                return Err(InvalidValue::new("rate", problem));
            }
        }
        Ok(Self { per_second, burst })
    }

    pub const fn per_second(self) -> u32 {
        self.per_second
    }

    pub const fn burst(self) -> u32 {
        self.burst
    }
}

/// `20` or `20/100`: requests per second, and the burst, which is the same if it is left out.
impl FromStr for RateLimit {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (rate, burst) = text.split_once('/').unwrap_or((text, text));
        let number = |text: &str| {
            let bad = "must be like 20 or 20/100: requests per second, and how many at once";
            text.parse().map_err(|_| InvalidValue::new("rate", bad))
        };
        Self::new(number(rate)?, number(burst)?)
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.per_second, self.burst)
    }
}

/// Everything that a caller may do, but for its rate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rights {
    pub roles: Roles,
    pub scope: KeyScope,
    /// `None` sees the transactions of all tenants, and creates for none of them.
    pub tenant: Option<Tenant>,
}

impl Rights {
    /// The rights of a caller where no keys are asked for.
    pub fn all() -> Self {
        Self { roles: Roles::all(), scope: KeyScope::default(), tenant: None }
    }

    /// Returns whether every transaction, account and chain is visible.
    pub const fn see_everything(&self) -> bool {
        self.tenant.is_none() && self.scope.is_everything()
    }

    /// Returns whether requests with this id are in sight: those of the own tenant, or all.
    pub fn see_request(&self, request_id: Option<&RequestId>) -> bool {
        match &self.tenant {
            None => true,
            Some(own) => request_id.and_then(RequestId::tenant) == Some(own.as_str()),
        }
    }

    /// Returns whether the rights are operators': nonces, tokens and attempts are shown.
    pub fn are_operators(&self) -> bool {
        self.roles.allow(Role::Operate)
    }

    /// Returns whether these rights are enough to make or change a key with others.
    pub fn cover(&self, other: &Self) -> bool {
        let has_tenant = self.tenant.is_none() || self.tenant == other.tenant;
        let has_roles =
            Role::ALL.into_iter().all(|role| self.roles.allow(role) || !other.roles.allow(role));
        has_roles && has_tenant && self.scope.covers(&other.scope)
    }
}
