//! Leases: acquiring, renewing, releasing and taking over the right to write for a submitter.
//!
//! Renewals run on the upkeep pool. A takeover waits for writers, so it runs on a work connection. Every
//! comparison of time uses the server's clock inside the statement.

use async_trait::async_trait;
use tollgate_model::port::{
    Acquisition, Checkpoint, GrantKind, Lease, LeaseStore, LeaseTerms, OrphanPage, Owner,
    StoreError, SubmitterRecord, TxStore,
};
use tollgate_model::time::micros;
use tollgate_model::{Address, ChainId, FencingToken, NodeId, Submitter};

use crate::PgStore;
use crate::connection::Parameters;
use crate::db::Tx;
use crate::{queries, row};

/// The limit on how long a takeover waits for the writers that hold the lease.
const TAKEOVER_LOCK_TIMEOUT: &str = "set local lock_timeout = '250ms'";

/// Tries of `acquire` when the lease changes between its read and its write.
const LOOKS_MAX: u32 = 4;

/// The state of a lease, as one node sees it.
enum LeaseState {
    /// No node ever acquired it.
    Absent,
    /// The node holds it, and it is valid.
    Own(FencingToken),
    /// The node can take it over.
    Takeable,
    /// Another node holds it.
    Held,
}

#[async_trait]
impl LeaseStore for PgStore {
    async fn acquire(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Acquisition, StoreError> {
        self.registered(submitter).await?;
        for _ in 0..LOOKS_MAX {
            let granted = match self.look(submitter, node, terms).await? {
                LeaseState::Absent => self
                    .insert_lease(submitter, node, terms)
                    .await?
                    .map(|token| (token, GrantKind::First, None)),
                LeaseState::Own(token) => {
                    let kept = self.renew(node, &[Lease { submitter, token }], terms).await?;
                    (!kept.is_empty()).then_some((token, GrantKind::Renewed, None))
                }
                LeaseState::Takeable => self
                    .take_over(submitter, node, terms)
                    .await?
                    .map(|(token, record)| (token, GrantKind::TakenOver, Some(record))),
                LeaseState::Held => match self.owner(submitter).await? {
                    Some(owner) => return Ok(Acquisition::Held(owner)),
                    None => None,
                },
            };
            if let Some((token, kind, record)) = granted {
                // Read after the grant, so that it includes what any earlier owner committed.
                let record = match record {
                    Some(record) => record,
                    None => self.registered(submitter).await?,
                };
                let lease = Lease { submitter, token };
                return Ok(Acquisition::Granted { lease, kind, submitter: record });
            }
        }
        match self.owner(submitter).await? {
            Some(owner) if owner.node != *node => Ok(Acquisition::Held(owner)),
            // A batch of the node itself can still commit under the expired lease: the node neither
            // holds the lease nor has lost it to a newer token.
            _ => {
                let why = format!("the lease of {submitter} is contended");
                Err(StoreError::Unavailable(why.into()))
            }
        }
    }

    async fn renew(
        &self,
        node: &NodeId,
        leases: &[Lease],
        terms: &LeaseTerms,
    ) -> Result<Vec<Lease>, StoreError> {
        let LeaseKeys { chain_ids, submitters, tokens } = LeaseKeys::new(leases);
        let (node, duration) = (node.as_str(), micros(terms.duration()));
        let upkeep = self.pools.upkeep().await?;
        let rows = upkeep
            .query_all(queries::LEASE_RENEW, &[&chain_ids, &submitters, &tokens, &node, &duration])
            .await?;
        let mut kept = Vec::with_capacity(rows.len());
        for row in &rows {
            kept.extend(leases.get(row::place(row)?));
        }
        Ok(kept)
    }

    async fn release(&self, node: &NodeId, leases: &[Lease]) -> Result<u64, StoreError> {
        let LeaseKeys { chain_ids, submitters, tokens } = LeaseKeys::new(leases);
        let upkeep = self.pools.upkeep().await?;
        let held: &Parameters<'_> = &[&chain_ids, &submitters, &tokens, &node.as_str()];
        Ok(upkeep.execute(queries::LEASE_RELEASE, held).await?)
    }

    async fn mark_private(&self, node: &NodeId, lease: Lease) -> Result<(), StoreError> {
        let (chain_id, address) = key(&lease.submitter);
        let held: &Parameters<'_> = &[&chain_id, &address, &node.as_str(), &lease.token.as_i64()];
        match self.pools.work().await?.execute(queries::LEASE_MARK_PRIVATE, held).await? {
            0 => Err(StoreError::Fenced(lease.submitter)),
            _ => Ok(()),
        }
    }

    async fn owners(&self, submitters: &[Submitter]) -> Result<Vec<Option<Owner>>, StoreError> {
        let keys = SubmitterKeys::new(submitters);
        let upkeep = self.pools.upkeep().await?;
        let rows =
            upkeep.query_all(queries::LEASE_OWNERS, &[&keys.chain_ids, &keys.submitters]).await?;
        let owners = row::by_place(&rows, submitters.len(), row::owner)?;
        Ok(owners.into_iter().map(Option::flatten).collect())
    }

    async fn orphans(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        limit: u32,
    ) -> Result<OrphanPage, StoreError> {
        let (chain_id, limit) = (chain_id.as_i64(), i64::from(limit));
        let after = after.as_ref().map_or(&[][..], |address| address.as_slice());
        let upkeep = self.pools.upkeep().await?;
        let mut page = OrphanPage::default();
        for row in &upkeep.query_all(queries::LEASE_ORPHANS, &[&chain_id, &after, &limit]).await? {
            let submitter = row::submitter(row)?;
            if row::flag(row, "is_orphan")? {
                page.orphans.push(submitter);
            }
            if row::flag(row, "is_last")? {
                page.next = Some(submitter.address);
            }
        }
        Ok(page)
    }
}

impl PgStore {
    /// Reads without a lock: a contender never waits for a lease that is valid.
    async fn look(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<LeaseState, StoreError> {
        let (chain_id, address) = key(&submitter);
        let (node, skew) = (node.as_str(), micros(terms.clock_skew_allowance()));
        let work = self.pools.work().await?;
        let found =
            work.query_opt(queries::LEASE_FIND, &[&chain_id, &address, &skew, &node]).await?;
        let Some(found) = found else { return Ok(LeaseState::Absent) };
        Ok(if row::flag(&found, "is_own")? {
            LeaseState::Own(row::token(&found)?)
        } else if row::flag(&found, "is_takeable")? {
            LeaseState::Takeable
        } else {
            LeaseState::Held
        })
    }

    async fn insert_lease(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Option<FencingToken>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let (node, duration) = (node.as_str(), micros(terms.duration()));
        let work = self.pools.work().await?;
        let inserted =
            work.query_opt(queries::LEASE_INSERT, &[&chain_id, &address, &node, &duration]).await?;
        inserted.as_ref().map(row::token).transpose()
    }

    /// Takes over an expired lease; `None` if it is not expired or still held by a writer.
    ///
    /// Three statements under READ COMMITTED. The first waits for the writers that hold the lease; the
    /// second changes the token, after which their guards find nothing (I2); the third reads the
    /// submitter as the last of them left it.
    async fn take_over(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Option<(FencingToken, SubmitterRecord)>, StoreError> {
        self.checkpoints.reached(Checkpoint::TakeoverStarted).await;
        let (chain_id, address) = key(&submitter);
        let (node, duration) = (node.as_str(), micros(terms.duration()));
        let skew = micros(terms.clock_skew_allowance());
        let tx = Tx::begin(self.pools.work().await?).await?;
        tx.batch_execute(TAKEOVER_LOCK_TIMEOUT).await?;
        let expired: &Parameters<'_> = &[&chain_id, &address, &skew, &node];
        let locked = match tx.query_opt(queries::LEASE_LOCK_EXPIRED, expired).await {
            // A writer is still running. Until it ends, or the server ends it, its node is the owner.
            Err(error) if error.is_lock_timeout() => None,
            locked => locked?,
        };
        if locked.is_none() {
            tx.rollback().await?;
            return Ok(None);
        }
        let taken = tx
            .query_one(queries::LEASE_TAKE_OVER, &[&chain_id, &address, &node, &duration])
            .await?;
        let record = tx.query_one(queries::SUBMITTER_GET, &[&chain_id, &address]).await?;
        tx.commit().await?;
        Ok(Some((row::token(&taken)?, row::submitter_record(&record)?)))
    }

    async fn owner(&self, submitter: Submitter) -> Result<Option<Owner>, StoreError> {
        Ok(self.owners(&[submitter]).await?.pop().flatten())
    }

    /// The submitter's own row, or the error that says what is not registered.
    async fn registered(&self, submitter: Submitter) -> Result<SubmitterRecord, StoreError> {
        if let Some(record) = self.submitter(submitter).await? {
            return Ok(record);
        }
        Err(match self.genesis(submitter.chain_id).await? {
            Some(_) => StoreError::UnknownSubmitter(submitter),
            None => StoreError::UnknownChain(submitter.chain_id),
        })
    }
}

/// A submitter as the key of its rows.
pub(crate) fn key(submitter: &Submitter) -> (i64, &[u8]) {
    (submitter.chain_id.as_i64(), submitter.address.as_slice())
}

/// Submitters as columns.
pub(crate) struct SubmitterKeys<'a> {
    pub(crate) chain_ids: Vec<i64>,
    pub(crate) submitters: Vec<&'a [u8]>,
}

impl<'a> SubmitterKeys<'a> {
    pub(crate) fn new(submitters: impl IntoIterator<Item = &'a Submitter>) -> Self {
        let (chain_ids, submitters) = submitters.into_iter().map(key).unzip();
        Self { chain_ids, submitters }
    }

    pub(crate) fn len(&self) -> usize {
        self.chain_ids.len()
    }
}

/// Leases as columns.
pub(crate) struct LeaseKeys<'a> {
    pub(crate) chain_ids: Vec<i64>,
    pub(crate) submitters: Vec<&'a [u8]>,
    pub(crate) tokens: Vec<i64>,
}

impl<'a> LeaseKeys<'a> {
    pub(crate) fn new(leases: impl IntoIterator<Item = &'a Lease>) -> Self {
        let columns = leases.into_iter().map(|lease| {
            let (chain_id, submitter) = key(&lease.submitter);
            (chain_id, submitter, lease.token.as_i64())
        });
        let (chain_ids, submitters, tokens) = columns.collect();
        Self { chain_ids, submitters, tokens }
    }
}
