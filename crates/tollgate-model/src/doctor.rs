//! Finds out why an account makes no progress, from what endpoints tell about it alone (`tollgate doctor`).
//!
//! Knows nothing of Tollgate's own records: the account may never have been near it.

use std::collections::BTreeMap;
use std::fmt;

use alloy_primitives::U256;

/// Blocks by which an endpoint may be behind without being called lagging.
const LAG_ALLOWED: u64 = 3;
/// A replacement must offer at least this many percent more, in price and in tip.
const REPLACEMENT_PERCENT: u128 = 10;

/// The answers of one endpoint. `None`: it did not answer, or has no such method.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointFacts {
    /// Scheme, host and port.
    pub name: String,
    pub chain_id: Option<u64>,
    pub head: Option<u64>,
    /// Of the newest block, in wei.
    pub base_fee: Option<u128>,
    /// The tip that it suggests, in wei.
    pub tip: Option<u128>,
    /// Transactions of the account in blocks.
    pub mined: Option<u64>,
    /// The same with those in its pool that can follow.
    pub pending: Option<u64>,
    pub balance: Option<U256>,
    /// The account's transactions in its pool.
    pub pool: Option<Vec<PoolTx>>,
    /// The first failure, in words.
    pub error: Option<String>,
}

/// A transaction in a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolTx {
    pub nonce: u64,
    pub hash: String,
    /// The highest price per gas that it pays, in wei.
    pub max_fee: u128,
    /// `None` for a transaction with a plain gas price.
    pub tip: Option<u128>,
    pub gas: u64,
    pub value: U256,
}

impl PoolTx {
    /// The most that it takes from the account.
    fn cost(&self) -> U256 {
        self.value.saturating_add(U256::from(self.gas).saturating_mul(U256::from(self.max_fee)))
    }
}

/// The judgement as a whole: the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccountHealth {
    Healthy,
    Stuck,
    /// The endpoints don't tell enough, or contradict each other.
    Unknown,
}

names!(AccountHealth {
    Healthy => "healthy",
    Stuck => "stuck",
    Unknown => "unknown",
});

/// Something that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// No endpoint told the account's count.
    NoCount,
    /// Endpoints are on different chains.
    ChainsDiffer {
        chains: Vec<u64>,
    },
    EndpointFailed {
        endpoint: String,
        why: String,
    },
    Lagging {
        endpoint: String,
        behind: u64,
    },
    /// An endpoint reports a head that is far above that of most others.
    Ahead {
        endpoint: String,
        ahead: u64,
    },
    /// Two endpoints report heads that are far from each other: either may be wrong.
    HeadsDiffer {
        lowest: u64,
        highest: u64,
    },
    /// Endpoints with the same head count differently.
    CountsDiffer {
        lowest: u64,
        highest: u64,
    },
    NothingWaits {
        next: u64,
    },
    /// Nothing waits, and the account could not pay for anything.
    NoFunds,
    /// The chain waits for nonces that no pool has.
    Hole {
        first: u64,
        last: u64,
        waiting: usize,
    },
    /// The first transaction offers less than the base fee.
    BelowBaseFee {
        nonce: u64,
        hash: String,
        offered: u128,
        base_fee: u128,
    },
    /// The first transaction offers no tip where others do.
    NoTip {
        nonce: u64,
        hash: String,
        market: u128,
    },
    /// The account can't pay for the first transaction.
    Funds {
        nonce: u64,
        balance: U256,
        needed: U256,
    },
    /// The first transaction can be in the next block.
    Includable {
        nonce: u64,
        hash: String,
        waiting: usize,
    },
    /// An endpoint counts pending transactions and none shows its pool.
    PendingUnseen {
        mined: u64,
        pending: u64,
    },
    /// No endpoint shows its pool: what is behind a gap can't be seen.
    PoolHidden {
        next: u64,
    },
}

/// A price in gwei, with as many decimals as it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gwei(pub u128);

impl fmt::Display for Gwei {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let part = format!("{part:09}");
        match part.trim_end_matches('0') {
            "" => write!(f, "{whole} gwei"),
            part => write!(f, "{whole}.{part} gwei"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCount => {
                f.write_str("no endpoint tells how many transactions the account has sent")
            }
            Self::ChainsDiffer { chains } => {
                let chains: Vec<String> = chains.iter().map(u64::to_string).collect();
                write!(f, "the endpoints are on different chains: {}", chains.join(", "))
            }
            Self::EndpointFailed { endpoint, why } => write!(f, "{endpoint}: {why}"),
            Self::Lagging { endpoint, behind } => {
                write!(f, "{endpoint} is {behind} blocks behind; what it counts is out of date")
            }
            Self::Ahead { endpoint, ahead } => write!(
                f,
                "{endpoint} reports a head {ahead} blocks above that of most others; what it counts is \
                 left out"
            ),
            Self::HeadsDiffer { lowest, highest } => write!(
                f,
                "the endpoints disagree about the head, {lowest} or {highest}: one lags or the other is \
                 wrong; compare them with a block explorer, or name a third one"
            ),
            Self::NoFunds => {
                f.write_str("the account has no funds: nothing that it sends can be paid")
            }
            Self::CountsDiffer { lowest, highest } => write!(
                f,
                "endpoints with the same head count {lowest} and {highest} transactions in blocks: one \
                 of them is wrong"
            ),
            Self::NothingWaits { next } => {
                write!(f, "nothing waits: the next transaction needs nonce {next}")
            }
            Self::Hole { first, last, waiting } => {
                let nonces = match first == last {
                    true => format!("nonce {first}"),
                    false => format!("nonces {first} to {last}"),
                };
                write!(
                    f,
                    "the chain waits for {nonces}, and no pool has a transaction there: {waiting} \
                     with higher nonces wait behind the gap"
                )
            }
            Self::BelowBaseFee { nonce, hash, offered, base_fee } => write!(
                f,
                "the transaction with nonce {nonce} ({hash}) pays at most {} and the base fee is {}: no \
                 block can include it",
                Gwei(*offered),
                Gwei(*base_fee)
            ),
            Self::NoTip { nonce, hash, market } => write!(
                f,
                "the transaction with nonce {nonce} ({hash}) leaves no tip for the block's producer, \
                 where {} are usual",
                Gwei(*market)
            ),
            Self::Funds { nonce, balance, needed } => write!(
                f,
                "insufficient funds: the transaction with nonce {nonce} may cost {needed} wei, and the \
                 account has {balance} wei"
            ),
            Self::Includable { nonce, hash, waiting } => write!(
                f,
                "the transaction with nonce {nonce} ({hash}) can be in the next block; {waiting} are in \
                 the pool"
            ),
            Self::PendingUnseen { mined, pending } => write!(
                f,
                "{} transactions from nonce {mined} are pending, and no endpoint shows its pool: their \
                 prices can't be seen",
                pending - mined
            ),
            Self::PoolHidden { next } => write!(
                f,
                "no endpoint shows its pool: nothing is pending from nonce {next}, but transactions \
                 behind a gap would not be seen"
            ),
        }
    }
}

/// The transaction that would free the account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remedy {
    pub kind: RemedyKind,
    pub nonce: u64,
    pub max_fee: u128,
    pub tip: u128,
}

/// The effect of the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemedyKind {
    /// Takes a nonce that nothing has; one for each nonce of the gap.
    Fill,
    /// Replaces the transaction there, for the same or another purpose.
    Replace,
}

names!(RemedyKind {
    Fill => "fill",
    Replace => "replace",
});

/// The findings about an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnosis {
    pub health: AccountHealth,
    pub findings: Vec<Finding>,
    pub remedy: Option<Remedy>,
}

/// The prices of the market, as the endpoints tell.
#[derive(Clone, Copy)]
struct Market {
    base_fee: u128,
    tip: u128,
}

impl Market {
    /// The offer of a new transaction: it outlasts some rises of the base fee.
    fn offer(self) -> (u128, u128) {
        (self.base_fee.saturating_mul(2).saturating_add(self.tip), self.tip)
    }

    /// The offer that pools take instead of a transaction.
    fn replacement(self, of: &PoolTx) -> (u128, u128) {
        let raised = |price: u128| {
            price
                .saturating_add(price.saturating_mul(REPLACEMENT_PERCENT).div_ceil(100))
                .saturating_add(1)
        };
        let (max_fee, tip) = self.offer();
        let tip = tip.max(raised(of.tip.unwrap_or(of.max_fee)));
        (max_fee.max(raised(of.max_fee)).max(tip), tip)
    }
}

/// Finds out why an account makes no progress, from what its endpoints told.
pub fn diagnose(endpoints: &[EndpointFacts]) -> Diagnosis {
    let mut findings: Vec<Finding> = endpoints
        .iter()
        .filter_map(|of| {
            let (endpoint, why) = (of.name.clone(), of.error.clone()?);
            Some(Finding::EndpointFailed { endpoint, why })
        })
        .collect();
    let unknown = |findings| Diagnosis { health: AccountHealth::Unknown, findings, remedy: None };
    let mut chains: Vec<u64> = endpoints.iter().filter_map(|of| of.chain_id).collect();
    chains.sort_unstable();
    chains.dedup();
    if chains.len() > 1 {
        findings.push(Finding::ChainsDiffer { chains });
        return unknown(findings);
    }
    let heads = Heads::of(endpoints);
    let (current, outside): (Vec<_>, Vec<_>) =
        endpoints.iter().partition(|of| heads.judge(of).is_none());
    findings.extend(outside.iter().filter_map(|of| heads.judge(of)));
    findings.extend(heads.dispute());
    let Some(mined) = current.iter().filter_map(|of| of.mined).max() else {
        findings.push(Finding::NoCount);
        return unknown(findings);
    };
    let top = current.iter().filter_map(|of| of.head).max();
    let at_top = current.iter().filter(|of| of.head == top);
    let lowest = at_top.filter_map(|of| of.mined).min().unwrap_or(mined);
    let is_disputed = lowest < mined;
    if is_disputed {
        findings.push(Finding::CountsDiffer { lowest, highest: mined });
    }
    let mut diagnosis = judge_pool(&current, mined, findings);
    if is_disputed || heads.dispute().is_some() {
        diagnosis.health = AccountHealth::Unknown;
    }
    diagnosis
}

/// The heads of the endpoints, in order.
struct Heads(Vec<u64>);

impl Heads {
    fn of(endpoints: &[EndpointFacts]) -> Self {
        let mut heads: Vec<u64> = endpoints.iter().filter_map(|of| of.head).collect();
        heads.sort_unstable();
        Self(heads)
    }

    /// The median of three and more; fewer outvote nobody.
    fn median(&self) -> Option<u64> {
        self.0.get(self.0.len() / 2).copied().filter(|_| self.0.len() > 2)
    }

    /// Two endpoints whose heads are too far from each other.
    fn dispute(&self) -> Option<Finding> {
        match *self.0 {
            [lowest, highest] if highest - lowest > LAG_ALLOWED => {
                Some(Finding::HeadsDiffer { lowest, highest })
            }
            _ => None,
        }
    }

    /// An endpoint whose head is too far from that of most.
    fn judge(&self, of: &EndpointFacts) -> Option<Finding> {
        let (median, head, endpoint) = (self.median()?, of.head?, of.name.clone());
        let (behind, ahead) = (median.saturating_sub(head), head.saturating_sub(median));
        match () {
            () if behind > LAG_ALLOWED => Some(Finding::Lagging { endpoint, behind }),
            () if ahead > LAG_ALLOWED => Some(Finding::Ahead { endpoint, ahead }),
            () => None,
        }
    }
}

/// The pools of all endpoints by nonce; of two transactions the one that pays more.
fn pools(endpoints: &[&EndpointFacts], mined: u64) -> Option<BTreeMap<u64, PoolTx>> {
    let mut all: Option<BTreeMap<u64, PoolTx>> = None;
    for pool in endpoints.iter().filter_map(|of| of.pool.as_ref()) {
        let all = all.get_or_insert_default();
        for tx in pool.iter().filter(|tx| tx.nonce >= mined) {
            let better = all.get(&tx.nonce).is_none_or(|known| known.max_fee < tx.max_fee);
            if better {
                all.insert(tx.nonce, tx.clone());
            }
        }
    }
    all
}

fn judge_pool(endpoints: &[&EndpointFacts], mined: u64, mut findings: Vec<Finding>) -> Diagnosis {
    let highest = |of: fn(&EndpointFacts) -> Option<u128>| {
        endpoints.iter().filter_map(|it| of(it)).max().unwrap_or_default()
    };
    let market = Market { base_fee: highest(|it| it.base_fee), tip: highest(|it| it.tip) };
    let pending = endpoints.iter().filter_map(|of| of.pending).max().unwrap_or(mined).max(mined);
    let (fill, replace) = (RemedyKind::Fill, RemedyKind::Replace);
    let remedy = |kind, (max_fee, tip)| Some(Remedy { kind, nonce: mined, max_fee, tip });
    let pool = pools(endpoints, mined);
    let first = pool.as_ref().and_then(|pool| pool.first_key_value());
    let (health, finding, remedy) = match (&pool, first) {
        (None, _) if pending > mined => (
            AccountHealth::Unknown,
            Finding::PendingUnseen { mined, pending },
            remedy(replace, market.offer()),
        ),
        (None, _) => (AccountHealth::Unknown, Finding::PoolHidden { next: mined }, None),
        (Some(_), None) if pending > mined => (
            AccountHealth::Unknown,
            Finding::PendingUnseen { mined, pending },
            remedy(replace, market.offer()),
        ),
        (Some(_), None) => (AccountHealth::Healthy, Finding::NothingWaits { next: mined }, None),
        (Some(pool), Some((lowest, _))) if *lowest > mined => (
            AccountHealth::Stuck,
            Finding::Hole { first: mined, last: lowest - 1, waiting: pool.len() },
            remedy(fill, market.offer()),
        ),
        (Some(pool), Some((nonce, tx))) => {
            let (nonce, hash) = (*nonce, tx.hash.clone());
            let balance = endpoints.iter().filter_map(|of| of.balance).max();
            let replacement = remedy(replace, market.replacement(tx));
            if let Some(balance) = balance.filter(|balance| *balance < tx.cost()) {
                let needed = tx.cost();
                (AccountHealth::Stuck, Finding::Funds { nonce, balance, needed }, None)
            } else if tx.max_fee < market.base_fee {
                let (offered, base_fee) = (tx.max_fee, market.base_fee);
                let finding = Finding::BelowBaseFee { nonce, hash, offered, base_fee };
                (AccountHealth::Stuck, finding, replacement)
            } else if market.tip > 0 && tip_of(tx, market) == 0 {
                let finding = Finding::NoTip { nonce, hash, market: market.tip };
                (AccountHealth::Stuck, finding, replacement)
            } else {
                let finding = Finding::Includable { nonce, hash, waiting: pool.len() };
                (AccountHealth::Healthy, finding, None)
            }
        }
    };
    let balance = endpoints.iter().filter_map(|of| of.balance).max();
    let is_empty = balance.is_some_and(|balance| balance.is_zero());
    let is_calm = matches!(finding, Finding::NothingWaits { .. });
    findings.push(finding);
    findings.extend((is_calm && is_empty).then_some(Finding::NoFunds));
    Diagnosis { health, findings, remedy }
}

/// The share that the block's producer gets for each unit of gas.
fn tip_of(tx: &PoolTx, market: Market) -> u128 {
    let left = tx.max_fee.saturating_sub(market.base_fee);
    tx.tip.map_or(left, |tip| tip.min(left))
}

#[cfg(test)]
mod tests;
