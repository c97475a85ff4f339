//! The cost report: the fees of a period, by account, day and metadata.
//!
//! It is computed from the completion feed, whose order is that of time: the start is found by halving,
//! and the rest is read page by page. Nothing is stored for it.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tollgate_api::{CostGroup, CostReport, ErrorCode, format_time, quoted};
use tollgate_model::port::{Completion, FeedFilter, FeedStore, Page, StoreError};
use tollgate_model::{Intent, Seq, Submitter, Timestamp, TxState, U256};

use super::Api;
use super::access::Caller;
use super::access::sight::Sight;
use super::chain_scope::ChainScope;
use super::create_request::read_time;
use super::csv;
use super::openapi::may_fail;
use super::params::CostParams;
use super::problem::Problem;
use super::query::QueryParams;

/// Transactions in one report (I13).
const TRANSACTIONS_MAX: usize = 500_000;
/// Groups in one report (I13).
const GROUPS_MAX: usize = 10_000;
/// Keys of metadata in one report (I13).
const KEYS_MAX: usize = 4;
/// The longest value of metadata that makes a group; longer ones are cut (I13).
const VALUE_CHARS_MAX: usize = 100;
/// The characters of the day in a time.
const DAY_CHARS: usize = "2026-11-18".len();

may_fail! {
    CostProblems: MissingField, InvalidQuery, InvalidTime, InvalidNumber, WrongChain,
        StoreUnavailable;
}

/// Report the fees of a period
///
/// Of the transactions that became final in it, summed up by `groupBy`; always by chain, since each has its
/// own currency. With `Accept: text/csv` the same rows come as CSV.
#[utoipa::path(
    get,
    path = "/api/v1/reports/costs",
    operation_id = "reportCosts",
    tag = "reports",
    params(CostParams),
    responses(
        (status = 200, description = "The sums.", content(
            (CostReport = "application/json"),
            (String = "text/csv", example = "chainId,submitter,day,transactions,confirmed,gasUsed,fee,unpriced\r\n")
        )),
        CostProblems
    )
)]
pub(crate) async fn costs(
    State(api): State<Api>,
    caller: Caller,
    scope: ChainScope,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, Problem> {
    let from = read_time("from", &params.required("from")?)?;
    let to = params.take("to").map(|text| read_time("to", &text)).transpose()?;
    let grouping = Grouping::read(params.take("groupBy").as_deref().unwrap_or_default())?;
    params.end()?;
    let filter = FeedFilter { chain_id: scope.chain_id(), with_stuck: false };
    let period = from..to.unwrap_or(api.engine.now());
    let sight = Sight::of(&api, &caller);
    let groups = sum_up(&*api.store, sight, filter, period, &grouping).await?;
    let items: Vec<CostGroup> =
        groups.into_iter().map(|(group, sums)| grouping.shown(group, &sums)).collect();
    if csv::is_wanted(&headers) {
        let lines = items.iter().map(|item| grouping.cells(item));
        return Ok(csv::answer(grouping.names(), lines));
    }
    Ok(axum::Json(CostReport { items }).into_response())
}

/// The names that rows are grouped by.
pub(super) struct Grouping {
    by_submitter: bool,
    by_day: bool,
    keys: Vec<String>,
}

/// A group: chain, and the other values that rows are grouped by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    chain_id: u64,
    submitter: Option<Submitter>,
    day: Option<String>,
    metadata: Vec<Option<String>>,
}

#[derive(Default)]
struct Sums {
    transactions: u64,
    confirmed: u64,
    gas_used: u128,
    fee: U256,
    unpriced: u64,
}

impl Grouping {
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        let mut grouping = Self { by_submitter: false, by_day: false, keys: Vec::new() };
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in names {
            match name.strip_prefix("metadata.").filter(|key| !key.is_empty()) {
                Some(key) if grouping.keys.len() < KEYS_MAX => grouping.keys.push(key.to_owned()),
                Some(_) => {
                    let what = format!("has more than {KEYS_MAX} keys of metadata");
                    return Err(Problem::of_field(ErrorCode::InvalidQuery, "groupBy", what));
                }
                None if name == "submitter" => grouping.by_submitter = true,
                None if name == "day" => grouping.by_day = true,
                None => {
                    let what = format!("{} must be submitter, day or metadata.KEY", quoted(name));
                    return Err(Problem::of_field(ErrorCode::InvalidQuery, "groupBy", what));
                }
            }
        }
        Ok(grouping)
    }

    fn group(&self, entry: &Completion) -> Group {
        let metadata = match self.keys.is_empty() {
            true => None,
            false => entry.payload.as_ref().and_then(|bytes| Intent::from_payload(bytes).ok()),
        };
        let metadata = metadata.and_then(|intent| intent.metadata);
        let metadata = metadata.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let value = |key: &String| match metadata.as_ref().and_then(|all| all.get(key))? {
            Value::Null => None,
            Value::String(text) => Some(text.chars().take(VALUE_CHARS_MAX).collect()),
            other => Some(other.to_string().chars().take(VALUE_CHARS_MAX).collect()),
        };
        Group {
            chain_id: entry.submitter.chain_id.get(),
            submitter: self.by_submitter.then_some(entry.submitter),
            day: self.by_day.then(|| format_time(entry.at).chars().take(DAY_CHARS).collect()),
            metadata: self.keys.iter().map(value).collect(),
        }
    }

    fn shown(&self, group: Group, sums: &Sums) -> CostGroup {
        CostGroup {
            chain_id: group.chain_id,
            submitter: group.submitter.map(|of| of.address.to_checksum(None)),
            day: group.day,
            metadata: self.keys.iter().cloned().zip(group.metadata).collect(),
            transactions: sums.transactions,
            confirmed: sums.confirmed,
            gas_used: sums.gas_used.to_string(),
            fee: sums.fee.to_string(),
            unpriced: sums.unpriced,
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names = vec!["chainId".to_owned()];
        names.extend(self.by_submitter.then(|| "submitter".to_owned()));
        names.extend(self.by_day.then(|| "day".to_owned()));
        names.extend(self.keys.iter().map(|key| format!("metadata.{key}")));
        let sums = ["transactions", "confirmed", "gasUsed", "fee", "unpriced"];
        names.extend(sums.map(str::to_owned));
        names
    }

    fn cells(&self, item: &CostGroup) -> Vec<String> {
        let mut cells = vec![item.chain_id.to_string()];
        cells.extend(item.submitter.clone());
        cells.extend(item.day.clone());
        let value = |key: &String| item.metadata.get(key).cloned().flatten().unwrap_or_default();
        cells.extend(self.keys.iter().map(value));
        cells.extend([item.transactions, item.confirmed].map(|count| count.to_string()));
        cells.extend([item.gas_used.clone(), item.fee.clone(), item.unpriced.to_string()]);
        cells
    }
}

async fn sum_up(
    feed: &dyn FeedStore,
    mut sight: Sight<'_>,
    filter: FeedFilter,
    period: std::ops::Range<Timestamp>,
    grouping: &Grouping,
) -> Result<BTreeMap<Group, Sums>, Problem> {
    let page = Page::new(Page::MAX)?;
    let mut after = start(feed, filter, period.start).await?;
    let (mut groups, mut transactions) = (BTreeMap::<Group, Sums>::new(), 0);
    loop {
        let found = feed.completions(filter, after, page).await?;
        for entry in found.items.iter().take_while(|entry| entry.at < period.end) {
            if sight.has_entry(entry).await? {
                groups.entry(grouping.group(entry)).or_default().add(entry);
            }
            transactions += 1;
        }
        if transactions > TRANSACTIONS_MAX || groups.len() > GROUPS_MAX {
            let what = format!(
                "the report has more than {TRANSACTIONS_MAX} transactions or {GROUPS_MAX} groups; \
                 ask for a shorter period"
            );
            return Err(Problem::of_field(ErrorCode::InvalidQuery, "from", what));
        }
        let is_last = found.items.last().is_none_or(|entry| entry.at >= period.end);
        if is_last || found.items.len() < page.limit() as usize {
            return Ok(groups);
        }
        after = found.next(after, page);
    }
}

impl Sums {
    fn add(&mut self, entry: &Completion) {
        self.transactions += 1;
        self.confirmed += u64::from(entry.state == TxState::Confirmed);
        let Some(mined) = &entry.mined else { return };
        self.gas_used += u128::from(mined.gas_used);
        match mined.fee() {
            Some(fee) => self.fee = self.fee.saturating_add(fee.0),
            None => self.unpriced += 1,
        }
    }
}

/// The position after which the feed begins at a time: numbers and times ascend together, because both are
/// given under the lock of the feed's counter.
async fn start(
    feed: &dyn FeedStore,
    filter: FeedFilter,
    from: Timestamp,
) -> Result<Seq, StoreError> {
    let one = Page::new(1).map_err(|error| StoreError::Defect(error.to_string().into()))?;
    let (mut low, mut high) = (0, feed.feed_end(filter).await?.get());
    // Everything up to `low` is before the time; nothing after `high` is.
    while low < high {
        let middle = low.midpoint(high);
        let after = Seq::new(middle).unwrap_or(Seq::MAX);
        let found = feed.completions(filter, after, one).await?;
        match found.items.first() {
            Some(entry) if entry.at < from => low = entry.seq.get().max(middle + 1).min(high),
            Some(_) | None => high = middle,
        }
    }
    Ok(Seq::new(low).unwrap_or(Seq::MAX))
}
