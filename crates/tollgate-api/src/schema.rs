//! Schemas of single values: what the OpenAPI document says about addresses, amounts, states.
//!
//! Names and limits come from the types that enforce them, so that the document can't drift.

use std::borrow::Cow;

use serde_json::json;
use tollgate_model::TxState;
use tollgate_model::event;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::limit::METADATA_BYTES_MAX;

/// Declares values that have a name in the document. The types are names of schemas, and have no values.
macro_rules! values {
    ($($name:ident = $about:expr, $schema:expr;)+) => {$(
        #[doc = concat!("The schema `", stringify!($name), "`.")]
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema.description(Some($about)).into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )+};
}

values! {
    Address = "An account: 0x and 40 hex digits. Mixed case is an EIP-55 checksum.",
        text().pattern(Some("^0x[0-9a-fA-F]{40}$"))
            .examples([json!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")]);
    Amount = "A whole number as decimal text, because it may be more than JSON numbers hold.",
        text().pattern(Some("^[0-9]+$")).examples([json!("1000000000")]);
    Anything = format!("Any JSON, at most {METADATA_BYTES_MAX} bytes as text."),
        ObjectBuilder::new().schema_type(SchemaType::AnyValue);
    AttemptKind = "What an attempt is for.",
        names(["intent", "bump", "replacement", "cancellation", "placeholder"]);
    AccessList = "Storage that a transaction says it will touch.",
        ArrayBuilder::new().items(access_list_entry());
    Availability = "Whether a member of a pool takes creates: `available`, `disabled` by an operator, \
                    `not_active` (paused or in PROTECT), `unserved` (no live node has its key).",
        names(tollgate_model::account_pool::Availability::ALL.map(|it| it.name()));
    BlockReason = "Why a transaction does not move: its sub-state in lower case.",
        names(distinct(TxState::ALL.into_iter().filter_map(TxState::blocks_with)));
    Depth = "How many open transactions there are in each state.", depth();
    Duration = "A whole number with a unit: `500ms`, `30s`, `10m`, `1h`.",
        text().pattern(Some("^[0-9]+(ms|s|m|h)$")).examples([json!("10m")]);
    EventKind = "What an event is about.",
        names(event::EventKind::ALL.map(event::EventKind::name));
    FeedKind = "Why an entry is in the feed: the transaction is final, became stuck (or stuck for another \
                reason), or is not stuck any more.",
        names(["final", "stuck", "unstuck"]);
    FillWith = "What fills nonces: the next transactions, or zero-value transfers to self.",
        names(["next", "placeholder"]);
    Hash = "32 bytes as 0x-hex.", text().pattern(Some("^0x[0-9a-f]{64}$"));
    Hex = "Bytes as 0x-hex.", text().pattern(Some("^0x([0-9a-fA-F]{2})*$"));
    Kind = "How a transaction is encoded.", names(["legacy", "accessList", "dynamicFee", "setCode"]);
    Mode = "How nonces are given out.", names(["pipelined", "strict"]);
    Number = "A whole number: a JSON integer, decimal text or 0x-hex. Use text above 2^53.",
        ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::Integer, Type::String]))
            .pattern(Some("^([0-9]+|0x[0-9a-fA-F]+)$"))
            .minimum(Some(0));
    Outcome = "What became of an attempt: `open` may still be mined, `mined` is in a block, \
               `superseded` can't be mined any more, because its slot went another way.",
        names(["open", "mined", "superseded"]);
    ActionOutcome = "What an action did. `withdrawn`: it ended without a nonce. `signed`: a further \
                     attempt is on its way. `resent`: the newest bytes are on their way again. \
                     `under_way`: what was asked for had begun before, or the policy is being \
                     asked. `done`: it is cancelled already.",
        names(["withdrawn", "signed", "resent", "under_way", "done"]);
    ReasonText = "Why, in a person's words.",
        text().max_length(Some(500)).examples([json!("customer changed their mind")]);
    OwnerToken = "A caller's proof that a nonce is its own: a UUID.",
        text().format(format("uuid")).examples([json!("2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11")]);
    ReceiptStatus = "What the receipt says.", names(["success", "reverted"]);
    RequestId = "The caller's own name for a request: up to 256 bytes, no control characters.",
        text().min_length(Some(1)).max_length(Some(tollgate_model::RequestId::MAX_BYTES))
            .examples([json!("order-17")]);
    ReservationState = "Where a nonce is: with a caller until the deadline, spent, or waiting for \
                        whoever comes next.",
        names(["RESERVED", "USED", "RECYCLABLE"]);
    Route = "The endpoints that get a transaction while it is not mined: all that take transactions, or the \
             private ones alone.",
        names(tollgate_model::Route::ALL.map(|route| route.name())).default(Some(json!("public")));
    Sender = "An account, or `pool:` and the name of a pool.",
        text().pattern(Some("^(0x[0-9a-fA-F]{40}|pool:[A-Za-z0-9_-]{1,64})$"))
            .examples([json!("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"), json!("pool:payouts")]);
    Speed = "A price level.", names(["slow", "normal", "fast"]).default(Some(json!("normal")));
    State = "Where a transaction is. CONFIRMED and FAILED_FINAL are final.", names(states());
    SubState = "More about a state; for STUCK, the reason.",
        names(distinct(TxState::ALL.into_iter().filter_map(TxState::sub_name)));
    Role = "A right of an API key.", names(["read", "submit", "operate", "admin"]);
    SubmitterStatus = "Whether an account takes new work.", names(["ACTIVE", "PAUSED", "PROTECT"]);
    Time = "RFC 3339.", text().format(format("date-time")).examples([json!("2026-11-16T09:30:00Z")]);
    TxId = "A UUID v7: ids sort by the time of acceptance.",
        text().format(format("uuid")).examples([json!("0198c0de-7a11-7000-8000-00000000cafe")]);
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// A text with one of a few values.
pub fn names(values: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(values))
}

fn format(name: &str) -> Option<SchemaFormat> {
    Some(SchemaFormat::Custom(name.to_owned()))
}

/// Distinct names, in the order of their first use.
fn distinct(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn states() -> Vec<&'static str> {
    distinct(TxState::ALL.into_iter().map(TxState::name))
}

/// The states of open transactions.
pub fn open_states() -> Vec<&'static str> {
    let open = TxState::ALL.into_iter().filter(|state| !state.is_final());
    distinct(open.map(TxState::name))
}

fn depth() -> ObjectBuilder {
    let count = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).build();
    let counts = open_states().into_iter().fold(ObjectBuilder::new(), |object, state| {
        object.property(state, count.clone()).required(state)
    });
    counts.additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

fn access_list_entry() -> Object {
    let keys = ArrayBuilder::new().items(Hash::schema()).build();
    ObjectBuilder::new()
        .property("address", Address::schema())
        .property("storageKeys", keys)
        .required("address")
        .required("storageKeys")
        .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        .build()
}
