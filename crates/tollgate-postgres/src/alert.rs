//! Alerts and the notices about them. Implements [`AlertStore`].

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tollgate_model::port::{
    AlertNotice, AlertPhase, AlertReport, AlertStore, NoticeClaim, NoticeOutcome, Page, StoreError,
    StoredAlert,
};
use tollgate_model::time::micros;
use tollgate_model::{ChainId, NodeId, Submitter, Timestamp};
use uuid::Uuid;

use crate::connection::Parameters;
use crate::db::Tx;
use crate::lease::key;
use crate::{PgStore, queries, row};

#[async_trait]
impl AlertStore for PgStore {
    async fn report_alert(
        &self,
        report: &AlertReport,
        sinks: &[String],
    ) -> Result<bool, StoreError> {
        let AlertReport { alert_id, kind, subject, level, detail, node } = report;
        let tx = Tx::begin(self.pools.work().await?).await?;
        let parameters: &Parameters<'_> = &[
            alert_id,
            &kind.name(),
            &subject.to_string(),
            &subject.chain_id.map(ChainId::as_i64),
            &subject.account.as_ref().map(|account| account.as_slice()),
            &subject.part.as_ref().map(|part| part.as_str()),
            &level.code(),
            &detail.as_str(),
            &node.name(),
        ];
        let put = tx.query_one(queries::ALERT_PUT, parameters).await?;
        let is_new = row::flag(&put, "is_new")?;
        for sink in sinks.iter().filter(|_| is_new) {
            tx.execute(queries::ALERT_NOTICE_PUT, &[alert_id, sink]).await?;
        }
        tx.commit().await?;
        Ok(is_new)
    }

    async fn resolve_alert(&self, alert_id: Uuid, seen_at: Timestamp) -> Result<bool, StoreError> {
        let seen_at = SystemTime::from(seen_at);
        let tx = Tx::begin(self.pools.work().await?).await?;
        if tx.query_opt(queries::ALERT_RESOLVE, &[&alert_id, &seen_at]).await?.is_none() {
            tx.rollback().await?;
            return Ok(false);
        }
        tx.execute(queries::ALERT_NOTICE_WITHDRAW, &[&alert_id]).await?;
        tx.execute(queries::ALERT_NOTICE_RESOLVE, &[&alert_id]).await?;
        tx.commit().await?;
        Ok(true)
    }

    async fn alerts(&self, is_open: bool, page: Page) -> Result<Vec<StoredAlert>, StoreError> {
        let query = if is_open { queries::ALERT_PAGE_OPEN } else { queries::ALERT_PAGE };
        self.pools.all(query, &[&i64::from(page.limit())], row::stored_alert).await
    }

    async fn claim_notices(
        &self,
        node: &NodeId,
        sink: &str,
        claim: NoticeClaim,
    ) -> Result<Vec<AlertNotice>, StoreError> {
        let per_minute = i32::try_from(claim.per_minute).unwrap_or(i32::MAX);
        let tx = Tx::begin(self.pools.work().await?).await?;
        tx.execute(queries::ALERT_SINK_PUT, &[&sink]).await?;
        if tx.query_opt(queries::ALERT_SINK_TAKE, &[&sink, &per_minute]).await?.is_none() {
            tx.rollback().await?;
            return Ok(Vec::new());
        }
        let due: &Parameters<'_> =
            &[&sink, &node.as_str(), &i64::from(claim.batch_max), &micros(claim.term)];
        let claimed = tx.query_all(queries::ALERT_NOTICE_CLAIM, due).await?;
        if claimed.is_empty() {
            // Nothing is sent: the message is not counted.
            tx.rollback().await?;
            return Ok(Vec::new());
        }
        let notices = claimed.iter().map(row::alert_notice).collect::<Result<_, _>>()?;
        tx.commit().await?;
        Ok(notices)
    }

    async fn settle_notices(
        &self,
        node: &NodeId,
        sink: &str,
        notices: &[(Uuid, AlertPhase)],
        outcome: &NoticeOutcome,
    ) -> Result<(), StoreError> {
        let (is_ended, is_delivered, after, error) = match outcome {
            NoticeOutcome::Delivered => (true, true, Duration::ZERO, None),
            NoticeOutcome::Retry { after, error } => (false, false, *after, Some(error.as_str())),
            NoticeOutcome::GivenUp { error } => (true, false, Duration::ZERO, Some(error.as_str())),
        };
        let tx = Tx::begin(self.pools.work().await?).await?;
        for (alert_id, phase) in notices {
            let settled: &Parameters<'_> = &[
                alert_id,
                &sink,
                &phase.code(),
                &node.as_str(),
                &is_ended,
                &micros(after),
                &is_delivered,
                &error,
            ];
            tx.execute(queries::ALERT_NOTICE_SETTLE, settled).await?;
            if *phase == AlertPhase::Raised && is_ended && !is_delivered {
                tx.execute(queries::ALERT_NOTICE_DROP, &[alert_id, &sink]).await?;
            }
        }
        Ok(tx.commit().await?)
    }

    async fn forget_alerts(&self, age: Duration, page: Page) -> Result<u64, StoreError> {
        let oldest: &Parameters<'_> = &[&micros(age), &i64::from(page.limit())];
        Ok(self.pools.work().await?.execute(queries::ALERT_FORGET, oldest).await?)
    }

    async fn claim_alert_watch(&self, node: &NodeId, term: Duration) -> Result<bool, StoreError> {
        let claim: &Parameters<'_> = &[&node.as_str(), &micros(term)];
        let held = self.pools.work().await?.query_opt(queries::ALERT_WATCH_CLAIM, claim).await?;
        Ok(held.is_some())
    }

    async fn reserved_counts(&self, of: &[Submitter]) -> Result<Vec<u64>, StoreError> {
        let (chains, addresses): (Vec<i64>, Vec<&[u8]>) = of.iter().map(key).unzip();
        let count = |found: &row::Row| row::int(found, "reserved");
        self.pools.all(queries::ALERT_RESERVED, &[&chains, &addresses], count).await
    }

    async fn database_time(&self) -> Result<Timestamp, StoreError> {
        let now = self.pools.work().await?.query_one(queries::DATABASE_TIME, &[]).await?;
        row::time(&now, "now")
    }
}
