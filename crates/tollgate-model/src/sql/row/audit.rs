//! Rows of the audit log.

use super::{Decoded, SqlRow, defect, int, required, string, text, time, unreadable};
use crate::access::KeyId;
use crate::audit::{AuditAuthor, StoredAuditEntry};

/// An entry of the audit log.
pub fn audit_entry(row: &impl SqlRow) -> Decoded<StoredAuditEntry> {
    let key_id = row.text("key_id")?.map(KeyId::new).transpose().map_err(unreadable)?;
    let address = row.text("address")?.map(|text| {
        text.parse().map_err(|_| defect(format!("{text} is no address in the audit log")))
    });
    Ok(StoredAuditEntry {
        number: int(row, "number")?,
        at: time(row, "at")?,
        author: AuditAuthor {
            key_id,
            name: required("author", text(row, "author")?)?,
            address: address.transpose()?,
        },
        action: string(row, "action")?,
        subject: required("subject", text(row, "subject")?)?,
        reason: text(row, "reason")?,
    })
}
