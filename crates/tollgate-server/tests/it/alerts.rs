//! Alerts of the real binary, from the condition to the receiver and its end.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};
use tollgate_testkit::wait::within;

use crate::program::{Ran, command, http_post};
use crate::start::Ground;

/// A receiver like Slack's.
struct Chat {
    url: String,
    texts: Mutex<mpsc::UnboundedReceiver<String>>,
}

type Keep = Arc<mpsc::UnboundedSender<String>>;

async fn take(State(keep): State<Keep>, body: String) -> &'static str {
    let body: Value = serde_json::from_str(&body).unwrap();
    keep.send(body["text"].as_str().unwrap().to_owned()).unwrap();
    "ok"
}

impl Chat {
    async fn start() -> Self {
        let (keep, texts) = mpsc::unbounded_channel();
        let routes = Router::new().route("/hook/{key}", post(take)).with_state(Arc::new(keep));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook/topsecret", listener.local_addr().unwrap());
        tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
        Self { url, texts: Mutex::new(texts) }
    }

    async fn next(&self) -> String {
        within("a message", async { self.texts.lock().await.recv().await }).await.unwrap()
    }

    fn settings(&self) -> String {
        format!(
            "[alerts]\ninterval = \"100ms\"\nresolve_after = \"1s\"\nchain_stalled_after = \"500ms\"\n\
             low_balance_days = 0\n\n[[alerts.sinks]]\nname = \"ops\"\ntype = \"slack\"\nurl = \"{}\"\n\
             kinds = [\"chain_stalled\"]\n",
            self.url
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_that_stands_still_is_told_to_a_chat_and_so_is_its_end() {
    let (chat, ground) = (Chat::start().await, Ground::new());
    let chain = DevChain::start(DevChainOptions::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.toml");
    std::fs::write(&file, chat.settings()).unwrap();
    let mut serve = ground.serve(&chain.url(), &["--config", file.to_str().unwrap()]);
    let _node = ground.started(&mut serve).await;
    let create = json!({
        "submitter": dev_accounts()[0].address,
        "payload": { "to": dev_accounts()[1].address, "value": "1", "gas": 21_000 },
    });
    let taken = within("an answer", async {
        loop {
            if let Some(answer) = http_post(ground.port, "/api/v1/tx", &create.to_string()).await {
                return answer;
            }
        }
    });
    assert!(taken.await.contains(" 202 "));
    let raised = chat.next().await;
    assert!(raised.starts_with("[CRITICAL] Chain not advancing: chain "), "{raised}");

    let database = ground.database_url();
    let args = ["alert", "list", "--database-url", &database, "--json"];
    let listed = Ran::of(command().args(args));
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("\"kind\":\"chain_stalled\""), "{listed:?}");

    chain.set_block_interval(Some(std::time::Duration::from_millis(100)));
    let resolved = chat.next().await;
    assert!(resolved.starts_with("[RESOLVED] Chain not advancing"), "{resolved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sink_is_tried_by_name_and_its_url_is_never_shown() {
    let chat = Chat::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.toml");
    let run = |args: &[&str]| Ran::of(command().args(args).arg("--config").arg(&file));
    std::fs::write(&file, chat.settings()).unwrap();
    let tried = run(&["alert", "test", "ops"]);
    assert_eq!(tried.code, Some(0), "{tried:?}");
    assert!(chat.next().await.starts_with("[INFO] Endpoint down: test"));
    assert!(chat.next().await.starts_with("[RESOLVED]"));
    let other = run(&["alert", "test", "nobody"]);
    assert_eq!(other.code, Some(1));
    assert!(other.err.contains("there are ops"), "{other:?}");

    let gone = chat.settings().replace("/hook/", "/gone/");
    std::fs::write(&file, gone).unwrap();
    let failed = run(&["alert", "test", "ops"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.err.contains("404") && !failed.err.contains("topsecret"), "{failed:?}");

    std::fs::write(&file, "[[alerts.sinks]]\nname = \"x\"\ntype = \"slack\"\n").unwrap();
    let refused = run(&["alert", "test", "x"]);
    assert!(refused.code == Some(1) && refused.err.contains("needs a url"), "{refused:?}");
}
