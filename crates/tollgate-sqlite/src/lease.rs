//! Leases: who may write for a submitter. Implements [`LeaseStore`] and the guard that every
//! critical transaction begins with.
//!
//! Every comparison of time happens inside a statement, against `db_now()`.

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tollgate_model::port::{
    Acquisition, Checkpoint, GrantKind, Lease, LeaseStore, LeaseTerms, OrphanPage, Owner,
    StoreError, SubmitterRecord,
};
use tollgate_model::{Address, ChainId, FencingToken, NodeId, Submitter};

use crate::SqliteStore;
use crate::connection::span;
use crate::db::{Scope, all, exec, one};
use crate::error::Fault;
use crate::{queries, row, tx};

/// I1, I2: whether the lease is still the writer's. Asked first in every critical transaction;
/// the write lock keeps the answer true until the commit.
pub(crate) fn guard(scope: &Scope<'_>, node: &NodeId, lease: Lease) -> Result<bool, Fault> {
    if scope.skips_guard() {
        return Ok(true);
    }
    let Submitter { chain_id, address } = lease.submitter;
    let params =
        params![chain_id.as_i64(), address.as_slice(), node.as_str(), lease.token.as_i64()];
    one(scope.conn, queries::LEASE_GUARD, params, |_| Ok(())).map(|row| row.is_some())
}

/// The same where a lost lease ends the whole call.
pub(crate) fn guard_or_fenced(scope: &Scope<'_>, node: &NodeId, lease: Lease) -> Result<(), Fault> {
    if guard(scope, node, lease)? {
        Ok(())
    } else {
        Err(StoreError::Fenced(lease.submitter).into())
    }
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
        let found = self.db.read(move |conn| find(conn, submitter, &terms)).await?;
        if let Some(found) = found {
            let is_ours = found.owner.node == *node;
            if !is_ours && !found.is_over {
                return Ok(Acquisition::Held(found.owner));
            }
            if !is_ours || !found.is_valid {
                self.db.reached(Checkpoint::TakeoverStarted).await;
            }
        }
        let node = node.clone();
        let granted = self.db.write(move |scope| {
            let granted = grant(scope.conn, submitter, &node, &terms)?;
            scope.rewind_if_planted(&granted)?;
            Ok(granted)
        });
        granted.await
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
        let kept = self.db.write(move |scope| {
            let mut kept = Vec::with_capacity(leases.len());
            for lease in leases {
                if extend(scope.conn, &node, lease, &terms)? {
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
        let released = self.db.write(move |scope| {
            let mut released = 0;
            for Lease { submitter: Submitter { chain_id, address }, token } in leases {
                let params =
                    params![chain_id.as_i64(), address.as_slice(), node.as_str(), token.as_i64()];
                released += exec(scope.conn, queries::LEASE_RELEASE, params)? as u64;
            }
            Ok(released)
        });
        released.await
    }

    async fn owners(&self, submitters: &[Submitter]) -> Result<Vec<Option<Owner>>, StoreError> {
        let submitters = submitters.to_vec();
        let owners = self.db.read(move |conn| {
            let owner = |Submitter { chain_id, address }| {
                let params = params![chain_id.as_i64(), address.as_slice()];
                let found = one(conn, queries::LEASE_OWNERS, params, |row| row::owner(row, 0))?;
                Ok(found.flatten())
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
        let decode =
            |row: &rusqlite::Row<'_>| Ok((row::submitter(row, 0)?, row.get(2)?, row.get(3)?));
        let seen: Vec<(Submitter, bool, bool)> = self
            .db
            .read(move |conn| {
                let after = after.as_ref().map_or(&[][..], |address| address.as_slice());
                let params = params![chain_id.as_i64(), after, limit];
                all(conn, queries::LEASE_ORPHANS, params, decode)
            })
            .await?;
        let last = seen.iter().find(|(_, is_last, _)| *is_last);
        let next = last.map(|(submitter, ..)| submitter.address);
        let orphans = seen.into_iter().filter(|(_, _, is_orphan)| *is_orphan);
        Ok(OrphanPage { orphans: orphans.map(|(submitter, ..)| submitter).collect(), next })
    }
}

/// A lease's row.
struct Found {
    owner: Owner,
    /// Its time is not over.
    is_valid: bool,
    /// Its time is over, and the allowance for skew too: it may be taken over.
    is_over: bool,
}

fn find(
    conn: &Connection,
    Submitter { chain_id, address }: Submitter,
    terms: &LeaseTerms,
) -> Result<Option<Found>, Fault> {
    let skew = span(terms.clock_skew_allowance());
    let params = params![chain_id.as_i64(), address.as_slice(), skew];
    let found = one(conn, queries::LEASE_FIND, params, |row| {
        let owner = row::owner(row, 0)?;
        Ok(owner.map(|owner| Ok(Found { owner, is_valid: row.get(4)?, is_over: row.get(5)? })))
    })?;
    found.flatten().transpose()
}

/// Decides under the write lock. What an earlier owner wrote is committed by then, and nothing
/// more of it can be: the submitter's row that goes with the grant is complete.
fn grant(
    conn: &Connection,
    submitter: Submitter,
    node: &NodeId,
    terms: &LeaseTerms,
) -> Result<Acquisition, Fault> {
    let record = registered(conn, submitter)?;
    let granted = |token, kind| {
        let lease = Lease { submitter, token };
        Ok(Acquisition::Granted { lease, kind, submitter: record })
    };
    let Some(found) = find(conn, submitter, terms)? else {
        insert(conn, submitter, node, terms)?;
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

fn registered(conn: &Connection, submitter: Submitter) -> Result<SubmitterRecord, Fault> {
    if let Some(record) = tx::submitter(conn, submitter)? {
        return Ok(record);
    }
    Err(match tx::genesis(conn, submitter.chain_id)? {
        None => StoreError::UnknownChain(submitter.chain_id),
        Some(_) => StoreError::UnknownSubmitter(submitter),
    }
    .into())
}

fn insert(
    conn: &Connection,
    Submitter { chain_id, address }: Submitter,
    node: &NodeId,
    terms: &LeaseTerms,
) -> Result<(), Fault> {
    let params =
        params![chain_id.as_i64(), address.as_slice(), node.as_str(), span(terms.duration())];
    exec(conn, queries::LEASE_INSERT, params).map(drop)
}

fn extend(
    conn: &Connection,
    node: &NodeId,
    Lease { submitter: Submitter { chain_id, address }, token }: Lease,
    terms: &LeaseTerms,
) -> Result<bool, Fault> {
    let params = params![
        chain_id.as_i64(),
        address.as_slice(),
        node.as_str(),
        token.as_i64(),
        span(terms.duration())
    ];
    exec(conn, queries::LEASE_RENEW, params).map(|changed| changed == 1)
}

/// I4: the token grows by one; nobody ever gets the old one again.
fn take_over(
    conn: &Connection,
    Submitter { chain_id, address }: Submitter,
    node: &NodeId,
    terms: &LeaseTerms,
) -> Result<Option<FencingToken>, Fault> {
    let skew = span(terms.clock_skew_allowance());
    let is_over = params![chain_id.as_i64(), address.as_slice(), skew];
    if one(conn, queries::LEASE_LOCK_EXPIRED, is_over, |_| Ok(()))?.is_none() {
        return Ok(None);
    }
    let params =
        params![chain_id.as_i64(), address.as_slice(), node.as_str(), span(terms.duration())];
    one(conn, queries::LEASE_TAKE_OVER, params, |row| row::token(row, 0))
}
