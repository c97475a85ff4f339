//! API keys over HTTP, for administrators.
//!
//! Only where keys are asked for: on a node without, anybody could make one that is valid later.

use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use tollgate_api::{
    ApiKey, ApiKeyPage, ErrorCode, MadeApiKey, NewApiKey, Reason, RotateApiKey, parse_duration,
    quoted, read_address,
};
use tollgate_model::access::{KeyId, KeyScope, RateLimit, Rights, Roles, Tenant};
use tollgate_model::account_pool::PoolName;
use tollgate_model::{ChainId, Timestamp};

use super::Chains;
use super::access::Caller;
use super::access::keys::ApiKeys;
use super::body::{Json, OptionalJson, given_reason, read_name};
use super::create_request::read_time;
use super::openapi::may_fail;
use super::params::{KeyParams, KeysParams};
use super::problem::Problem;
use super::query::{PathParams, QueryParams};
use crate::api_keys::{EXPIRY_MAX, GRACE_DEFAULT, GRACE_MAX, KeyAdmin, KeyError, MadeKey, NewKey};

may_fail! {
    ListProblems: InvalidQuery, InvalidLimit, InvalidNumber, InvalidCursor, StoreUnavailable;
    NewProblems: UnreadableBody, MissingField, InvalidField, InvalidAddress, InvalidTime,
        InvalidQuery, Unavailable, StoreUnavailable;
    RevokeProblems: UnreadableBody, InvalidPath, InvalidField, InvalidQuery, NotFound, Unavailable, StoreUnavailable;
    RotateProblems: UnreadableBody, InvalidPath, InvalidField, InvalidDuration, InvalidQuery,
        NotFound, Unavailable, StoreUnavailable;
}

/// The answer with a secret: nobody on the way may keep it.
type Secret = ([(header::HeaderName, &'static str); 1], axum::Json<MadeApiKey>);

/// List API keys
///
/// Without secrets, in the order of their last changes: those with no more rights than the own key. Pages may be
/// shorter than asked.
#[utoipa::path(
    get,
    path = "/api/v1/api-keys",
    operation_id = "listApiKeys",
    tag = "keys",
    params(KeysParams),
    responses((status = 200, description = "A page.", body = ApiKeyPage), ListProblems)
)]
pub(crate) async fn list(
    State(chains): State<Chains>,
    caller: Caller,
    mut params: QueryParams,
) -> Result<axum::Json<ApiKeyPage>, Problem> {
    let page = params.page()?;
    let after = params.after(|number| i64::try_from(number).is_ok().then_some(number))?;
    params.end()?;
    let (found, next) = admin(&chains, &caller).await?.page(after, page.limit()).await?;
    Ok(axum::Json(ApiKeyPage { items: found.iter().map(ApiKey::from).collect(), next }))
}

/// Make an API key
///
/// The answer has the secret, which is stored nowhere and shown this once. A key can't have more rights than the
/// one that makes it, nor be valid for longer. Other nodes know it within seconds.
#[utoipa::path(
    post,
    path = "/api/v1/api-keys",
    operation_id = "makeApiKey",
    tag = "keys",
    request_body(content = NewApiKey, description = "Its rights.", examples(
        ("billing" = (summary = "One service, one account", value = json!({
            "name": "billing", "roles": ["submit"], "tenant": "billing",
            "submitters": ["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"], "rate": "20/100",
            "expiresAt": "2027-11-16T09:30:00Z"
        })))
    )),
    responses((status = 201, description = "It is valid.", body = MadeApiKey), NewProblems)
)]
pub(crate) async fn make(
    State(chains): State<Chains>,
    caller: Caller,
    params: QueryParams,
    Json(mut body): Json<NewApiKey>,
) -> Result<(StatusCode, Secret), Problem> {
    params.end()?;
    let now = keys(&chains)?.now();
    let reason = given_reason(body.reason.take())?;
    let new = read(body, now)?;
    let made = admin(&chains, &caller).await?.because(reason).make(new).await.map_err(problem)?;
    Ok((StatusCode::CREATED, secret(&made)))
}

/// Revoke an API key
///
/// All nodes refuse it within 5 seconds. Safe to repeat.
#[utoipa::path(
    post,
    path = "/api/v1/api-keys/{keyId}/revoke",
    operation_id = "revokeApiKey",
    tag = "keys",
    params(KeyParams),
    request_body(content = Option<Reason>, description = "May be left out."),
    responses((status = 200, description = "It is revoked.", body = ApiKey), RevokeProblems)
)]
pub(crate) async fn revoke(
    State(chains): State<Chains>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    params: QueryParams,
    OptionalJson(body): OptionalJson<Reason>,
) -> Result<axum::Json<ApiKey>, Problem> {
    params.end()?;
    let (id, reason) = (KeyId::new(&id)?, given_reason(body.reason)?);
    let admin = admin(&chains, &caller).await?.because(reason);
    let revoked = admin.revoke(&id).await.map_err(problem)?;
    Ok(axum::Json(ApiKey::from(&revoked)))
}

/// Replace an API key by a new one
///
/// With the same rights and the same lifetime. The old key stays valid for `grace`.
#[utoipa::path(
    post,
    path = "/api/v1/api-keys/{keyId}/rotate",
    operation_id = "rotateApiKey",
    tag = "keys",
    params(KeyParams),
    request_body(content = Option<RotateApiKey>, description = "May be left out."),
    responses((status = 201, description = "The new key.", body = MadeApiKey), RotateProblems)
)]
pub(crate) async fn rotate(
    State(chains): State<Chains>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    params: QueryParams,
    OptionalJson(body): OptionalJson<RotateApiKey>,
) -> Result<(StatusCode, Secret), Problem> {
    params.end()?;
    let (id, reason) = (KeyId::new(&id)?, given_reason(body.reason)?);
    let grace = body.grace.map_or(Ok(GRACE_DEFAULT), |text| read_grace(&text))?;
    let admin = admin(&chains, &caller).await?.because(reason);
    let made = admin.rotate(&id, grace).await.map_err(problem)?;
    Ok((StatusCode::CREATED, secret(&made)))
}

fn keys(chains: &Chains) -> Result<&ApiKeys, Problem> {
    chains.api_keys().ok_or_else(|| {
        let detail = "this node asks for no keys; make the first one with `tollgate api-key new`";
        Problem::new(ErrorCode::Forbidden, detail)
    })
}

/// The administrator who calls, with the rights that the key has now.
async fn admin<'a>(chains: &'a Chains, caller: &Caller) -> Result<KeyAdmin<'a>, Problem> {
    let keys = keys(chains)?;
    let id = caller.key_id().ok_or_else(Problem::defect)?;
    let known = keys.known(id).await?;
    Ok(KeyAdmin::with_key(&**chains.store(), keys.now(), known.key(), caller.audit_author()))
}

fn secret(made: &MadeKey) -> Secret {
    let (secret, key) = ((*made.secret).clone(), ApiKey::from(&made.key));
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(MadeApiKey { secret, key }))
}

pub(super) fn read(body: NewApiKey, now: Timestamp) -> Result<NewKey, Problem> {
    let refused = |field: &str, what: &str| Problem::of_field(ErrorCode::InvalidField, field, what);
    let name = body.name.ok_or_else(|| Problem::missing("name"))?;
    if name.trim().is_empty() {
        return Err(refused("name", "must not be blank"));
    }
    let name = read_name("name", &name)?;
    let roles = body.roles.ok_or_else(|| Problem::missing("roles"))?;
    let chains = body.chains.iter().map(|id| ChainId::new(*id)).collect::<Result<Vec<_>, _>>()?;
    let submitters = body.submitters.iter().enumerate();
    let submitters =
        submitters.map(|(place, text)| read_address(&format!("submitters[{place}]"), text));
    let submitters = submitters.collect::<Result<Vec<_>, _>>()?;
    let pools = body.pools.into_iter().map(PoolName::new).collect::<Result<Vec<_>, _>>();
    let pools = pools.map_err(|error| refused("pools", &error.problem))?;
    let rights = Rights {
        roles: Roles::parse(&roles.join(","))?,
        scope: KeyScope::new(chains, submitters, pools)?,
        tenant: body.tenant.map(Tenant::new).transpose()?,
    };
    let expires_at = body.expires_at.map(|text| read_time("expiresAt", &text)).transpose()?;
    if expires_at.is_some_and(|at| at <= now || at > now.after(EXPIRY_MAX)) {
        let what = "must be in the future, by ten years at most";
        return Err(Problem::of_field(ErrorCode::InvalidTime, "expiresAt", what));
    }
    let rate = body.rate.map(|text| text.parse::<RateLimit>()).transpose()?;
    Ok(NewKey { name, rights, rate, expires_at })
}

pub(super) fn read_grace(text: &str) -> Result<Duration, Problem> {
    parse_duration(text).filter(|grace| *grace <= GRACE_MAX).ok_or_else(|| {
        let what = format!("{} must be like 30m or 24h, at most 720h", quoted(text));
        Problem::of_field(ErrorCode::InvalidDuration, "grace", what)
    })
}

fn problem(error: KeyError) -> Problem {
    let detail = error.to_string();
    let code = match error {
        KeyError::Store(error) => return error.into(),
        KeyError::NoRandom => return Problem::defect(),
        KeyError::Unknown => return Problem::not_found("API key", "keyId"),
        KeyError::Forbidden(_) => ErrorCode::Forbidden,
        KeyError::Ended | KeyError::Full(_) => ErrorCode::InvalidField,
        KeyError::Contended => ErrorCode::Unavailable,
    };
    Problem::new(code, detail)
}
