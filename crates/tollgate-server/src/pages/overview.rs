//! The first page: chains, charts, who owns what, and what needs a person.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tollgate_api::{Chain, Endpoint, Submitter};
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::{LiveNode, Page, StoreError, StoredAlert, WaitKind};
use tollgate_model::{Address, ChainId, Submitter as ModelSubmitter};

use super::api::Api;
use super::chart::{self, Chart, Line};
use super::format::{Badge, age, count, latency};
use super::layout::{Frame, html, short_node};
use super::samples::{SAMPLE_EVERY, Sample};
use super::submitters::{Row, read};
use super::viewer::Viewer;
use crate::http::{Chains, Problem, ServedChain};

/// Submitters of each chain that the overview reads (I13); the list of submitters has all.
const SUBMITTERS_MAX: u32 = 200;
/// Rows that it shows.
const ROWS_MAX: usize = 12;
/// Submitters whose waits are read (I13).
const WAITS_MAX: usize = 50;
/// Notes about what needs a person (I13).
const NOTES_MAX: usize = 20;
/// Points of a chart.
const POINTS_MAX: usize = 180;

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

/// Something that needs a person.
struct Note {
    badge: Badge,
    text: String,
    path: String,
    link: String,
    command: String,
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

struct EndpointRow {
    name: String,
    role: String,
    badge: Badge,
    lag: Option<String>,
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
    let (mut cards, mut notes, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for chain in chains.served() {
        let submitters = match chain.started() {
            Ok(_) => read(&api, chain.id.get(), None, SUBMITTERS_MAX).await?.items,
            Err(_) => Vec::new(),
        };
        let nodes = chains.store().live_nodes(chain.id, chains.live_within()).await?;
        let card = card(chain, &nodes, &submitters);
        notes.extend(notes_of_chain(&card));
        notes.extend(notes_of_submitters(&chains, &submitters).await?);
        cards.push(card);
        all.extend(submitters);
    }
    if viewer.sees_everything() {
        notes.extend(notes_of_alerts(&chains).await?);
    }
    let mut rows: Vec<Row> = all.iter().map(Row::new).collect();
    let totals = totals(&rows);
    let urgency = |row: &Row| {
        let is_active = row.status.words == "active";
        (row.stuck == 0, is_active, std::cmp::Reverse((row.in_flight, row.queued)))
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
    let highest = endpoints.iter().filter_map(|endpoint| endpoint.head).max();
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
        endpoints: endpoints.iter().map(|endpoint| endpoint_row(endpoint, highest)).collect(),
        nodes: nodes.iter().map(shown).collect(),
    }
}

fn endpoint_row(endpoint: &Endpoint, highest: Option<u64>) -> EndpointRow {
    let badge = match (endpoint.resting, &*endpoint.check) {
        (true, _) => Badge { class: "stuck", sign: "!", words: "not answering" },
        (false, "good") => Badge { class: "confirmed", sign: "✓", words: "answers" },
        (false, "unchecked") => Badge { class: "stale", sign: "…", words: "not checked yet" },
        (false, _) => Badge { class: "stuck", sign: "!", words: "not usable" },
    };
    let lag =
        endpoint.head.zip(highest).map(|(head, highest)| highest - head).filter(|lag| *lag > 0);
    EndpointRow {
        name: endpoint.name.clone(),
        role: endpoint.role.replace('_', " "),
        badge,
        lag: lag.map(|lag| format!("{lag} behind")),
    }
}

fn notes_of_chain(card: &ChainCard) -> Vec<Note> {
    let mut notes = Vec::new();
    if card.status.words == "down" {
        let why = card.detail.clone().unwrap_or_default();
        notes.push(chain_note(card.status, format!("{}: {why}.", card.title)));
    }
    for endpoint in card.endpoints.iter().filter(|endpoint| endpoint.badge.class == "stuck") {
        let text =
            format!("{}: endpoint {} – {}.", card.title, endpoint.name, endpoint.badge.words);
        notes.push(chain_note(endpoint.badge, text));
    }
    notes
}

/// Open alerts that somebody should look at now.
async fn notes_of_alerts(chains: &Chains) -> Result<Vec<Note>, Problem> {
    let page = Page::new(NOTES_MAX as u32)?;
    let open = chains.store().alerts(true, page).await?;
    let urgent = open.into_iter().filter(|alert| alert.level == AlertLevel::Critical);
    let note = |alert: StoredAlert| {
        let account = alert.subject.chain_id.zip(alert.subject.account);
        let path =
            account.map(|(chain, of)| format!("/submitters/{chain}/{}", of.to_checksum(None)));
        Note {
            badge: Badge { class: "stuck", sign: "!", words: "alert" },
            text: format!("{}: {}. {}", alert.subject, alert.detail, alert.kind.info().action),
            path: path.unwrap_or_else(|| "/".to_owned()),
            link: "Look at it".to_owned(),
            command: "tollgate alert list".to_owned(),
        }
    };
    Ok(urgent.map(note).collect())
}

fn chain_note(badge: Badge, text: String) -> Note {
    let command = "curl …/api/v1/chains".to_owned();
    Note { badge, text, path: "#chains".to_owned(), link: "Chains".to_owned(), command }
}

async fn notes_of_submitters(
    chains: &Chains,
    submitters: &[Submitter],
) -> Result<Vec<Note>, StoreError> {
    let (mut notes, mut read) = (Vec::new(), 0);
    for of in submitters {
        let row = Row::new(of);
        let called = of.label.clone().unwrap_or_else(|| row.short.clone());
        let mut note = |badge, text: String, path: String, link: &str, command: String| {
            notes.push(Note { badge, text, path, link: link.to_owned(), command });
        };
        if row.stuck > 0 {
            let (noun, verb) =
                if row.stuck == 1 { ("transaction", "is") } else { ("transactions", "are") };
            let text = format!("{} {noun} of {called} {verb} stuck.", row.stuck);
            let list = format!("/tx?chain={}&submitter={}&state=STUCK", of.chain_id, of.address);
            let command = format!("tollgate tx list --submitter {} --state STUCK", of.address);
            note(Badge::of_state("STUCK", None), text, list, "Show them", command);
        }
        let why = of.status_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let resume = || format!("tollgate submitter resume {} --reason …", of.address);
        match &*of.status {
            "PROTECT" => {
                let text = format!("{called} is in PROTECT{why}.");
                note(row.status, text, row.path.clone(), "Look at it", resume());
            }
            "PAUSED" => {
                let text = format!("{called} is paused{why}.");
                note(row.status, text, row.path.clone(), "Look at it", resume());
            }
            _ => {}
        }
        if row.is_idle || read == WAITS_MAX {
            continue;
        }
        read += 1;
        let Some(key) = model_submitter(of) else { continue };
        let waits = chains.store().waits(key).await?;
        if let Some(wait) = waits.iter().find(|wait| wait.kind == WaitKind::Hole) {
            let badge = Badge { class: "stuck", sign: "∅", words: "hole" };
            let text = format!("{called} has a hole at nonce {}: nobody has it.", wait.nonce);
            let command = format!("tollgate submitter fill {} …", of.address);
            note(badge, text, row.path.clone(), "Look at it", command);
        }
    }
    Ok(notes)
}

fn model_submitter(of: &Submitter) -> Option<ModelSubmitter> {
    let address: Address = of.address.parse().ok()?;
    Some(ModelSubmitter::new(ChainId::new(of.chain_id).ok()?, address))
}

/// Throughput, latency and load over time.
fn charts(samples: &[Sample]) -> Vec<Chart> {
    // Several samples make a point where there are many, so that single blocks don't make a saw.
    let group = samples.len().div_ceil(POINTS_MAX).max(5);
    let groups: Vec<&[Sample]> = samples.rchunks(group).rev().collect();
    let seconds = |samples: usize| samples as u64 * SAMPLE_EVERY.as_secs();
    let mut ago: Vec<u64> = Vec::with_capacity(groups.len());
    let mut left = samples.len();
    for group in &groups {
        left -= group.len();
        ago.push(seconds(left));
    }
    let line = |name, class, of: &dyn Fn(&[Sample]) -> Option<f64>| {
        let values = groups.iter().map(|group| of(group)).collect();
        Line { name, class, values }
    };
    let rate = |of: fn(&Sample) -> u64| {
        move |group: &[Sample]| {
            let sum: u64 = group.iter().map(of).sum();
            Some(sum as f64 / seconds(group.len()) as f64)
        }
    };
    let worst = |of: fn((u64, u64)) -> u64| {
        move |group: &[Sample]| {
            let values = group.iter().filter_map(|sample| sample.latency_ms.map(of));
            values.max().map(|ms| ms as f64)
        }
    };
    let last = |of: fn(&Sample) -> u64| {
        move |group: &[Sample]| group.last().map(|sample| of(sample) as f64)
    };
    let throughput = [
        line("confirmed", "a", &rate(|sample| sample.confirmed)),
        line("failed", "d", &rate(|sample| sample.failed)),
    ];
    let latencies = [
        line("half within", "a", &worst(|(half, _)| half)),
        line("95 % within", "b", &worst(|(_, most)| most)),
    ];
    let states = [
        line("queued", "c", &last(|sample| sample.open.queued)),
        line("sent", "a", &last(|sample| sample.open.sent)),
        line("mined", "b", &last(|sample| sample.open.mined)),
        line("stuck", "d", &last(|sample| sample.open.stuck)),
    ];
    let written_rate = |value: f64| match value {
        value if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}/s"),
        value => format!("{value:.1}/s"),
    };
    vec![
        chart::draw("Throughput", &ago, &throughput, written_rate),
        chart::draw("Accepted to final", &ago, &latencies, |ms| latency(ms as u64)),
        chart::draw("Open transactions", &ago, &states, |value| match value {
            value if value.fract() == 0.0 => count(value as u64),
            value => format!("{value:.1}"),
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::samples::OpenCounts;
    use super::*;

    #[test]
    fn charts_of_a_steady_node_show_its_rate_latency_and_load() {
        let open = OpenCounts { queued: 3, sent: 2, mined: 1, stuck: 0 };
        let sample = Sample { confirmed: 20, failed: 0, latency_ms: Some((900, 2_500)), open };
        let drawn = charts(&[sample; 900]);
        let told = |place: usize| -> Vec<String> {
            drawn[place].legend.iter().map(|(_, _, last)| last.clone()).collect()
        };
        assert_eq!(told(0), ["10/s", "0/s"]);
        assert_eq!(told(1), ["900 ms", "2.5 s"]);
        assert_eq!(told(2), ["3", "2", "1", "0"]);
        assert!(drawn[0].svg.contains("−29 min"), "{}", drawn[0].svg);
    }

    #[test]
    fn charts_of_a_node_that_just_started_are_empty() {
        assert!(
            charts(&[]).iter().all(|chart| chart.legend.iter().all(|(_, _, last)| last == "–"))
        );
    }

    #[test]
    fn endpoint_behind_the_others_says_by_how_much() {
        let endpoint = |head| Endpoint {
            name: "a".to_owned(),
            role: "read_only".into(),
            check: "good".to_owned(),
            resting: false,
            head,
        };
        assert_eq!(endpoint_row(&endpoint(Some(7)), Some(9)).lag.as_deref(), Some("2 behind"));
        assert_eq!(endpoint_row(&endpoint(Some(9)), Some(9)).lag, None);
        assert_eq!(endpoint_row(&endpoint(None), Some(9)).lag, None);
    }
}
