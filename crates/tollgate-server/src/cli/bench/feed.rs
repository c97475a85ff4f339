//! What the nodes say by themselves: the completions feed, and the submitters.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tollgate_model::Address;

use super::plan::Plan;
use super::record::Run;
use crate::cli::client::{Client, Target};
use crate::failure::Failure;

/// Rows in a page.
const PAGE: usize = 1_000;
/// The pause between pages that are not full: a trickle must not become a storm of polls.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    request_id: Option<String>,
    state: String,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Item>,
    next: u64,
}

#[derive(Deserialize)]
struct SubmitterItem {
    address: Address,
}

#[derive(Deserialize)]
struct SubmitterPage {
    items: Vec<SubmitterItem>,
}

async fn get<T: DeserializeOwned>(client: &mut Client, path: &str) -> Result<T, Failure> {
    let answer = client.get(path).await?;
    if answer.status != 200 {
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        return Err(format!("GET {path}: {} {said}", answer.status).into());
    }
    Ok(serde_json::from_slice(&answer.body)?)
}

/// The first submitters of a node.
pub(super) async fn submitters(target: &Target, count: u32) -> Result<Vec<Address>, Failure> {
    let path = format!("/api/v1/submitters?limit={count}");
    let page: SubmitterPage = get(&mut Client::new(target.clone()), &path).await?;
    if page.items.len() < count as usize {
        return Err(format!("the node has {} submitters, not {count}", page.items.len()).into());
    }
    Ok(page.items.into_iter().map(|item| item.address).collect())
}

/// Where the feed ends now, found by bisection: few calls, however long the feed is. A cursor beyond
/// the end is refused with 409.
pub(super) async fn end_of(target: &Target) -> Result<u64, Failure> {
    let mut client = Client::new(target.clone());
    let (mut known, mut step) = (0, 1);
    let mut beyond = None;
    loop {
        let probe = match beyond {
            None => known + step,
            Some(beyond) if beyond == known + 1 => return Ok(known),
            Some(beyond) => known + (beyond - known) / 2,
        };
        let path = format!("/api/v1/tx/completions?after={}&limit=1", probe - 1);
        let answer = client.get(&path).await?;
        let is_beyond = match answer.status {
            409 => true,
            200 => serde_json::from_slice::<Page>(&answer.body)?.items.is_empty(),
            status => return Err(format!("GET {path}: {status}").into()),
        };
        if is_beyond {
            beyond = Some(probe);
        } else {
            (known, step) = (probe, step * 2);
        }
    }
}

/// Reads the feed until it is aborted. Moves on to the next node where one fails.
pub(super) async fn follow(targets: &[Target], plan: &Plan, run: &Run, mut after: u64) {
    let mut clients: Vec<Client> = targets.iter().cloned().map(Client::new).collect();
    let mut place = 0;
    loop {
        let path = format!("/api/v1/tx/completions?after={after}&limit={PAGE}&wait=10s");
        match get::<Page>(&mut clients[place], &path).await {
            Ok(page) => {
                after = page.next;
                for item in &page.items {
                    let number = item.request_id.as_deref().and_then(|id| plan.number_in(id));
                    if let Some(number) = number {
                        let failed = (item.state != "CONFIRMED").then_some(item.state.as_str());
                        run.finish(number, failed);
                    }
                }
                if page.items.len() == PAGE {
                    continue;
                }
            }
            Err(_) => place = (place + 1) % clients.len(),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
