//! Reads the nodes' completion feed and submitters.

use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use tollgate_api::{Feed, SubmitterPage};
use tollgate_client::Node;
use tollgate_http::HttpResponse;
use tollgate_model::Address;

use crate::plan::Plan;
use crate::record::Run;
use crate::{Error, RESPONSE_TIMEOUT};

/// Rows per page.
const PAGE: usize = 1_000;
/// The pause after a page that is not full, so that a slow feed is not polled continuously.
const PAUSE: Duration = Duration::from_millis(50);

async fn get(node: &Node, path: &str) -> Result<HttpResponse, Error> {
    Ok(node.send(Method::GET, path, Bytes::new(), RESPONSE_TIMEOUT).await?)
}

async fn read<T: DeserializeOwned>(node: &Node, path: &str) -> Result<T, Error> {
    let response = get(node, path).await?;
    if response.status != 200 {
        let text = String::from_utf8_lossy(&response.body).into_owned();
        return Err(format!("GET {path}: {} {text}", response.status).into());
    }
    Ok(serde_json::from_slice(&response.body)?)
}

/// The first submitters of a node.
pub(crate) async fn submitters(node: &Node, count: u32) -> Result<Vec<Address>, Error> {
    let path = format!("/api/v1/submitters?limit={count}");
    let page: SubmitterPage = read(node, &path).await?;
    if page.items.len() < count as usize {
        return Err(format!("the node has {} submitters, not {count}", page.items.len()).into());
    }
    Ok(page.items.iter().map(|item| item.address.parse()).collect::<Result<_, _>>()?)
}

/// The present end of the feed, found by bisection: few calls, however long the feed is. A cursor
/// beyond the end is refused with 409.
pub(crate) async fn end(node: &Node) -> Result<u64, Error> {
    let (mut known, mut step) = (0, 1);
    let mut beyond = None;
    loop {
        let probe = match beyond {
            None => known + step,
            Some(beyond) if beyond == known + 1 => return Ok(known),
            Some(beyond) => known + (beyond - known) / 2,
        };
        let path = format!("/api/v1/tx/completions?after={}&limit=1", probe - 1);
        let response = get(node, &path).await?;
        let is_beyond = match response.status {
            409 => true,
            // Before what retention has removed.
            410 => false,
            200 => serde_json::from_slice::<Feed>(&response.body)?.items.is_empty(),
            status => return Err(format!("GET {path}: {status}").into()),
        };
        if is_beyond {
            beyond = Some(probe);
        } else {
            (known, step) = (probe, step * 2);
        }
    }
}

/// Reads the feed until it is aborted. Moves on to the next node if one fails.
pub(crate) async fn follow(nodes: &[Node], plan: &Plan, run: &Run, mut after: u64) {
    let mut place = 0;
    loop {
        let path = format!("/api/v1/tx/completions?after={after}&limit={PAGE}&wait=10s");
        match read::<Feed>(&nodes[place], &path).await {
            Ok(page) => {
                after = page.next;
                for item in &page.items {
                    let number = item.request_id.as_deref().and_then(|id| plan.number_in(id));
                    if let Some(number) = number {
                        let failed = (item.state != "CONFIRMED").then_some(&*item.state);
                        run.finish(number, failed);
                    }
                }
                if page.items.len() == PAGE {
                    continue;
                }
            }
            Err(_) => place = (place + 1) % nodes.len(),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
