//! The same rejections in the words of five clients.

use serde_json::{Value, json};
use tollgate_devchain::chain::{CallRefused, Rejection, Tx};
use tollgate_devchain::{DevChainOptions, Dialect};

use crate::mempool::rejected;
use crate::support::{error, plain, raw, send, send_over, start_with};

/// geth, Nethermind, Besu, Erigon, Reth.
type Row = [(i64, &'static str); 5];

const fn geth_and(text: &'static str, others: [(i64, &'static str); 4]) -> Row {
    [(-32000, text), others[0], others[1], others[2], others[3]]
}

#[rustfmt::skip]
fn expected(rejection: &Rejection) -> Row {
    match rejection {
        Rejection::Undecodable => geth_and("rlp: element is larger than containing list", [
            (-32010, "Invalid RLP."),
            (-32602, "Invalid transaction params (missing or incorrect)"),
            (-32000, "rlp: element is larger than containing list"),
            (-32602, "failed to decode signed transaction")]),
        Rejection::TypeNotSupported(_) => geth_and("transaction type not supported", [
            (-32010, "NotSupportedTxType"),
            (-32602, "Invalid transaction type"),
            (-32000, "INVALID: fork supporting this transaction type is not activated yet"),
            (-32003, "transaction type not supported")]),
        Rejection::BadSignature => geth_and("invalid sender", [
            (-32010, "FailedToResolveSender"),
            (-32002, "Invalid signature"),
            (-32000, "INVALID: invalid sender"),
            (-32602, "invalid transaction signature")]),
        Rejection::Unprotected => geth_and("only replay-protected (EIP-155) transactions allowed over RPC", [
            (-32010, "Invalid, InvalidTxSignature: Signature is invalid."),
            (-32000, "ChainId is required"),
            (-32000, "only replay-protected (EIP-155) transactions allowed over RPC"),
            (-32000, "invalid chain ID")]),
        Rejection::WrongChainId { .. } => geth_and("invalid sender: invalid chain id for signer: have 5 want 31337", [
            (-32010, "Invalid, InvalidTxChainId: Expected 31337, got 5."),
            (-32000, "Wrong chainId"),
            (-32000, "invalid chain id, expected: 31337 got: 5"),
            (-32000, "invalid chain ID")]),
        Rejection::Oversized { .. } => geth_and("oversized data: transaction size 112, limit 100", [
            (-32010, "MaxTxSizeExceeded, Max tx size: 100, size of rejected tx: 112"),
            (-32603, "Internal error"),
            (-32000, "INVALID: oversized data"),
            (-32000, "oversized data: transaction size 112, limit 100")]),
        Rejection::GasAboveBlock { .. } => geth_and("exceeds block gas limit", [
            (-32010, "GasLimitExceeded, Gas limit: 60000000, gas limit of rejected tx: 60000001"),
            (-32005, "Transaction gas limit exceeds block gas limit"),
            (-32000, "INTERNAL_ERROR: gas limit is too high"),
            (-32000, "exceeds block gas limit")]),
        Rejection::TipAboveFeeCap { .. } => geth_and("max priority fee per gas higher than max fee per gas", [
            (-32010, "Invalid, InvalidMaxPriorityFeePerGas: Cannot be higher than maxFeePerGas."),
            (-32000, "Max priority fee per gas exceeds max fee per gas"),
            (-32000, "max priority fee per gas higher than max fee per gas"),
            (-32003, "max priority fee per gas higher than max fee per gas")]),
        Rejection::IntrinsicGas { .. } => geth_and("intrinsic gas too low: gas 20999, minimum needed 21000", [
            (-32010, "Invalid, intrinsic gas too low"),
            (-32003, "Intrinsic gas exceeds gas limit"),
            (-32000, "INTERNAL_ERROR: IntrinsicGas"),
            (-32000, "intrinsic gas too low")]),
        Rejection::FloorGas { .. } => geth_and("insufficient gas for floor data gas cost: gas 24000, minimum needed 25000", [
            (-32010, "Invalid, intrinsic gas too low"),
            (-32003, "Intrinsic gas exceeds gas limit"),
            (-32000, "INTERNAL_ERROR: IntrinsicGas"),
            (-32000, "intrinsic gas too low")]),
        Rejection::FeeAboveCap { .. } => geth_and("tx fee (2.10 ether) exceeds the configured cap (1.00 ether)", [
            (-32010, "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)"),
            (-32000, "Transaction fee cap exceeded"),
            (-32000, "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)"),
            (-32000, "tx fee (2100000000000000000 wei) exceeds the configured cap (1000000000000000000 wei)")]),
        Rejection::TipTooLow { .. } => geth_and("transaction gas price below minimum: gas tip cap 0, minimum needed 1", [
            (-32010, "FeeTooLow, EffectivePriorityFeePerGas too low 0 < 1, BaseFee: 0"),
            (-32009, "Gas price below configured minimum gas price"),
            (-32000, "FEE_TOO_LOW: underpriced"),
            (-32003, "transaction priority fee below minimum required priority fee 1")]),
        Rejection::BelowBaseFee { .. } => geth_and("max fee per gas less than block base fee: maxFeePerGas: 9, baseFee: 765701563", [
            (-32010, "FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 9, BaseFee: 765701563"),
            (-32009, "Gas price below current base fee"),
            (-32000, "FEE_TOO_LOW: fee too low"),
            (-32000, "max fee per gas less than block base fee")]),
        Rejection::NonceTooLow { .. } => geth_and("nonce too low: next nonce 1, tx nonce 0", [
            (-32010, "OldNonce, Current nonce: 1, nonce of rejected tx: 0"),
            (-32001, "Nonce too low"),
            (-32000, "INTERNAL_ERROR: nonce too low"),
            (-32000, "nonce too low: next nonce 1, tx nonce 0")]),
        Rejection::NonceTooHigh { .. } => geth_and("nonce too high: tx nonce 9, gapped nonce 1", [
            (-32010, "NonceGap, Future nonce. Expected nonce: 1"),
            (-32000, "Transaction nonce is too distant from current sender nonce"),
            (-32000, "nonce too high: tx: 9 state: 1"),
            (-32000, "nonce too high")]),
        Rejection::NonceMax => geth_and("nonce has max value", [
            (-32010, "NonceTooFarInFuture"),
            (-32006, "Nonce too high"),
            (-32000, "INTERNAL_ERROR: nonce has max value"),
            (-32003, "nonce has max value")]),
        Rejection::InsufficientFunds { .. } => geth_and("insufficient funds for gas * price + value: balance 7, tx cost 2100000000000001, overshot 2099999999999994", [
            (-32010, "InsufficientFunds, Account balance: 7, cumulative cost: 2100000000000001"),
            (-32004, "Upfront cost exceeds account balance"),
            (-32000, "INTERNAL_ERROR: insufficient funds"),
            (-32003, "insufficient funds for gas * price + value: have 7 want 2100000000000001")]),
        Rejection::AlreadyKnown(_) => geth_and("already known", [
            (-32010, "AlreadyKnown"),
            (-32000, "Known transaction"),
            (-32000, "ALREADY_EXISTS: already known"),
            (-32000, "already known")]),
        Rejection::ReplacementUnderpriced(_) => geth_and("replacement transaction underpriced", [
            (-32010, "ReplacementNotAllowed"),
            (-32000, "Replacement transaction underpriced"),
            (-32000, "FEE_TOO_LOW: replacement transaction underpriced"),
            (-32000, "replacement transaction underpriced")]),
        Rejection::Underpriced => geth_and("transaction underpriced", [
            (-32010, "FeeTooLowToCompete"),
            (-32009, "Gas price below configured minimum gas price"),
            (-32000, "FEE_TOO_LOW: underpriced"),
            (-32000, "transaction underpriced")]),
        Rejection::PoolFull => geth_and("txpool is full", [
            (-32010, "FeeTooLowToCompete"),
            (-32603, "Internal error"),
            (-32000, "INTERNAL_ERROR: queued sub-pool is full"),
            (-32003, "txpool is full")]),
        Rejection::SenderLimit { .. } => geth_and("account limit exceeded: pooled 0 txs", [
            (-32010, "NonceTooFarInFuture"),
            (-32000, "Transaction nonce is too distant from current sender nonce"),
            (-32000, "INTERNAL_ERROR: spammer"),
            (-32003, "txpool is full")]),
    }
}

#[test]
fn every_rejection_has_the_text_and_the_code_of_each_client() {
    for (_, mut chain, raw) in rejected() {
        let rejection = Tx::decode(raw).and_then(|tx| send(&mut chain, &tx)).unwrap_err();
        for (dialect, (code, message)) in Dialect::ALL.into_iter().zip(expected(&rejection)) {
            let error = dialect.rejection(&rejection);
            assert_eq!((error.code, error.message.as_str()), (code, message), "{dialect:?}");
        }
    }
}

#[test]
fn geth_reports_the_queued_cost_separately() {
    let rejection = Rejection::InsufficientFunds {
        balance: "50".parse().unwrap(),
        queued: "42".parse().unwrap(),
        cost: "21".parse().unwrap(),
    };
    assert_eq!(
        Dialect::Geth.rejection(&rejection).message,
        "insufficient funds for gas * price + value: balance 50, queued cost 42, tx cost 21, \
         overshot 13"
    );
}

#[test]
fn a_revert_carries_its_reason_in_each_clients_way() {
    let refused = CallRefused::Reverted("too late".into());
    let said = Dialect::ALL.map(|dialect| {
        let error = dialect.call_refused(&refused);
        assert!(error.data.unwrap().as_str().unwrap().starts_with("0x08c379a0"));
        (error.code, error.message)
    });
    let expected = [
        (3, "execution reverted: too late"),
        (-32015, "VM execution error."),
        (3, "Execution reverted: too late"),
        (3, "execution reverted: too late"),
        (3, "execution reverted: too late"),
    ];
    assert_eq!(said, expected.map(|(code, message)| (code, message.to_owned())));
}

#[tokio::test]
async fn endpoint_uses_its_configured_dialect() {
    let options = DevChainOptions { dialect: Dialect::Besu, ..DevChainOptions::default() };
    let (_devchain, url) = start_with(options).await;
    send_over(&url, &raw(0, 0, |_| {})).await;
    let again = json!([plain(0, 0).raw.to_string()]);
    let said = |dialect: Value| {
        let (url, again) = (url.clone(), again.clone());
        async move {
            crate::support::result(&url, "devchain_setDialect", json!([dialect])).await;
            error(&url, "eth_sendRawTransaction", again).await.1
        }
    };
    assert_eq!(error(&url, "eth_sendRawTransaction", again.clone()).await.1, "Known transaction");
    assert_eq!(said(json!("geth")).await, "already known");
    assert_eq!(said(json!("nethermind")).await, "AlreadyKnown");
    assert_eq!(said(json!("erigon")).await, "ALREADY_EXISTS: already known");
    let missing = error(&url, "eth_mystery", json!([])).await;
    assert_eq!(missing, (-32601, "the method eth_mystery does not exist/is not available".into()));
}
