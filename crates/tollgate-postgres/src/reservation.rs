//! Nonces for callers that send by themselves: the same lease, cursor and fence as everything else.

use std::time::SystemTime;

use async_trait::async_trait;
use tokio_postgres::types::ToSql;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{
    HandBack, Lease, Page, Reservation, ReservationState, ReservationStore, Reserve, StoreError,
    SubmitterNote,
};
use tollgate_model::time::micros;
use tollgate_model::{NodeId, Nonce, Submitter, Text, Timestamp, TxHash};
use uuid::Uuid;

use crate::PgStore;
use crate::batch::{Guarded, note};
use crate::db::{Tx, prepared};
use crate::error::failed;
use crate::lease::key;
use crate::{queries, row};

#[async_trait]
impl ReservationStore for PgStore {
    async fn reserve(
        &self,
        node: &NodeId,
        ask: &Reserve,
    ) -> Result<Option<Reservation>, StoreError> {
        let submitter = ask.lease.submitter;
        let (chain_id, address) = key(&submitter);
        let tx = self.begin_owned(node, ask.lease).await?;
        let cursors = query(&tx, queries::CURSOR_LOCK, &[&vec![chain_id], &vec![address]]).await?;
        let cursor = cursors.first().ok_or(StoreError::UnknownSubmitter(submitter))?;
        let counted = query(&tx, queries::RESERVATION_COUNT, &[&chain_id, &address]).await?;
        let outstanding: i64 = match counted.first() {
            Some(row) => row::get(row, "count")?,
            None => 0,
        };
        if outstanding >= i64::from(ask.outstanding_max)
            || row::status(cursor)? != SubmitterStatus::Active
        {
            tx.rollback().await?;
            return Ok(None);
        }
        let floor = ask.floor.as_i64();
        let lowest =
            query(&tx, queries::RESERVATION_LOWEST, &[&chain_id, &address, &floor]).await?;
        let nonce = match lowest.first() {
            Some(row) => row::nonce(row, "nonce")?,
            None => {
                let from = row::nonce(cursor, "next_nonce")?;
                let nonce = from.max(ask.floor);
                if let Some(entry) = SubmitterNote::skipped(from, nonce) {
                    note(&tx, node, ask.lease, &entry).await?;
                }
                let (from, to) = (vec![from.as_i64()], vec![nonce.forward(1)?.as_i64()]);
                let keys = (vec![chain_id], vec![address]);
                execute(&tx, queries::CURSOR_MOVE, &[&keys.0, &keys.1, &from, &to]).await?;
                nonce
            }
        };
        let hold = micros(ask.hold);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&chain_id, &address, &nonce.as_i64(), &ask.owner_token, &hold];
        let put = query(&tx, queries::RESERVATION_PUT, &parameters).await?;
        let Some(put) = put.first() else {
            // The slot is in use although pool and cursor say otherwise: nothing is handed out.
            return Err(StoreError::Defect(format!("nonce {nonce} of {submitter} is in use")));
        };
        let deadline = Timestamp::from(row::get::<SystemTime>(put, "deadline")?);
        tx.commit().await?;
        Ok(Some(Reservation {
            submitter,
            nonce,
            state: ReservationState::Reserved,
            owner_token: ask.owner_token,
            deadline,
            tx_hash: None,
            reason: None,
        }))
    }

    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError> {
        let answer = tx_hash.as_slice();
        self.answer(node, lease, queries::RESERVATION_USED, nonce, owner_token, &answer).await
    }

    async fn reservation_recyclable(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        reason: &Text<500>,
    ) -> Result<Option<Reservation>, StoreError> {
        let answer = reason.as_str();
        self.answer(node, lease, queries::RESERVATION_RECYCLABLE, nonce, owner_token, &answer).await
    }

    async fn expire_reservations(
        &self,
        node: &NodeId,
        lease: Lease,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(&lease.submitter);
        let tx = self.begin_owned(node, lease).await?;
        let rows = query(&tx, queries::RESERVATION_EXPIRE, &[&chain_id, &address]).await?;
        tx.commit().await?;
        nonces(&rows)
    }

    async fn retire_passed(
        &self,
        node: &NodeId,
        lease: Lease,
        mined: Nonce,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(&lease.submitter);
        let tx = self.begin_owned(node, lease).await?;
        let parameters: [&(dyn ToSql + Sync); 3] = [&chain_id, &address, &mined.as_i64()];
        let rows = query(&tx, queries::RESERVATION_RETIRE, &parameters).await?;
        tx.commit().await?;
        nonces(&rows)
    }

    async fn adopt(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &[Nonce],
        reason: &Text<500>,
    ) -> Result<Vec<Nonce>, StoreError> {
        Page::fits(wanted.len())?;
        let submitter = lease.submitter;
        let (chain_id, address) = key(&submitter);
        let tx = self.begin_owned(node, lease).await?;
        let cursors = query(&tx, queries::CURSOR_LOCK, &[&vec![chain_id], &vec![address]]).await?;
        let cursor = cursors.first().ok_or(StoreError::UnknownSubmitter(submitter))?;
        let cursor = row::nonce(cursor, "next_nonce")?.as_i64();
        let wanted: Vec<i64> = wanted.iter().map(|nonce| nonce.as_i64()).collect();
        let reason = reason.as_str();
        let parameters: [&(dyn ToSql + Sync); 5] = [&chain_id, &address, &wanted, &cursor, &reason];
        let rows = query(&tx, queries::RESERVATION_ADOPT, &parameters).await?;
        tx.commit().await?;
        nonces(&rows)
    }

    async fn hand_back(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &HandBack,
    ) -> Result<Vec<Nonce>, StoreError> {
        let HandBack { nonces: wanted, used, reason } = wanted;
        Page::fits(wanted.len())?;
        let submitter = lease.submitter;
        let (chain_id, address) = key(&submitter);
        let tx = self.begin_owned(node, lease).await?;
        let cursors = query(&tx, queries::CURSOR_LOCK, &[&vec![chain_id], &vec![address]]).await?;
        let cursor = cursors.first().ok_or(StoreError::UnknownSubmitter(submitter))?;
        let cursor = row::nonce(cursor, "next_nonce")?.as_i64();
        let wanted: Vec<i64> = wanted.iter().map(|nonce| nonce.as_i64()).collect();
        let reason = reason.as_str();
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&chain_id, &address, &wanted, &cursor, &reason, used];
        let rows = query(&tx, queries::RESERVATION_HAND_BACK, &parameters).await?;
        let free = nonces(&rows)?;
        if let Some(entry) = SubmitterNote::handed_back(&free, reason) {
            note(&tx, node, lease, &entry).await?;
        }
        tx.commit().await?;
        Ok(free)
    }

    async fn reservations(
        &self,
        submitter: Submitter,
        after: Option<Nonce>,
        page: Page,
    ) -> Result<Vec<Reservation>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let after = after.map_or(-1, Nonce::as_i64);
        let limit = i64::from(page.limit());
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::RESERVATION_PAGE).await?;
        let rows =
            client.query(&read, &[&chain_id, &address, &after, &limit]).await.map_err(failed)?;
        rows.iter().map(row::reservation).collect()
    }

    async fn used_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let (from, limit) = (from.as_i64(), i64::from(page.limit()));
        let client = self.pools.work().await?;
        let read = prepared(&client, queries::RESERVATION_USED_FROM).await?;
        let rows =
            client.query(&read, &[&chain_id, &address, &from, &limit]).await.map_err(failed)?;
        nonces(&rows)
    }
}

impl PgStore {
    /// Begins a transaction that holds one lease, or says that it is lost.
    async fn begin_owned(&self, node: &NodeId, lease: Lease) -> Result<Tx, StoreError> {
        let Guarded { tx, held, .. } = self.begin_guarded(node, &[lease]).await?;
        if held == [true] {
            return Ok(tx);
        }
        tx.rollback().await?;
        Err(StoreError::Fenced(lease.submitter))
    }

    /// A caller's answer about its nonce; `None` if the nonce is not the caller's any more.
    async fn answer(
        &self,
        node: &NodeId,
        lease: Lease,
        sql: &str,
        nonce: Nonce,
        owner_token: Uuid,
        answer: &(dyn ToSql + Sync),
    ) -> Result<Option<Reservation>, StoreError> {
        let (chain_id, address) = key(&lease.submitter);
        let tx = self.begin_owned(node, lease).await?;
        let nonce = nonce.as_i64();
        let changed = query(&tx, sql, &[&chain_id, &address, &nonce, &owner_token, answer]).await?;
        tx.commit().await?;
        changed.first().map(row::reservation).transpose()
    }
}

/// The nonces that a statement returns, lowest first.
fn nonces(rows: &[tokio_postgres::Row]) -> Result<Vec<Nonce>, StoreError> {
    let mut nonces =
        rows.iter().map(|row| row::nonce(row, "nonce")).collect::<Result<Vec<_>, _>>()?;
    nonces.sort_unstable();
    Ok(nonces)
}

async fn query(
    tx: &Tx,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<tokio_postgres::Row>, StoreError> {
    let statement = tx.prepared(sql).await?;
    tx.client()?.query(&statement, parameters).await.map_err(failed)
}

async fn execute(
    tx: &Tx,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<u64, StoreError> {
    let statement = tx.prepared(sql).await?;
    tx.client()?.execute(&statement, parameters).await.map_err(failed)
}
