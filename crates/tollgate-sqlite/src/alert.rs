//! Alerts and the notices about them. Implements [`AlertStore`].

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::port::{
    AlertNotice, AlertPhase, AlertReport, AlertStore, NoticeClaim, NoticeOutcome, Page, StoreError,
    StoredAlert,
};
use tollgate_model::{ChainId, NodeId, Submitter, Timestamp};
use uuid::Uuid;

use crate::connection::span;
use crate::db::{End, WriteTx};
use crate::error::QueryError;
use crate::tx::key;
use crate::{SqliteStore, queries, row};

#[async_trait]
impl AlertStore for SqliteStore {
    async fn report_alert(
        &self,
        report: &AlertReport,
        sinks: &[String],
    ) -> Result<bool, StoreError> {
        let (report, sinks) = (report.clone(), sinks.to_vec());
        self.db.write(move |tx| put(tx, &report, &sinks)).await
    }

    async fn resolve_alert(&self, alert_id: Uuid, seen_at: Timestamp) -> Result<bool, StoreError> {
        let (id, seen_at) = (alert_id.into_bytes(), seen_at.unix_micros());
        let resolved = self.db.write_or_not(move |tx| {
            if !tx.exists(queries::ALERT_RESOLVE, params![id, seen_at])? {
                return Ok(End::RollBack(false));
            }
            tx.exec(queries::ALERT_NOTICE_WITHDRAW, [id])?;
            tx.exec(queries::ALERT_NOTICE_RESOLVE, [id])?;
            Ok(End::Commit(true))
        });
        resolved.await
    }

    async fn alerts(&self, is_open: bool, page: Page) -> Result<Vec<StoredAlert>, StoreError> {
        let query = if is_open { queries::ALERT_PAGE_OPEN } else { queries::ALERT_PAGE };
        self.db.all(query, [page.limit()], |row| row::stored_alert(row)).await
    }

    async fn claim_notices(
        &self,
        node: &NodeId,
        sink: &str,
        claim: NoticeClaim,
    ) -> Result<Vec<AlertNotice>, StoreError> {
        let (node, sink) = (node.clone(), sink.to_owned());
        self.db.write_or_not(move |tx| take(tx, &node, &sink, claim)).await
    }

    async fn settle_notices(
        &self,
        node: &NodeId,
        sink: &str,
        notices: &[(Uuid, AlertPhase)],
        outcome: &NoticeOutcome,
    ) -> Result<(), StoreError> {
        let (node, sink) = (node.clone(), sink.to_owned());
        let (notices, outcome) = (notices.to_vec(), outcome.clone());
        self.db.write(move |tx| settle(tx, &node, &sink, &notices, &outcome)).await
    }

    async fn forget_alerts(&self, age: Duration, page: Page) -> Result<u64, StoreError> {
        let oldest = (span(age), page.limit());
        self.db.write(move |tx| Ok(tx.exec(queries::ALERT_FORGET, oldest)? as u64)).await
    }

    async fn claim_alert_watch(&self, node: &NodeId, term: Duration) -> Result<bool, StoreError> {
        let claim = (node.as_str().to_owned(), span(term));
        self.db.write(move |tx| tx.exists(queries::ALERT_WATCH_CLAIM, claim)).await
    }

    async fn reserved_counts(&self, of: &[Submitter]) -> Result<Vec<u64>, StoreError> {
        let keys: Vec<_> = of.iter().map(|of| key(*of)).collect();
        let counted = self.db.read(move |conn| {
            let mut counts = Vec::with_capacity(keys.len());
            for (chain_id, address) in keys {
                let of = params![chain_id, address];
                let found = conn.one(queries::ALERT_RESERVED, of, |row| row::int(row, "reserved"));
                counts.push(found?.unwrap_or_default());
            }
            Ok(counts)
        });
        counted.await
    }

    async fn database_time(&self) -> Result<Timestamp, StoreError> {
        let now = self.db.one(queries::DATABASE_TIME, [], |row| row::time(row, "now")).await?;
        now.ok_or_else(|| row::defect("no time".to_owned()))
    }
}

fn put(tx: &WriteTx<'_>, report: &AlertReport, sinks: &[String]) -> Result<bool, QueryError> {
    let AlertReport { alert_id, kind, subject, level, detail, node } = report;
    let id = alert_id.into_bytes();
    let parameters = params![
        id,
        kind.name(),
        subject.to_string(),
        subject.chain_id.map(ChainId::as_i64),
        subject.account.map(|account| account.to_vec()),
        subject.part.as_ref().map(|part| part.as_str()),
        level.code(),
        detail.as_str(),
        node.name(),
    ];
    let put = tx.one(queries::ALERT_PUT, parameters, |row| row::flag(row, "is_new"))?;
    let is_new = put.unwrap_or_default();
    for sink in sinks.iter().filter(|_| is_new) {
        tx.exec(queries::ALERT_NOTICE_PUT, params![id, sink])?;
    }
    Ok(is_new)
}

fn take(
    tx: &WriteTx<'_>,
    node: &NodeId,
    sink: &str,
    claim: NoticeClaim,
) -> Result<End<Vec<AlertNotice>>, QueryError> {
    tx.exec(queries::ALERT_SINK_PUT, [sink])?;
    if !tx.exists(queries::ALERT_SINK_TAKE, params![sink, claim.per_minute])? {
        return Ok(End::RollBack(Vec::new()));
    }
    let due = params![sink, node.as_str(), claim.batch_max, span(claim.term)];
    let place = |row: &row::Row<'_>| {
        Ok((row::bytes(row, "alert_id")?.to_vec(), row::int::<i16>(row, "phase")?))
    };
    let mut notices = Vec::new();
    for (alert_id, phase) in tx.all(queries::ALERT_NOTICE_CLAIM, due, place)? {
        let of = params![alert_id, sink, phase];
        notices.extend(tx.one(queries::ALERT_NOTICE_GET, of, |row| row::alert_notice(row))?);
    }
    // Nothing is sent: the message is not counted.
    if notices.is_empty() {
        return Ok(End::RollBack(notices));
    }
    notices.sort_by_key(|notice| (notice.alert.raised_at, notice.alert.alert_id, notice.phase));
    Ok(End::Commit(notices))
}

fn settle(
    tx: &WriteTx<'_>,
    node: &NodeId,
    sink: &str,
    notices: &[(Uuid, AlertPhase)],
    outcome: &NoticeOutcome,
) -> Result<(), QueryError> {
    let (is_ended, is_delivered, after, error) = match outcome {
        NoticeOutcome::Delivered => (true, true, Duration::ZERO, None),
        NoticeOutcome::Retry { after, error } => (false, false, *after, Some(error.as_str())),
        NoticeOutcome::GivenUp { error } => (true, false, Duration::ZERO, Some(error.as_str())),
    };
    for (alert_id, phase) in notices {
        let id = alert_id.into_bytes();
        let settled = params![
            id,
            sink,
            phase.code(),
            node.as_str(),
            is_ended,
            span(after),
            is_delivered,
            error,
        ];
        tx.exec(queries::ALERT_NOTICE_SETTLE, settled)?;
        if *phase == AlertPhase::Raised && is_ended && !is_delivered {
            tx.exec(queries::ALERT_NOTICE_DROP, params![id, sink])?;
        }
    }
    Ok(())
}
