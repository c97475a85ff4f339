//! Bodies: strict about what they say, clear about what is wrong.

mod fields;
mod nonce;
mod order;

use std::time::Duration;

use axum::body::Bytes as RawBody;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tollgate_api::parse_time;
use tollgate_engine::SignedIntent;
use tollgate_model::ids::parse_address;
use tollgate_model::port::chain::Speed;
use tollgate_model::port::policy::NewCall;
use tollgate_model::port::signer::{AccessListEntry, TxKind};
use tollgate_model::{
    Address, B256, Bytes, ChainId, GasPrice, Intent, RequestId, Submitter, Timestamp, U256,
};
use tollgate_signer::{RecoverError, recover};
use utoipa::ToSchema;

use super::code::Code;
use super::idempotency::IDEMPOTENCY_KEY;
use super::problem::Problem;
use super::{BODY_BYTES_MAX, schema};

use fields::Number;
pub(crate) use fields::{Fields, FromFields, quoted, read_object};
pub(crate) use nonce::{ReserveBody, ReturnedBody, UsedBody};
pub(crate) use order::{AdvanceBody, FillBody, ModeBody, NeededReason, Reason, ReplaceBody};

/// Longest metadata, in bytes (I13).
pub(crate) const METADATA_MAX: usize = 16 * 1024;

/// How deep metadata may be nested (I13): what the JSON reader goes into.
const METADATA_DEPTH_MAX: usize = 127;

/// The longest that a body may take to arrive (I13).
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: FromFields, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        read_object(raw(&read_whole(request, state).await?)?).map(Self)
    }
}

/// A JSON body that may be left out, or be null.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: FromFields + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = read_whole(request, state).await?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        match raw(&body)? {
            null if null.get() == "null" => Ok(Self(T::default())),
            body => read_object(body).map(Self),
        }
    }
}

pub(crate) async fn read_whole<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<RawBody, Problem> {
    read_within(BODY_TIMEOUT, request, state).await
}

async fn read_within<S: Send + Sync>(
    limit: Duration,
    request: Request,
    state: &S,
) -> Result<RawBody, Problem> {
    let Ok(read) = timeout(limit, RawBody::from_request(request, state)).await else {
        let detail = format!("the body did not arrive within {limit:?}");
        return Err(Problem::new(Code::RequestTimeout, detail));
    };
    read.map_err(|refused| {
        if refused.status() == StatusCode::PAYLOAD_TOO_LARGE {
            let detail = format!("the body has more than {BODY_BYTES_MAX} bytes");
            return Problem::new(Code::BodyTooLarge, detail);
        }
        Problem::new(Code::UnreadableBody, refused.body_text())
    })
}

/// The JSON value that a body is.
pub(crate) fn raw(body: &[u8]) -> Result<&RawValue, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))
}

/// A call to be made from an account.
#[derive(ToSchema)]
#[schema(as = Create)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateBody {
    /// Refused if the node works on another chain.
    #[schema(value_type = Option<schema::Number>)]
    chain_id: Option<Number>,
    /// The account that sends, in any letter case; mixed case must be a right EIP-55 checksum.
    /// Needed with a `payload`.
    #[schema(value_type = Option<schema::Address>)]
    submitter: Option<String>,
    /// The caller's own name for the request: up to 256 bytes, no control characters. The same id
    /// with the same payload is the same transaction.
    #[schema(value_type = Option<schema::RequestId>)]
    request_id: Option<String>,
    /// What to call. Needed without a `rawTx`.
    #[schema(value_type = Option<PayloadBody>)]
    payload: Option<PayloadBody>,
    /// A signed transaction (EIP-2718) instead of `submitter` and `payload`. Its nonce must be the
    /// next one of the account that signed it. Without a `requestId` its hash is its name.
    #[schema(value_type = Option<schema::Hex>)]
    raw_tx: Option<String>,
    /// The price level.
    #[schema(value_type = Option<schema::Speed>)]
    speed: Option<Speed>,
    /// The most to pay for a unit of gas, in wei. Where the market is above it, the transaction
    /// waits.
    #[schema(value_type = Option<schema::Number>)]
    max_fee_per_gas: Option<Number>,
    /// Until when it is wanted. Without a slot by then it ends as CANCELLED; with one, the stuck
    /// policy is asked what becomes of it.
    #[schema(value_type = Option<schema::Time>)]
    valid_until: Option<String>,
    /// `true`: a policy or an operator may put another call in its place.
    replaceable: Option<bool>,
    /// The caller's own notes: any JSON, up to 16384 bytes as text. Given back with the transaction.
    #[schema(value_type = schema::Anything, required = false)]
    metadata: Option<Box<RawValue>>,
}

/// What to call, with what.
#[derive(ToSchema)]
#[schema(as = Payload)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PayloadBody {
    /// What is called; left out to create a contract from `data`.
    #[schema(value_type = Option<schema::Address>)]
    to: Option<String>,
    /// What is paid, in wei; 0 if left out.
    #[schema(value_type = Option<schema::Number>)]
    value: Option<Number>,
    /// The call's data as 0x-hex.
    #[schema(value_type = Option<schema::Hex>)]
    data: Option<String>,
    /// The most gas it may use; estimated if left out.
    #[schema(value_type = Option<schema::Number>)]
    gas: Option<Number>,
    /// The tip for a unit of gas, in wei; at most `maxFeePerGas`.
    #[schema(value_type = Option<schema::Number>)]
    max_priority_fee_per_gas: Option<Number>,
    /// How it is encoded; what the chain has if left out.
    #[serde(rename = "type")]
    #[schema(value_type = Option<schema::Kind>)]
    kind: Option<TxKind>,
    /// Storage that it says it will touch.
    #[schema(value_type = schema::AccessList, required = false)]
    access_list: Vec<AccessBody>,
}

/// Storage of one contract.
struct AccessBody(AccessListEntry);

impl FromFields for CreateBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let speeds = [("slow", Speed::Slow), ("normal", Speed::Normal), ("fast", Speed::Fast)];
        Ok(Self {
            chain_id: fields.number("chainId")?,
            submitter: fields.text("submitter")?,
            request_id: fields.text("requestId")?,
            payload: fields.object("payload")?,
            raw_tx: fields.text("rawTx")?,
            speed: fields.word("speed", &speeds)?,
            max_fee_per_gas: fields.number("maxFeePerGas")?,
            valid_until: fields.text("validUntil")?,
            replaceable: fields.flag("replaceable")?,
            metadata: fields.take("metadata").map(ToOwned::to_owned),
        })
    }
}

impl FromFields for PayloadBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let kinds = [
            ("legacy", TxKind::Legacy),
            ("accessList", TxKind::AccessList),
            ("dynamicFee", TxKind::DynamicFee),
        ];
        Ok(Self {
            to: fields.text("to")?,
            value: fields.number("value")?,
            data: fields.text("data")?,
            gas: fields.number("gas")?,
            max_priority_fee_per_gas: fields.number("maxPriorityFeePerGas")?,
            kind: fields.word("type", &kinds)?,
            access_list: fields.objects("accessList")?,
        })
    }
}

impl FromFields for AccessBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let address = fields.text("address")?;
        let address = fields.needed("address", address)?;
        let keys = fields.array("storageKeys")?;
        let keys = fields.needed("storageKeys", keys)?;
        let storage_keys = keys.into_iter().enumerate().map(|(place, key)| {
            let field = format!("{}[{place}]", fields.at("storageKeys"));
            hash(&field, &fields::text(&field, key)?)
        });
        Ok(Self(AccessListEntry {
            address: self::address(&fields.at("address"), &address)?,
            storage_keys: storage_keys.collect::<Result<_, _>>()?,
        }))
    }
}

/// A create, understood.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) submitter: Submitter,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) wish: Wish,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// To be priced and signed here.
    Intent(Box<Intent>),
    /// To be sent as it is.
    Signed(Box<SignedIntent>),
}

impl CreateBody {
    /// Understands the body. `key` is the `Idempotency-Key` header.
    pub(crate) fn read(self, chain: ChainId, key: Option<&str>) -> Result<Asked, Problem> {
        if let Some(asked) = &self.chain_id {
            let asked = asked.read()?;
            if asked != U256::from(chain.get()) {
                let what = format!("{asked} is another chain than this node's, {chain}");
                return Err(Problem::of_field(Code::WrongChain, "chainId", what));
            }
        }
        let submitter = self.submitter.as_deref();
        let address = submitter.map(|text| address("submitter", text)).transpose()?;
        let request_id = request_id(self.request_id.as_deref(), key)?;
        let (address, wish) = match self.raw_tx {
            Some(_) => self.read_signed(chain, address)?,
            None => self.read_intent(address)?,
        };
        Ok(Asked { submitter: Submitter::new(chain, address), request_id, wish })
    }

    fn read_signed(
        self,
        chain: ChainId,
        submitter: Option<Address>,
    ) -> Result<(Address, Wish), Problem> {
        let refused = |why: &str| Problem::of_field(Code::InvalidRawTx, "rawTx", why);
        if self.payload.is_some() || self.speed.is_some() || self.max_fee_per_gas.is_some() {
            return Err(refused("payload, speed and maxFeePerGas can't change what is signed"));
        }
        if self.valid_until.is_some() || self.replaceable.is_some() {
            return Err(refused("validUntil and replaceable can't bind what is signed"));
        }
        let raw = hex("rawTx", self.raw_tx.as_deref().unwrap_or_default())?;
        let signed = recover(&raw, chain).map_err(|error| match error {
            RecoverError::WrongChain { .. } => Problem::of_field(Code::WrongChain, "rawTx", error),
            _ => refused(&error.to_string()),
        })?;
        let signer = signed.draft.from;
        if submitter.is_some_and(|submitter| submitter != signer) {
            return Err(refused(&format!("signed by {signer}, not by the submitter")));
        }
        let metadata = self.metadata.map(|metadata| text_of(&metadata)).transpose()?;
        Ok((signer, Wish::Signed(Box::new(SignedIntent::new(signed, metadata)))))
    }

    fn read_intent(self, submitter: Option<Address>) -> Result<(Address, Wish), Problem> {
        let payload = self.payload.ok_or_else(|| Problem::missing("payload"))?;
        let submitter = submitter.ok_or_else(|| Problem::missing("submitter"))?;
        let max_fee = self.max_fee_per_gas.map(|fee| fee.read_price()).transpose()?;
        let mut intent = payload.read()?;
        check_fees(max_fee, intent.max_priority_fee_per_gas, "payload.maxPriorityFeePerGas")?;
        let valid_until = self.valid_until.as_deref();
        let valid_until = valid_until.map(|text| time("validUntil", text)).transpose()?;
        intent.valid_until = valid_until.map(|at| at.unix_micros());
        intent.replaceable = self.replaceable.unwrap_or_default();
        intent.speed = self.speed.unwrap_or_default();
        intent.max_fee_per_gas = max_fee;
        intent.metadata = self.metadata.map(|metadata| text_of(&metadata)).transpose()?;
        Ok((submitter, Wish::Intent(Box::new(intent))))
    }
}

impl PayloadBody {
    fn read(self) -> Result<Intent, Problem> {
        let NewCall { to, value, data, gas } = read_call(self.to, self.value, self.data, self.gas)?;
        let tip = self.max_priority_fee_per_gas;
        let tip = tip.map(|tip| tip.read_price()).transpose()?;
        let mut intent = Intent::call(to, value);
        intent.data = data;
        intent.gas = gas;
        intent.kind = self.kind;
        intent.access_list = self.access_list.into_iter().map(|AccessBody(entry)| entry).collect();
        intent.max_priority_fee_per_gas = tip;
        if intent.kind == Some(TxKind::Legacy) && !intent.access_list.is_empty() {
            let what = "a legacy transaction has none: leave out type, or give another one";
            return Err(Problem::of_field(Code::InvalidField, "payload.accessList", what));
        }
        let pays_no_tip = matches!(intent.kind, Some(TxKind::Legacy | TxKind::AccessList));
        if pays_no_tip && tip.is_some() {
            let what = "a transaction of this type has none: leave out type, or the tip";
            let field = "payload.maxPriorityFeePerGas";
            return Err(Problem::of_field(Code::InvalidFees, field, what));
        }
        Ok(intent)
    }
}

/// What is called, with what: the same words in creates and in replacements.
fn read_call(
    to: Option<String>,
    value: Option<Number>,
    data: Option<String>,
    gas: Option<Number>,
) -> Result<NewCall, Problem> {
    let to = to.as_deref().map(|text| address("payload.to", text)).transpose()?;
    let data = data.as_deref().map(|data| hex("payload.data", data)).transpose()?;
    let data = data.unwrap_or_default();
    if to.is_none() && data.is_empty() {
        let detail =
            "payload.to is missing, and there is no payload.data to create a contract from";
        return Err(Problem::new(Code::MissingField, detail).about("payload.to"));
    }
    let value = value.map(|value| value.read()).transpose()?.unwrap_or_default();
    let gas = gas.map(|gas| gas.read_u64(1..=i64::MAX as u64)).transpose()?;
    Ok(NewCall { to, value, data, gas })
}

fn check_fees(
    max: Option<GasPrice>,
    tip: Option<GasPrice>,
    tip_field: &'static str,
) -> Result<(), Problem> {
    match (max, tip) {
        (Some(max), Some(tip)) if tip > max => {
            let what = format!("{tip} is above maxFeePerGas, {max}");
            Err(Problem::of_field(Code::InvalidFees, tip_field, what))
        }
        _ => Ok(()),
    }
}

/// The body's request id and the header must not disagree.
fn request_id(body: Option<&str>, key: Option<&str>) -> Result<Option<RequestId>, Problem> {
    if let (Some(body), Some(key)) = (body, key)
        && body != key
    {
        let what = format!("{} differs from Idempotency-Key, {}", quoted(body), quoted(key));
        return Err(Problem::of_field(Code::RequestIdMismatch, "requestId", what));
    }
    let field = if body.is_some() { "requestId" } else { IDEMPOTENCY_KEY };
    let id = body.or(key).map(RequestId::new).transpose();
    id.map_err(|error| Problem::of_field(Code::InvalidRequestId, field, error.problem))
}

pub(crate) fn address(field: &str, text: &str) -> Result<Address, Problem> {
    parse_address(text)
        .map_err(|error| Problem::of_field(Code::InvalidAddress, field, error.problem))
}

fn hash(field: &str, text: &str) -> Result<B256, Problem> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 64);
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        let what = format!("{} must be 32 bytes as 0x-hex", quoted(text));
        Problem::of_field(Code::InvalidHex, field, what)
    })
}

fn hex(field: &str, text: &str) -> Result<Bytes, Problem> {
    let bad =
        |why: &str| Problem::of_field(Code::InvalidHex, field, format!("{} {why}", quoted(text)));
    if !text.starts_with("0x") {
        return Err(bad("must start with 0x"));
    }
    text.parse().map_err(|_| bad("must be an even number of hex digits after 0x"))
}

pub(crate) fn time(field: &str, text: &str) -> Result<Timestamp, Problem> {
    parse_time(text).ok_or_else(|| {
        let what = format!(
            "{} must be an RFC 3339 time like 2026-11-16T09:30:00Z, at most 9999-12-31T23:59:59Z",
            quoted(text)
        );
        Problem::of_field(Code::InvalidTime, field, what)
    })
}

/// The caller's notes byte for byte, if everybody who gets them back can read them.
fn text_of(metadata: &RawValue) -> Result<String, Problem> {
    let wrong = |code, what: String| Problem::of_field(code, "metadata", what);
    let text = metadata.get();
    if text.len() > METADATA_MAX {
        let what = format!("{} bytes are more than {METADATA_MAX}", text.len());
        return Err(wrong(Code::MetadataTooLarge, what));
    }
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        let error = error.to_string();
        let what = match error.split(" at line").next().unwrap_or_default() {
            "recursion limit exceeded" => {
                format!("is nested more than {METADATA_DEPTH_MAX} levels deep")
            }
            "number out of range" => {
                "holds a number beyond ±1.8e308, which most readers can't hold: write it as text"
                    .to_owned()
            }
            why => format!("can't be read by everybody who gets it back: {why}"),
        };
        wrong(Code::InvalidBody, what)
    })?;
    if holds_nul(&value) {
        return Err(wrong(Code::InvalidBody, "must not hold NUL".to_owned()));
    }
    Ok(text.to_owned())
}

fn holds_nul(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn body_that_does_not_arrive_is_a_request_timeout() {
        let never = futures_util::stream::pending::<Result<RawBody, std::convert::Infallible>>();
        let request = Request::post("/api/v1/tx").body(Body::from_stream(never)).unwrap();
        let refused = read_within(Duration::from_millis(1), request, &()).await.unwrap_err();
        assert_eq!((refused.code, refused.code.status().as_u16()), (Code::RequestTimeout, 408));
    }
}
