//! Finds transactions and accounts by whatever a person has at hand: a transaction id, a request id, a hash, an
//! address, or a nonce.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use tollgate_api::{ErrorCode, OperatorTx, path};
use tollgate_model::access::Tenant;
use tollgate_model::port::{Page, SubmitterOverview};
use tollgate_model::{Nonce, RequestId, Submitter, TxId};

use super::api::Api;
use super::format::short;
use super::layout::{Frame, html};
use super::list::TxRow;
use super::submitters::submitter_path;
use super::viewer::Viewer;
use crate::http::{Chains, Problem};

/// The longest text that is looked for.
const QUERY_CHARS_MAX: usize = 300;
/// Accounts whose slots are looked at for a nonce (I13).
const ACCOUNTS_MAX: usize = 200;
/// Tenants whose requests are looked for (I13).
const TENANTS_MAX: usize = 100;
/// Keys that are read to learn the tenants (I13).
const KEYS_MAX: u32 = 1_000;
/// Transactions that a search shows.
const FOUND_MAX: usize = 50;

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: Frame,
    rows: Vec<TxRow>,
    accounts: Vec<(String, String, String)>,
}

pub(crate) async fn page(
    State(chains): State<Chains>,
    viewer: Viewer,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Problem> {
    let text = query.get("q").map(|text| text.trim()).unwrap_or_default();
    let text: String = text.chars().take(QUERY_CHARS_MAX).collect();
    let api = Api { chains: &chains, viewer: &viewer };
    let mut accounts = Vec::new();
    let mut ids = BTreeSet::new();
    if let Ok(tx_id) = text.parse::<TxId>() {
        ids.insert(tx_id);
    } else if tollgate_api::read_hash("q", &text).is_ok() {
        let hash = text.parse().map_err(|_| Problem::defect())?;
        ids.extend(chains.store().tx_ids_by_hash(&[hash]).await?.into_iter().map(|(_, id)| id));
    } else if let Ok(address) = tollgate_model::ids::parse_address(&text) {
        for chain in chains.served() {
            let of = Submitter::new(chain.id, address);
            let is_visible = viewer.caller.rights().scope.has_submitter(of);
            if is_visible && chains.store().submitter(of).await?.is_some() {
                let shown = address.to_checksum(None);
                let place = submitter_path(chain.id.get(), &shown);
                accounts.push((place, shown, chain.id.to_string()));
            }
        }
    } else if !text.is_empty() {
        ids = by_name(&chains, &viewer, &text).await?;
    }
    let rows = visible(&api, ids).await?;
    let only = match (rows.as_slice(), accounts.as_slice()) {
        ([row], []) => Some(row.path.clone()),
        ([], [(place, ..)]) => Some(place.clone()),
        _ => None,
    };
    if let Some(place) = only {
        return Ok(Redirect::to(&place).into_response());
    }
    let frame = Frame { query: text, ..Frame::new(&chains, &viewer, "") };
    let accounts = accounts
        .into_iter()
        .map(|(place, address, chain)| (place, short(&address), chain))
        .collect();
    Ok(html(&SearchPage { frame, rows, accounts }))
}

/// The transactions with this request id, and those in the slots with this nonce.
async fn by_name(chains: &Chains, viewer: &Viewer, text: &str) -> Result<BTreeSet<TxId>, Problem> {
    let mut found = BTreeSet::new();
    let page = Page::new(Page::MAX)?;
    // The ids of each tenant are a namespace of their own: who has none sees those of all.
    let own = RequestId::in_namespace(viewer.caller.tenant(), text).ok();
    let mut requests: Vec<RequestId> = own.into_iter().collect();
    if viewer.caller.tenant().is_none() {
        let of = |tenant: &Tenant| RequestId::of_tenant(tenant, text).ok();
        requests.extend(tenants(chains).await?.iter().filter_map(of));
    }
    let nonce = number(text);
    for chain in chains.served() {
        let submitters = chains.store().submitters(chain.id, None, page).await?;
        for request in &requests {
            let key = |one: &SubmitterOverview| (one.record.submitter, request.clone());
            let keys: Vec<_> = submitters.iter().map(key).collect();
            if !keys.is_empty() {
                let known = chains.store().known_requests(&keys).await?;
                found.extend(known.into_iter().flatten().map(|known| known.tx_id));
            }
        }
        let Some(nonce) = nonce else { continue };
        for one in submitters.iter().filter(|one| nonce < one.record.next_nonce).take(ACCOUNTS_MAX)
        {
            let range = nonce..nonce.forward(1)?;
            let slots = chains.store().slot_states(one.record.submitter, range, Page::new(1)?);
            found.extend(slots.await?.iter().map(|slot| slot.tx_id));
        }
    }
    Ok(found)
}

/// The tenants of all keys, also of those that were revoked.
async fn tenants(chains: &Chains) -> Result<BTreeSet<Tenant>, Problem> {
    let keys = chains.store().api_keys_after(0, KEYS_MAX).await?;
    let tenants = keys.into_iter().filter_map(|stored| stored.key.rights.tenant);
    let all: BTreeSet<Tenant> = tenants.collect();
    Ok(all.into_iter().take(TENANTS_MAX).collect())
}

pub(super) fn number(text: &str) -> Option<Nonce> {
    text.parse::<u64>().ok().and_then(|number| Nonce::new(number).ok())
}

/// Those that the viewer may see.
async fn visible(api: &Api<'_>, ids: BTreeSet<TxId>) -> Result<Vec<TxRow>, Problem> {
    let mut rows = Vec::new();
    for tx_id in ids.into_iter().rev().take(FOUND_MAX) {
        let place = path::with_query(
            &path::tx(&tx_id.to_string()),
            &[("view", Some("operator".to_owned()))],
        );
        match api.get::<OperatorTx>(&place).await {
            Ok(found) => {
                let mut tx = found.tx;
                tx.nonce = found.nonce;
                rows.push(TxRow::new(&tx));
            }
            Err(problem) if problem.code == ErrorCode::NotFound => {}
            // Its page says since when it is gone.
            Err(problem) if problem.code == ErrorCode::TxRemoved => return Err(problem),
            Err(problem) => return Err(problem),
        }
    }
    Ok(rows)
}
