//! Nonces for callers that send by themselves. Implements [`ReservationStore`] under the same lease,
//! cursor and fence as the batch.

use async_trait::async_trait;
use tokio_postgres::types::ToSql;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{
    Lease, Page, Reservation, ReservationStore, Reserve, ReturnedNonces, StoreError,
    SubmitterAuditEntry,
};
use tollgate_model::sql::Query;
use tollgate_model::time::micros;
use tollgate_model::{NodeId, Nonce, Submitter, Text, TxHash};
use uuid::Uuid;

use crate::batch::insert_note;
use crate::connection::Parameters;
use crate::db::Tx;
use crate::lease::key;
use crate::row::Row;
use crate::{PgStore, queries, row};

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
        let cursor = lock_cursor(&tx, submitter).await?;
        let counted = tx.query_one(queries::RESERVATION_COUNT, &[&chain_id, &address]).await?;
        if row::int::<i64>(&counted, "count")? >= i64::from(ask.outstanding_max)
            || row::status(&cursor)? != SubmitterStatus::Active
        {
            tx.rollback().await?;
            return Ok(None);
        }
        let floor = ask.floor.as_i64();
        let lowest =
            tx.query_opt(queries::RESERVATION_LOWEST, &[&chain_id, &address, &floor]).await?;
        let nonce = match lowest {
            Some(row) => row::nonce(&row, "nonce")?,
            None => advance(&tx, node, ask, row::nonce(&cursor, "next_nonce")?).await?,
        };
        let (hold, nonce_column) = (micros(ask.hold), nonce.as_i64());
        let parameters: &Parameters<'_> =
            &[&chain_id, &address, &nonce_column, &ask.owner_token, &hold];
        let Some(put) = tx.query_opt(queries::RESERVATION_PUT, parameters).await? else {
            // I3: neither the cursor nor a recyclable nonce may be in use.
            return Err(row::defect(format!("nonce {nonce} of {submitter} is in use")));
        };
        let reserved = row::reservation(&put)?;
        tx.commit().await?;
        Ok(Some(reserved))
    }

    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError> {
        let hash = tx_hash.as_slice();
        self.report(node, lease, queries::RESERVATION_USED, nonce, owner_token, &hash).await
    }

    async fn reservation_recyclable(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        reason: &Text<500>,
    ) -> Result<Option<Reservation>, StoreError> {
        let reason = reason.as_str();
        self.report(node, lease, queries::RESERVATION_RECYCLABLE, nonce, owner_token, &reason).await
    }

    async fn expire_reservations(
        &self,
        node: &NodeId,
        lease: Lease,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.change_nonces(node, lease, queries::RESERVATION_EXPIRE, &[]).await
    }

    async fn retire_passed(
        &self,
        node: &NodeId,
        lease: Lease,
        mined: Nonce,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.change_nonces(node, lease, queries::RESERVATION_RETIRE, &[&mined.as_i64()]).await
    }

    async fn adopt(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &[Nonce],
        reason: &Text<500>,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (tx, free) = self.recycle(node, lease, wanted, reason, (false, false)).await?;
        tx.commit().await?;
        Ok(free)
    }

    async fn return_nonces(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &ReturnedNonces,
    ) -> Result<Vec<Nonce>, StoreError> {
        let ReturnedNonces { nonces, used, reason } = wanted;
        let (tx, free) = self.recycle(node, lease, nonces, reason, (true, *used)).await?;
        if let Some(note) = SubmitterAuditEntry::handed_back(&free, reason.as_str()) {
            insert_note(&tx, node, lease, &note).await?;
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
        let (after, limit) = (after.map_or(-1, Nonce::as_i64), i64::from(page.limit()));
        let of: &Parameters<'_> = &[&chain_id, &address, &after, &limit];
        self.pools.all(queries::RESERVATION_PAGE, of, row::reservation).await
    }

    async fn used_for(
        &self,
        submitter: Submitter,
        nonce: Nonce,
    ) -> Result<Option<TxHash>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let of: &Parameters<'_> = &[&chain_id, &address, &nonce.as_i64()];
        let used =
            self.pools.all(queries::RESERVATION_USED_FOR, of, |row| row::hash(row, "tx_hash"));
        Ok(used.await?.pop())
    }

    async fn used_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(&submitter);
        let of: &Parameters<'_> = &[&chain_id, &address, &from.as_i64(), &i64::from(page.limit())];
        self.pools.all(queries::RESERVATION_USED_FROM, of, |row| row::nonce(row, "nonce")).await
    }
}

impl PgStore {
    /// A caller's report about its nonce; `None` if the nonce is no longer the caller's.
    async fn report(
        &self,
        node: &NodeId,
        lease: Lease,
        query: Query,
        nonce: Nonce,
        owner_token: Uuid,
        content: &(dyn ToSql + Sync),
    ) -> Result<Option<Reservation>, StoreError> {
        let (chain_id, address) = key(&lease.submitter);
        let tx = self.begin_owned(node, lease).await?;
        lock_cursor(&tx, lease.submitter).await?;
        let nonce = nonce.as_i64();
        let changed =
            tx.query_opt(query, &[&chain_id, &address, &nonce, &owner_token, content]).await?;
        tx.commit().await?;
        changed.as_ref().map(row::reservation).transpose()
    }

    /// Changes nonces of a submitter by a statement that takes its key first; returns those that changed.
    async fn change_nonces(
        &self,
        node: &NodeId,
        lease: Lease,
        query: Query,
        more: &Parameters<'_>,
    ) -> Result<Vec<Nonce>, StoreError> {
        let (chain_id, address) = key(&lease.submitter);
        let tx = self.begin_owned(node, lease).await?;
        lock_cursor(&tx, lease.submitter).await?;
        let of: &Parameters<'_> = &[&chain_id, &address];
        let rows = tx.query_all(query, &[of, more].concat()).await?;
        tx.commit().await?;
        nonces(&rows)
    }

    /// Makes nonces recyclable in a transaction that the caller commits; returns those that became so.
    /// The flags say whether recyclable and used ones are among them.
    async fn recycle(
        &self,
        node: &NodeId,
        lease: Lease,
        wanted: &[Nonce],
        reason: &Text<500>,
        (recyclable, used): (bool, bool),
    ) -> Result<(Tx, Vec<Nonce>), StoreError> {
        Page::fits(wanted.len())?;
        let (chain_id, address) = key(&lease.submitter);
        let tx = self.begin_owned(node, lease).await?;
        let cursor = lock_cursor(&tx, lease.submitter).await?;
        let cursor = row::nonce(&cursor, "next_nonce")?.as_i64();
        // One statement can't change a row twice.
        let mut wanted: Vec<i64> = wanted.iter().map(|nonce| nonce.as_i64()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let reason = reason.as_str();
        let parameters: &Parameters<'_> =
            &[&chain_id, &address, &wanted, &cursor, &reason, &recyclable, &used];
        let rows = tx.query_all(queries::RESERVATION_RECYCLE, parameters).await?;
        Ok((tx, nonces(&rows)?))
    }
}

/// The cursor's row, locked until the transaction ends. Every write of reservations locks it, so that `settle`
/// can wait for one whose outcome is unknown.
async fn lock_cursor(tx: &Tx, submitter: Submitter) -> Result<Row, StoreError> {
    let (chain_id, address) = key(&submitter);
    let locked = tx.query_opt(queries::CURSOR_LOCK, &[&vec![chain_id], &vec![address]]).await?;
    locked.ok_or(StoreError::UnknownSubmitter(submitter))
}

/// The cursor's nonce, or the floor if the chain is ahead of it; moves the cursor past it (I4).
async fn advance(tx: &Tx, node: &NodeId, ask: &Reserve, from: Nonce) -> Result<Nonce, StoreError> {
    let nonce = from.max(ask.floor);
    if let Some(note) = SubmitterAuditEntry::skipped(from, nonce) {
        insert_note(tx, node, ask.lease, &note).await?;
    }
    let (chain_id, address) = key(&ask.lease.submitter);
    let (from, to) = (from.as_i64(), nonce.forward(1)?.as_i64());
    tx.execute(queries::CURSOR_MOVE, &[&vec![chain_id], &vec![address], &vec![from], &vec![to]])
        .await?;
    Ok(nonce)
}

/// The nonces that a statement returns, lowest first.
fn nonces(rows: &[Row]) -> Result<Vec<Nonce>, StoreError> {
    let mut nonces =
        rows.iter().map(|row| row::nonce(row, "nonce")).collect::<Result<Vec<_>, _>>()?;
    nonces.sort_unstable();
    Ok(nonces)
}
