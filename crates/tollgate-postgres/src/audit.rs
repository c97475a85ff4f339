//! The audit log. Implements [`AuditStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_model::access::KeyId;
use tollgate_model::audit::{AuditEntry, StoredAuditEntry};
use tollgate_model::port::{AuditStore, Page, StoreError};
use tollgate_model::time::micros;

use crate::connection::Parameters;
use crate::{PgStore, queries, row};

#[async_trait]
impl AuditStore for PgStore {
    async fn record_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let AuditEntry { author, action, subject, reason } = entry;
        let parameters: &Parameters<'_> = &[
            &author.key_id.as_ref().map(KeyId::as_str),
            &author.name.as_str(),
            &author.address.map(|address| address.to_string()),
            &action.name(),
            &subject.as_str(),
            &reason.as_ref().map(|reason| reason.as_str()),
        ];
        self.pools.work().await?.execute(queries::AUDIT_INSERT, parameters).await?;
        Ok(())
    }

    async fn audit_entries(
        &self,
        before: Option<u64>,
        page: Page,
    ) -> Result<Vec<StoredAuditEntry>, StoreError> {
        let before = before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
        let wanted: &Parameters<'_> = &[&before, &i64::from(page.limit())];
        self.pools.all(queries::AUDIT_PAGE, wanted, row::audit_entry).await
    }

    async fn forget_audit(&self, age: Duration, page: Page) -> Result<u64, StoreError> {
        let oldest: &Parameters<'_> = &[&micros(age), &i64::from(page.limit())];
        Ok(self.pools.work().await?.execute(queries::AUDIT_FORGET, oldest).await?)
    }
}
