//! Private endpoints: they get the transactions of the private route and the questions about them, and nothing else
//! does.

use tollgate_evm::chain::EvmChain;
use tollgate_evm::endpoint::Role;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::chain::{Call, CallEstimate, Chain, TxLocation};
use tollgate_model::{Address, Bytes, Route, TxHash, Wei, keccak256};

use crate::fake::{Node, connect, until};

const SEND: &str = "eth_sendRawTransaction";
/// Calls that name a transaction which is not mined.
const TELLING: [&str; 6] = [
    SEND,
    "batch",
    "eth_getTransactionByHash",
    "eth_getTransactionReceipt",
    "eth_estimateGas",
    "eth_call",
];

fn raw(n: u8) -> Bytes {
    Bytes::from(vec![0x02, 0xc1, n])
}

fn call() -> Call {
    let (from, value) = (Address::repeat_byte(1), Wei::default());
    Call { from, to: Some(from), value, data: Bytes::from_static(b"secret") }
}

fn telling_calls(node: &Node) -> usize {
    TELLING.iter().map(|method| node.calls_of(method)).sum()
}

async fn two_public_and_one_private() -> ([Node; 2], Node, EvmChain) {
    let public = [Node::start().await, Node::start().await];
    let private = Node::start().await;
    let [one, two] = &public;
    let endpoints = vec![one.http(), private.http_as(Role::Private), two.http()];
    let chain = connect(endpoints).await;
    chain.head_after(None).await.unwrap();
    (public, private, chain)
}

#[tokio::test]
async fn private_route_reaches_private_endpoints_alone_and_the_public_one_never_does() {
    let (public, private, chain) = two_public_and_one_private().await;
    assert!(chain.has_private_endpoints());
    let hash: TxHash = keccak256(raw(0));
    private.set().in_pool.insert(hash);
    let route = Route::Private;
    assert_eq!(chain.send(&raw(0), route).await.class, AnswerClass::Accepted);
    let many: Vec<_> = (1..6).map(raw).collect();
    let answers = chain.send_in_order(&many, route).await;
    assert!(answers.iter().all(|answer| answer.class == AnswerClass::Accepted), "{answers:?}");
    assert_eq!(chain.sighting(hash, route).await.unwrap(), Some(TxLocation::Pending));
    assert_eq!(chain.receipt(hash, route).await.unwrap(), None);
    assert_eq!(chain.estimate_call(&call(), route).await.unwrap(), CallEstimate::Gas(21_000));
    assert!(telling_calls(&private) >= 5);
    assert_eq!(public.each_ref().map(telling_calls), [0, 0]);

    let before = telling_calls(&private);
    assert_eq!(chain.send(&raw(9), Route::Public).await.class, AnswerClass::Accepted);
    assert_eq!(chain.sighting(hash, Route::Public).await.unwrap(), None);
    chain.estimate_call(&call(), Route::Public).await.unwrap();
    assert_eq!(telling_calls(&private), before, "nothing public goes to a private endpoint");
    assert_eq!(private.calls_of("eth_getBlockByNumber"), 0, "nor is it read from");
}

#[tokio::test]
async fn private_endpoint_that_refuses_or_is_silent_leaves_the_others_unasked() {
    let (public, private, chain) = two_public_and_one_private().await;
    let error = serde_json::json!({ "code": -32000, "message": "nonce too high" });
    private.set().fixed.insert(SEND, Err(error));
    assert_eq!(chain.send(&raw(0), Route::Private).await.class, AnswerClass::NonceTooHigh);
    private.set().missing.insert("eth_estimateGas");
    let unestimated = chain.estimate_call(&call(), Route::Private).await;
    assert!(!matches!(unestimated, Ok(CallEstimate::Gas(_))), "{unestimated:?}");
    assert_eq!(public.each_ref().map(telling_calls), [0, 0]);

    let (node, without) = (Node::start().await, Route::Private);
    let chain = connect(vec![node.http()]).await;
    assert!(!chain.has_private_endpoints());
    let answer = chain.send(&raw(0), without).await;
    let expected = (AnswerClass::Unknown, "no private endpoint could be asked");
    assert_eq!((answer.class, &*answer.said), expected);
    chain.sighting(keccak256(raw(0)), without).await.unwrap_err();
    assert_eq!(telling_calls(&node), 0);
}

#[tokio::test]
async fn relay_that_knows_only_sends_is_used_as_a_private_endpoint() {
    let (reader, relay) = (Node::start().await, Node::start().await);
    relay.set().missing.extend(["eth_chainId", "eth_getBlockByNumber", "eth_estimateGas"]);
    let chain = connect(vec![reader.http(), relay.http_as(Role::Private)]).await;
    until("the relay is checked", || async {
        chain.endpoints().iter().all(|endpoint| endpoint.chain_check == "good")
    })
    .await;
    assert_eq!(chain.send(&raw(0), Route::Private).await.class, AnswerClass::Accepted);
    assert_eq!((relay.calls_of(SEND), reader.calls_of(SEND)), (1, 0));
}
