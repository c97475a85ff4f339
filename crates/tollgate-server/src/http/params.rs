//! The parameters of the routes in the OpenAPI document. `query.rs` reads them; a test sends each of
//! these to its route.

use tollgate_api::limit::WAIT_MAX;
use tollgate_api::{ErrorCode, header, schema};
use tollgate_model::port::Page;
use tollgate_model::{Nonce, RequestId, Seq};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Object, RefOr, Required, Schema};
use utoipa::{IntoParams, PartialSchema};

use super::query::PAGE_DEFAULT;

/// Declares a route's set of parameters.
macro_rules! params {
    ($($name:ident: $($parameter:expr),+;)+) => {$(
        pub(crate) struct $name;

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$($parameter),+]
            }
        }
    )+};
}

params! {
    CreateParams: idempotency_key(), prefer(), simulate(), chain_id();
    BatchParams: batch_key(), chain_id();
    TxParams: tx_id(), prefer(), view(), logs(), chain_id();
    HashParams: hash(), prefer(), view(), logs(), chain_id();
    ActionParams: tx_id(), chain_id();
    RequestParams: required(sender()), request_id(), prefer(), view(), logs(), chain_id();
    ListParams: submitter(), state(), time("from", "Accepted at this time or later."),
        time("to", "Accepted before this time."), cursor("`next` of the page before."),
        limit(), view(), chain_id();
    HistoryParams: tx_id(), after("`next` of the page before: a version."), limit(), chain_id();
    FeedParams: after("The last `seq` that was seen; 0 is before the first."), limit(), wait(), kind(), chain_id();
    EventParams: last_event_id(), position(), from_end(), event_kinds(), submitter(), of_tx(), limit(), wait(), chain_id();
    CostParams: required(time("from", "Final at this time or later.")),
        time("to", "Final before this time; now by default."), group_by(), chain_id();
    SubmittersParams: cursor("`next` of the page before: an address."), limit(), chain_id();
    SubmitterParams: address(), chain_id();
    RemoveSubmitterParams: address(), reason(), chain_id();
    PoolsParams: cursor("`next` of the page before: a name."), limit(), chain_id();
    PoolParams: pool(), chain_id();
    RemovePoolParams: pool(), reason(), chain_id();
    SubmitterHistoryParams: address(), after("`next` of the page before: a number."), limit(), chain_id();
    NonceParams: address(), nonce(), chain_id();
    NoncesParams: address(), cursor("`next` of the page before: a nonce."), limit(), chain_id();
    KeysParams: after("`next` of the page before."), limit();
    KeyParams: key_id();
    AuditParams: cursor("`next` of the page before: a number."), limit();
    PageParams: code();
}

fn parameter(
    place: ParameterIn,
    name: &str,
    about: impl Into<String>,
    schema: impl Into<RefOr<Schema>>,
) -> Parameter {
    let is_path = place == ParameterIn::Path;
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(if is_path { Required::True } else { Required::False })
        .description(Some(about.into()))
        .schema(Some(schema))
        .build()
}

fn query(name: &str, about: impl Into<String>, schema: impl Into<RefOr<Schema>>) -> Parameter {
    parameter(ParameterIn::Query, name, about, schema)
}

fn required(mut parameter: Parameter) -> Parameter {
    parameter.required = Required::True;
    parameter
}

fn whole(minimum: u64, maximum: u64) -> ObjectBuilder {
    let range = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(minimum));
    range.maximum(Some(maximum))
}

fn tx_id() -> Parameter {
    parameter(ParameterIn::Path, "txId", "The transaction's id.", schema::TxId::schema())
}

fn address() -> Parameter {
    let about = "The account, in any letter case; mixed case must be a right EIP-55 checksum.";
    parameter(ParameterIn::Path, "address", about, schema::Address::schema())
}

fn nonce() -> Parameter {
    let whole = whole(0, Nonce::MAX.get());
    parameter(ParameterIn::Path, "nonce", "The nonce that the caller holds.", whole)
}

fn code() -> Parameter {
    parameter(ParameterIn::Path, "code", "The code of a problem.", ErrorCode::schema())
}

fn key_id() -> Parameter {
    let plain = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[a-z0-9]{12}$"));
    let about = "The key's id: the twelve characters after `tg_live_`.";
    parameter(ParameterIn::Path, "keyId", about, plain)
}

fn submitter() -> Parameter {
    query("submitter", "The account that sends.", schema::Address::schema())
}

fn sender() -> Parameter {
    let about = "The account that sends, or the pool that the request was made to.";
    query("submitter", about, schema::Sender::schema())
}

fn pool() -> Parameter {
    let plain =
        ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[A-Za-z0-9_-]{1,64}$"));
    let about = "The pool's name: letters, digits, - and _.";
    parameter(ParameterIn::Path, "name", about, plain)
}

fn request_id() -> Parameter {
    let about = "The caller's name for the request.";
    required(query("requestId", about, schema::RequestId::schema()))
}

fn idempotency_key() -> Parameter {
    let about = format!(
        "The request id, in place of `requestId` in the body: up to {} bytes without control \
         characters, bare or quoted. If both are given they must be equal.",
        RequestId::MAX_BYTES
    );
    parameter(ParameterIn::Header, header::IDEMPOTENCY_KEY, about, schema::RequestId::schema())
}

fn batch_key() -> Parameter {
    let about = "Makes the batch repeatable: an item without a `requestId` gets `batch:KEY:PLACE` as \
                 its request id, its place counted from 0. Up to 246 bytes without control \
                 characters, bare or quoted.";
    parameter(ParameterIn::Header, header::IDEMPOTENCY_KEY, about, schema::RequestId::schema())
}

fn prefer() -> Parameter {
    let about = format!(
        "`wait=30` (RFC 7240) holds the answer back until the transaction is final, for that many \
         seconds and {} at most; with `until=submitted` or `until=mined` as a second preference, until it \
         has come that far. `Preference-Applied` names the wait that was applied; without it, there was \
         none.",
        WAIT_MAX.as_secs()
    );
    parameter(ParameterIn::Header, "Prefer", about, Object::with_type(Type::String))
}

fn simulate() -> Parameter {
    let about = "`true`: only prepare. Nothing is kept, no nonce is used, and the answer tells \
                 what it would cost.";
    let flag = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into()));
    query("simulate", about, flag)
}

fn view() -> Parameter {
    let about = "`operator` adds nonce, fencing token, attempts, last error and schedule.";
    query("view", about, schema::names(["operator"]))
}

fn hash() -> Parameter {
    let about = "The hash of any attempt of the transaction.";
    parameter(ParameterIn::Path, "hash", about, schema::Hash::schema())
}

fn logs() -> Parameter {
    let about = "`true` adds the log entries, read from the chain now.";
    let flag = ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into()));
    query("logs", about, flag)
}

fn kind() -> Parameter {
    let about = "`final`: the outcomes alone. `all`: also `stuck` and `unstuck` entries.";
    query("kind", about, schema::names(["final", "all"]).default(Some("final".into())))
}

fn group_by() -> Parameter {
    let about = "Names that the sums are grouped by, separated by commas: `submitter`, `day` (UTC), and \
                 up to four `metadata.KEY` with a name of the metadata's top level.";
    let names = ArrayBuilder::new().items(Object::with_type(Type::String));
    let mut names = query("groupBy", about, names);
    names.style = Some(ParameterStyle::Form);
    names.explode = Some(false);
    names
}

fn chain_id() -> Parameter {
    let about = "The chain that the call is about. Needed where the node serves several and the path \
                 names no transaction; without it, lists, the feed and reports are about all chains of \
                 the database.";
    query("chainId", about, whole(1, i64::MAX as u64))
}

fn state() -> Parameter {
    let names = ArrayBuilder::new().items(schema::State::schema());
    let mut states = query("state", "One of these states, with all their sub-states.", names);
    states.style = Some(ParameterStyle::Form);
    states.explode = Some(false);
    states
}

fn time(name: &str, about: &str) -> Parameter {
    query(name, about, schema::Time::schema())
}

fn cursor(about: &str) -> Parameter {
    query("cursor", about, Object::with_type(Type::String))
}

fn after(about: &str) -> Parameter {
    query("after", about, whole(0, Seq::MAX.get()).default(Some(0.into())))
}

fn position() -> Parameter {
    let about = "The last `seq` that was seen; 0 is before the first. A page begins there by default, a stream \
                 with what happens from now on.";
    query("after", about, whole(0, Seq::MAX.get()))
}

fn from_end() -> Parameter {
    query(
        "from",
        "`end`: a page begins at the end of the log, where `after` is not given.",
        schema::names(["end"]),
    )
}

fn last_event_id() -> Parameter {
    let about = "The id of the last event of the stream before; counts more than `after`.";
    parameter(ParameterIn::Header, "Last-Event-ID", about, whole(0, Seq::MAX.get()))
}

fn event_kinds() -> Parameter {
    let names = ArrayBuilder::new().items(schema::EventKind::schema());
    let mut kinds = query("kind", "Events of these kinds only.", names);
    kinds.style = Some(ParameterStyle::Form);
    kinds.explode = Some(false);
    kinds
}

fn of_tx() -> Parameter {
    query("txId", "Events of this transaction only.", schema::TxId::schema())
}

fn limit() -> Parameter {
    let range = whole(1, u64::from(Page::MAX)).default(Some(PAGE_DEFAULT.into()));
    query("limit", "How many at most.", range)
}

fn reason() -> Parameter {
    query("reason", "Why, for the audit log.", schema::ReasonText::schema())
}

fn wait() -> Parameter {
    let about = format!(
        "How long to wait if there is nothing yet, like `30s`, `500ms` or `1m`; at most {} s.",
        WAIT_MAX.as_secs()
    );
    let duration = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]+(ms|s|m)$"));
    query("wait", about, duration)
}
