//! `tollgate doctor`: says why an account makes no progress. Asks endpoints alone; needs no node, no database and no
//! settings. The rules are `tollgate_model::doctor`.

mod ask;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tollgate_evm::endpoint::{Endpoint, EndpointConfig};
use tollgate_model::Address;
use tollgate_model::doctor::{
    AccountHealth, Diagnosis, EndpointFacts, Gwei, Remedy, RemedyKind, diagnose,
};
use tollgate_model::ids::parse_address;

use super::output::{out, outln};
use super::runtime;
use super::table::{Table, WIDTH, cell, clean, wrapped};
use crate::config::duration;
use crate::failure::Failure;

/// Endpoints of one call (I13).
const ENDPOINTS_MAX: usize = 16;
/// The widest name of an endpoint in the table.
const NAME_MAX: usize = 32;
/// The exit code if the endpoints don't tell enough.
const EXIT_UNKNOWN: u8 = 3;

/// Ends with 0 if nothing keeps the account, 1 if it is stuck, 3 if the endpoints don't tell.
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Address of the account.
    #[arg(value_parser = address)]
    address: Address,
    /// URL of an RPC endpoint: http(s) or ws(s). Name several to compare them.
    #[arg(long = "rpc-url", required = true, value_name = "URL")]
    rpc_urls: Vec<String>,
    /// The longest time for one call.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    timeout: Duration,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<Address, String> {
    parse_address(text).map_err(|error| error.to_string())
}

pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    if args.rpc_urls.len() > ENDPOINTS_MAX {
        return Err(format!("--rpc-url: at most {ENDPOINTS_MAX} endpoints").into());
    }
    let mut endpoints = Vec::new();
    for url in &args.rpc_urls {
        let config = EndpointConfig {
            timeout: args.timeout,
            connect_timeout: args.timeout,
            ..EndpointConfig::new(url.clone())
        };
        endpoints.push(config);
    }
    let facts = runtime()?.block_on(async {
        let mut asked = Vec::new();
        for config in endpoints {
            let endpoint = Endpoint::new(config).map_err(|bad| format!("--rpc-url: {bad}"))?;
            asked.push(ask::ask(endpoint, args.address));
        }
        Ok::<_, Failure>(join_all(asked).await)
    })?;
    let diagnosis = diagnose(&facts);
    let text = match args.json {
        true => format!("{}\n", as_json(args.address, &facts, &diagnosis)),
        false => {
            print_endpoints(&facts);
            as_text(&diagnosis)
        }
    };
    out!("{text}");
    Ok(match diagnosis.health {
        AccountHealth::Healthy => ExitCode::SUCCESS,
        AccountHealth::Stuck => ExitCode::FAILURE,
        AccountHealth::Unknown => ExitCode::from(EXIT_UNKNOWN),
    })
}

fn print_endpoints(facts: &[EndpointFacts]) {
    let mut table = Table::new(["ENDPOINT", "CHAIN", "HEAD", "MINED", "PENDING", "POOL"]);
    for of in facts {
        let name: String = of.name.chars().take(NAME_MAX).collect();
        table.row([
            name,
            cell(of.chain_id.as_ref()),
            cell(of.head.as_ref()),
            cell(of.mined.as_ref()),
            cell(of.pending.as_ref()),
            cell(of.pool.as_ref().map(Vec::len).as_ref()),
        ]);
    }
    table.lines().iter().for_each(|line| outln!("{line}"));
}

fn as_text(diagnosis: &Diagnosis) -> String {
    let mut text = format!("\n{}\n", diagnosis.health);
    for finding in &diagnosis.findings {
        text.push_str(&marked(&clean(&finding.to_string()), "- ", "  "));
    }
    if let Some(remedy) = &diagnosis.remedy {
        text.push('\n');
        text.push_str(&marked(&remedy_words(remedy), "To free it: ", "  "));
    }
    text
}

fn remedy_words(remedy: &Remedy) -> String {
    let Remedy { kind, nonce, max_fee, tip } = remedy;
    let price = format!("maxFeePerGas {} and maxPriorityFeePerGas {}", Gwei(*max_fee), Gwei(*tip));
    match kind {
        RemedyKind::Fill => format!(
            "send a transaction with nonce {nonce}, for example of 0 to the account itself, with {price}; \
             then one for each further nonce of the gap. Where Tollgate serves the account, \
             `tollgate submitter fill` does so"
        ),
        RemedyKind::Replace => {
            format!("send the transaction with nonce {nonce} again, or another one, with {price}")
        }
    }
}

/// The text behind a mark, with further lines below it. What is left of a word that is wider stays whole.
fn marked(text: &str, first: &str, further: &str) -> String {
    let lines = wrapped(text, WIDTH - first.len().max(further.len()));
    let marks = [first].into_iter().chain(std::iter::repeat(further));
    lines.iter().zip(marks).map(|(line, mark)| format!("{mark}{line}\n")).collect()
}

fn as_json(address: Address, facts: &[EndpointFacts], diagnosis: &Diagnosis) -> Value {
    let endpoint = |of: &EndpointFacts| {
        json!({
            "name": of.name,
            "chainId": of.chain_id,
            "head": of.head,
            "baseFee": of.base_fee.map(|fee| fee.to_string()),
            "tip": of.tip.map(|tip| tip.to_string()),
            "mined": of.mined,
            "pending": of.pending,
            "balance": of.balance.map(|balance| balance.to_string()),
            "pool": of.pool.as_ref().map(Vec::len),
            "error": of.error,
        })
    };
    let remedy = diagnosis.remedy.as_ref().map(|remedy| {
        json!({
            "kind": remedy.kind.name(),
            "nonce": remedy.nonce,
            "maxFeePerGas": remedy.max_fee.to_string(),
            "maxPriorityFeePerGas": remedy.tip.to_string(),
        })
    });
    let findings: Vec<String> = diagnosis.findings.iter().map(ToString::to_string).collect();
    json!({
        "address": address.to_string(),
        "health": diagnosis.health.name(),
        "findings": findings,
        "remedy": remedy,
        "endpoints": facts.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
