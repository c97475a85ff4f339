//! Bodies: strict about what they say, clear about what is wrong.

mod nonce;
mod order;

use axum::body::Bytes as RawBody;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tollgate_engine::SignedIntent;
use tollgate_evm::signer::{RecoverError, recover};
use tollgate_model::ids::parse_address;
use tollgate_model::port::chain::Speed;
use tollgate_model::port::policy::NewCall;
use tollgate_model::port::signer::{AccessListEntry, TxKind};
use tollgate_model::{Address, Bytes, ChainId, GasPrice, Intent, RequestId, Submitter, U256};
use utoipa::ToSchema;

use super::code::Code;
use super::problem::Problem;
use super::schema;

pub(crate) use nonce::{ReserveBody, ReturnedBody, UsedBody};
pub(crate) use order::{ModeBody, NeededReason, Reason, ReplaceBody};

/// Longest metadata, in bytes (I13).
pub(crate) const METADATA_MAX: usize = 16 * 1024;

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        parse(&read_whole(request, state).await?).map(Self)
    }
}

/// A JSON body that may be left out, or be null.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = read_whole(request, state).await?;
        let given: Option<T> = if body.is_empty() { None } else { parse(&body)? };
        Ok(Self(given.unwrap_or_default()))
    }
}

pub(crate) async fn read_whole<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<RawBody, Problem> {
    RawBody::from_request(request, state).await.map_err(|refused| {
        let code = if refused.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Code::BodyTooLarge
        } else {
            Code::UnreadableBody
        };
        Problem::new(code, refused.body_text())
    })
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Problem::new(Code::InvalidBody, error.to_string()),
        serde_json::error::Category::Io
        | serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof => Problem::new(Code::InvalidJson, error.to_string()),
    })
}

/// A call to be made from an account.
#[derive(Deserialize, ToSchema)]
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
#[derive(Deserialize, ToSchema)]
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
    #[serde(default)]
    #[schema(value_type = schema::AccessList)]
    access_list: Vec<AccessListEntry>,
}

/// A number as callers write it: a JSON integer, decimal text or 0x-hex.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Small(u64),
    Text(String),
}

impl Number {
    fn read(&self, field: &'static str) -> Result<U256, Problem> {
        let bad = || {
            let detail = format!("{field}: must be a whole number, decimal or 0x-hex");
            Problem::new(Code::InvalidNumber, detail)
        };
        match self {
            Self::Small(number) => Ok(U256::from(*number)),
            Self::Text(text) => match text.strip_prefix("0x") {
                Some("") => Err(bad()),
                Some(digits) => U256::from_str_radix(digits, 16).map_err(|_| bad()),
                None if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => {
                    U256::from_str_radix(text, 10).map_err(|_| bad())
                }
                None => Err(bad()),
            },
        }
    }

    fn read_u64(&self, field: &'static str) -> Result<u64, Problem> {
        let number = self.read(field)?;
        u64::try_from(number).map_err(|_| {
            Problem::new(Code::InvalidNumber, format!("{field}: {number} is too large"))
        })
    }

    fn read_price(&self, field: &'static str) -> Result<GasPrice, Problem> {
        let wei = self.read_u64(field)?;
        GasPrice::try_from(wei)
            .map_err(|error| Problem::new(Code::InvalidNumber, error.to_string()))
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
        let asked = self.chain_id.as_ref().map(|asked| asked.read("chainId")).transpose()?;
        if let Some(asked) = asked.filter(|asked| *asked != U256::from(chain.get())) {
            let detail = format!("chainId is {asked}, this node works on chain {chain}");
            return Err(Problem::new(Code::WrongChain, detail));
        }
        let address = self.submitter.as_deref().map(parse_address).transpose();
        let address =
            address.map_err(|error| Problem::new(Code::InvalidAddress, error.to_string()))?;
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
        let refused = |why: &str| Problem::new(Code::InvalidRawTx, format!("rawTx: {why}"));
        if self.payload.is_some() || self.speed.is_some() || self.max_fee_per_gas.is_some() {
            return Err(refused("payload, speed and maxFeePerGas can't change what is signed"));
        }
        if self.valid_until.is_some() || self.replaceable.is_some() {
            return Err(refused("validUntil and replaceable can't bind what is signed"));
        }
        let raw = hex("rawTx", self.raw_tx.as_deref().unwrap_or_default())?;
        let signed = recover(&raw, chain).map_err(|error| match error {
            RecoverError::WrongChain { .. } => Problem::new(Code::WrongChain, error.to_string()),
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
        let missing = |field| Problem::new(Code::MissingField, format!("{field} is missing"));
        let payload = self.payload.ok_or_else(|| missing("payload"))?;
        let submitter = submitter.ok_or_else(|| missing("submitter"))?;
        let max_fee = self.max_fee_per_gas.map(|fee| fee.read_price("maxFeePerGas")).transpose()?;
        let mut intent = payload.read()?;
        check_fees(max_fee, intent.max_priority_fee_per_gas)?;
        intent.valid_until = self.valid_until.as_deref().map(time).transpose()?;
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
        let tip = tip.map(|tip| tip.read_price("maxPriorityFeePerGas")).transpose()?;
        let mut intent = Intent::call(to, value);
        intent.data = data;
        intent.gas = gas;
        intent.kind = self.kind;
        intent.access_list = self.access_list;
        intent.max_priority_fee_per_gas = tip;
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
    let to = to.as_deref().map(parse_address).transpose();
    let to = to.map_err(|error| Problem::new(Code::InvalidAddress, error.to_string()))?;
    let data = data.as_deref().map(|data| hex("data", data)).transpose()?.unwrap_or_default();
    if to.is_none() && data.is_empty() {
        let detail = "payload: to is missing, and there is no data to create a contract from";
        return Err(Problem::new(Code::MissingField, detail));
    }
    let value = value.map(|value| value.read("value")).transpose()?.unwrap_or_default();
    let gas = gas.map(|gas| gas.read_u64("gas")).transpose()?;
    if gas == Some(0) || gas.is_some_and(|gas| i64::try_from(gas).is_err()) {
        return Err(Problem::new(Code::InvalidNumber, "gas: out of range"));
    }
    Ok(NewCall { to, value, data, gas })
}

fn check_fees(max: Option<GasPrice>, tip: Option<GasPrice>) -> Result<(), Problem> {
    match (max, tip) {
        (Some(max), Some(tip)) if tip > max => {
            let detail = "maxPriorityFeePerGas is above maxFeePerGas";
            Err(Problem::new(Code::InvalidFees, detail))
        }
        _ => Ok(()),
    }
}

/// The body's request id and the header must not disagree.
fn request_id(body: Option<&str>, key: Option<&str>) -> Result<Option<RequestId>, Problem> {
    if let (Some(body), Some(key)) = (body, key)
        && body != key
    {
        let detail = "requestId and Idempotency-Key differ";
        return Err(Problem::new(Code::RequestIdMismatch, detail));
    }
    let id = body.or(key).map(RequestId::new).transpose();
    id.map_err(|error| Problem::new(Code::InvalidRequestId, error.to_string()))
}

fn hex(field: &str, text: &str) -> Result<Bytes, Problem> {
    let bad = |why: &str| Problem::new(Code::InvalidHex, format!("{field}: {why}"));
    if !text.starts_with("0x") {
        return Err(bad("must start with 0x"));
    }
    text.parse().map_err(|_| bad("must be an even number of hex digits"))
}

pub(crate) fn time(text: &str) -> Result<i64, Problem> {
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        Problem::new(Code::InvalidTime, format!("{text:?} is not an RFC 3339 time"))
    })?;
    Ok(time.as_microsecond())
}

/// Kept as it is but for white space, so that equal requests have equal bytes.
fn text_of(metadata: &RawValue) -> Result<String, Problem> {
    let value: serde_json::Value = serde_json::from_str(metadata.get())
        .map_err(|error| Problem::new(Code::InvalidBody, error.to_string()))?;
    let text = value.to_string();
    if text.len() > METADATA_MAX {
        let detail = format!("metadata: {} bytes are more than {METADATA_MAX}", text.len());
        return Err(Problem::new(Code::MetadataTooLarge, detail));
    }
    if text.contains("\\u0000") {
        return Err(Problem::new(Code::InvalidBody, "metadata: must not hold NUL"));
    }
    Ok(text)
}
