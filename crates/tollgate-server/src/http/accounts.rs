//! Opens, changes and removes accounts while nodes run.

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tollgate_api::{
    AccountChange, EffectiveSetting, EffectiveSettings, ErrorCode, NewAccount, Number,
    Submitter as ShownSubmitter, path, read_address,
};
use tollgate_engine::{AccountError, Engine, NewAccount as AccountToOpen};
use tollgate_model::account::{AccountSettings, KeyRef};
use tollgate_model::audit::AuditedAction;
use tollgate_model::nonce::Mode;
use tollgate_model::spending::{AllowedCalls, SpendingRules};
use tollgate_model::{GasPrice, Submitter, Text, U256, Wei};

use super::Api;
use super::access::Caller;
use super::body::{Json, given_reason, one_of, read_name};
use super::openapi::may_fail;
use super::params::{RemoveSubmitterParams, SubmitterParams};
use super::problem::Problem;
use super::query::{PathParams, QueryParams, SubmitterCall, submitter_at};
use super::submitters::current;

/// The widest window.
const WINDOW_MAX: u64 = 100_000;

may_fail! {
    OpenProblems: UnreadableBody, MissingField, InvalidField, InvalidAddress, InvalidNumber,
        InvalidQuery, WrongChain, KeyUnavailable, SubmitterExists, StoreUnavailable;
    ChangeProblems: UnreadableBody, InvalidField, InvalidNumber, InvalidPath, InvalidAddress,
        InvalidQuery, NotFound, SubmitterBusy, StoreUnavailable;
    RemoveProblems: InvalidPath, InvalidAddress, InvalidField, InvalidQuery, NotFound, SubmitterBusy,
        StoreUnavailable;
}

/// Open an account
///
/// Every node that finds the key by the reference serves the account within seconds, this one at once. The
/// same request again changes nothing.
#[utoipa::path(
    post,
    path = "/api/v1/submitters",
    operation_id = "openSubmitter",
    tag = "submitters",
    request_body(content = NewAccount, description = "Where its key is, and its own settings.", examples(
        ("deposit" = (summary = "A deposit address of the mnemonic", value = json!({
            "key": "hd:7", "label": "deposits 7", "window": 16
        })))
    )),
    responses(
        (status = 201, description = "It is open.", body = ShownSubmitter),
        (status = 200, description = "It was open before.", body = ShownSubmitter),
        OpenProblems
    )
)]
pub(crate) async fn open(
    State(api): State<Api>,
    caller: Caller,
    params: QueryParams,
    Json(body): Json<NewAccount>,
) -> Result<Response, Problem> {
    params.end()?;
    let chain_id = api.engine.chain_id();
    if let Some(given) = body.chain_id.map(|given| given.read("chainId")).transpose()?
        && given != U256::from(chain_id.get())
    {
        let what = format!("this is chain {chain_id}");
        return Err(Problem::of_field(ErrorCode::WrongChain, "chainId", what));
    }
    let key = body.key.ok_or_else(|| Problem::missing("key"))?;
    let key: KeyRef = key.parse().map_err(|error: tollgate_model::ids::InvalidValue| {
        Problem::of_field(ErrorCode::InvalidField, "key", error.problem)
    })?;
    let address = body.address.as_deref().map(|text| read_address("address", text)).transpose()?;
    if caller.rights().scope.senders().is_some() || !caller.rights().scope.has_chain(chain_id) {
        // The account must be one that the key is for: its address has to be given to be compared.
        let address = address.ok_or_else(|| Problem::missing("address"))?;
        caller.require_sender(Submitter::new(chain_id, address))?;
    }
    let reason = given_reason(body.reason)?;
    let mode = match body.mode.as_deref() {
        Some(name) => one_of("mode", name, &Mode::ALL.map(|mode| (mode.name(), mode)))?,
        None => api.engine.default_mode(),
    };
    let settings = AccountSettings {
        label: body.label.map(read_label).transpose()?,
        window: body.window.as_ref().map(read_window).transpose()?,
        max_fee_per_gas: body.max_fee_per_gas.as_ref().map(read_price).transpose()?,
        max_tx_fee: body.max_tx_fee.as_ref().map(read_fee).transpose()?,
        spending: SpendingRules {
            max_value: body.max_value.as_ref().map(read_value).transpose()?,
            allowed_calls: body.allowed_calls.as_deref().map(read_calls).transpose()?,
        },
        is_disabled: false,
    };
    let start_from = api.engine.default_start();
    let subject = address.map_or_else(|| key.to_string(), |address| address.to_string());
    let (action, subject) = (AuditedAction::OpenSubmitter, format!("{chain_id}:{subject}"));
    caller.record(&*api.store, action, subject, reason.as_ref()).await?;
    let new = AccountToOpen { key, address, mode, start_from, settings };
    let opened = api.engine.accounts().create(new).await?;
    let shown = current(&api, &caller, opened.submitter).await?;
    let location: [(HeaderName, String); 1] = [(header::LOCATION, path::submitter(&shown.address))];
    let status = if opened.is_known { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, location, axum::Json(shown)).into_response())
}

/// Change an account's settings
///
/// Settings that are left out stay; null takes a setting back to the chain's. All nodes follow within seconds.
#[utoipa::path(
    patch,
    path = "/api/v1/submitters/{address}",
    operation_id = "changeSubmitter",
    tag = "submitters",
    params(SubmitterParams),
    request_body(content = Option<AccountChange>, description = "What changes; nothing if it is left out.", examples(
        ("window" = (summary = "A wider window, and the chain's cap again", value = json!({
            "window": 256, "maxFeePerGas": null
        })))
    )),
    responses((status = 200, description = "The account.", body = ShownSubmitter), ChangeProblems)
)]
pub(crate) async fn change(
    call: SubmitterCall<AccountChange>,
) -> Result<axum::Json<ShownSubmitter>, Problem> {
    let SubmitterCall { api, caller, submitter, body } = call;
    let AccountChange {
        label,
        window,
        max_fee_per_gas,
        max_tx_fee,
        max_value,
        allowed_calls,
        enabled,
        reason,
    } = body;
    let reason = given_reason(reason)?;
    let label = label.map(|label| label.map(read_label).transpose()).transpose()?;
    let window = window.map(|it| it.as_ref().map(read_window).transpose()).transpose()?;
    let price = max_fee_per_gas.map(|it| it.as_ref().map(read_price).transpose()).transpose()?;
    let fee = max_tx_fee.map(|it| it.as_ref().map(read_fee).transpose()).transpose()?;
    let value = max_value.map(|it| it.as_ref().map(read_value).transpose()).transpose()?;
    let calls = allowed_calls.map(|it| it.as_deref().map(read_calls).transpose()).transpose()?;
    let changed = |own: AccountSettings| AccountSettings {
        label: label.clone().unwrap_or(own.label),
        window: window.unwrap_or(own.window),
        max_fee_per_gas: price.unwrap_or(own.max_fee_per_gas),
        max_tx_fee: fee.unwrap_or(own.max_tx_fee),
        spending: SpendingRules {
            max_value: value.unwrap_or(own.spending.max_value),
            allowed_calls: calls.clone().unwrap_or(own.spending.allowed_calls),
        },
        is_disabled: enabled.map_or(own.is_disabled, |enabled| !enabled),
    };
    let action = AuditedAction::ChangeSubmitter;
    caller.record(&*api.store, action, submitter, reason.as_ref()).await?;
    api.engine.accounts().change(submitter, changed).await?;
    Ok(axum::Json(current(&api, &caller, submitter).await?))
}

/// Remove an account
///
/// Refused while anything of it is open. Its history stays, and it can be opened again.
#[utoipa::path(
    delete,
    path = "/api/v1/submitters/{address}",
    operation_id = "removeSubmitter",
    tag = "submitters",
    params(RemoveSubmitterParams),
    responses((status = 204, description = "It is removed."), RemoveProblems)
)]
pub(crate) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    PathParams(address): PathParams<String>,
    mut params: QueryParams,
) -> Result<StatusCode, Problem> {
    let reason = params.reason()?;
    params.end()?;
    let of = submitter_at(&api, &caller, &address).await?;
    caller.record(&*api.store, AuditedAction::RemoveSubmitter, of, reason.as_ref()).await?;
    api.engine.accounts().remove(of).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn read_label(label: String) -> Result<Text<100>, Problem> {
    read_name("label", &label)
}

fn read_window(given: &Number) -> Result<u32, Problem> {
    let window = given.read_u64("window", 1..=WINDOW_MAX)?;
    Ok(u32::try_from(window).unwrap_or(u32::MAX))
}

fn read_price(given: &Number) -> Result<GasPrice, Problem> {
    Ok(given.read_price("maxFeePerGas")?)
}

fn read_fee(given: &Number) -> Result<Wei, Problem> {
    Ok(Wei(given.read("maxTxFee")?))
}

fn read_value(given: &Number) -> Result<Wei, Problem> {
    Ok(Wei(given.read("maxValue")?))
}

fn read_calls(given: &[String]) -> Result<AllowedCalls, Problem> {
    Ok(AllowedCalls::read(given)?)
}

/// The settings that hold for an account.
pub(super) fn effective(
    engine: &Engine,
    of: Submitter,
    own: &AccountSettings,
) -> EffectiveSettings {
    let caps = engine.fee_caps(of);
    let setting = |name: &str, own: bool, value: Option<String>| EffectiveSetting {
        value,
        from: if own { "account" } else { engine.setting_from(name) }.into(),
    };
    let window = engine.window(of, Mode::Pipelined);
    let price = caps.max_fee_per_gas.map(|price| price.to_string());
    let fee = caps.max_tx_fee.map(|fee| fee.to_string());
    // A cap that is not lower than the chain's has no effect.
    let is_own_price = own.max_fee_per_gas.is_some() && own.max_fee_per_gas == caps.max_fee_per_gas;
    let is_own_fee = own.max_tx_fee.is_some() && own.max_tx_fee == caps.max_tx_fee;
    EffectiveSettings {
        window: setting("window", own.window.is_some(), Some(window.to_string())),
        max_fee_per_gas: setting("max_fee_per_gas", is_own_price, price),
        max_tx_fee: setting("max_tx_fee", is_own_fee, fee),
        max_value: own.spending.max_value.map(|value| value.to_string()),
        allowed_calls: own
            .spending
            .allowed_calls
            .as_ref()
            .map(|calls| calls.entries().iter().map(ToString::to_string).collect()),
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        let detail = error.to_string();
        let (code, field) = match error {
            AccountError::Store(error) => return error.into(),
            AccountError::Unknown => return Self::not_found("submitter", "address"),
            AccountError::Key(_) => (ErrorCode::KeyUnavailable, "key"),
            AccountError::Address(_) => (ErrorCode::InvalidAddress, "address"),
            AccountError::Exists(_) => (ErrorCode::SubmitterExists, "key"),
            AccountError::OtherMode { .. } => (ErrorCode::SubmitterExists, "mode"),
            AccountError::Configured | AccountError::Busy => (ErrorCode::SubmitterBusy, "address"),
            AccountError::Contended => (ErrorCode::StoreUnavailable, "address"),
        };
        Self::new(code, detail).about(field)
    }
}
