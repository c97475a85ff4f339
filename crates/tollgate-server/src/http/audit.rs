//! Reads the audit log, for administrators.

use axum::extract::State;
use tollgate_api::{AuditEntry, AuditPage};
use tollgate_model::audit::StoredAuditEntry;

use super::access::Caller;
use super::openapi::may_fail;
use super::params::AuditParams;
use super::problem::Problem;
use super::query::{QueryParams, decimal, last_of_full_page};
use super::served_chains::Chains;

may_fail! {
    AuditProblems: InvalidQuery, InvalidLimit, InvalidNumber, InvalidCursor, StoreUnavailable;
}

/// Read the audit log
///
/// Who asked for a change, from where and why, newest first: operators' actions, changes of accounts, pools and API
/// keys, reservations, log-ins to the pages. An entry is written before its change is carried out; the outcome is in
/// the history of the transaction or account. Creates are not here: the first entry of a transaction's history names
/// its author. A key with a scope or a tenant sees the entries of keys that have no more rights than itself.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    operation_id = "readAudit",
    tag = "keys",
    params(AuditParams),
    responses((status = 200, description = "A page.", body = AuditPage), AuditProblems)
)]
pub(crate) async fn list(
    State(chains): State<Chains>,
    caller: Caller,
    mut params: QueryParams,
) -> Result<axum::Json<AuditPage>, Problem> {
    let page = params.page()?;
    let before = params.cursor("cursor", |text| decimal(text).filter(|number| *number > 0))?;
    params.end()?;
    let found = chains.store().audit_entries(before, page).await?;
    let next = last_of_full_page(&found, page).map(|last| last.number.to_string());
    let mut items = Vec::new();
    for entry in &found {
        if is_in_sight(&chains, &caller, entry).await? {
            items.push(AuditEntry::from(entry));
        }
    }
    Ok(axum::Json(AuditPage { items, next }))
}

/// An administrator with restricted rights sees what keys did that it could have made: its own and lesser ones.
async fn is_in_sight(
    chains: &Chains,
    caller: &Caller,
    entry: &StoredAuditEntry,
) -> Result<bool, Problem> {
    if caller.rights().see_everything() {
        return Ok(true);
    }
    let (Some(keys), Some(author)) = (chains.api_keys(), &entry.author.key_id) else {
        return Ok(false);
    };
    let rights = keys.rights_of(author).await?;
    Ok(rights.is_some_and(|rights| caller.rights().cover(&rights)))
}
