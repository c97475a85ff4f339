//! Rows of alerts.

use std::time::Duration;

use super::{Decoded, SqlRow, defect, int, required, string, text, time, unreadable};
use crate::alert::{AlertLevel, AlertSubject};
use crate::ids::ChainId;
use crate::port::{AlertKind, AlertNotice, AlertPhase, StoredAlert};
use alloy_primitives::Address;

/// An alert.
pub fn stored_alert(row: &impl SqlRow) -> Decoded<StoredAlert> {
    let name = string(row, "kind")?;
    let kind = AlertKind::from_name(&name).ok_or_else(|| defect(format!("no alert {name}")))?;
    let level: i16 = int(row, "level")?;
    let chain_id = row.integer("chain_id")?.map(ChainId::from_i64).transpose();
    let account = row.bytes("submitter")?.map(super::fixed::<20>).transpose()?;
    Ok(StoredAlert {
        alert_id: required("alert_id", row.uuid("alert_id")?)?,
        kind,
        subject: AlertSubject {
            chain_id: chain_id.map_err(unreadable)?,
            account: account.map(Address::new),
            part: text(row, "part")?,
        },
        level: AlertLevel::from_code(level).ok_or_else(|| defect(format!("no level {level}")))?,
        detail: required("detail", text(row, "detail")?)?,
        node: string(row, "node")?,
        raised_at: time(row, "raised_at")?,
        seen_at: time(row, "seen_at")?,
        resolved_at: row.time("resolved_at")?,
        times: int(row, "times")?,
        unseen: Duration::from_micros(int::<i64>(row, "unseen")?.max(0).unsigned_abs()),
    })
}

/// A claimed notice.
pub fn alert_notice(row: &impl SqlRow) -> Decoded<AlertNotice> {
    let phase: i16 = int(row, "phase")?;
    Ok(AlertNotice {
        alert: stored_alert(row)?,
        phase: AlertPhase::from_code(phase).ok_or_else(|| defect(format!("no phase {phase}")))?,
        tries: int(row, "tries")?,
    })
}
