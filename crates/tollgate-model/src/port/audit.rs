//! The stored audit log.

use std::time::Duration;

use async_trait::async_trait;

use super::{Page, StoreError};
use crate::audit::{AuditEntry, StoredAuditEntry};

/// The audit log. No lease is needed: entries are only added, and removed by age.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds an entry. It is durable when this returns.
    async fn record_audit(&self, entry: &AuditEntry) -> Result<(), StoreError>;

    /// Reads the newest entries with a number below `before`, or the newest of all, newest first.
    async fn audit_entries(
        &self,
        before: Option<u64>,
        page: Page,
    ) -> Result<Vec<StoredAuditEntry>, StoreError>;

    /// Deletes entries that are older than `age`, at most a page of them; returns how many.
    async fn forget_audit(&self, age: Duration, page: Page) -> Result<u64, StoreError>;
}
