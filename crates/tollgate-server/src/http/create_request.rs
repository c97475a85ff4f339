//! Turns the body of a create into what the engine is asked to do.

use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_api::header::IDEMPOTENCY_KEY;
use tollgate_api::limit::{METADATA_BYTES_MAX, METADATA_DEPTH_MAX};
use tollgate_api::{
    Access, Create, ErrorCode, NewPayload, Payload, check_fees, parse_duration, parse_time, quoted,
    read_address, read_hash, read_hex,
};
use tollgate_engine::SignedIntent;
use tollgate_model::access::Tenant;
use tollgate_model::port::chain::Speed;
use tollgate_model::port::policy::NewCall;
use tollgate_model::port::signer::{AccessListEntry, TxKind};
use tollgate_model::{
    Address, ChainId, Intent, PrivateRoute, RequestId, Route, Submitter, Timestamp, TxHash, U256,
};
use tollgate_signer::{RecoverError, recover};
use uuid::Uuid;

use super::authorization::{check_set_code, read_authorizations};
use super::body::one_of;
use super::problem::Problem;

const SPEEDS: [(&str, Speed); 3] =
    [("slow", Speed::Slow), ("normal", Speed::Normal), ("fast", Speed::Fast)];
const ROUTES: [(&str, Route); 2] =
    [(Route::Public.name(), Route::Public), (Route::Private.name(), Route::Private)];
const TX_KINDS: [(&str, TxKind); 4] = [
    ("legacy", TxKind::Legacy),
    ("accessList", TxKind::AccessList),
    ("dynamicFee", TxKind::DynamicFee),
    ("setCode", TxKind::SetCode),
];

/// A create whose fields have been read.
#[derive(Clone, Debug)]
pub(crate) struct CreateRequest {
    pub(crate) submitter: Submitter,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) content: CreateContent,
}

/// The content of a create.
#[derive(Clone, Debug)]
pub(crate) enum CreateContent {
    /// To be priced and signed by Tollgate.
    Intent(Box<Intent>),
    /// To be sent as the caller signed it.
    Signed(Box<SignedIntent>),
}

impl CreateRequest {
    /// Reads the body of a create for a node of this chain. `key` is the `Idempotency-Key` header.
    pub(crate) fn read(
        create: Create,
        chain: ChainId,
        key: Option<&str>,
        tenant: Option<&Tenant>,
    ) -> Result<Self, Problem> {
        let submitter = create.submitter.as_deref();
        let address = submitter.map(|text| read_address("submitter", text)).transpose()?;
        Self::read_from(create, chain, key, tenant, address)
    }

    /// The same for an account of the caller's choice, whatever the body names.
    pub(crate) fn read_from(
        create: Create,
        chain: ChainId,
        key: Option<&str>,
        tenant: Option<&Tenant>,
        address: Option<Address>,
    ) -> Result<Self, Problem> {
        if let Some(asked) = &create.chain_id {
            let asked = asked.read("chainId")?;
            if asked != U256::from(chain.get()) {
                return Err(Problem::wrong_chain("chainId", asked, chain));
            }
        }
        let mut request_id = request_id(create.request_id.as_deref(), key, tenant)?;
        let (address, content) = match create.raw_tx {
            Some(_) => {
                let (address, hash, content) = read_signed(create, chain, address)?;
                // A signed transaction has a name without one, also among those of a tenant.
                let name = || tenant.map(|tenant| RequestId::of_tenant(tenant, &hash.to_string()));
                request_id = request_id.map(Ok).or_else(name).transpose()?;
                (address, content)
            }
            None => read_intent(create, address)?,
        };
        Ok(Self { submitter: Submitter::new(chain, address), request_id, content })
    }
}

fn read_signed(
    create: Create,
    chain: ChainId,
    submitter: Option<Address>,
) -> Result<(Address, TxHash, CreateContent), Problem> {
    let refused = |why: &str| Problem::of_field(ErrorCode::InvalidRawTx, "rawTx", why);
    if create.payload.is_some() || create.speed.is_some() || create.max_fee_per_gas.is_some() {
        return Err(refused("payload, speed and maxFeePerGas can't change a signed transaction"));
    }
    if create.valid_until.is_some() || create.replaceable.is_some() {
        return Err(refused("validUntil and replaceable can't apply to a signed transaction"));
    }
    let private = read_route(create.route.as_deref(), create.fallback_after.as_deref())?;
    if create.not_before.is_some() {
        let why = "notBefore can't apply to a signed transaction: its nonce is taken now, and all others would \
                   wait for it; post it when it is due";
        return Err(refused(why));
    }
    let raw = read_hex("rawTx", create.raw_tx.as_deref().unwrap_or_default())?;
    let signed = recover(&raw, chain).map_err(|error| match error {
        RecoverError::WrongChain { .. } => Problem::of_field(ErrorCode::WrongChain, "rawTx", error),
        _ => refused(&error.to_string()),
    })?;
    let signer = signed.draft.from;
    if submitter.is_some_and(|submitter| submitter != signer) {
        return Err(refused(&format!("signed by {signer}, not by the submitter")));
    }
    let metadata = create.metadata.as_deref().map(read_metadata).transpose()?;
    let hash = signed.tx_hash;
    let signed = SignedIntent::new(signed, metadata, private);
    Ok((signer, hash, CreateContent::Signed(Box::new(signed))))
}

fn read_intent(
    create: Create,
    submitter: Option<Address>,
) -> Result<(Address, CreateContent), Problem> {
    let payload = create.payload.ok_or_else(|| Problem::missing("payload"))?;
    let submitter = submitter.ok_or_else(|| Problem::missing("submitter"))?;
    let max_fee = create.max_fee_per_gas.map(|fee| fee.read_price("maxFeePerGas")).transpose()?;
    let mut intent = read_payload(payload)?;
    check_fees(max_fee, intent.max_priority_fee_per_gas, "payload.maxPriorityFeePerGas")?;
    let valid_until = create.valid_until.map(|text| read_time("validUntil", &text)).transpose()?;
    let not_before = create.not_before.map(|text| read_time("notBefore", &text)).transpose()?;
    let speed = create.speed.map(|speed| one_of("speed", &speed, &SPEEDS)).transpose()?;
    intent.valid_until = valid_until.map(|at| at.unix_micros());
    intent.not_before = not_before.map(|at| at.unix_micros());
    intent.replaceable = create.replaceable.unwrap_or_default();
    intent.speed = speed.unwrap_or_default();
    intent.max_fee_per_gas = max_fee;
    intent.private = read_route(create.route.as_deref(), create.fallback_after.as_deref())?;
    intent.metadata = create.metadata.as_deref().map(read_metadata).transpose()?;
    Ok((submitter, CreateContent::Intent(Box::new(intent))))
}

/// The caller's choice of a route; `None` for the public one.
fn read_route(route: Option<&str>, after: Option<&str>) -> Result<Option<PrivateRoute>, Problem> {
    const FALLBACK: &str = "fallbackAfter";
    let route = route.map(|route| one_of("route", route, &ROUTES)).transpose()?;
    if route.unwrap_or(Route::Public) == Route::Public {
        return match after {
            None => Ok(None),
            Some(_) => {
                let what = "needs \"route\": \"private\": a public transaction has nothing to fall back to";
                Err(Problem::of_field(ErrorCode::InvalidField, FALLBACK, what))
            }
        };
    }
    let is_possible = |after: &Duration| PrivateRoute::may_fall_back_after(*after);
    let read = |text: &str| {
        let what =
            format!("{} must be like 30s, 10m or 2h, above zero and at most 720h", quoted(text));
        let bad = || Problem::of_field(ErrorCode::InvalidDuration, FALLBACK, what);
        parse_duration(text).filter(is_possible).ok_or_else(bad)
    };
    Ok(Some(PrivateRoute::with_fallback(after.map(read).transpose()?)))
}

fn read_payload(payload: Payload) -> Result<Intent, Problem> {
    let Payload { to, value, data, gas, max_priority_fee_per_gas, kind, .. } = payload;
    let (access_list, authorizations) = (payload.access_list, payload.authorization_list);
    let NewCall { to, value, data, gas } = NewPayload { to, value, data, gas }.read()?;
    let tip_field = "payload.maxPriorityFeePerGas";
    let tip = max_priority_fee_per_gas.map(|tip| tip.read_price(tip_field)).transpose()?;
    let kind = kind.map(|kind| one_of("payload.type", &kind, &TX_KINDS)).transpose()?;
    let access_list = access_list.iter().enumerate().map(read_access).collect::<Result<_, _>>()?;
    let mut intent = Intent::call(to, value);
    intent.data = data;
    intent.gas = gas;
    intent.kind = kind;
    intent.access_list = access_list;
    intent.max_priority_fee_per_gas = tip;
    intent.authorization_list = read_authorizations(&authorizations)?;
    check_set_code(&mut intent)?;
    if intent.kind == Some(TxKind::Legacy) && !intent.access_list.is_empty() {
        let what = "a legacy transaction has none: leave out type, or give another one";
        return Err(Problem::of_field(ErrorCode::InvalidField, "payload.accessList", what));
    }
    let pays_no_tip = matches!(intent.kind, Some(TxKind::Legacy | TxKind::AccessList));
    if pays_no_tip && tip.is_some() {
        let what = "a transaction of this type has none: leave out type, or the tip";
        return Err(Problem::of_field(ErrorCode::InvalidFees, tip_field, what));
    }
    Ok(intent)
}

fn read_access((place, access): (usize, &Access)) -> Result<AccessListEntry, Problem> {
    let path = format!("payload.accessList[{place}]");
    let key =
        |(place, key): (usize, &String)| read_hash(&format!("{path}.storageKeys[{place}]"), key);
    let keys = access.storage_keys.iter().enumerate().map(key);
    Ok(AccessListEntry {
        address: read_address(&format!("{path}.address"), &access.address)?,
        storage_keys: keys.collect::<Result<_, _>>()?,
    })
}

impl CreateRequest {
    /// Gives the create of a tenant a name if it has none, so that its transaction is the tenant's.
    pub(crate) fn named_for(mut self, tenant: Option<&Tenant>) -> Result<Self, Problem> {
        if let (None, Some(tenant)) = (&self.request_id, tenant) {
            let id = RequestId::of_tenant(tenant, &Uuid::now_v7().to_string())?;
            self.request_id = Some(id);
        }
        Ok(self)
    }
}

/// The body's request id, or that of the header; both must be the same.
fn request_id(
    body: Option<&str>,
    key: Option<&str>,
    tenant: Option<&Tenant>,
) -> Result<Option<RequestId>, Problem> {
    if let (Some(body), Some(key)) = (body, key)
        && body != key
    {
        let what = format!("{} differs from Idempotency-Key, {}", quoted(body), quoted(key));
        return Err(Problem::of_field(ErrorCode::RequestIdMismatch, "requestId", what));
    }
    let field = if body.is_some() { "requestId" } else { IDEMPOTENCY_KEY };
    let id = body.or(key).map(|id| RequestId::in_namespace(tenant, id)).transpose();
    id.map_err(|error| Problem::of_field(ErrorCode::InvalidRequestId, field, error.problem))
}

pub(crate) fn read_time(field: &str, text: &str) -> Result<Timestamp, Problem> {
    parse_time(text).ok_or_else(|| {
        let what = format!(
            "{} must be an RFC 3339 time like 2026-11-16T09:30:00Z, at most 9999-12-31T23:59:59Z",
            quoted(text)
        );
        Problem::of_field(ErrorCode::InvalidTime, field, what)
    })
}

/// The metadata byte for byte, if everybody who gets it back can read it.
fn read_metadata(metadata: &RawValue) -> Result<String, Problem> {
    let refused = |code, what: String| Problem::of_field(code, "metadata", what);
    let too_deep = || format!("is nested more than {METADATA_DEPTH_MAX} levels deep");
    let text = metadata.get();
    if text.len() > METADATA_BYTES_MAX {
        let what = format!("{} bytes are more than {METADATA_BYTES_MAX}", text.len());
        return Err(refused(ErrorCode::MetadataTooLarge, what));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let error = error.to_string();
        let what = match error.split(" at line").next().unwrap_or_default() {
            "recursion limit exceeded" => too_deep(),
            "number out of range" => {
                "holds a number beyond ±1.8e308, which most readers can't hold: write it as text"
                    .to_owned()
            }
            why => format!("can't be read by everybody who gets it back: {why}"),
        };
        refused(ErrorCode::InvalidBody, what)
    })?;
    if depth(&value) > METADATA_DEPTH_MAX {
        return Err(refused(ErrorCode::InvalidBody, too_deep()));
    }
    if holds_nul(&value) {
        return Err(refused(ErrorCode::InvalidBody, "must not hold NUL".to_owned()));
    }
    Ok(text.to_owned())
}

/// The number of arrays and objects inside each other.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
