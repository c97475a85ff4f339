//! The first page: chains, charts, who owns what, and what needs a person.

mod notes;
mod trends;

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tollgate_api::{Chain, Submitter};
use tollgate_model::port::LiveNode;

use super::api::Api;
use super::chart::Chart;
use super::endpoints::{EndpointRow, endpoint_rows};
use super::format::{Badge, age, count};
use super::layout::{Frame, html, short_node};
use super::submitters::{Row, read};
use super::viewer::Viewer;
use crate::http::{Chains, Problem, ServedChain};
use notes::{Note, Notes};
use trends::charts;

/// Submitters of each chain that the overview reads (I13); the list of submitters has all.
const SUBMITTERS_MAX: u32 = 200;
/// Rows that it shows.
const ROWS_MAX: usize = 12;
/// Notes about what needs a person (I13).
const NOTES_MAX: usize = 20;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    notes: Vec<Note>,
    more_notes: usize,
    chains: Vec<ChainCard>,
    charts: Vec<Chart>,
    totals: Totals,
    rows: Vec<Row>,
    more_rows: usize,
    oldest: Vec<Row>,
    is_empty: bool,
}

/// A chain with its endpoints and the nodes that serve it.
struct ChainCard {
    title: String,
    status: Badge,
    detail: Option<String>,
    head: Option<String>,
    endpoints: Vec<EndpointRow>,
    nodes: Vec<NodeRow>,
}

struct NodeRow {
    name: String,
    url: String,
    is_draining: bool,
    owns: usize,
}

#[derive(Default)]
struct Totals {
    queued: String,
    in_flight: String,
    stuck: String,
    accounts: String,
    oldest: String,
}

pub(crate) async fn page(
    State(chains): State<Chains>,
    viewer: Viewer,
) -> Result<Response, Problem> {
    let api = Api { chains: &chains, viewer: &viewer };
    let (mut cards, mut all) = (Vec::new(), Vec::new());
    let mut notes = Notes::new(viewer.caller.tenant().is_none());
    let mut rows = Vec::new();
    for chain in chains.served() {
        let submitters = match chain.started() {
            Ok(_) => read(&api, chain.id.get(), None, SUBMITTERS_MAX).await?.items,
            Err(_) => Vec::new(),
        };
        let nodes = chains.store().live_nodes(chain.id, chains.live_within()).await?;
        let card = card(chain, &nodes, &submitters);
        notes.add_chain(&card);
        for of in &submitters {
            let mut row = Row::new(of);
            notes.add_submitter(&chains, of, &mut row).await?;
            rows.push(row);
        }
        cards.push(card);
        all.extend(submitters);
    }
    if viewer.sees_everything() {
        notes.add_alerts(&chains).await?;
    }
    let mut notes = notes.in_order();
    let totals = totals(&rows);
    let urgency = |row: &Row| {
        let is_calm = row.status.words == "active" && row.trouble.is_none();
        (row.stuck == 0, is_calm, std::cmp::Reverse((row.in_flight, row.queued)))
    };
    let mut oldest: Vec<&Submitter> =
        all.iter().filter(|one| one.oldest_pending_seconds.is_some()).collect();
    oldest.sort_by_key(|one| std::cmp::Reverse(one.oldest_pending_seconds));
    let oldest = oldest.into_iter().take(5).map(Row::new).collect();
    rows.sort_by_key(urgency);
    let more_rows = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    let is_empty = rows.is_empty();
    let more_notes = notes.len().saturating_sub(NOTES_MAX);
    notes.truncate(NOTES_MAX);
    let frame = Frame::new(&chains, &viewer, "overview").live("all");
    // They count the transactions of all tenants.
    let charts = match viewer.sees_everything() {
        true => charts(&chains.pages().samples.all()),
        false => Vec::new(),
    };
    Ok(html(&OverviewPage {
        frame,
        notes,
        more_notes,
        chains: cards,
        charts,
        totals,
        rows,
        more_rows,
        oldest,
        is_empty,
    }))
}

fn totals(rows: &[Row]) -> Totals {
    let sum = |of: fn(&Row) -> u64| count(rows.iter().map(of).sum());
    let oldest = rows.iter().filter_map(|row| row.oldest_seconds).max();
    Totals {
        queued: sum(|row| row.queued),
        in_flight: sum(|row| row.in_flight),
        stuck: sum(|row| row.stuck),
        accounts: count(rows.len() as u64),
        oldest: oldest.map_or_else(|| "–".to_owned(), |s| age(Duration::from_secs(s))),
    }
}

fn card(chain: &ServedChain, nodes: &[LiveNode], submitters: &[Submitter]) -> ChainCard {
    let Chain { chain_id, name, status, detail, head, .. } = chain.shown();
    let endpoints = chain.endpoints();
    let status = match &*status {
        "ready" => Badge { class: "confirmed", sign: "✓", words: "ready" },
        "down" => Badge { class: "stuck", sign: "!", words: "down" },
        _ => Badge { class: "stale", sign: "…", words: "starting" },
    };
    let owned = |node: &LiveNode| {
        let id = Some(node.node.as_str());
        submitters.iter().filter(|one| one.owner.as_deref() == id).count()
    };
    let shown = |node: &LiveNode| NodeRow {
        name: short_node(node.node.as_str()),
        url: node.advertise_url.as_str().to_owned(),
        is_draining: node.draining,
        owns: owned(node),
    };
    ChainCard {
        title: if name.is_empty() {
            format!("Chain {chain_id}")
        } else {
            format!("{name} ({chain_id})")
        },
        status,
        detail,
        head: head.map(count),
        endpoints: endpoint_rows(&endpoints),
        nodes: nodes.iter().map(shown).collect(),
    }
}
