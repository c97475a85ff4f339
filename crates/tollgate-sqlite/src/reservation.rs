//! Nonces for callers that send by themselves. Implements [`ReservationStore`]: the same lease,
//! cursor and fence as the batch, one small transaction for each call.

use async_trait::async_trait;
use rusqlite::{Connection, Params, params};
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{
    CursorMove, HandBack, Lease, Page, Reservation, ReservationStore, Reserve, StoreError,
    SubmitterNote,
};
use tollgate_model::{NodeId, Nonce, Submitter, Text, TxHash};
use uuid::Uuid;

use crate::SqliteStore;
use crate::batch;
use crate::connection::span;
use crate::db::{all, one};
use crate::error::Fault;
use crate::lease::guard_or_fenced;
use crate::{queries, row};

#[async_trait]
impl ReservationStore for SqliteStore {
    async fn reserve(
        &self,
        node: &NodeId,
        ask: &Reserve,
    ) -> Result<Option<Reservation>, StoreError> {
        let (node, ask) = (node.clone(), *ask);
        let reserved = self.db.write(move |scope| {
            guard_or_fenced(scope, &node, ask.lease)?;
            reserve(scope.conn, &node, &ask)
        });
        reserved.await
    }

    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError> {
        let node = node.clone();
        let used = self.db.write(move |scope| {
            guard_or_fenced(scope, &node, lease)?;
            let Submitter { chain_id, address } = lease.submitter;
            let params = params![
                chain_id.as_i64(),
                address.as_slice(),
                nonce.as_i64(),
                owner_token.into_bytes(),
                tx_hash.as_slice()
            ];
            let decode = |row: &rusqlite::Row<'_>| row::reservation(row, lease.submitter);
            one(scope.conn, queries::RESERVATION_USED, params, decode)
        });
        used.await
    }

    async fn reservation_recyclable(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        reason: &Text<500>,
    ) -> Result<Option<Reservation>, StoreError> {
        let (node, reason) = (node.clone(), reason.clone());
        let returned = self.db.write(move |scope| {
            guard_or_fenced(scope, &node, lease)?;
            let Submitter { chain_id, address } = lease.submitter;
            let params = params![
                chain_id.as_i64(),
                address.as_slice(),
                nonce.as_i64(),
                owner_token.into_bytes(),
                reason.as_str()
            ];
            let decode = |row: &rusqlite::Row<'_>| row::reservation(row, lease.submitter);
            one(scope.conn, queries::RESERVATION_RECYCLABLE, params, decode)
        });
        returned.await
    }

    async fn expire_reservations(
        &self,
        node: &NodeId,
        lease: Lease,
    ) -> Result<Vec<Nonce>, StoreError> {
        let node = node.clone();
        let expired = self.db.write(move |scope| {
            guard_or_fenced(scope, &node, lease)?;
            let Submitter { chain_id, address } = lease.submitter;
            let params = params![chain_id.as_i64(), address.as_slice()];
            nonces(scope.conn, queries::RESERVATION_EXPIRE, params)
        });
        expired.await
    }

    async fn retire_passed(
        &self,
        node: &NodeId,
        lease: Lease,
        mined: Nonce,
    ) -> Result<Vec<Nonce>, StoreError> {
        let node = node.clone();
        let retired = self.db.write(move |scope| {
            guard_or_fenced(scope, &node, lease)?;
            let Submitter { chain_id, address } = lease.submitter;
            let params = params![chain_id.as_i64(), address.as_slice(), mined.as_i64()];
            nonces(scope.conn, queries::RESERVATION_RETIRE, params)
        });
        retired.await
    }

    async fn adopt(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &[Nonce],
        reason: &Text<500>,
    ) -> Result<Vec<Nonce>, StoreError> {
        Page::fits(wanted.len())?;
        let (node, mut wanted, reason) = (node.clone(), wanted.to_vec(), reason.clone());
        wanted.sort_unstable();
        let adopted = self.db.write(move |scope| {
            guard_or_fenced(scope, &node, lease)?;
            let submitter = lease.submitter;
            let (cursor, ..) = batch::cursor(scope.conn, submitter)?
                .ok_or(StoreError::UnknownSubmitter(submitter))?;
            let Submitter { chain_id, address } = submitter;
            let mut adopted = Vec::new();
            for nonce in wanted {
                let params = params![
                    chain_id.as_i64(),
                    address.as_slice(),
                    nonce.as_i64(),
                    cursor.as_i64(),
                    reason.as_str()
                ];
                adopted.extend(nonces(scope.conn, queries::RESERVATION_ADOPT, params)?);
            }
            Ok(adopted)
        });
        adopted.await
    }

    async fn hand_back(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &HandBack,
    ) -> Result<Vec<Nonce>, StoreError> {
        Page::fits(wanted.nonces.len())?;
        let (node, mut wanted) = (node.clone(), wanted.clone());
        wanted.nonces.sort_unstable();
        let handed_back = self.db.write(move |scope| {
            guard_or_fenced(scope, &node, lease)?;
            let submitter = lease.submitter;
            let (cursor, ..) = batch::cursor(scope.conn, submitter)?
                .ok_or(StoreError::UnknownSubmitter(submitter))?;
            let Submitter { chain_id, address } = submitter;
            let HandBack { nonces: wanted, used, reason } = wanted;
            let mut free = Vec::new();
            for nonce in wanted {
                let params = params![
                    chain_id.as_i64(),
                    address.as_slice(),
                    nonce.as_i64(),
                    cursor.as_i64(),
                    reason.as_str(),
                    used
                ];
                free.extend(nonces(scope.conn, queries::RESERVATION_HAND_BACK, params)?);
            }
            if let Some(entry) = SubmitterNote::handed_back(&free, reason.as_str()) {
                batch::note(scope.conn, &node, lease, &entry)?;
            }
            Ok(free)
        });
        handed_back.await
    }

    async fn reservations(
        &self,
        submitter: Submitter,
        after: Option<Nonce>,
        page: Page,
    ) -> Result<Vec<Reservation>, StoreError> {
        let reservations = self.db.read(move |conn| {
            let Submitter { chain_id, address } = submitter;
            let after = after.map_or(-1, Nonce::as_i64);
            let params = params![chain_id.as_i64(), address.as_slice(), after, page.limit()];
            let decode = |row: &rusqlite::Row<'_>| row::reservation(row, submitter);
            all(conn, queries::RESERVATION_PAGE, params, decode)
        });
        reservations.await
    }

    async fn used_from(
        &self,
        Submitter { chain_id, address }: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        let used = self.db.read(move |conn| {
            let params =
                params![chain_id.as_i64(), address.as_slice(), from.as_i64(), page.limit()];
            nonces(conn, queries::RESERVATION_USED_FROM, params)
        });
        used.await
    }
}

/// The nonces that a statement returns, lowest first.
fn nonces(conn: &Connection, sql: &str, params: impl Params) -> Result<Vec<Nonce>, Fault> {
    let mut nonces = all(conn, sql, params, |row| row::nonce(row, 0))?;
    nonces.sort_unstable();
    Ok(nonces)
}

/// The lowest nonce that came back, else the cursor's, under a guard that holds.
fn reserve(conn: &Connection, node: &NodeId, ask: &Reserve) -> Result<Option<Reservation>, Fault> {
    let submitter = ask.lease.submitter;
    let (chain_id, address) = (submitter.chain_id.as_i64(), submitter.address.as_slice());
    let (cursor, status, _) =
        batch::cursor(conn, submitter)?.ok_or(StoreError::UnknownSubmitter(submitter))?;
    let key = params![chain_id, address];
    let out = one(conn, queries::RESERVATION_COUNT, key, |row| row::count(row, 0))?.unwrap_or(0);
    // I12: a submitter that takes no work opens no slot.
    if out >= u64::from(ask.outstanding_max) || status != SubmitterStatus::Active {
        return Ok(None);
    }
    let floor = params![chain_id, address, ask.floor.as_i64()];
    let lowest = one(conn, queries::RESERVATION_LOWEST, floor, |row| row::nonce(row, 0))?;
    let nonce = match lowest {
        Some(nonce) => nonce,
        None => advance(conn, node, ask, cursor)?,
    };
    let hold = span(ask.hold);
    let params = params![chain_id, address, nonce.as_i64(), ask.owner_token.into_bytes(), hold];
    let put = one(conn, queries::RESERVATION_PUT, params, |row| row::reservation(row, submitter))?;
    // I3: a nonce at the cursor was never given out.
    put.map(Some).ok_or_else(|| Fault::defect(format!("nonce {nonce} of {submitter} is in use")))
}

/// The cursor's nonce, or the floor if the chain is ahead of it; the cursor goes past it (I4).
fn advance(conn: &Connection, node: &NodeId, ask: &Reserve, from: Nonce) -> Result<Nonce, Fault> {
    let nonce = from.max(ask.floor);
    let to = nonce.forward(1).map_err(StoreError::Invalid)?;
    if let Some(entry) = SubmitterNote::skipped(from, nonce) {
        batch::note(conn, node, ask.lease, &entry)?;
    }
    batch::move_cursor(conn, ask.lease.submitter, CursorMove { from, to })?;
    Ok(nonce)
}
