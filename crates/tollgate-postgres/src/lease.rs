//! The right to write: leases and takeovers.
//!
//! Renewals have the upkeep connections to themselves: a takeover waits for writers, so it runs on
//! a work connection. Every comparison of time is the server's clock inside the statement.

use async_trait::async_trait;
use tokio_postgres::Row;
use tollgate_model::port::{
    Acquisition, Checkpoint, GrantKind, Lease, LeaseStore, LeaseTerms, OrphanPage, Owner,
    StoreError, SubmitterRecord,
};
use tollgate_model::time::micros;
use tollgate_model::{Address, ChainId, FencingToken, NodeId, Submitter};

use crate::PgStore;
use crate::db::{BEGIN, Tx, prepared};
use crate::error::{failed, is_lock_timeout};
use crate::{queries, row};

/// How long a takeover waits for the writers that still hold the lease before it tries later.
const TAKEOVER_LOCK_TIMEOUT: &str = "set local lock_timeout = '250ms'";

/// How often a look may be overtaken by what it saw before the caller is told to come back.
const LOOKS_MAX: u32 = 4;

/// What a look at a lease shows.
enum Sight {
    /// Nobody ever had it.
    Unborn,
    /// The asking node has it, and its time is not over.
    Own(FencingToken),
    /// Its time is over.
    Free,
    /// Another node has it.
    Taken,
}

#[async_trait]
impl LeaseStore for PgStore {
    async fn acquire(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Acquisition, StoreError> {
        self.submitter_row(submitter).await?;
        for _ in 0..LOOKS_MAX {
            let granted = match self.look(submitter, node, terms).await? {
                Sight::Unborn => {
                    let token = self.insert_lease(submitter, node, terms).await?;
                    token.map(|token| (token, GrantKind::First, None))
                }
                Sight::Own(token) => {
                    let lease = Lease { submitter, token };
                    let kept = self.renew(node, &[lease], terms).await?;
                    (!kept.is_empty()).then_some((token, GrantKind::Renewed, None))
                }
                Sight::Free => {
                    let taken = self.take_over(submitter, node, terms).await?;
                    taken.map(|(token, state)| (token, GrantKind::TakenOver, state))
                }
                Sight::Taken => match self.owner(submitter).await? {
                    Some(owner) => return Ok(Acquisition::Held(owner)),
                    None => None,
                },
            };
            if let Some((token, kind, state)) = granted {
                // The grant is committed. Only now is the submitter's state read, in a statement
                // of its own: what any earlier owner committed is in it.
                let state = match state {
                    Some(state) => state,
                    None => self.submitter_row(submitter).await?,
                };
                let lease = Lease { submitter, token };
                return Ok(Acquisition::Granted { lease, kind, submitter: state });
            }
        }
        match self.owner(submitter).await? {
            Some(owner) => Ok(Acquisition::Held(owner)),
            None => Err(StoreError::Unavailable(format!("the lease of {submitter} is contended"))),
        }
    }

    async fn renew(
        &self,
        node: &NodeId,
        leases: &[Lease],
        terms: &LeaseTerms,
    ) -> Result<Vec<Lease>, StoreError> {
        let keys = LeaseKeys::new(leases);
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::LEASE_RENEW).await?;
        let duration = micros(terms.duration());
        let rows = client
            .query(
                &statement,
                &[&keys.chain_ids, &keys.submitters, &keys.tokens, &node.as_str(), &duration],
            )
            .await
            .map_err(failed)?;
        let mut kept = Vec::with_capacity(rows.len());
        for row in &rows {
            kept.extend(leases.get(row::place(row)?));
        }
        Ok(kept)
    }

    async fn release(&self, node: &NodeId, leases: &[Lease]) -> Result<u64, StoreError> {
        let keys = LeaseKeys::new(leases);
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::LEASE_RELEASE).await?;
        client
            .execute(&statement, &[&keys.chain_ids, &keys.submitters, &keys.tokens, &node.as_str()])
            .await
            .map_err(failed)
    }

    async fn owners(&self, submitters: &[Submitter]) -> Result<Vec<Option<Owner>>, StoreError> {
        let keys = SubmitterKeys::new(submitters);
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::LEASE_OWNERS).await?;
        let rows =
            client.query(&statement, &[&keys.chain_ids, &keys.submitters]).await.map_err(failed)?;
        let mut owners = vec![None; submitters.len()];
        for row in &rows {
            if let Some(slot) = owners.get_mut(row::place(row)?) {
                *slot = row::owner(row)?;
            }
        }
        Ok(owners)
    }

    async fn orphans(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        limit: u32,
    ) -> Result<OrphanPage, StoreError> {
        let client = self.pools.upkeep().await?;
        let statement = prepared(&client, queries::LEASE_ORPHANS).await?;
        let after = after.as_ref().map_or(&[][..], |address| address.as_slice());
        let asked = (chain_id.as_i64(), i64::from(limit));
        let rows = client.query(&statement, &[&asked.0, &after, &asked.1]).await.map_err(failed)?;
        let mut page = OrphanPage::default();
        for found in &rows {
            let submitter = row::submitter(found)?;
            if row::get(found, "is_orphan")? {
                page.orphans.push(submitter);
            }
            if row::get(found, "is_last")? {
                page.next = Some(submitter.address);
            }
        }
        Ok(page)
    }
}

impl PgStore {
    /// Looks before it locks: a contender never waits for a lease that is valid.
    async fn look(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Sight, StoreError> {
        let client = self.pools.work().await?;
        let statement = prepared(&client, queries::LEASE_FIND).await?;
        let (chain_id, address) = key(&submitter);
        let skew = micros(terms.clock_skew_allowance());
        let found =
            client.query_opt(&statement, &[&chain_id, &address, &skew]).await.map_err(failed)?;
        let Some(found) = found else { return Ok(Sight::Unborn) };
        let own = row::get::<&str>(&found, "owner_node")? == node.as_str();
        Ok(if own && row::get(&found, "valid")? {
            Sight::Own(row::token(&found)?)
        } else if row::get(&found, "takeable")? {
            Sight::Free
        } else {
            Sight::Taken
        })
    }

    async fn insert_lease(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Option<FencingToken>, StoreError> {
        let client = self.pools.work().await?;
        let statement = prepared(&client, queries::LEASE_INSERT).await?;
        let (chain_id, address) = key(&submitter);
        let duration = micros(terms.duration());
        let inserted = client
            .query_opt(&statement, &[&chain_id, &address, &node.as_str(), &duration])
            .await
            .map_err(failed)?;
        inserted.as_ref().map(row::token).transpose()
    }

    /// Two statements under READ COMMITTED. The first waits for the writers that still hold the
    /// lease; the second changes the token, after which their guards find nothing (I2).
    async fn take_over(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Option<(FencingToken, Option<SubmitterRecord>)>, StoreError> {
        self.checkpoints.reached(Checkpoint::TakeoverStarted).await;
        let (chain_id, address) = key(&submitter);
        let connection = self.pools.work().await?;
        let one_snapshot = self.takes_over_in_one_snapshot();
        let begin = if one_snapshot { "begin isolation level repeatable read" } else { BEGIN };
        let tx = Tx::begin_as(connection, begin).await?;
        tx.client()?.batch_execute(TAKEOVER_LOCK_TIMEOUT).await.map_err(failed)?;
        let lock = tx.prepared(queries::LEASE_LOCK_EXPIRED).await?;
        let skew = micros(terms.clock_skew_allowance());
        let locked = match tx.client()?.query_opt(&lock, &[&chain_id, &address, &skew]).await {
            Ok(locked) => locked,
            // A writer is still at it. It ends, or the server ends it; until then it owns.
            Err(error) if is_lock_timeout(&error) => None,
            Err(error) => return Err(failed(error)),
        };
        if locked.is_none() {
            tx.rollback().await?;
            return Ok(None);
        }
        let take = tx.prepared(queries::LEASE_TAKE_OVER).await?;
        let duration = micros(terms.duration());
        let taken = tx
            .client()?
            .query_one(&take, &[&chain_id, &address, &node.as_str(), &duration])
            .await
            .map_err(failed)?;
        let token = row::token(&taken)?;
        let state = if one_snapshot { Some(read_submitter(&tx, submitter).await?) } else { None };
        tx.commit().await?;
        Ok(Some((token, state)))
    }

    async fn owner(&self, submitter: Submitter) -> Result<Option<Owner>, StoreError> {
        Ok(self.owners(&[submitter]).await?.pop().flatten())
    }

    /// The submitter's own row; a submitter that nobody registered has none.
    async fn submitter_row(&self, submitter: Submitter) -> Result<SubmitterRecord, StoreError> {
        let client = self.pools.work().await?;
        let statement = prepared(&client, queries::SUBMITTER_GET).await?;
        let (chain_id, address) = key(&submitter);
        let found = client.query_opt(&statement, &[&chain_id, &address]).await.map_err(failed)?;
        if let Some(found) = found {
            return row::submitter_record(&found);
        }
        let chain = prepared(&client, queries::CHAIN_GENESIS).await?;
        let known: Option<Row> = client.query_opt(&chain, &[&chain_id]).await.map_err(failed)?;
        Err(match known {
            Some(_) => StoreError::UnknownSubmitter(submitter),
            None => StoreError::UnknownChain(submitter.chain_id),
        })
    }
}

async fn read_submitter(tx: &Tx, submitter: Submitter) -> Result<SubmitterRecord, StoreError> {
    let statement = tx.prepared(queries::SUBMITTER_GET).await?;
    let (chain_id, address) = key(&submitter);
    let found = tx.client()?.query_one(&statement, &[&chain_id, &address]).await.map_err(failed)?;
    row::submitter_record(&found)
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
}

/// Leases as columns.
pub(crate) struct LeaseKeys<'a> {
    pub(crate) chain_ids: Vec<i64>,
    pub(crate) submitters: Vec<&'a [u8]>,
    pub(crate) tokens: Vec<i64>,
}

impl<'a> LeaseKeys<'a> {
    pub(crate) fn new(leases: impl IntoIterator<Item = &'a Lease>) -> Self {
        let mut keys = Self { chain_ids: vec![], submitters: vec![], tokens: vec![] };
        for lease in leases {
            keys.chain_ids.push(lease.submitter.chain_id.as_i64());
            keys.submitters.push(lease.submitter.address.as_slice());
            keys.tokens.push(lease.token.as_i64());
        }
        keys
    }
}
