//! The audit log. Implements [`AuditStore`].

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use tollgate_model::access::KeyId;
use tollgate_model::audit::{AuditEntry, StoredAuditEntry};
use tollgate_model::port::{AuditStore, Page, StoreError};

use crate::connection::span;
use crate::{SqliteStore, queries, row};

#[async_trait]
impl AuditStore for SqliteStore {
    async fn record_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let AuditEntry { author, action, subject, reason } = entry.clone();
        let recorded = self.db.write(move |tx| {
            let parameters = params![
                author.key_id.as_ref().map(KeyId::as_str),
                author.name.as_str(),
                author.address.map(|address| address.to_string()),
                action.name(),
                subject.as_str(),
                reason.as_ref().map(|reason| reason.as_str()),
            ];
            tx.exec(queries::AUDIT_INSERT, parameters).map(drop)
        });
        recorded.await
    }

    async fn audit_entries(
        &self,
        before: Option<u64>,
        page: Page,
    ) -> Result<Vec<StoredAuditEntry>, StoreError> {
        let before = before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
        let wanted = (before, page.limit());
        self.db.all(queries::AUDIT_PAGE, wanted, |row| row::audit_entry(row)).await
    }

    async fn forget_audit(&self, age: Duration, page: Page) -> Result<u64, StoreError> {
        let oldest = (span(age), page.limit());
        self.db.write(move |tx| Ok(tx.exec(queries::AUDIT_FORGET, oldest)? as u64)).await
    }
}
