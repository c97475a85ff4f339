//! Leases: who may write for a submitter. Implements [`LeaseStore`] and the guard of every critical
//! transaction. Every comparison of time happens inside a statement, with `db_now()`.

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::port::{
    Acquisition, Checkpoint, GrantKind, Lease, LeaseStore, LeaseTerms, OrphanPage, Owner,
    StoreError, SubmitterRecord,
};
use tollgate_model::{Address, ChainId, FencingToken, NodeId, Submitter};

use crate::connection::span;
use crate::db::Connection;
use crate::error::QueryError;
use crate::row::Row;
use crate::tx::{self, key};
use crate::{SqliteStore, queries, row};

/// I1, I2: whether the writer holds the lease. The first read of every critical transaction, whose write
/// lock keeps the answer true until the commit.
pub(crate) fn guard(
    conn: &Connection<'_>,
    node: &NodeId,
    lease: Lease,
) -> Result<bool, QueryError> {
    let (chain_id, address) = key(lease.submitter);
    conn.exists(queries::LEASE_GUARD, (chain_id, address, node.as_str(), lease.token.as_i64()))
}

/// The same where a lost lease fails the whole call.
pub(crate) fn guard_or_fenced(
    conn: &Connection<'_>,
    node: &NodeId,
    lease: Lease,
) -> Result<(), QueryError> {
    if guard(conn, node, lease)? { Ok(()) } else { Err(StoreError::Fenced(lease.submitter).into()) }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn acquire(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Acquisition, StoreError> {
        let terms = *terms;
        // Look before locking: a contender must not queue behind the writers of a valid lease.
        let asking = node.clone();
        let found = self.db.read(move |conn| find(conn, submitter, &asking, &terms)).await?;
        if let Some(found) = found {
            let is_own = found.owner.node == *node;
            if !is_own && !found.takeable {
                return Ok(Acquisition::Held(found.owner));
            }
            if !is_own || !found.valid {
                self.db.reached(Checkpoint::TakeoverStarted).await;
            }
        }
        let node = node.clone();
        self.db.write(move |tx| grant(tx, submitter, &node, &terms)).await
    }

    async fn renew(
        &self,
        node: &NodeId,
        leases: &[Lease],
        terms: &LeaseTerms,
    ) -> Result<Vec<Lease>, StoreError> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let (node, leases, terms) = (node.clone(), leases.to_vec(), *terms);
        let kept = self.db.write(move |tx| {
            let mut kept = Vec::with_capacity(leases.len());
            for lease in leases {
                if extend(tx, &node, lease, &terms)? {
                    kept.push(lease);
                }
            }
            Ok(kept)
        });
        kept.await
    }

    async fn release(&self, node: &NodeId, leases: &[Lease]) -> Result<u64, StoreError> {
        if leases.is_empty() {
            return Ok(0);
        }
        let (node, leases) = (node.clone(), leases.to_vec());
        let released = self.db.write(move |tx| {
            let mut released = 0;
            for lease in leases {
                let (chain_id, address) = key(lease.submitter);
                let params = (chain_id, address, node.as_str(), lease.token.as_i64());
                released += tx.exec(queries::LEASE_RELEASE, params)? as u64;
            }
            Ok(released)
        });
        released.await
    }

    async fn mark_private(&self, node: &NodeId, lease: Lease) -> Result<(), StoreError> {
        let node = node.clone();
        let marked = self.db.write(move |tx| {
            guard_or_fenced(tx, &node, lease)?;
            let (chain_id, address) = key(lease.submitter);
            let params = (chain_id, address, node.as_str(), lease.token.as_i64());
            tx.exec(queries::LEASE_MARK_PRIVATE, params)
        });
        marked.await.map(|_| ())
    }

    async fn owners(&self, submitters: &[Submitter]) -> Result<Vec<Option<Owner>>, StoreError> {
        let submitters = submitters.to_vec();
        let owners = self.db.read(move |conn| {
            let owner = |submitter| {
                let owner = |row: &Row<'_>| row::owner(row);
                Ok(conn.one(queries::LEASE_OWNERS, key(submitter), owner)?.flatten())
            };
            submitters.into_iter().map(owner).collect()
        });
        owners.await
    }

    async fn orphans(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        limit: u32,
    ) -> Result<OrphanPage, StoreError> {
        let decode = |row: &Row<'_>| {
            Ok((row::submitter(row)?, row::flag(row, "is_last")?, row::flag(row, "is_orphan")?))
        };
        let seen: Vec<(Submitter, bool, bool)> = self
            .db
            .read(move |conn| {
                let after = after.as_ref().map_or(&[][..], |address| address.as_slice());
                let params = params![chain_id.as_i64(), after, limit];
                conn.all(queries::LEASE_ORPHANS, params, decode)
            })
            .await?;
        let last = seen.iter().find(|(_, is_last, _)| *is_last);
        let next = last.map(|(submitter, ..)| submitter.address);
        let orphans = seen.into_iter().filter(|(_, _, is_orphan)| *is_orphan);
        Ok(OrphanPage { orphans: orphans.map(|(submitter, ..)| submitter).collect(), next })
    }
}

/// A lease's row.
struct LeaseRow {
    owner: Owner,
    /// The lease has not expired.
    valid: bool,
    /// The asking node can take it over.
    takeable: bool,
}

fn find(
    conn: &Connection<'_>,
    submitter: Submitter,
    node: &NodeId,
    terms: &LeaseTerms,
) -> Result<Option<LeaseRow>, QueryError> {
    let (chain_id, address) = key(submitter);
    let params = (chain_id, address, span(terms.clock_skew_allowance()), node.as_str());
    let found = conn.one(queries::LEASE_FIND, params, |row| {
        let (valid, takeable) = (row::flag(row, "valid")?, row::flag(row, "takeable")?);
        Ok(row::owner(row)?.map(|owner| LeaseRow { owner, valid, takeable }))
    })?;
    Ok(found.flatten())
}

/// Decides under the write lock. What earlier owners wrote is committed by then, and they can commit
/// nothing more: the submitter's row that goes with the grant is complete.
fn grant(
    conn: &Connection<'_>,
    submitter: Submitter,
    node: &NodeId,
    terms: &LeaseTerms,
) -> Result<Acquisition, QueryError> {
    let record = registered(conn, submitter)?;
    let granted = |token, kind| {
        let lease = Lease { submitter, token };
        Ok(Acquisition::Granted { lease, kind, submitter: record })
    };
    let Some(found) = find(conn, submitter, node, terms)? else {
        let (chain_id, address) = key(submitter);
        let params = (chain_id, address, node.as_str(), span(terms.duration()));
        conn.exec(queries::LEASE_INSERT, params)?;
        return granted(FencingToken::MIN, GrantKind::First);
    };
    let lease = Lease { submitter, token: found.owner.token };
    if found.owner.node == *node && extend(conn, node, lease, terms)? {
        return granted(lease.token, GrantKind::Renewed);
    }
    match take_over(conn, submitter, node, terms)? {
        Some(token) => granted(token, GrantKind::TakenOver),
        None => Ok(Acquisition::Held(found.owner)),
    }
}

fn registered(conn: &Connection<'_>, submitter: Submitter) -> Result<SubmitterRecord, QueryError> {
    if let Some(record) = tx::submitter(conn, submitter)? {
        return Ok(record);
    }
    Err(match tx::genesis(conn, submitter.chain_id)? {
        None => StoreError::UnknownChain(submitter.chain_id),
        Some(_) => StoreError::UnknownSubmitter(submitter),
    }
    .into())
}

fn extend(
    conn: &Connection<'_>,
    node: &NodeId,
    lease: Lease,
    terms: &LeaseTerms,
) -> Result<bool, QueryError> {
    let (chain_id, address) = key(lease.submitter);
    let (token, duration) = (lease.token.as_i64(), span(terms.duration()));
    let params = (chain_id, address, node.as_str(), token, duration);
    conn.exec(queries::LEASE_RENEW, params).map(|changed| changed == 1)
}

/// I4: the token grows by one, so that no token is granted twice.
fn take_over(
    conn: &Connection<'_>,
    submitter: Submitter,
    node: &NodeId,
    terms: &LeaseTerms,
) -> Result<Option<FencingToken>, QueryError> {
    let (chain_id, address) = key(submitter);
    let (skew, duration) = (span(terms.clock_skew_allowance()), span(terms.duration()));
    let expired = (chain_id, address, skew, node.as_str());
    if !conn.exists(queries::LEASE_LOCK_EXPIRED, expired)? {
        return Ok(None);
    }
    let params = (chain_id, address, node.as_str(), duration);
    conn.one(queries::LEASE_TAKE_OVER, params, |row| row::token(row))
}
