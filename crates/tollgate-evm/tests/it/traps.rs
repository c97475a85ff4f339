//! Texts that are easily misread, one sentence each.

use tollgate_evm::{RpcAnswer, classify};
use tollgate_model::answer::AnswerClass::{self, *};

use crate::class_of;

#[test]
fn a_revert_reason_that_quotes_a_node_is_still_a_revert() {
    for reason in [
        "nonce too low",
        "already known",
        "insufficient funds for gas * price + value",
        "transaction underpriced",
        "rate limit exceeded",
        "txpool is full",
        "request timed out",
        "invalid sender",
        "exceeds block gas limit",
    ] {
        for said in [
            format!("execution reverted: {reason}"),
            format!("Error: VM Exception while processing transaction: revert {reason}"),
            format!("reverted with reason string '{reason}'"),
            format!(
                "failed to send tx: rpc error: code = Unknown desc = execution reverted: {reason}"
            ),
            format!(r#"{{"code":3,"message":"execution reverted: {reason}","data":"0x"}}"#),
        ] {
            assert_eq!(class_of(&said), Reverted, "{said}");
        }
    }
}

#[test]
fn a_revert_in_the_data_alone_is_still_a_revert() {
    let answer = |message, data| {
        classify(&RpcAnswer { code: Some(3), message, data: Some(data), status: None })
    };
    assert_eq!(answer("nonce too low", "0x08c379a0000000000000000000000000"), Reverted);
    assert_eq!(answer("VM execution error.", "Reverted 0x08c379a0"), Reverted);
    assert_eq!(answer("nonce too low", "0x"), NonceTooLow);
}

#[test]
fn node_text_before_an_evm_error_keeps_the_transaction_alive() {
    assert_eq!(class_of("already known: an earlier call said execution reverted"), AlreadyKnown);
    assert_eq!(class_of("internal error: execution reverted"), Reverted);
}

#[test]
fn talk_of_reverting_that_is_not_the_evms_is_no_revert() {
    assert_eq!(class_of("the proxy reverted to its last configuration"), Unknown);
    assert_eq!(
        class_of("failed to validate the transaction. reason: Validation revert: no"),
        Unknown
    );
}

#[test]
fn a_code_means_nothing_without_its_text() {
    let with_code =
        |code, message| classify(&RpcAnswer { code: Some(code), message, ..RpcAnswer::default() });
    assert_eq!(with_code(-32005, "limit exceeded"), RateLimited);
    assert_eq!(with_code(-32005, "Transaction gas limit exceeds block gas limit"), GasLimit);
    assert_eq!(with_code(3, "known transaction. it is already in the system"), AlreadyKnown);
    for code in [3, 4, -32000, -32003, -32010, -32015, -32603, -32601, -32700] {
        assert_eq!(with_code(code, ""), Unknown, "{code}");
        assert_eq!(with_code(code, "qqq"), Unknown, "{code}");
    }
    // what everybody means who says it without a word, and what kills nothing
    assert_eq!(with_code(-32005, "qqq"), RateLimited);
    assert_eq!(with_code(429, ""), RateLimited);
}

#[test]
fn invalid_parameters_are_the_transaction_only_where_the_code_says_so() {
    let with_code =
        |code, message| classify(&RpcAnswer { code: Some(code), message, ..RpcAnswer::default() });
    assert_eq!(with_code(-32602, "Invalid params"), Invalid);
    assert_eq!(with_code(-32000, "Invalid params"), Unknown);
    // conflux, whatever is wrong
    assert_eq!(with_code(-32602, "Invalid parameters: tx"), Unknown);
    assert_eq!(with_code(-32602, "Invalid method params"), Unknown);
    assert_eq!(with_code(-32601, "malformed signature"), Unknown);
}

#[test]
fn a_flaw_and_its_subject_must_stand_in_one_clause() {
    assert_eq!(class_of("the signature was checked. an unrelated thing is invalid"), Unknown);
    assert_eq!(class_of("error in abstract-signer: call failed"), Unknown);
    assert_eq!(class_of("bad thing happened: the signature does not match"), Invalid);
}

#[test]
fn text_with_a_sign_of_acceptance_is_not_a_rejection() {
    for said in [
        "invalid signature for the pending one",
        "failed to decode transaction, balance unclear",
        "initcode too large, replacing",
    ] {
        assert!(!class_of(said).may_lead_to_rejection(), "{said}");
    }
    assert_eq!(class_of("Invalid Ethereum transaction nonce: acc 5, trx 3"), NonceTooLow);
}

#[test]
fn a_status_speaks_only_where_the_text_is_silent() {
    let with_status = |status, message| {
        classify(&RpcAnswer { status: Some(status), message, ..RpcAnswer::default() })
    };
    assert_eq!(with_status(429, ""), RateLimited);
    assert_eq!(with_status(503, "<html>sorry</html>"), Transient);
    assert_eq!(with_status(429, "nonce too low"), NonceTooLow);
    assert_eq!(with_status(500, "execution reverted"), Reverted);
    for status in [200, 400, 401, 403, 404, 413, 418] {
        assert_eq!(with_status(status, ""), Unknown, "{status}");
    }
}

#[test]
fn a_page_never_speaks_for_the_node() {
    for words in ["invalid sender", "execution reverted", "exceeds block gas limit"] {
        let page = format!("<!DOCTYPE html><html><body><p>{words}</p></body></html>");
        assert_eq!(class_of(&page), Unknown, "{page}");
    }
}

#[test]
fn the_numbers_tell_a_low_nonce_from_a_high_one() {
    assert_eq!(class_of("invalid nonce; got 5, expected 7: invalid sequence"), NonceTooLow);
    assert_eq!(class_of("invalid nonce; got 9, expected 7: invalid sequence"), NonceTooHigh);
    assert_eq!(class_of("account sequence mismatch, expected 7, got 5"), NonceTooLow);
    assert_eq!(class_of("account sequence mismatch, expected 5, got 7"), NonceTooHigh);
}

#[test]
fn known_is_not_unknown() {
    assert_eq!(class_of("known transaction: 0x7f65"), AlreadyKnown);
    assert_eq!(class_of("Unknown transaction status"), Unknown);
}

#[test]
fn an_earlier_attempt_in_the_pool_is_not_this_one() {
    assert_eq!(
        class_of("nonce 5 already in mpool, increase GasPremium to trigger replace by fee"),
        ReplacementUnderpriced
    );
}

#[test]
fn two_sentences_dont_make_a_verdict() {
    let class = class_of("The nonce is invalid. Sender should ask again");
    assert!(!class.may_lead_to_rejection(), "{class}");
    assert_eq!(class_of("Unclear, chain id 5 was seen"), Unknown);
}

#[test]
fn a_dead_verdict_beside_an_outage_is_an_outage() {
    for said in [
        "rate limit exceeded while checking: invalid sender",
        "context deadline exceeded: exceeds block gas limit",
        "service unavailable: failed to decode transaction",
    ] {
        assert!(!class_of(said).may_lead_to_rejection(), "{said}");
    }
}

#[test]
fn a_bare_invalid_transaction_is_unknown_because_substrate_says_it_of_nonces() {
    assert_eq!(class_of("Invalid Transaction"), Unknown);
    let outdated = RpcAnswer {
        code: Some(1010),
        message: "Invalid Transaction",
        data: Some("Transaction is outdated"),
        status: None,
    };
    assert_eq!(classify(&outdated), NonceTooLow);
}

#[test]
fn a_whole_body_with_a_result_was_accepted() {
    let hash = "ab".repeat(32);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"0x{hash}"}}"#);
    assert_eq!(class_of(&body), Accepted);
    let refused =
        format!(r#"{{"id":1,"result":"0x{hash}","error":{{"message":"nonce too low"}}}}"#);
    assert_eq!(class_of(&refused), NonceTooLow);
    assert_eq!(class_of(&format!("0x{hash}")), AnswerClass::Unknown);
}

/// Texts that nobody has sent, made of the words that flaws are told in. None of them is about the
/// bytes of a transaction.
const OF_SOMETHING_ELSE: &[&str] = &[
    "invalid API key",
    "Invalid signature for webhook",
    "request signature invalid",
    "unsupported chain id for this provider plan",
    "failed to decode response body",
    "failed to parse JSON body of transaction request",
    "cannot unmarshal response",
    "sending transactions is not supported on this node",
    "transactions are not allowed on the read-only endpoint",
    "The eth_sendRawTransaction method is not supported",
    "eth_sendRawTransaction is not supported",
    "sendRawTransaction not supported in light mode",
    "your IP is not allowed to send transactions",
    "Sender IP blocked",
    "blob storage backend required data missing",
    "access list for this API key is empty",
    "the transaction could not be verified yet",
    "authorization required",
    "Missing authorization header",
    "Authorization failed",
    "authorization token expired or invalid",
    "header too large",
    "response too large",
    "data too large",
    "too large",
    "max size exceeded",
    "buffer overflow",
    "integer overflow in rate limiter",
    "gas oracle failed",
    "block gas limit unknown",
    "gas estimation failed, gas too high to be sure",
    "transaction is invalid in the current pool state",
    "revert",
    "chain reverted, block reorganised",
    "must be set",
    "TLS certificate signature is invalid",
    "commitment level not supported",
    "invalid commitment",
    "invalid block hash",
    "wrong public key for TLS",
    "parse error",
    "sender not found",
    "invalid receiver channel",
    "transaction with this hash is not supported to be resent, it is mined",
    "tx size limit per second exceeded",
    "tx data is still being processed",
    "Transaction is invalid: will be retried",
];

#[test]
fn words_of_flaws_about_another_subject_are_not_a_rejection() {
    for said in OF_SOMETHING_ELSE {
        let class = class_of(said);
        assert!(!class.may_lead_to_rejection(), "{said} is {class}");
    }
}

#[test]
fn a_price_that_the_senders_balance_does_not_cover_is_about_funds() {
    for said in [
        "insufficient MaxFeePerGas for sender balance",
        "err: insufficient MaxFeePerGas for sender balance (supplied gas 0)",
    ] {
        assert_eq!(class_of(said), InsufficientFunds, "{said}");
    }
}
