//! Runs the example.

#[allow(dead_code, unreachable_pub, reason = "its main is not called here")]
#[path = "../../../examples/transfer.rs"]
mod transfer;

use serde_json::json;
use tollgate_model::Address;
use tollgate_testkit::rpc;

use super::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn example_sends_with_a_reserved_nonce() {
    let site = Site::new().await;
    assert_eq!(site.managed(100).await, 0);
    let to = Address::repeat_byte(0xab);
    let hash = transfer::transfer(&site.url, &site.chain.url(), to, 7).await.unwrap();
    assert_eq!(site.managed(101).await, 2);
    site.mine_until(3).await;
    let params = json!([hash.to_string()]);
    let mined = rpc::call(&site.chain.url(), "eth_getTransactionByHash", params).await;
    assert_eq!((rpc::number(&mined["nonce"]), rpc::number(&mined["value"])), (1, 7));
}
