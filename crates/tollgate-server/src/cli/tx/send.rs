//! `tollgate tx send`.

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_model::U256;
use uuid::Uuid;

use super::{follow, given, show};
use crate::cli::amount::wei;
use crate::cli::remote::{Remote, Trouble, say};

#[derive(Args)]
pub(super) struct SendArgs {
    /// The account that sends; the node must have its key.
    #[arg(long)]
    from: String,
    /// What is called or paid; left out to create a contract from --data.
    #[arg(long, required_unless_present = "data")]
    to: Option<String>,
    /// What is paid: 1.5eth, 20gwei, or wei.
    #[arg(long, value_parser = wei)]
    value: Option<U256>,
    /// The call's data as 0x-hex.
    #[arg(long)]
    data: Option<String>,
    /// The most gas it may use; estimated if left out.
    #[arg(long)]
    gas: Option<u64>,
    /// Your own name for the request; the same name again is the same transaction. Made up if left
    /// out.
    #[arg(long)]
    request_id: Option<String>,
    /// The price level.
    #[arg(long, value_parser = ["slow", "normal", "fast"])]
    speed: Option<String>,
    /// The most to pay for a unit of gas, like 30gwei.
    #[arg(long, value_parser = wei)]
    max_fee_per_gas: Option<U256>,
    /// Until when it is wanted (RFC 3339).
    #[arg(long)]
    valid_until: Option<String>,
    /// Another call may be put in its place.
    #[arg(long)]
    replaceable: bool,
    /// Your own notes: any JSON.
    #[arg(long, value_parser = notes)]
    metadata: Option<Box<RawValue>>,
    /// Follow it until it is final. Ends with 1 if it is not executed.
    #[arg(long)]
    wait: bool,
}

/// JSON, kept as it was written.
fn notes(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text.to_owned()).map_err(|error| format!("not JSON: {error}"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    submitter: String,
    request_id: String,
    payload: Map<String, Value>,
    #[serde(flatten)]
    terms: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
}

pub(super) async fn run(remote: &mut Remote, args: SendArgs) -> Result<(), Trouble> {
    let text = |wei: U256| Value::from(wei.to_string());
    // With a name a send whose answer is lost can be repeated without harm.
    let request_id = args.request_id.unwrap_or_else(|| format!("cli-{}", Uuid::now_v7()));
    let body = Body {
        submitter: args.from,
        request_id: request_id.clone(),
        payload: given([
            ("to", args.to.map(Value::from)),
            ("value", args.value.map(text)),
            ("data", args.data.map(Value::from)),
            ("gas", args.gas.map(Value::from)),
        ]),
        terms: given([
            ("speed", args.speed.map(Value::from)),
            ("maxFeePerGas", args.max_fee_per_gas.map(text)),
            ("validUntil", args.valid_until.map(Value::from)),
            ("replaceable", args.replaceable.then_some(Value::from(true))),
        ]),
        metadata: args.metadata,
    };
    let said = remote.post("/api/v1/tx", &body).await.map_err(|trouble| match trouble {
        Trouble::Unreachable(why) => Trouble::Unreachable(format!(
            "{why}; if it was taken is not known: to be sure, repeat it with --request-id \
             {request_id}"
        )),
        other => other,
    })?;
    if !args.wait {
        return if remote.json { say(&said.text) } else { show::tx(&said.json) };
    }
    let tx_id = said.json["txId"].as_str().unwrap_or_default().to_owned();
    let done = follow::to_the_end(remote, &tx_id).await?;
    if remote.json {
        say(&done.text)?
    } else {
        show::tx(&done.json)?
    }
    follow::verdict(&done.json)
}
