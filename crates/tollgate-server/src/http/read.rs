//! Reads transactions, lists and audit trails.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tollgate_api::{
    BlockedBy, ConfirmationList, ErrorCode, HistoryEntry, HistoryPage, OperatorTx, Tx, TxAnswer,
    TxLogs, TxPage, quoted, read_address, read_hash,
};
use tollgate_engine::Standing;
use tollgate_model::access::Role;
use tollgate_model::port::{LineHead, ListFilter, Page, StateFilter, TxRecord};
use tollgate_model::{RequestId, Submitter, TxId};

use super::Api;
use super::access::Caller;
use super::access::sight::Sight;
use super::account_pools::pool_in;
use super::chain_scope::ChainScope;
use super::create_request::read_time;
use super::csv;
use super::openapi::may_fail;
use super::params::{HashParams, HistoryParams, ListParams, RequestParams, TxParams};
use super::problem::Problem;
use super::query::{PathParams, QueryParams, last_of_full_page};

/// Parts that are read for one answer to a caller who does not see everything (I13), unless all transactions in them
/// were made in the same millisecond.
const PARTS_MAX: u32 = 10;
/// Transactions in such a part, at least.
const PART_MIN: u32 = 100;

may_fail! {
    TxProblems: InvalidPath, InvalidTxId, NotFound, TxRemoved, InvalidQuery, Unavailable, StoreUnavailable;
    HashProblems: InvalidPath, InvalidHex, NotFound, InvalidQuery, Unavailable, StoreUnavailable;
    RequestProblems: MissingField, InvalidField, InvalidAddress, InvalidRequestId, InvalidNumber, WrongChain,
        NotFound, TxRemoved, InvalidQuery, Unavailable, StoreUnavailable;
    ListProblems: InvalidQuery, MissingField, InvalidLimit, InvalidCursor, InvalidNumber, InvalidAddress,
        InvalidState, InvalidTime, WrongChain, StoreUnavailable;
    HistoryProblems: InvalidPath, InvalidTxId, NotFound, TxRemoved, InvalidQuery, InvalidLimit, InvalidNumber,
        InvalidCursor,
        StoreUnavailable;
}

/// Read a transaction
///
/// Callers see states and results. `view=operator` adds nonce, fencing token, attempts and schedule. With
/// `Prefer: wait=30` the answer comes when the transaction is final, or after that time.
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}",
    operation_id = "getTx",
    tag = "transactions",
    params(TxParams),
    responses((status = 200, description = "The transaction.", body = TxAnswer), TxProblems)
)]
pub(crate) async fn one(
    State(api): State<Api>,
    caller: Caller,
    PathParams(tx_id): PathParams<String>,
    mut params: QueryParams,
) -> Result<axum::Json<TxAnswer>, Problem> {
    let view = View::read(&mut params, &caller)?;
    params.end()?;
    let tx_id = parse_id(&tx_id)?;
    let found = find(&api, &caller, tx_id).await?;
    Ok(axum::Json(in_view(&api, &caller, &found, view).await?))
}

/// Read a transaction by the hash of an attempt
///
/// Of any attempt: one that was replaced or never mined finds its transaction as well. The hashes of
/// transactions that were removed are not kept: `not_found`.
#[utoipa::path(
    get,
    path = "/api/v1/tx/by-hash/{hash}",
    operation_id = "getTxByHash",
    tag = "transactions",
    params(HashParams),
    responses((status = 200, description = "The transaction.", body = TxAnswer), HashProblems)
)]
pub(crate) async fn by_hash(
    State(api): State<Api>,
    caller: Caller,
    PathParams(hash): PathParams<String>,
    mut params: QueryParams,
) -> Result<axum::Json<TxAnswer>, Problem> {
    let view = View::read(&mut params, &caller)?;
    params.end()?;
    let hash = read_hash("hash", &hash)?;
    let (mut sight, mut found) = (Sight::of(&api, &caller), None);
    for (_, tx_id) in api.store.tx_ids_by_hash(&[hash]).await? {
        // Without a chain id in its bytes a transaction can be on several chains with one hash.
        let Some(record) = api.store.tx(tx_id).await? else { continue };
        if !sight.has_tx(&record).await? {
            continue;
        }
        let is_here = |tx: &TxRecord| tx.submitter.chain_id == api.engine.chain_id();
        if found.is_none() || is_here(&record) {
            found = Some(record);
        }
    }
    let found = found.ok_or_else(|| Problem::not_found("transaction", "hash"))?;
    Ok(axum::Json(in_view(&api, &caller, &found, view).await?))
}

/// Read a transaction by its request
///
/// With `submitter=pool:NAME`, that of a request to a pool, whichever member took it.
#[utoipa::path(
    get,
    path = "/api/v1/tx/by-request",
    operation_id = "getTxByRequest",
    tag = "transactions",
    params(RequestParams),
    responses((status = 200, description = "The transaction.", body = TxAnswer), RequestProblems)
)]
pub(crate) async fn by_request(
    State(api): State<Api>,
    caller: Caller,
    mut params: QueryParams,
) -> Result<axum::Json<TxAnswer>, Problem> {
    let view = View::read(&mut params, &caller)?;
    let sender = params.required("submitter")?;
    let given = params.required("requestId")?;
    let request_id = RequestId::in_namespace(caller.tenant(), &given).map_err(|error| {
        Problem::of_field(ErrorCode::InvalidRequestId, "requestId", error.problem)
    })?;
    params.end()?;
    let pool = pool_in(&sender)?;
    let submitter = match &pool {
        Some(pool) => api.engine.assigned_member(pool, Some(&request_id)).await?,
        None => Some(Submitter::new(api.engine.chain_id(), read_address("submitter", &sender)?)),
    };
    let submitter = submitter.ok_or_else(|| Problem::not_found("request", "requestId"))?;
    let scope = &caller.rights().scope;
    let is_in_scope = match &pool {
        Some(pool) => scope.has_pool(api.engine.chain_id(), pool),
        None => Sight::of(&api, &caller).has_submitter(submitter).await?,
    };
    if !is_in_scope {
        return Err(Problem::not_found("request", "requestId"));
    }
    let found = api.store.tx_by_request(submitter, &request_id).await?;
    let Some(found) = found else {
        let removed = api.store.removed_by_request(submitter, &request_id).await?;
        return Err(match removed {
            Some(removed) => Problem::tx_removed(&removed, "requestId"),
            None => Problem::not_found("request", "requestId"),
        });
    };
    Ok(axum::Json(in_view(&api, &caller, &found, view).await?))
}

/// List transactions
///
/// Newest first. With `Accept: text/csv` the same page comes as CSV, and `next` in the header
/// `x-next-cursor`. `view=operator` adds the nonce.
#[utoipa::path(
    get,
    path = "/api/v1/tx",
    operation_id = "listTx",
    tag = "transactions",
    params(ListParams),
    responses(
        (status = 200, description = "A page.", content(
            (TxPage = "application/json"),
            (String = "text/csv", example = "txId,chainId,submitter,requestId,state,subState,txHash,createdAt,blockNumber,gasUsed,effectiveGasPrice,fee,contractAddress,to,value,transactionIndex,blockTime,confirmations\r\n")
        ), headers(("x-next-cursor" = String, description = "`next`, of a page as CSV."))),
        ListProblems
    )
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    scope: ChainScope,
    headers: HeaderMap,
    mut params: QueryParams,
) -> Result<Response, Problem> {
    let page = params.page()?;
    let after = params.cursor("cursor", |text| text.parse::<TxId>().ok())?;
    let operator = is_operator(&mut params, &caller)?;
    let submitter = match (params.address("submitter")?, scope.chain_id()) {
        (Some(address), Some(chain_id)) => Some(Submitter::new(chain_id, address)),
        // An account is on one chain.
        (Some(_), None) => return Err(Problem::missing("chainId")),
        (None, _) => None,
    };
    let instant =
        |name: &str, text: Option<String>| text.map(|text| read_time(name, &text)).transpose();
    let filter = ListFilter {
        chain_id: scope.chain_id(),
        submitter,
        states: params.states()?.map_or(StateFilter::Any, StateFilter::Of),
        from: instant("from", params.take("from"))?,
        to: instant("to", params.take("to"))?,
    };
    params.end()?;
    let (found, next) = list_in_sight(&api, &caller, &filter, after, page).await?;
    let next = next.map(|tx_id| tx_id.to_string());
    // One account has one line: one read tells what blocks all that wait in it.
    let head = match filter.submitter {
        Some(submitter) if found.iter().any(waits) => {
            head_in_sight(&api, &caller, submitter).await?
        }
        Some(_) | None => None,
    };
    let blocked = |tx: &TxRecord| BlockedBy::of(tx, head.as_ref().filter(|_| waits(tx))?);
    let shown = |tx: &TxRecord| {
        let blocked_by = blocked(tx).map(BlockedBy::for_callers);
        let nonce = tx.nonce.filter(|_| operator).map(|nonce| nonce.get());
        Tx { blocked_by, nonce, ..Tx::from(tx) }.at_head(api.head_of(tx.submitter.chain_id))
    };
    let items: Vec<Tx> = found.iter().map(shown).collect();
    if csv::is_wanted(&headers) {
        return Ok(csv::list(&items, next.as_deref(), operator));
    }
    Ok(axum::Json(TxPage { items, next }).into_response())
}

/// Read a transaction's audit trail
///
/// Every change, oldest first: what happened, when, by which node, under which token.
#[utoipa::path(
    get,
    path = "/api/v1/tx/{txId}/history",
    operation_id = "getTxHistory",
    tag = "transactions",
    params(HistoryParams),
    responses((status = 200, description = "A page.", body = HistoryPage), HistoryProblems)
)]
pub(crate) async fn history(
    State(api): State<Api>,
    caller: Caller,
    PathParams(tx_id): PathParams<String>,
    mut params: QueryParams,
) -> Result<axum::Json<HistoryPage>, Problem> {
    let page = params.page()?;
    let after = params.after(|number| u32::try_from(number).ok())?;
    params.end()?;
    let tx_id = parse_id(&tx_id)?;
    find(&api, &caller, tx_id).await?;
    let found = api.store.history(tx_id, after, page).await?;
    let next = last_of_full_page(&found, page).map(|entry| entry.version);
    let items = found.iter().map(HistoryEntry::from).collect();
    Ok(axum::Json(HistoryPage { items, next }))
}

/// A page of the transactions that the caller sees, and the place to continue from. A caller with a tenant or a
/// scope may get fewer than there are in a page: what is not in sight is read and left out, and [`PARTS_MAX`] parts
/// are read to find anything.
async fn list_in_sight(
    api: &Api,
    caller: &Caller,
    filter: &ListFilter,
    begin: Option<TxId>,
    page: Page,
) -> Result<(Vec<TxRecord>, Option<TxId>), Problem> {
    if caller.rights().see_everything() {
        let found = api.store.list(filter, begin, page).await?;
        let next = last_of_full_page(&found, page).map(|tx| tx.tx_id);
        return Ok((found, next));
    }
    let (mut sight, mut seen, mut after) = (Sight::of(api, caller), Vec::new(), begin);
    let part = Page::new(page.limit().max(PART_MIN))?;
    for parts in 1.. {
        let found = api.store.list(filter, after, part).await?;
        after = last_of_full_page(&found, part).map(|tx| tx.tx_id);
        for tx in found {
            let tx_id = tx.tx_id;
            if sight.has_tx(&tx).await? {
                seen.push(tx);
            }
            if seen.len() >= page.limit() as usize {
                return Ok((seen, Some(tx_id)));
            }
        }
        let Some(last) = after else { return Ok((seen, None)) };
        if let Some(own) = seen.last().map(|tx| tx.tx_id) {
            return Ok((seen, Some(own)));
        }
        let next = above_time_of(last);
        if parts >= PARTS_MAX && begin.is_none_or(|begin| next < begin) {
            return Ok((seen, Some(next)));
        }
    }
    unreachable!("the list has an end")
}

/// A position from which a list goes on at the latest with a transaction that is not in sight: the end of the
/// millisecond in its id. It tells nobody the id.
fn above_time_of(tx_id: TxId) -> TxId {
    TxId::first_at(tx_id.time().after(Duration::from_millis(1)))
}

/// The head of an account's line, if the caller may know of it.
pub(crate) async fn head_in_sight(
    api: &Api,
    caller: &Caller,
    of: Submitter,
) -> Result<Option<LineHead>, Problem> {
    let head = api.store.line_head(of).await?;
    let Some(head) = head.filter(|_| !caller.rights().see_everything()) else { return Ok(head) };
    let Some(record) = api.store.tx(head.tx_id).await? else { return Ok(None) };
    Ok(Sight::of(api, caller).has_tx(&record).await?.then_some(head))
}

/// A transaction by its id, or the problem that says what became of it. One that the caller must not see is not
/// there.
pub(crate) async fn find(api: &Api, caller: &Caller, tx_id: TxId) -> Result<TxRecord, Problem> {
    let mut sight = Sight::of(api, caller);
    let missing = || Problem::not_found("transaction", "txId");
    if let Some(record) = api.store.tx(tx_id).await? {
        return if sight.has_tx(&record).await? { Ok(record) } else { Err(missing()) };
    }
    // Read second: a removal in between is seen here.
    Err(match api.store.removed(tx_id).await? {
        Some(removed) if sight.has_removed(&removed).await? => {
            Problem::tx_removed(&removed, "txId")
        }
        Some(_) | None => missing(),
    })
}

/// The additions to a transaction that a read asks for.
struct View {
    operator: bool,
    logs: bool,
}

impl View {
    fn read(params: &mut QueryParams, caller: &Caller) -> Result<Self, Problem> {
        Ok(Self { operator: is_operator(params, caller)?, logs: params.flag("logs")? })
    }
}

async fn in_view(
    api: &Api,
    caller: &Caller,
    tx: &TxRecord,
    view: View,
) -> Result<TxAnswer, Problem> {
    let logs = if view.logs { Some(logs_of(api, tx).await?) } else { None };
    if view.operator {
        let mut shown = for_operators(api, caller, tx).await?;
        shown.tx.logs = logs;
        return Ok(TxAnswer::Operator(Box::new(shown)));
    }
    let shown = for_callers(api, caller, tx).await?;
    let confirmations = match api.shared.exposes_confirmations {
        true => confirmations_of(api, tx).await?,
        false => None,
    };
    Ok(TxAnswer::Caller(Box::new(Tx { logs, confirmations, ..shown })))
}

/// The log entries, as the chain has them now.
async fn logs_of(api: &Api, tx: &TxRecord) -> Result<TxLogs, Problem> {
    let Some(mined) = &tx.mined else { return Ok(TxLogs::none()) };
    let unavailable = |why: String| Problem::new(ErrorCode::Unavailable, why);
    if tx.submitter.chain_id != api.engine.chain_id() {
        return Err(unavailable(format!("chain {} is not followed here", tx.submitter.chain_id)));
    }
    let logs = api.engine.logs(mined).await.map_err(|error| unavailable(error.to_string()))?;
    let logs = logs.ok_or_else(|| {
        unavailable("no endpoint has the receipt in its block; it may be gone by now".to_owned())
    })?;
    Ok(TxLogs::new(&logs))
}

/// The blocks on top of a transaction: those of the canonical chain now while it is MINED, those that made
/// it final afterwards.
async fn confirmations_of(api: &Api, tx: &TxRecord) -> Result<Option<ConfirmationList>, Problem> {
    let stored = api.store.confirmations(tx.tx_id).await?;
    let new_fork = stored.as_ref().is_some_and(|list| list.new_fork);
    let Some(mined) = &tx.mined else {
        return Ok(new_fork.then(|| ConfirmationList::new(true, 0, &[])));
    };
    if let Some(list) = stored.filter(|_| tx.row.state.is_final()) {
        return Ok(Some(ConfirmationList::new(new_fork, list.first_block, &list.hashes)));
    }
    let own_block = || (new_fork, mined.block_number, vec![mined.block_hash]);
    let (new_fork, first_block, hashes) = match api.view_of(tx.submitter.chain_id) {
        None => own_block(),
        Some(view) => match view.standing(mined.block_number, mined.block_hash) {
            Standing::Canonical => {
                let (first_block, hashes) = view.hashes_from(mined.block_number);
                (new_fork, first_block, hashes)
            }
            // The block has left the chain, and the record says so in a moment.
            Standing::Orphaned => (true, mined.block_number, Vec::new()),
            Standing::Ahead | Standing::Older => own_block(),
        },
    };
    Ok(Some(ConfirmationList::new(new_fork, first_block, &hashes)))
}

/// A transaction as callers see it, with what it waits for.
pub(crate) async fn for_callers(api: &Api, caller: &Caller, tx: &TxRecord) -> Result<Tx, Problem> {
    let blocked_by = blocked_by(api, caller, tx).await?.map(BlockedBy::for_callers);
    Ok(Tx { blocked_by, ..Tx::from(tx) }.at_head(api.head_of(tx.submitter.chain_id)))
}

/// A transaction with all that operators see.
pub(crate) async fn for_operators(
    api: &Api,
    caller: &Caller,
    tx: &TxRecord,
) -> Result<OperatorTx, Problem> {
    let attempts = api.store.attempts(tx.tx_id).await?;
    let history = api.store.history(tx.tx_id, 0, Page::new(Page::MAX)?).await?;
    let (blocked_by, confirmations) =
        (blocked_by(api, caller, tx).await?, confirmations_of(api, tx).await?);
    let shown = Tx { blocked_by, confirmations, ..Tx::from(tx) };
    let shown = shown.at_head(api.head_of(tx.submitter.chain_id));
    Ok(OperatorTx::new(shown, tx, &attempts, &history))
}

/// A transaction can wait for another one while it is in no block and not final.
fn waits(tx: &TxRecord) -> bool {
    !tx.row.state.is_final() && tx.mined.is_none()
}

/// The transaction that this one waits for, if one before it does not move.
async fn blocked_by(
    api: &Api,
    caller: &Caller,
    tx: &TxRecord,
) -> Result<Option<BlockedBy>, Problem> {
    if !waits(tx) {
        return Ok(None);
    }
    let head = head_in_sight(api, caller, tx.submitter).await?;
    Ok(head.and_then(|head| BlockedBy::of(tx, &head)))
}

pub(crate) fn parse_id(text: &str) -> Result<TxId, Problem> {
    text.parse::<TxId>()
        .map_err(|error| Problem::of_field(ErrorCode::InvalidTxId, "txId", error.problem))
}

fn is_operator(params: &mut QueryParams, caller: &Caller) -> Result<bool, Problem> {
    match params.take("view").as_deref() {
        None => Ok(false),
        Some("operator") => caller.require(&[Role::Operate]).map(|()| true),
        Some(other) => {
            let what = format!("{} must be operator", quoted(other));
            Err(Problem::of_field(ErrorCode::InvalidQuery, "view", what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_above_a_hidden_transaction_is_past_its_millisecond_and_not_its_id() {
        let id = |text: &str| text.parse::<TxId>().unwrap();
        let hidden = id("0193f5a1-4c2b-7abc-8def-0123456789ab");
        let last = id("0193f5a1-4c2b-7fff-bfff-ffffffffffff");
        let position = above_time_of(hidden);
        assert!(position > last, "nothing of the same millisecond is left out");
        assert!(position < id("0193f5a1-4c2c-7000-8000-000000000000"));
        assert_eq!(position, above_time_of(last), "it tells the time alone");
    }
}
