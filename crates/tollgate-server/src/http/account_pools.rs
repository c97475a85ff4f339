//! Account pools: reads and changes them, and finds the members that take creates.
//!
//! A create for a pool is given to a member by the first node that reads it, before the owner of the submitter
//! is looked for: from then on it is a create for that account.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::value::RawValue;
use tollgate_api::{
    Create, ErrorCode, NewPool, Pool, PoolEntry, PoolMember, PoolPage, path, read_address,
};
use tollgate_engine::PoolError;
use tollgate_model::account_pool::{AccountPool, Candidate, MEMBERS_MAX, PoolName};
use tollgate_model::audit::AuditedAction;
use tollgate_model::{Address, Submitter};

use super::Api;
use super::access::Caller;
use super::access::sight::Sight;
use super::body::{Json, given_reason, raw, read_object, read_whole};
use super::create_request::{CreateContent, CreateRequest};
use super::forward::FORWARDED;
use super::idempotency::{key_of, with_text};
use super::openapi::may_fail;
use super::params::{PoolParams, PoolsParams, RemovePoolParams};
use super::problem::Problem;
use super::query::{PathParams, QueryParams, last_of_full_page};

may_fail! {
    ListProblems: InvalidQuery, InvalidLimit, InvalidNumber, InvalidCursor, StoreUnavailable;
    ReadProblems: InvalidPath, InvalidField, InvalidQuery, NotFound, StoreUnavailable;
    PutProblems: UnreadableBody, MissingField, InvalidField, InvalidAddress, InvalidPath,
        InvalidQuery, UnknownSubmitter, NotFound, StoreUnavailable;
}

/// List the pools of a chain
#[utoipa::path(
    get,
    path = "/api/v1/pools",
    operation_id = "listPools",
    tag = "pools",
    params(PoolsParams),
    responses((status = 200, description = "A page.", body = PoolPage), ListProblems)
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller,
    mut params: QueryParams,
) -> Result<axum::Json<PoolPage>, Problem> {
    let page = params.page()?;
    let after = params.cursor("cursor", |text| PoolName::new(text).ok())?;
    params.end()?;
    let found = api.store.pools(api.engine.chain_id(), after.as_ref(), page).await?;
    let next = last_of_full_page(&found, page).map(|last| last.name.to_string());
    let entry = |AccountPool { name, members }: AccountPool| PoolEntry {
        name: name.to_string(),
        members: members.iter().map(|member| member.to_checksum(None)).collect(),
    };
    let (chain_id, scope) = (api.engine.chain_id(), &caller.rights().scope);
    let seen = found.into_iter().filter(|pool| scope.has_pool(chain_id, &pool.name));
    Ok(axum::Json(PoolPage { items: seen.map(entry).collect(), next }))
}

/// Read a pool
///
/// With the load of its members.
#[utoipa::path(
    get,
    path = "/api/v1/pools/{name}",
    operation_id = "getPool",
    tag = "pools",
    params(PoolParams),
    responses((status = 200, description = "The pool.", body = Pool), ReadProblems)
)]
pub(crate) async fn one(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    params: QueryParams,
) -> Result<axum::Json<Pool>, Problem> {
    params.end()?;
    shown(&api, &pool_in_sight(&api, &caller, name)?).await
}

/// Set the members of a pool
///
/// Creates the pool, or replaces all of its members. Transactions and requests that members have stay
/// with them. Other nodes follow within seconds.
#[utoipa::path(
    put,
    path = "/api/v1/pools/{name}",
    operation_id = "putPool",
    tag = "pools",
    params(PoolParams),
    request_body(content = NewPool, description = "All members.", examples(
        ("two" = (summary = "Two accounts", value = json!({"members": [
            "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
        ]})))
    )),
    responses((status = 200, description = "The pool.", body = Pool), PutProblems)
)]
pub(crate) async fn put(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    params: QueryParams,
    Json(body): Json<NewPool>,
) -> Result<axum::Json<Pool>, Problem> {
    params.end()?;
    let name = pool_in_sight(&api, &caller, name)?;
    let reason = given_reason(body.reason)?;
    let given = body.members.iter().enumerate();
    let read = given.map(|(place, text)| read_address(&format!("members[{place}]"), text));
    let mut members = read.collect::<Result<Vec<Address>, _>>()?;
    members.sort_unstable();
    members.dedup();
    if members.is_empty() || members.len() > MEMBERS_MAX {
        let what = format!("{} accounts, must be 1 to {MEMBERS_MAX}", members.len());
        return Err(Problem::of_field(ErrorCode::InvalidField, "members", what));
    }
    let mut sight = Sight::of(&api, &caller);
    for member in &members {
        // A key for a pool must not give itself other accounts through it.
        sight.require_submitter(Submitter::new(api.engine.chain_id(), *member)).await?;
    }
    let subject = pool_subject(&api, &name);
    caller.record(&*api.store, AuditedAction::PutPool, subject, reason.as_ref()).await?;
    let pool = AccountPool { name, members };
    api.engine.put_pool(&pool).await.map_err(|error| problem(error, "members"))?;
    shown(&api, &pool.name).await
}

/// Remove a pool
///
/// Its accounts stay as they are, and requests that were made to it still find their transactions.
#[utoipa::path(
    delete,
    path = "/api/v1/pools/{name}",
    operation_id = "removePool",
    tag = "pools",
    params(RemovePoolParams),
    responses((status = 204, description = "It is removed."), ReadProblems)
)]
pub(crate) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
    mut params: QueryParams,
) -> Result<StatusCode, Problem> {
    let reason = params.reason()?;
    params.end()?;
    let name = pool_in_sight(&api, &caller, name)?;
    let subject = pool_subject(&api, &name);
    caller.record(&*api.store, AuditedAction::RemovePool, subject, reason.as_ref()).await?;
    api.engine.remove_pool(&name).await.map_err(not_found)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The pool that a path names, if the caller's key is for it.
fn pool_in_sight(api: &Api, caller: &Caller, name: String) -> Result<PoolName, Problem> {
    let name = PoolName::new(name)?;
    match caller.rights().scope.has_pool(api.engine.chain_id(), &name) {
        true => Ok(name),
        false => Err(Problem::not_found("pool", "name")),
    }
}

/// A pool as the audit log names it.
fn pool_subject(api: &Api, name: &PoolName) -> String {
    format!("{}:{name}", api.engine.chain_id())
}

async fn shown(api: &Api, name: &PoolName) -> Result<axum::Json<Pool>, Problem> {
    let members = api.engine.pool_members(name).await.map_err(not_found)?;
    let member = |Candidate { address, availability, open }: Candidate| PoolMember {
        address: address.to_checksum(None),
        availability: Cow::Borrowed(availability.name()),
        open,
    };
    let members = members.into_iter().map(member).collect();
    let (chain_id, name) = (api.engine.chain_id().get(), name.to_string());
    Ok(axum::Json(Pool { chain_id, name, members }))
}

/// The problem of a call whose path names a pool.
fn not_found(error: PoolError) -> Problem {
    match error {
        PoolError::Unknown(_) => Problem::not_found("pool", "name"),
        other => problem(other, "name"),
    }
}

fn problem(error: PoolError, field: &str) -> Problem {
    let detail = error.to_string();
    let code = match error {
        PoolError::Create(error) => return error.into(),
        PoolError::Store(error) => return error.into(),
        PoolError::Unknown(_) | PoolError::UnknownMember(_) => ErrorCode::UnknownSubmitter,
        PoolError::NoMember { .. } => ErrorCode::SubmitterDisabled,
    };
    Problem::of_field(code, field, detail)
}

/// Marks a create that a pool has given to a member: the caller may use the pool.
#[derive(Clone, Copy)]
pub(crate) struct FromPool;

/// The pool that a `submitter` names, if it names one.
pub(crate) fn pool_in(sender: &str) -> Result<Option<PoolName>, Problem> {
    let named = PoolName::in_submitter(sender).transpose();
    named.map_err(|error| Problem::of_field(ErrorCode::InvalidField, "submitter", error.problem))
}

/// Reads a create whose `submitter` is a pool; `None` for another one. The submitter of the request is not
/// decided yet.
pub(crate) fn read_pool_create(
    api: &Api,
    caller: &Caller,
    create: &RawValue,
    key: Option<&str>,
) -> Result<Option<(PoolName, CreateRequest)>, Problem> {
    // The common case costs no parsing.
    if memchr::memmem::find(create.get().as_bytes(), b"pool:").is_none() {
        return Ok(None);
    }
    let create: Create = read_object(create)?;
    let Some(pool) = create.submitter.as_deref().map(pool_in).transpose()?.flatten() else {
        return Ok(None);
    };
    if create.raw_tx.is_some() {
        let what = "a signed transaction is its signer's: leave out the pool";
        return Err(Problem::of_field(ErrorCode::InvalidRawTx, "rawTx", what));
    }
    let (chain_id, any) = (api.engine.chain_id(), Some(Address::ZERO));
    caller.require_pool(chain_id, &pool)?;
    let request = CreateRequest::read_from(create, chain_id, key, caller.tenant(), any)?;
    Ok(Some((pool, request)))
}

/// Gives a create to a member of its pool. Returns its JSON with the member in the place of the pool.
pub(crate) async fn give_to_member(
    api: &Api,
    pool: &PoolName,
    request: &mut CreateRequest,
    create: &RawValue,
) -> Result<Box<RawValue>, Problem> {
    request.submitter = member(api, pool, request, false).await?;
    renamed(create, request.submitter)
}

/// The member that takes a create: for good, unless the create is only simulated.
async fn member(
    api: &Api,
    pool: &PoolName,
    request: &CreateRequest,
    is_simulated: bool,
) -> Result<Submitter, Problem> {
    let CreateContent::Intent(intent) = &request.content else { return Err(Problem::defect()) };
    let request_id = request.request_id.as_ref();
    let found = match is_simulated {
        true => api.engine.likely_member(pool, request_id, intent).await,
        false => api.engine.assign_member(pool, request_id, intent).await,
    };
    found.map_err(|error| problem(error, "submitter"))
}

fn renamed(create: &RawValue, member: Submitter) -> Result<Box<RawValue>, Problem> {
    with_text(create, "submitter", &member.address.to_checksum(None)).ok_or_else(Problem::defect)
}

/// A request that is a create for a pool becomes one for the member that takes it; other requests stay as they
/// are. The items of a batch are given to members one by one, by its route.
pub(super) async fn with_member(api: &Api, request: Request) -> Result<Request, Problem> {
    if request.uri().path() != path::TX || request.headers().contains_key(FORWARDED) {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    let caller = Caller::of(&parts.extensions)?;
    let mut body = read_whole(Request::from_parts(parts.clone(), body), &()).await?;
    // What can't be read, the route refuses.
    if let (Ok(create), Ok(key)) = (raw(&body), key_of(&parts.headers))
        && let Some((pool, request)) = read_pool_create(api, &caller, create, key.as_deref())?
    {
        let query = parts.uri.query().unwrap_or_default();
        let is_simulated = query.split('&').any(|pair| pair == "simulate=true");
        let member = member(api, &pool, &request, is_simulated).await?;
        body = renamed(create, member)?.get().to_owned().into();
        parts.extensions.insert(FromPool);
    }
    Ok(Request::from_parts(parts, Body::from(body)))
}
