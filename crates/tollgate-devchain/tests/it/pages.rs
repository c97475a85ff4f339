//! Web pages of other sites, whose requests a browser sends to the chain.

use serde_json::json;

use crate::support::{post, post_with, start};

#[tokio::test]
async fn page_of_another_site_can_not_use_the_chain() {
    let chain = start().await;
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "devchain_mine", "params": [] });
    let body = body.to_string();
    for headers in [
        // What a fetch without a preflight sends.
        "Host: 127.0.0.1\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\n",
        // A name that was pointed at this machine.
        "Host: evil.example\r\nOrigin: http://evil.example\r\n",
        "Host: evil.example\r\n",
    ] {
        let answer = post_with(&chain.url(), headers, &body).await.unwrap();
        assert_eq!(answer.status, 403, "{headers}: {answer:?}");
    }
    assert_eq!(chain.snapshot().head().number(), 0, "nothing was mined");
    assert_eq!(post(&chain.url(), &body).await.unwrap().status, 200);
}
