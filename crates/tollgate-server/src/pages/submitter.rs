//! A submitter: its nonce ladder, its state, and the actions of operators.

mod chain_facts;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use tollgate_api::{
    EffectiveSetting, ErrorCode, ReservationPage, Submitter, SubmitterEntry, SubmitterHistoryPage,
    Tx, TxPage, path,
};
use tollgate_model::port::{Page, SlotState, StoreError};
use tollgate_model::{ChainId, Nonce, Submitter as ModelSubmitter};

use super::actions::{Button, submitter_buttons};
use super::api::Api;
use super::coin::{coins, coins_large, coins_whole, symbol};
use super::format::{Badge, age, gwei, short};
use super::ladder::{Ladder, LadderInput, NONCES_MAX, Window, draw};
use super::layout::{Frame, html, short_node};
use super::list::TxRow;
use super::submitters::submitter_path;
use super::tx::Detail;
use super::viewer::Viewer;
use crate::http::{Chains, Problem};
use chain_facts::ChainFacts;

/// Transactions in the table under the picture.
const ROWS_MAX: u32 = 25;
/// Entries of the audit trail that are shown, and read (I13).
const ENTRIES_SHOWN: usize = 15;

#[derive(Template)]
#[template(path = "submitter.html")]
struct SubmitterPage {
    frame: Frame,
    of: Submitter,
    path: String,
    chain_name: String,
    status: Badge,
    short: String,
    owner: Option<String>,
    /// The figure, and the amount with all its digits.
    balance: Option<(String, String)>,
    symbol: &'static str,
    chain: ChainFacts,
    oldest: Option<String>,
    open: u64,
    next_nonce: u64,
    /// The chain's count, where it differs.
    chain_nonce: Option<u64>,
    depth: Vec<(Badge, u64)>,
    max_fee: String,
    max_tx_fee: String,
    holes: Vec<u64>,
    more_holes: u64,
    blocked: Option<(String, String, String)>,
    ladder: Ladder,
    moves: Vec<(&'static str, String)>,
    window: (u64, u64),
    buttons: Vec<Button>,
    rows: Vec<TxRow>,
    /// There may be more transactions than the rows.
    has_more_rows: bool,
    rows_max: u32,
    entries: Vec<Entry>,
    done: Option<String>,
    list_path: String,
}

/// An entry of the audit trail.
struct Entry {
    time: String,
    event: String,
    detail: Vec<Detail>,
    node: String,
    token: u64,
}

impl From<SubmitterEntry> for Entry {
    fn from(entry: SubmitterEntry) -> Self {
        Self {
            time: entry.time,
            event: entry.event.replace('_', " "),
            detail: Detail::of(entry.detail.as_deref()),
            node: short_node(&entry.node),
            token: entry.fencing_token,
        }
    }
}

/// The chain and account of a path.
pub(crate) fn key(chain_id: &str, address: &str) -> Result<ModelSubmitter, Problem> {
    let chain = chain_id.parse().ok().and_then(|id| ChainId::new(id).ok());
    let address = tollgate_model::ids::parse_address(address).ok();
    let found = chain.zip(address).map(|(chain, address)| ModelSubmitter::new(chain, address));
    found.ok_or_else(|| Problem::new(ErrorCode::NotFound, "there is no such submitter"))
}

/// The API's path of a submitter, with its chain.
pub(crate) fn api_path(
    of: ModelSubmitter,
    below: &str,
    params: &[(&str, Option<String>)],
) -> String {
    let mut all = vec![("chainId", Some(of.chain_id.to_string()))];
    all.extend(params.iter().cloned());
    path::with_query(&format!("{}{below}", path::submitter(&of.address.to_checksum(None))), &all)
}

pub(crate) async fn page(
    State(chains): State<Chains>,
    viewer: Viewer,
    Path((chain_id, address)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Problem> {
    let of = key(&chain_id, &address)?;
    let api = Api { chains: &chains, viewer: &viewer };
    let shown: Submitter = api.get(&api_path(of, "", &[])).await?;
    let path = submitter_path(shown.chain_id, &shown.address);
    let next_nonce = shown.next_nonce.unwrap_or_default();
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<u64>().ok());
    let asked = number("from").map(|from| (from, number("to")));
    let reserved = reserved(&api, of).await?;
    let (ladder, window) = {
        let sees_all = viewer.caller.tenant().is_none();
        ladder(&chains, &shown, of, asked, &reserved, &path, sees_all).await?
    };
    let entries = entries(&api, of).await?;
    let rows = newest(&api, of).await?;
    let topic = format!("submitter:{}:{}", shown.chain_id, shown.address);
    let holes = shown.holes.clone().unwrap_or_default();
    let hole_count = shown.hole_count.unwrap_or_default();
    let depth: Vec<_> = shown.depth.iter().filter(|(_, count)| **count > 0).collect();
    let open = depth.iter().map(|(_, count)| **count).sum();
    let depth = depth.into_iter().map(|(state, count)| (depth_badge(state), *count)).collect();
    let chain_name = chains.find(of.chain_id).map(|chain| chain.name.clone()).unwrap_or_default();
    let blocked = shown.blocked_by.as_ref().map(|head| {
        let nonce = head.nonce.map(|nonce| nonce.to_string()).unwrap_or_default();
        (head.tx_id.clone(), nonce, head.reason.replace('_', " "))
    });
    let id = shown.chain_id;
    let cap = |setting: &EffectiveSetting, written: &dyn Fn(&str) -> String| {
        setting.value.as_deref().map_or_else(|| "none".to_owned(), written)
    };
    Ok(html(&SubmitterPage {
        frame: Frame::new(&chains, &viewer, "submitters").live(&topic),
        status: Badge::of_status(&shown.status),
        short: short(&shown.address),
        owner: shown.owner.as_deref().map(short_node),
        balance: shown.balance.as_deref().map(|wei| (coins_large(wei), coins_whole(wei, id))),
        symbol: symbol(id),
        chain: ChainFacts::read(chains.find(of.chain_id), of).await,
        oldest: shown.oldest_pending_seconds.map(|s| age(Duration::from_secs(s))),
        open,
        depth,
        max_fee: cap(&shown.settings.max_fee_per_gas, &gwei),
        max_tx_fee: cap(&shown.settings.max_tx_fee, &|wei| coins(wei, id)),
        more_holes: hole_count.saturating_sub(holes.len().min(12) as u64),
        holes: holes.into_iter().take(12).collect(),
        blocked,
        moves: window.moves(&path, next_nonce),
        next_nonce,
        chain_nonce: shown.chain_nonce.filter(|chain| *chain != next_nonce),
        window: (window.nonces.start, window.nonces.end - 1),
        ladder,
        buttons: submitter_buttons(&shown, &path),
        has_more_rows: rows.len() == ROWS_MAX as usize,
        rows_max: ROWS_MAX,
        rows,
        entries,
        done: super::actions::done(&query),
        list_path: format!("/tx?chain={}&submitter={}", shown.chain_id, shown.address),
        chain_name,
        path,
        of: shown,
    }))
}

fn depth_badge(state: &str) -> Badge {
    match state {
        "TRACKING" => Badge { class: "sent", sign: "→", words: "sent or mined" },
        "ALLOCATED" => Badge { class: "allocated", sign: "○", words: "signed" },
        other => Badge::of_state(other, None),
    }
}

/// Nonces that callers hold or have used, lowest first.
async fn reserved(api: &Api<'_>, of: ModelSubmitter) -> Result<Vec<u64>, Problem> {
    let params = [("limit", Some(Page::MAX.to_string()))];
    let found: ReservationPage = api.get(&api_path(of, "/nonces", &params)).await?;
    let held = found.items.iter().filter(|one| one.state != "RECYCLABLE");
    let mut nonces: Vec<u64> = held.map(|one| one.nonce).collect();
    nonces.sort_unstable();
    Ok(nonces)
}

async fn ladder(
    chains: &Chains,
    shown: &Submitter,
    of: ModelSubmitter,
    asked: Option<(u64, Option<u64>)>,
    reserved: &[u64],
    path: &str,
    sees_all: bool,
) -> Result<(Ladder, Window), Problem> {
    let store = chains.store().as_ref();
    let head = store.line_head(of).await?.map(|head| head.nonce.get()).filter(|_| sees_all);
    let lowest = store.slots_from(of, Nonce::MIN, Page::new(1)?).await?;
    let lowest = lowest.first().map(|nonce| nonce.get());
    let (from, to) = asked.map_or((None, None), |(from, to)| (Some(from), to));
    let next_nonce = shown.next_nonce.unwrap_or_default();
    let window = Window::choose(from, to, lowest, next_nonce);
    // They are of all tenants.
    let slots = match sees_all {
        true => slots(chains, of, &window, shown.chain_nonce).await?,
        false => Vec::new(),
    };
    let mut holes = shown.holes.clone().unwrap_or_default();
    holes.sort_unstable();
    let input = LadderInput {
        window: window.clone(),
        slots: &slots,
        next_nonce,
        chain_nonce: shown.chain_nonce,
        head,
        holes: &holes,
        hole_count: shown.hole_count.unwrap_or_default(),
        queued: shown.depth.get("QUEUED").copied().unwrap_or_default(),
        reserved,
        path,
    };
    Ok((draw(&input), window))
}

/// The slots of a window: those that are settled as they were read before, the others page by page.
async fn slots(
    chains: &Chains,
    of: ModelSubmitter,
    window: &Window,
    chain_nonce: Option<u64>,
) -> Result<Vec<SlotState>, StoreError> {
    let (known, now) = (&chains.pages().slots, Instant::now());
    let nonce = |number: u64| Nonce::new(number.min(Nonce::MAX.get())).unwrap_or(Nonce::MAX);
    let (mut slots, from) = known.resume(of, &window.nonces, now);
    let (mut from, to) = (nonce(from), nonce(window.nonces.end));
    let page =
        Page::new(Page::MAX).map_err(|error| StoreError::Defect(error.to_string().into()))?;
    // One more than the pages of a full window: the last one may be empty.
    for _ in 0..=NONCES_MAX.div_ceil(u64::from(Page::MAX)) + 3 {
        let found = chains.store().slot_states(of, from..to, page).await?;
        let last = found.last().map(|slot| slot.nonce.get() + 1);
        slots.extend_from_slice(&found);
        match last {
            Some(next) if found.len() == Page::MAX as usize => from = nonce(next),
            Some(_) | None => break,
        }
    }
    known.keep(of, &window.nonces, &slots, chain_nonce, now);
    Ok(slots)
}

async fn newest(api: &Api<'_>, of: ModelSubmitter) -> Result<Vec<TxRow>, Problem> {
    let params = [
        ("chainId", Some(of.chain_id.to_string())),
        ("submitter", Some(of.address.to_checksum(None))),
        ("view", Some("operator".to_owned())),
        ("limit", Some(ROWS_MAX.to_string())),
    ];
    let found: TxPage = api.get(&path::with_query(path::TX, &params)).await?;
    Ok(found.items.iter().map(|tx: &Tx| TxRow::new(tx)).collect())
}

/// The newest entries of the audit trail, newest first.
async fn entries(api: &Api<'_>, of: ModelSubmitter) -> Result<Vec<Entry>, Problem> {
    let params = [("limit", Some(Page::MAX.to_string()))];
    let found: SubmitterHistoryPage = api.get(&api_path(of, "/history", &params)).await?;
    Ok(found.items.into_iter().rev().take(ENTRIES_SHOWN).map(Entry::from).collect())
}
