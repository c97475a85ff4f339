//! A transaction: why it waits, what happened to it, its attempts, and the actions of operators.

mod history;
mod last_error;

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use serde_json::Value;
use tollgate_api::{
    Attempt, HistoryEntry, HistoryPage, OperatorTx, Submitter, Tx, parse_time, path,
};
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::{LineHead, Page};
use tollgate_model::waiting::{LineBlock, WaitView, ending, why_waiting};
use tollgate_model::{ChainId, Nonce, Submitter as ModelSubmitter, TxState};

use super::actions::{Button, done, tx_buttons};
use super::api::Api;
use super::coin::coins;
use super::format::{Badge, count, gwei, short, visible};
use super::layout::{Frame, html};
use super::submitter::api_path;
use super::submitters::submitter_path;
use super::viewer::Viewer;
use crate::http::{Chains, Problem};
pub(crate) use history::Detail;
use history::{EventRow, events};
use last_error::{ErrorText, error_text};

/// Slots that are counted as being in front of a transaction (I13).
const AHEAD_MAX: u32 = 1_000;
/// Characters of metadata and details that a page shows (I13).
const TEXT_CHARS_MAX: usize = 4_000;

#[derive(Template)]
#[template(path = "tx.html")]
struct TxPage {
    frame: Frame,
    tx: Tx,
    short: String,
    badge: Badge,
    state: String,
    why: String,
    is_open: bool,
    submitter: (String, String, String),
    chain_name: String,
    nonce: Option<u64>,
    ladder_path: String,
    to: Option<(String, String)>,
    value: Option<String>,
    hash: Option<(String, String)>,
    fee: Option<String>,
    ahead: Option<String>,
    behind: Option<(String, String, String)>,
    attempts: Vec<AttemptRow>,
    error: Option<ErrorText>,
    diagnosis: Option<String>,
    next_resubmit_at: Option<String>,
    resubmits: u32,
    token: u64,
    events: Vec<EventRow>,
    metadata: Option<String>,
    buttons: Vec<Button>,
    done: Option<String>,
}

/// A signed form of the transaction.
struct AttemptRow {
    number: u16,
    hash: String,
    short: String,
    kind: String,
    gas: String,
    max_fee: String,
    tip: Option<String>,
    sent_at: Option<String>,
    badge: Badge,
}

pub(crate) async fn page(
    State(chains): State<Chains>,
    viewer: Viewer,
    Path(tx_id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Problem> {
    let api = Api { chains: &chains, viewer: &viewer };
    let place = path::tx(&tx_id);
    let operator = [("view", Some("operator".to_owned()))];
    let found: OperatorTx = api.get(&path::with_query(&place, &operator)).await?;
    let limit = [("limit", Some(Page::MAX.to_string()))];
    let history: HistoryPage =
        api.get(&path::with_query(&format!("{place}/history"), &limit)).await?;
    let tx = &found.tx;
    let of = super::submitter::key(&tx.chain_id.to_string(), &tx.submitter)?;
    let state = state_of(tx);
    let is_open = state.is_some_and(|state| !state.is_final());
    let line = match is_open {
        true => line_of(&chains, &api, of, &found).await?,
        false => Line::default(),
    };
    let why = why(&chains, of, &found, state, &line);
    Ok(html(&shown(&chains, &viewer, &query, found, history.items, line, why, is_open)))
}

#[allow(clippy::too_many_arguments, reason = "the parts of one page")]
fn shown(
    chains: &Chains,
    viewer: &Viewer,
    query: &BTreeMap<String, String>,
    found: OperatorTx,
    history: Vec<HistoryEntry>,
    line: Line,
    why: String,
    is_open: bool,
) -> TxPage {
    let OperatorTx { tx, nonce, fencing_token, attempts, last_error, .. } = found;
    let chain = ChainId::new(tx.chain_id).ok().and_then(|id| chains.find(id));
    let pair = |text: &String| (text.clone(), short(text));
    let account = submitter_path(tx.chain_id, &tx.submitter);
    let path = format!("/tx/{}", tx.tx_id);
    let metadata = tx.metadata.as_ref().map(|raw| {
        let pretty = serde_json::from_str::<Value>(raw.get()).ok();
        let pretty = pretty.and_then(|value| serde_json::to_string_pretty(&value).ok());
        let text = pretty.unwrap_or_else(|| raw.get().to_owned());
        visible(&text.chars().take(TEXT_CHARS_MAX).collect::<String>())
    });
    let ladder_path = match nonce {
        Some(nonce) => {
            let from = nonce.saturating_sub(90);
            format!("{account}?from={from}&to={}", from + 240)
        }
        None => account.clone(),
    };
    let in_coins = |wei: &str| coins(wei, tx.chain_id);
    let request_id = tx.request_id.as_deref().map(visible);
    let shown_tx = Tx { request_id, ..tx.clone() };
    let buttons = tx_buttons(&tx, nonce, &path);
    TxPage {
        frame: Frame::new(chains, viewer, "tx").live(&format!("tx:{}", tx.tx_id)),
        short: short(&tx.tx_id),
        badge: Badge::of_state(&tx.state, tx.sub_state.as_deref()),
        state: tx.state_name().to_string(),
        why,
        is_open,
        submitter: (account, tx.submitter.clone(), short(&tx.submitter)),
        chain_name: chain.map(|chain| chain.name.clone()).unwrap_or_default(),
        nonce,
        ladder_path,
        to: tx.to.as_ref().map(pair),
        value: tx.value.as_deref().map(in_coins),
        hash: tx.tx_hash.as_ref().map(pair),
        fee: tx.result.as_ref().and_then(|result| result.fee.as_deref()).map(in_coins),
        ahead: line.ahead_words(),
        behind: line.head.map(|head| {
            let place = format!("/tx/{}", head.tx_id);
            (place, short(&head.tx_id.to_string()), head.nonce.to_string())
        }),
        attempts: attempts.iter().map(attempt_row).collect(),
        error: last_error.map(error_text),
        diagnosis: found.diagnosis,
        next_resubmit_at: found.next_resubmit_at,
        resubmits: found.resubmits,
        token: fencing_token,
        events: events(history),
        metadata,
        buttons,
        done: done(query),
        tx: shown_tx,
    }
}

/// The line in front of a transaction.
#[derive(Default)]
struct Line {
    submitter: Option<Submitter>,
    /// The head, if it is another transaction.
    head: Option<LineHead>,
    /// Open slots in front; with true, there are more.
    ahead: Option<(u64, bool)>,
}

impl Line {
    fn ahead_words(&self) -> Option<String> {
        let (ahead, has_more) = self.ahead.filter(|(ahead, _)| *ahead > 0)?;
        let more = if has_more { "more than " } else { "" };
        Some(match ahead {
            1 => "1 open transaction".to_owned(),
            ahead => format!("{more}{} open transactions", count(ahead)),
        })
    }
}

async fn line_of(
    chains: &Chains,
    api: &Api<'_>,
    of: ModelSubmitter,
    found: &OperatorTx,
) -> Result<Line, Problem> {
    let store = chains.store();
    let submitter = api.get(&api_path(of, "", &[])).await.ok();
    let open = store.slots_from(of, Nonce::MIN, Page::new(AHEAD_MAX)?).await?;
    let is_ahead = |nonce: &&Nonce| found.nonce.is_none_or(|own| nonce.get() < own);
    let ahead = open.iter().filter(is_ahead).count();
    let has_more = ahead == open.len() && ahead == AHEAD_MAX as usize;
    let head = store.line_head(of).await?;
    let head = head.filter(|head| {
        head.tx_id.to_string() != found.tx.tx_id
            && found.nonce.is_none_or(|own| head.nonce.get() < own)
    });
    Ok(Line { submitter, head, ahead: Some((ahead as u64, has_more)) })
}

fn state_of(tx: &Tx) -> Option<TxState> {
    let is =
        |state: &TxState| state.name() == tx.state && state.sub_name() == tx.sub_state.as_deref();
    TxState::ALL.into_iter().find(is)
}

/// One sentence: the reason why the transaction waits, or its ending.
fn why(
    chains: &Chains,
    of: ModelSubmitter,
    found: &OperatorTx,
    state: Option<TxState>,
    line: &Line,
) -> String {
    let Some(state) = state else { return String::new() };
    if let Some(ending) = ending(state) {
        return ending.to_owned();
    }
    let engine = chains.engines().find(|engine| engine.chain_id() == of.chain_id);
    let rule = engine.map(tollgate_engine::Engine::finality);
    let so_far = found.tx.result.as_ref().and_then(|result| result.confirmations);
    let confirmations = match (rule, so_far) {
        (Some(FinalityRule::Confirmations(needed)), Some(so_far)) => Some((so_far, needed)),
        (_, _) => None,
    };
    let status = line.submitter.as_ref().and_then(|of| SubmitterStatus::from_name(&of.status));
    let now = engine.map(tollgate_engine::Engine::now);
    let not_before = found.tx.not_before.as_deref().and_then(parse_time);
    let blocked_by = line.head.as_ref().filter(|head| head.state.blocks_with().is_some());
    let view = WaitView {
        state,
        nonce: found.nonce.and_then(|nonce| Nonce::new(nonce).ok()),
        submitter: status.unwrap_or(SubmitterStatus::Active),
        blocked_by: blocked_by.map(|head| LineBlock {
            tx_id: head.tx_id,
            nonce: head.nonce,
            state: head.state,
        }),
        ahead: line.ahead.map_or(0, |(ahead, _)| ahead),
        window: line.submitter.as_ref().map_or(u32::MAX, |of| of.window),
        not_before: not_before.filter(|at| now.is_some_and(|now| *at > now)),
        confirmations,
    };
    why_waiting(&view).map_or_else(String::new, |why| why.to_string())
}

fn attempt_row(attempt: &Attempt) -> AttemptRow {
    let badge = match &*attempt.outcome {
        "mined" => Badge { class: "mined", sign: "■", words: "mined" },
        "superseded" => Badge { class: "cancelled", sign: "–", words: "superseded" },
        _ => Badge { class: "sent", sign: "→", words: "open" },
    };
    AttemptRow {
        number: attempt.number,
        hash: attempt.tx_hash.clone(),
        short: short(&attempt.tx_hash),
        kind: attempt.kind.replace('_', " "),
        gas: attempt.fees.gas.parse().map_or_else(|_| attempt.fees.gas.clone(), count),
        max_fee: gwei(&attempt.fees.max_fee_per_gas),
        tip: attempt.fees.max_priority_fee_per_gas.as_deref().map(gwei),
        sent_at: attempt.sent_at.clone(),
        badge,
    }
}
