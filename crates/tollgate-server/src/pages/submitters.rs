//! Rows of submitters, for the overview and for the list of all.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use tollgate_api::{Submitter, SubmitterPage, path};

use super::api::Api;
use super::format::{Badge, age, count, short, visible};
use super::layout::{Frame, html, short_node};
use super::viewer::Viewer;
use crate::http::{Chains, Problem};

/// Rows of a page.
const ROWS_MAX: u32 = 100;

/// A submitter in a table.
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) address: String,
    pub(crate) short: String,
    pub(crate) label: Option<String>,
    pub(crate) chain: u64,
    pub(crate) status: Badge,
    pub(crate) mode: String,
    pub(crate) owner: Option<String>,
    pub(crate) next_nonce: u64,
    pub(crate) queued: u64,
    pub(crate) in_flight: u64,
    pub(crate) stuck: u64,
    pub(crate) oldest_seconds: Option<u64>,
    pub(crate) oldest: String,
    pub(crate) is_idle: bool,
    /// The reason why its work does not go on, where that was looked up.
    pub(crate) trouble: Option<Badge>,
}

impl Row {
    pub(crate) fn new(of: &Submitter) -> Self {
        let sum = |wanted: &[&str]| {
            let counts = of.depth.iter().filter(|(state, _)| wanted.contains(&state.as_ref()));
            counts.map(|(_, count)| count).sum::<u64>()
        };
        let (queued, stuck) = (sum(&["QUEUED"]), sum(&["STUCK"]));
        let in_flight = sum(&["ALLOCATED", "TRACKING"]);
        let oldest = of.oldest_pending_seconds;
        Self {
            path: submitter_path(of.chain_id, &of.address),
            short: short(&of.address),
            address: of.address.clone(),
            label: of.label.as_deref().map(visible),
            chain: of.chain_id,
            status: Badge::of_status(&of.status),
            mode: of.mode.to_string(),
            owner: of.owner.as_deref().map(short_node),
            next_nonce: of.next_nonce.unwrap_or_default(),
            queued,
            in_flight,
            stuck,
            oldest_seconds: oldest,
            oldest: oldest.map_or_else(|| "–".to_owned(), |s| age(Duration::from_secs(s))),
            is_idle: queued + in_flight + stuck == 0,
            trouble: None,
        }
    }

    pub(crate) fn count(&self, number: &u64) -> String {
        if *number == 0 { "–".to_owned() } else { count(*number) }
    }
}

/// The page of a submitter.
pub(crate) fn submitter_path(chain_id: u64, address: &str) -> String {
    format!("/submitters/{chain_id}/{address}")
}

/// A page of a chain's submitters, and where the next one begins.
pub(crate) async fn read(
    api: &Api<'_>,
    chain_id: u64,
    cursor: Option<String>,
    limit: u32,
) -> Result<SubmitterPage, Problem> {
    let params = [
        ("chainId", Some(chain_id.to_string())),
        ("limit", Some(limit.to_string())),
        ("cursor", cursor),
    ];
    api.get(&path::with_query(path::SUBMITTERS, &params)).await
}

#[derive(Template)]
#[template(path = "submitters.html")]
struct SubmittersPage {
    frame: Frame,
    chains: Vec<(u64, String)>,
    chain: u64,
    rows: Vec<Row>,
    next: Option<String>,
}

/// All submitters of a chain.
pub(crate) async fn page(
    State(chains): State<Chains>,
    viewer: Viewer,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Problem> {
    let api = Api { chains: &chains, viewer: &viewer };
    let known: Vec<(u64, String)> =
        chains.served().iter().map(|chain| (chain.id.get(), chain.name.clone())).collect();
    let asked = query.get("chain").and_then(|text| text.parse().ok());
    let chain = asked.or_else(|| known.first().map(|(id, _)| *id)).unwrap_or_default();
    let found = read(&api, chain, query.get("cursor").cloned(), ROWS_MAX).await?;
    let next = found.next.map(|cursor| {
        path::with_query(
            "/submitters",
            &[("chain", Some(chain.to_string())), ("cursor", Some(cursor))],
        )
    });
    let frame = Frame::new(&chains, &viewer, "submitters").live("all");
    let rows = found.items.iter().map(Row::new).collect();
    Ok(html(&SubmittersPage { frame, chains: known, chain, rows, next }))
}
