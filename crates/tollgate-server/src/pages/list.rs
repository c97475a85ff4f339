//! The list of transactions, with its filters in the address.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use tollgate_api::{Tx, TxPage, path};

use super::api::Api;
use super::coin::coins;
use super::format::{Badge, short, visible};
use super::layout::{Frame, html};
use super::moment;
use super::submitters::submitter_path;
use super::viewer::Viewer;
use crate::http::{Chains, Problem};

const ROWS_MAX: u32 = 50;

/// A transaction in a table.
pub(crate) struct TxRow {
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) short: String,
    pub(crate) request_id: Option<String>,
    pub(crate) short_request: String,
    pub(crate) tenant: Option<String>,
    pub(crate) badge: Badge,
    pub(crate) state: String,
    pub(crate) chain: u64,
    pub(crate) submitter: String,
    pub(crate) short_submitter: String,
    pub(crate) submitter_path: String,
    pub(crate) nonce: String,
    pub(crate) to: Option<String>,
    pub(crate) short_to: String,
    pub(crate) value: String,
    pub(crate) created_at: String,
}

impl TxRow {
    pub(crate) fn new(tx: &Tx) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(short).unwrap_or_default();
        let request_id = tx.request_id.as_deref().map(visible);
        Self {
            path: format!("/tx/{}", tx.tx_id),
            short: short(&tx.tx_id),
            id: tx.tx_id.clone(),
            short_request: text(&request_id),
            request_id,
            tenant: tx.tenant.clone(),
            badge: Badge::of_state(&tx.state, tx.sub_state.as_deref()),
            state: tx.state_name().to_string(),
            chain: tx.chain_id,
            short_submitter: short(&tx.submitter),
            submitter_path: submitter_path(tx.chain_id, &tx.submitter),
            submitter: tx.submitter.clone(),
            nonce: tx.nonce.map_or_else(|| "–".to_owned(), |nonce| nonce.to_string()),
            short_to: text(&tx.to),
            to: tx.to.clone(),
            value: tx
                .value
                .as_deref()
                .map_or_else(|| "–".to_owned(), |wei| coins(wei, tx.chain_id)),
            created_at: tx.created_at.clone(),
        }
    }
}

#[derive(Template)]
#[template(path = "list.html")]
struct ListPage {
    frame: Frame,
    rows: Vec<TxRow>,
    next: Option<String>,
    filter: Filter,
    chains: Vec<(String, String)>,
    states: [(&'static str, &'static str); 7],
    is_first: bool,
}

/// The filters, as the address has them.
struct Filter {
    chain: String,
    submitter: String,
    state: String,
    from: String,
    to: String,
}

const STATES: [(&str, &str); 7] = [
    ("", "all states"),
    ("STUCK", "stuck"),
    ("QUEUED", "queued"),
    ("ALLOCATED", "signed"),
    ("TRACKING", "sent or mined"),
    ("CONFIRMED", "confirmed"),
    ("FAILED_FINAL", "failed"),
];

pub(crate) async fn page(
    State(chains): State<Chains>,
    viewer: Viewer,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Problem> {
    let api = Api { chains: &chains, viewer: &viewer };
    let given = |name: &str| query.get(name).map(|text| text.trim()).unwrap_or_default().to_owned();
    let filter = Filter {
        chain: given("chain"),
        submitter: given("submitter"),
        state: given("state"),
        from: given("from"),
        to: given("to"),
    };
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let cursor = some(&given("cursor"));
    // An account is on a chain: where there is one only, it need not be named.
    let only = chains.only().map(|chain| chain.id.to_string());
    let chain = some(&filter.chain).or(only.filter(|_| !filter.submitter.is_empty()));
    let shared = [
        ("submitter", some(&filter.submitter)),
        ("state", some(&filter.state)),
        ("from", some(&moment::of_field(&filter.from))),
        ("to", some(&moment::of_field(&filter.to))),
    ];
    let mut params = vec![
        ("chainId", chain),
        ("cursor", cursor.clone()),
        ("limit", Some(ROWS_MAX.to_string())),
        ("view", Some("operator".to_owned())),
    ];
    params.extend(shared.iter().cloned());
    let found: TxPage = api.get(&path::with_query(path::TX, &params)).await?;
    let mut onward = vec![("chain", some(&filter.chain)), ("cursor", found.next.clone())];
    onward.extend(shared);
    let next = found.next.is_some().then(|| path::with_query("/tx", &onward));
    let named = |id: String, name: &str| {
        let words = if name.is_empty() { format!("chain {id}") } else { format!("{name} ({id})") };
        (id, words)
    };
    let known = chains.served().iter().map(|chain| named(chain.id.to_string(), &chain.name));
    let is_first = cursor.is_none();
    let frame = Frame::new(&chains, &viewer, "tx");
    let filter =
        Filter { from: moment::field(&filter.from), to: moment::field(&filter.to), ..filter };
    Ok(html(&ListPage {
        frame: if is_first { frame.live("all") } else { frame },
        rows: found.items.iter().map(TxRow::new).collect(),
        next,
        filter,
        chains: known.collect(),
        states: STATES,
        is_first,
    }))
}
