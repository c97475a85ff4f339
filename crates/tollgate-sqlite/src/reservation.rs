//! Nonces for callers that send by themselves. Implements [`ReservationStore`] under the same lease,
//! cursor and fence as the batch, with one small transaction for each call.

use async_trait::async_trait;
use rusqlite::{Params, ToSql, params};
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{
    CursorMove, Lease, Page, Reservation, ReservationStore, Reserve, ReturnedNonces, StoreError,
    SubmitterAuditEntry,
};
use tollgate_model::sql::Query;
use tollgate_model::{NodeId, Nonce, Submitter, Text, TxHash};
use uuid::Uuid;

use crate::connection::span;
use crate::db::Connection;
use crate::error::QueryError;
use crate::lease::guard_or_fenced;
use crate::tx::key;
use crate::{SqliteStore, batch, queries, row};

#[async_trait]
impl ReservationStore for SqliteStore {
    async fn reserve(
        &self,
        node: &NodeId,
        ask: &Reserve,
    ) -> Result<Option<Reservation>, StoreError> {
        let (by, ask) = (node.clone(), *ask);
        self.owned(node, ask.lease, move |conn| reserve(conn, &by, &ask)).await
    }

    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError> {
        let query = queries::RESERVATION_USED;
        self.owned(node, lease, move |conn| {
            report(conn, query, lease, nonce, owner_token, &tx_hash.as_slice())
        })
        .await
    }

    async fn reservation_recyclable(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        reason: &Text<500>,
    ) -> Result<Option<Reservation>, StoreError> {
        let (query, reason) = (queries::RESERVATION_RECYCLABLE, reason.clone());
        self.owned(node, lease, move |conn| {
            report(conn, query, lease, nonce, owner_token, &reason.as_str())
        })
        .await
    }

    async fn expire_reservations(
        &self,
        node: &NodeId,
        lease: Lease,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.owned(node, lease, move |conn| {
            nonces(conn, queries::RESERVATION_EXPIRE, key(lease.submitter))
        })
        .await
    }

    async fn retire_passed(
        &self,
        node: &NodeId,
        lease: Lease,
        mined: Nonce,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.owned(node, lease, move |conn| {
            let (chain_id, address) = key(lease.submitter);
            nonces(conn, queries::RESERVATION_RETIRE, (chain_id, address, mined.as_i64()))
        })
        .await
    }

    async fn adopt(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &[Nonce],
        reason: &Text<500>,
    ) -> Result<Vec<Nonce>, StoreError> {
        Page::fits(wanted.len())?;
        let (wanted, reason) = (wanted.to_vec(), reason.clone());
        self.owned(node, lease, move |conn| {
            recycle(conn, lease, wanted, reason.as_str(), (false, false))
        })
        .await
    }

    async fn return_nonces(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &ReturnedNonces,
    ) -> Result<Vec<Nonce>, StoreError> {
        Page::fits(wanted.nonces.len())?;
        let (by, ReturnedNonces { nonces, used, reason }) = (node.clone(), wanted.clone());
        self.owned(node, lease, move |conn| {
            let free = recycle(conn, lease, nonces, reason.as_str(), (true, used))?;
            if let Some(note) = SubmitterAuditEntry::handed_back(&free, reason.as_str()) {
                batch::insert_note(conn, &by, lease, &note)?;
            }
            Ok(free)
        })
        .await
    }

    async fn reservations(
        &self,
        submitter: Submitter,
        after: Option<Nonce>,
        page: Page,
    ) -> Result<Vec<Reservation>, StoreError> {
        let (chain_id, address) = key(submitter);
        let params = (chain_id, address, after.map_or(-1, Nonce::as_i64), page.limit());
        self.db.all(queries::RESERVATION_PAGE, params, |row| row::reservation(row)).await
    }

    async fn used_for(
        &self,
        submitter: Submitter,
        nonce: Nonce,
    ) -> Result<Option<TxHash>, StoreError> {
        let (chain_id, address) = key(submitter);
        let params = (chain_id, address, nonce.as_i64());
        let query = queries::RESERVATION_USED_FOR;
        Ok(self.db.all(query, params, |row| row::hash(row, "tx_hash")).await?.pop())
    }

    async fn used_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(submitter);
        let params = (chain_id, address, from.as_i64(), page.limit());
        let query = queries::RESERVATION_USED_FROM;
        self.db.all(query, params, |row| row::nonce(row, "nonce")).await
    }
}

impl SqliteStore {
    /// Runs a transaction under the guard of one lease.
    async fn owned<T: Send + 'static>(
        &self,
        node: &NodeId,
        lease: Lease,
        work: impl FnOnce(&Connection<'_>) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let node = node.clone();
        let done = self.db.write(move |tx| {
            guard_or_fenced(tx, &node, lease)?;
            work(tx)
        });
        done.await
    }
}

/// A caller's report about its nonce; `None` if the nonce is no longer the caller's.
fn report(
    conn: &Connection<'_>,
    query: Query,
    lease: Lease,
    nonce: Nonce,
    owner_token: Uuid,
    content: &dyn ToSql,
) -> Result<Option<Reservation>, QueryError> {
    let Submitter { chain_id, address } = lease.submitter;
    let (nonce, token) = (nonce.as_i64(), owner_token.into_bytes());
    let params = params![chain_id.as_i64(), address.as_slice(), nonce, token, content];
    conn.one(query, params, |row| row::reservation(row))
}

/// Makes nonces recyclable; returns those that became so, lowest first. The flags say whether recyclable
/// and used ones are among them.
fn recycle(
    conn: &Connection<'_>,
    lease: Lease,
    wanted: Vec<Nonce>,
    reason: &str,
    (recyclable, used): (bool, bool),
) -> Result<Vec<Nonce>, QueryError> {
    let (chain_id, address) = key(lease.submitter);
    let (cursor, ..) = batch::cursor(conn, lease.submitter)?
        .ok_or(StoreError::UnknownSubmitter(lease.submitter))?;
    let mut free = Vec::new();
    for nonce in wanted {
        let (nonce, cursor) = (nonce.as_i64(), cursor.as_i64());
        let params = (chain_id, address, nonce, cursor, reason, recyclable, used);
        free.extend(nonces(conn, queries::RESERVATION_RECYCLE, params)?);
    }
    free.sort_unstable();
    free.dedup();
    Ok(free)
}

/// The nonces that a statement returns, lowest first.
fn nonces(
    conn: &Connection<'_>,
    query: Query,
    params: impl Params,
) -> Result<Vec<Nonce>, QueryError> {
    let mut nonces = conn.all(query, params, |row| row::nonce(row, "nonce"))?;
    nonces.sort_unstable();
    Ok(nonces)
}

/// Reserves the lowest recyclable nonce, else the cursor's.
fn reserve(
    conn: &Connection<'_>,
    node: &NodeId,
    ask: &Reserve,
) -> Result<Option<Reservation>, QueryError> {
    let submitter = ask.lease.submitter;
    let (chain_id, address) = (submitter.chain_id.as_i64(), submitter.address.as_slice());
    let (cursor, status, _) =
        batch::cursor(conn, submitter)?.ok_or(StoreError::UnknownSubmitter(submitter))?;
    let key = params![chain_id, address];
    let out = conn
        .one(queries::RESERVATION_COUNT, key, |row| row::int::<u64>(row, "count"))?
        .unwrap_or(0);
    // I12: a submitter that is not active opens no slot.
    if out >= u64::from(ask.outstanding_max) || status != SubmitterStatus::Active {
        return Ok(None);
    }
    let floor = params![chain_id, address, ask.floor.as_i64()];
    let lowest = conn.one(queries::RESERVATION_LOWEST, floor, |row| row::nonce(row, "nonce"))?;
    let nonce = match lowest {
        Some(nonce) => nonce,
        None => advance(conn, node, ask, cursor)?,
    };
    let hold = span(ask.hold);
    let params = params![chain_id, address, nonce.as_i64(), ask.owner_token.into_bytes(), hold];
    let put = conn.one(queries::RESERVATION_PUT, params, |row| row::reservation(row))?;
    // I3: neither the cursor nor a recyclable nonce may be in use.
    put.map(Some)
        .ok_or_else(|| QueryError::defect(format!("nonce {nonce} of {submitter} is in use")))
}

/// The cursor's nonce, or the floor if the chain is ahead of it; moves the cursor past it (I4).
fn advance(
    conn: &Connection<'_>,
    node: &NodeId,
    ask: &Reserve,
    from: Nonce,
) -> Result<Nonce, QueryError> {
    let nonce = from.max(ask.floor);
    let to = nonce.forward(1).map_err(StoreError::Invalid)?;
    if let Some(note) = SubmitterAuditEntry::skipped(from, nonce) {
        batch::insert_note(conn, node, ask.lease, &note)?;
    }
    batch::move_cursor(conn, ask.lease.submitter, CursorMove { from, to })?;
    Ok(nonce)
}
