//! Account pools: finds the member that takes a create.
//!
//! Owns what this node knows of the members' load and funds, for [`BELIEVED`] at most. Creates that were given to a
//! member since then are counted in, so that many creates at once spread as one after the other do. Other
//! nodes' creates are seen with the next look: the spread over nodes is approximate, and a member may still
//! refuse for its funds.
//!
//! Correctness never depends on that knowledge (I7): a request id belongs to the member that the store has for it,
//! and the store decides before the create is given to a member. A crash in between leaves an assignment
//! without a transaction, and the repeat goes to the same member. Moving a refused request to another
//! member was rejected: a repeat of it at another node may be accepted by the first member at that
//! moment, and the payment would be made twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;
use tollgate_model::account_pool::{
    AccountPool, Availability, Candidate, PoolMember, PoolName, by_load, unavailable,
};
use tollgate_model::port::StoreError;
use tollgate_model::refusal::{FundsShort, Refusal, RefusalKind, RefusedField};
use tollgate_model::{Address, Intent, RequestId, Submitter, U256, Wei};

use crate::create::CreateError;
use crate::engine::Engine;
use crate::errors::Unserved;
use crate::intake::{cost_of, funds_left};

/// The time for which the load and the funds of members are not read again.
const BELIEVED: Duration = Duration::from_secs(1);
/// Pools that are remembered (I13).
const REMEMBERED_MAX: usize = 1_000;

/// The reason why no member of a pool takes a create, or a pool was not written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PoolError {
    /// There is no such pool.
    #[error("there is no pool {0} on this chain")]
    Unknown(PoolName),
    /// No member accepts transactions.
    #[error("no member of pool {pool} accepts transactions: {why}")]
    NoMember {
        /// The pool.
        pool: PoolName,
        /// The number of its members in each state.
        why: String,
    },
    /// A member that is not a submitter of the chain.
    #[error("{0} is not a submitter of this chain; GET /api/v1/submitters lists those that are")]
    UnknownMember(Address),
    /// The create itself is refused, or no member can pay it.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The database can't be asked now.
    #[error("temporarily unavailable: {0}")]
    Store(#[from] StoreError),
}

/// The load and the funds of the members of pools, as far as this node knows them.
#[derive(Default)]
pub(crate) struct PoolMemory {
    pools: Mutex<HashMap<PoolName, KnownPool>>,
    turn: AtomicUsize,
}

struct KnownPool {
    read_at: Instant,
    members: BTreeMap<Address, KnownMember>,
}

struct KnownMember {
    member: PoolMember,
    funds: KnownFunds,
}

/// The funds of a member besides what its open transactions may cost.
#[derive(Clone, Copy)]
enum KnownFunds {
    Unread,
    /// `None` if the chain could not be asked: such a member counts as one that can pay.
    Read(Option<Wei>),
}

/// A create that was counted in for a member.
struct Pick {
    member: Address,
    cost: U256,
}

/// The result of a look for the next member to try.
enum Next {
    Try(Address),
    /// All that accept transactions were tried.
    Exhausted(Vec<Candidate>),
}

impl PoolMemory {
    fn lock(&self) -> MutexGuard<'_, HashMap<PoolName, KnownPool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_known(&self, pool: &PoolName) -> bool {
        self.lock().get(pool).is_some_and(|known| known.read_at.elapsed() < BELIEVED)
    }

    fn learn(&self, pool: &PoolName, members: Vec<PoolMember>) {
        let mut pools = self.lock();
        if pools.len() >= REMEMBERED_MAX {
            pools.clear();
        }
        let fresh = |member: PoolMember| {
            (member.address, KnownMember { member, funds: KnownFunds::Unread })
        };
        let members = members.into_iter().map(fresh).collect();
        pools.insert(pool.clone(), KnownPool { read_at: Instant::now(), members });
    }

    fn forget(&self, pool: &PoolName) {
        self.lock().remove(pool);
    }

    /// The next member to try. It is counted in at once, so that the create beside this one tries another.
    fn next(
        &self,
        pool: &PoolName,
        turn: usize,
        tried: &BTreeSet<Address>,
        judge: impl Fn(&PoolMember) -> Candidate,
    ) -> Next {
        let mut pools = self.lock();
        let Some(known) = pools.get_mut(pool) else { return Next::Exhausted(Vec::new()) };
        let members: Vec<_> = known.members.values().map(|known| judge(&known.member)).collect();
        match by_load(&members, turn).into_iter().find(|member| !tried.contains(member)) {
            Some(address) => {
                if let Some(known) = known.members.get_mut(&address) {
                    known.member.open += 1;
                }
                Next::Try(address)
            }
            None => Next::Exhausted(members),
        }
    }

    fn funds(&self, pool: &PoolName, member: Address) -> KnownFunds {
        let pools = self.lock();
        let known = pools.get(pool).and_then(|known| known.members.get(&member));
        known.map_or(KnownFunds::Unread, |known| known.funds)
    }

    fn learn_funds(&self, pool: &PoolName, member: Address, left: Option<Wei>) {
        self.change(pool, member, |known| {
            // Another create may have read them and deducted its cost meanwhile.
            if let KnownFunds::Unread = known.funds {
                known.funds = KnownFunds::Read(left);
            }
        });
    }

    /// Deducts a cost from the funds of a member, or returns the funds that are too little.
    fn deduct(&self, pool: &PoolName, member: Address, cost: U256) -> Result<(), Wei> {
        let mut short = None;
        self.change(pool, member, |known| {
            if let KnownFunds::Read(Some(left)) = &mut known.funds {
                match left.0.checked_sub(cost) {
                    Some(rest) => *left = Wei(rest),
                    None => short = Some(*left),
                }
            }
        });
        short.map_or(Ok(()), Err)
    }

    /// Takes a create back that the member does not get.
    fn release(&self, pool: &PoolName, pick: &Pick) {
        self.change(pool, pick.member, |known| {
            known.member.open = known.member.open.saturating_sub(1);
            if let KnownFunds::Read(Some(left)) = &mut known.funds {
                *left = Wei(left.0.saturating_add(pick.cost));
            }
        });
    }

    fn change(&self, pool: &PoolName, member: Address, change: impl FnOnce(&mut KnownMember)) {
        let mut pools = self.lock();
        let known = pools.get_mut(pool).and_then(|known| known.members.get_mut(&member));
        if let Some(known) = known {
            change(known);
        }
    }
}

impl Engine {
    /// The member of a pool that takes a create. A request id keeps the member that it was first given,
    /// whatever has become of the pool; durable when this returns.
    ///
    /// # Errors
    /// [`PoolError`]; nothing is assigned then.
    pub async fn assign_member(
        &self,
        pool: &PoolName,
        request_id: Option<&RequestId>,
        intent: &Intent,
    ) -> Result<Submitter, PoolError> {
        if let Some(member) = self.assigned_member(pool, request_id).await? {
            return Ok(member);
        }
        let pick = self.pick_member(pool, intent).await?;
        let chain_id = self.chain_id();
        let Some(request_id) = request_id else {
            return Ok(Submitter::new(chain_id, pick.member));
        };
        let store = &self.context.store;
        let assigned = store.assign_request(chain_id, pool, request_id, pick.member).await;
        if !assigned.as_ref().is_ok_and(|assigned| *assigned == pick.member) {
            self.context.pools.release(pool, &pick);
        }
        Ok(Submitter::new(chain_id, assigned?))
    }

    /// The member that would take a create now. Nothing is written.
    ///
    /// # Errors
    /// [`PoolError`].
    pub async fn likely_member(
        &self,
        pool: &PoolName,
        request_id: Option<&RequestId>,
        intent: &Intent,
    ) -> Result<Submitter, PoolError> {
        if let Some(member) = self.assigned_member(pool, request_id).await? {
            return Ok(member);
        }
        let pick = self.pick_member(pool, intent).await?;
        self.context.pools.release(pool, &pick);
        Ok(Submitter::new(self.chain_id(), pick.member))
    }

    /// The member that a request was assigned to.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn assigned_member(
        &self,
        pool: &PoolName,
        request_id: Option<&RequestId>,
    ) -> Result<Option<Submitter>, StoreError> {
        let Some(request_id) = request_id else { return Ok(None) };
        let chain_id = self.chain_id();
        let assigned = self.context.store.assigned_member(chain_id, pool, request_id).await?;
        Ok(assigned.map(|member| Submitter::new(chain_id, member)))
    }

    /// The members of a pool with their load, read anew.
    ///
    /// # Errors
    /// There is no such pool, or the store can't be read.
    pub async fn pool_members(&self, pool: &PoolName) -> Result<Vec<Candidate>, PoolError> {
        let members = self.read_members(pool).await?;
        Ok(members.iter().map(|member| self.candidate(member)).collect())
    }

    /// Writes a pool with all its members. Other nodes follow within seconds.
    ///
    /// # Errors
    /// [`PoolError`]; nothing is written then.
    pub async fn put_pool(&self, pool: &AccountPool) -> Result<(), PoolError> {
        let (chain_id, store) = (self.chain_id(), &self.context.store);
        let members: Vec<_> =
            pool.members.iter().map(|member| Submitter::new(chain_id, *member)).collect();
        let modes = store.modes(&members).await?;
        if let Some((unknown, _)) = members.iter().zip(modes).find(|(_, mode)| mode.is_none()) {
            return Err(PoolError::UnknownMember(unknown.address));
        }
        store.put_pool(chain_id, pool).await?;
        self.context.pools.forget(&pool.name);
        Ok(())
    }

    /// Removes a pool. Requests that were assigned to its members still find their transactions.
    ///
    /// # Errors
    /// There is no such pool, or the store can't be written.
    pub async fn remove_pool(&self, pool: &PoolName) -> Result<(), PoolError> {
        let was_there = self.context.store.remove_pool(self.chain_id(), pool).await?;
        self.context.pools.forget(pool);
        if was_there { Ok(()) } else { Err(PoolError::Unknown(pool.clone())) }
    }

    async fn read_members(&self, pool: &PoolName) -> Result<Vec<PoolMember>, PoolError> {
        let members = self.context.store.pool_members(self.chain_id(), pool).await?;
        if members.is_empty() { Err(PoolError::Unknown(pool.clone())) } else { Ok(members) }
    }

    fn candidate(&self, PoolMember { address, status, open }: &PoolMember) -> Candidate {
        let of = Submitter::new(self.chain_id(), *address);
        let context = &self.context;
        let is_served = context.has_key(of) || context.placement.is_served_elsewhere(of);
        let is_disabled = context.accounts.is_disabled(*address);
        let availability = Availability::judge(is_disabled, *status, is_served);
        Candidate { address: *address, availability, open: *open }
    }

    /// Finds the least loaded member that can pay, and counts the create in for it.
    async fn pick_member(&self, pool: &PoolName, intent: &Intent) -> Result<Pick, PoolError> {
        let memory = &self.context.pools;
        if !memory.is_known(pool) {
            let members = self.read_members(pool).await.inspect_err(|_| memory.forget(pool))?;
            memory.learn(pool, members);
        }
        let turn = memory.turn.fetch_add(1, Ordering::Relaxed);
        let (mut tried, mut refused) = (BTreeSet::new(), None);
        loop {
            let member = match memory.next(pool, turn, &tried, |member| self.candidate(member)) {
                Next::Try(member) => member,
                Next::Exhausted(members) => return Err(exhausted(pool, &members, refused)),
            };
            tried.insert(member);
            let uncounted = Pick { member, cost: U256::ZERO };
            match self.charge(pool, member, intent).await {
                Ok(cost) => return Ok(Pick { member, cost }),
                Err(CreateError::Refused(refusal))
                    if refusal.kind == RefusalKind::InsufficientFunds =>
                {
                    memory.release(pool, &uncounted);
                    refused = Some(most_available(refused, refusal));
                }
                Err(error) => {
                    memory.release(pool, &uncounted);
                    return Err(error.into());
                }
            }
        }
    }

    /// Deducts the cost of a create from the funds of a member and returns the cost. Where the chain can't be
    /// asked, nothing is deducted: the create itself finds out.
    async fn charge(
        &self,
        pool: &PoolName,
        member: Address,
        intent: &Intent,
    ) -> Result<U256, CreateError> {
        let (memory, of) = (&self.context.pools, Submitter::new(self.chain_id(), member));
        let cost = match cost_of(&self.context, of, intent).await {
            Err(CreateError::Unserved(Unserved::Unavailable(_))) => return Ok(U256::ZERO),
            cost => cost?,
        };
        if let KnownFunds::Unread = memory.funds(pool, member) {
            let left = funds_left(self, of).await.unwrap_or_default();
            memory.learn_funds(pool, member, left);
        }
        match memory.deduct(pool, member, cost) {
            Ok(()) => Ok(cost),
            Err(available) => Err(Refusal {
                kind: RefusalKind::InsufficientFunds,
                field: Some(RefusedField::Submitter),
                detail: String::new(),
                funds: Some(FundsShort { needed: Wei(cost), available }),
            }
            .into()),
        }
    }
}

/// Of two refusals, that of the member with more funds.
fn most_available(one: Option<Refusal>, other: Refusal) -> Refusal {
    let available = |refusal: &Refusal| refusal.funds.map(|funds| funds.available);
    one.filter(|one| available(one) >= available(&other)).unwrap_or(other)
}

/// The refusal of a create after all members were tried.
fn exhausted(pool: &PoolName, members: &[Candidate], refused: Option<Refusal>) -> PoolError {
    let Some(Refusal { funds, .. }) = refused else {
        return match members.is_empty() {
            true => PoolError::Unknown(pool.clone()),
            false => PoolError::NoMember { pool: pool.clone(), why: unavailable(members) },
        };
    };
    let amounts = funds.map(|FundsShort { needed, available }| {
        format!(": it may cost {needed} wei with its fee, and the richest member has {available}")
    });
    let detail =
        format!("no member of pool {pool} can pay the transaction{}", amounts.unwrap_or_default());
    let (kind, field) = (RefusalKind::InsufficientFunds, Some(RefusedField::Submitter));
    CreateError::from(Refusal { kind, field, detail, funds }).into()
}
