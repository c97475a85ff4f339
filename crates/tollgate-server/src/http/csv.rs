//! Answers as CSV, where the caller accepts that.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use tollgate_api::Tx;
use tollgate_api::header::NEXT_CURSOR;

/// The columns of a list. New ones are added at the end.
const LIST_HEADER: &str = "txId,chainId,submitter,requestId,state,subState,txHash,createdAt,blockNumber,\
     gasUsed,effectiveGasPrice,fee,contractAddress,to,value,transactionIndex,blockTime,confirmations";

/// Returns whether a request asks for CSV.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.starts_with("text/csv"))
}

/// Lines of cells under a line of names.
pub(crate) fn answer(names: Vec<String>, lines: impl Iterator<Item = Vec<String>>) -> Response {
    let mut text = String::new();
    for cells in [names].into_iter().chain(lines) {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        text += &(cells.join(",") + "\r\n");
    }
    ([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response()
}

/// A page of transactions, with the next cursor in a header. For operators with the nonce.
pub(crate) fn list(found: &[Tx], next: Option<&str>, operator: bool) -> Response {
    let names = LIST_HEADER.split(',').chain(operator.then_some("nonce")).map(str::to_owned);
    let line = |tx: &Tx| {
        let mut line = cells(tx);
        if operator {
            line.push(tx.nonce.map(|nonce| nonce.to_string()).unwrap_or_default());
        }
        line
    };
    let mut response = answer(names.collect(), found.iter().map(line));
    if let Some(next) = next.and_then(|next| next.parse().ok()) {
        response.headers_mut().insert(NEXT_CURSOR, next);
    }
    response
}

fn cells(tx: &Tx) -> Vec<String> {
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let result = tx.result.as_ref();
    let number = |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
    vec![
        tx.tx_id.clone(),
        tx.chain_id.to_string(),
        tx.submitter.clone(),
        text(tx.request_id.as_ref()),
        tx.state.to_string(),
        tx.sub_state.as_deref().unwrap_or_default().to_owned(),
        text(tx.tx_hash.as_ref()),
        tx.created_at.clone(),
        number(result.map(|result| result.block_number)),
        text(result.map(|result| &result.gas_used)),
        text(result.and_then(|result| result.effective_gas_price.as_ref())),
        text(result.and_then(|result| result.fee.as_ref())),
        text(result.and_then(|result| result.contract_address.as_ref())),
        text(tx.to.as_ref()),
        text(tx.value.as_ref()),
        number(result.and_then(|result| result.transaction_index).map(u64::from)),
        text(result.and_then(|result| result.block_time.as_ref())),
        number(result.and_then(|result| result.confirmations)),
    ]
}

/// Quoted where CSV needs it, and where a spreadsheet would take it for a formula.
fn cell(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
