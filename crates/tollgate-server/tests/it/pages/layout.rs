//! Looks and use of the pages: at the width of a phone, of a tablet and of a wide screen, by keyboard, and
//! with many slots.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollgate_testkit::{rpc, wait};

use super::browser::Browser;
use super::{api, create, first_account};
use crate::dev::Dev;
use crate::site::TARGET;

const WIDTHS: [u32; 3] = [390, 900, 1_600];
/// Keys in the WebDriver protocol.
const TAB: &str = "\u{e004}";
const LEFT: &str = "\u{e012}";
const HOME: &str = "\u{e011}";
/// More than the stops of any page.
const STOPS_MAX: usize = 120;

const IS_LIVE: &str = "return document.querySelector('.pulse.on') !== null";

/// The parts of a page that are wider than the page, and texts that are cut.
const TOO_WIDE: &str = "
    const named = (it) => it.tagName + '.' + it.className + '#' + it.id + ' ' + it.textContent.slice(0, 40);
    const found = [];
    if (document.documentElement.scrollWidth > innerWidth) {
        found.push('page of ' + document.documentElement.scrollWidth);
        for (const it of document.querySelectorAll('body *')) {
            if (it.getBoundingClientRect().right > innerWidth && !it.closest('.scroll, pre')) found.push(named(it));
        }
    }
    for (const it of document.querySelectorAll('.figure, button, .button, h1:not(.hidden), h2')) {
        if (it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 0) found.push('cut: ' + named(it));
    }
    return found.slice(0, 8)";

#[tokio::test(flavor = "multi_thread")]
async fn no_page_is_wider_than_a_phone_a_tablet_or_a_wide_screen() {
    let dev = Dev::start().await;
    let (chain, account) = first_account(&dev).await;
    let long = "an-order-id-with-very-many-characters-and-no-place-to-break-it-".repeat(3);
    let more = json!({ "requestId": long, "metadata": { "note": long } });
    let done = create(&dev, &account, more).await;
    wait::until("the first to be final", || async {
        let tx = api(&dev, "GET", &format!("/api/v1/tx/{done}"), &Value::Null).await;
        (tx["state"] == "CONFIRMED").then_some(())
    })
    .await;
    rpc::call(&dev.rpc_url, "devchain_pauseMining", json!([])).await;
    let open = create(&dev, &account, json!({})).await;
    for _ in 0..12 {
        create(&dev, &account, json!({})).await;
    }
    let browser = Browser::start().await;
    let submitter = format!("/submitters/{chain}/{account}");
    let pages = [
        "/".to_owned(),
        "/submitters".to_owned(),
        submitter.clone(),
        format!("{submitter}?from=0&to=60000"),
        format!("{submitter}/fill"),
        "/tx".to_owned(),
        format!("/tx/{done}"),
        format!("/tx/{open}"),
        format!("/tx/{open}/replace"),
        format!("/search?q={long}"),
        "/search?q=0".to_owned(),
        "/tx/nonsense".to_owned(),
        "/docs".to_owned(),
        "/docs/errors/invalid_batch".to_owned(),
    ];
    for width in WIDTHS {
        browser.resize(width).await;
        for path in &pages {
            browser.open(&format!("{}{path}", dev.url)).await;
            let drawn = "return document.querySelector('main') !== null && \
                         (!location.pathname.endsWith('/docs') || document.querySelector('section header') !== null)";
            browser.until("the page to be drawn", drawn).await;
            let found = browser.run(TOO_WIDE).await;
            assert_eq!(found, json!([]), "{path} at {width}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tab_key_reaches_every_action_of_a_page_at_every_width() {
    let dev = Dev::start().await;
    let (chain, account) = first_account(&dev).await;
    rpc::call(&dev.rpc_url, "devchain_pauseMining", json!([])).await;
    let tx_id = create(&dev, &account, json!({})).await;
    let browser = Browser::start().await;
    for width in WIDTHS {
        browser.resize(width).await;
        for path in [format!("/tx/{tx_id}"), format!("/submitters/{chain}/{account}")] {
            browser.open(&format!("{}{path}", dev.url)).await;
            browser.until("the page to listen", IS_LIVE).await;
            let actions =
                "return [...document.querySelectorAll('.actions a')].map((it) => it.href)";
            let actions: BTreeSet<String> =
                serde_json::from_value(browser.run(actions).await).unwrap();
            assert!(actions.len() >= 4, "{path}: {actions:?}");
            let (mut reached, mut cells) = (BTreeSet::new(), 0);
            for _ in 0..STOPS_MAX {
                browser.press(TAB).await;
                let focus = "const it = document.activeElement; \
                             return [it.href || '', it.matches('[data-ladder] a')]";
                let (href, is_cell): (String, bool) =
                    serde_json::from_value(browser.run(focus).await).unwrap();
                cells += usize::from(is_cell);
                reached.insert(href);
                if actions.is_subset(&reached) {
                    break;
                }
            }
            let missed: Vec<_> = actions.difference(&reached).collect();
            assert!(missed.is_empty(), "{path} at {width}: {missed:?}");
            assert!(cells <= 1, "{path}: the ladder has {cells} stops");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arrow_keys_move_between_the_cells_of_the_ladder_and_enter_opens_one() {
    let dev = Dev::start().await;
    let (chain, account) = first_account(&dev).await;
    let mut txs = Vec::new();
    for _ in 0..3 {
        txs.push(create(&dev, &account, json!({})).await);
    }
    let browser = Browser::start().await;
    browser.open(&format!("{}/submitters/{chain}/{account}", dev.url)).await;
    let confirmed = "return document.querySelectorAll('.ladder a.confirmed').length === 3";
    browser.until("all to be confirmed", confirmed).await;
    let stop = "document.querySelector('[data-ladder] a[tabindex=\"0\"]').focus(); return true";
    browser.run(stop).await;
    let at = "return document.activeElement.getAttribute('href')";
    assert_eq!(browser.run(at).await, format!("/tx/{}", txs[2]), "the last one");
    browser.press(LEFT).await;
    assert_eq!(browser.run(at).await, format!("/tx/{}", txs[1]));
    browser.press(HOME).await;
    assert_eq!(browser.run(at).await, format!("/tx/{}", txs[0]));
    browser.press(LEFT).await;
    assert_eq!(browser.run(at).await, format!("/tx/{}", txs[0]), "there is none before it");
    let stops = "return document.querySelectorAll('[data-ladder] a[tabindex=\"0\"]').length";
    assert_eq!(browser.run(stops).await, 1, "the Tab key comes back to the same cell");
    let name = "return document.activeElement.title";
    let name = browser.run(name).await;
    assert!(name.as_str().unwrap().starts_with("nonce 0: confirmed"), "{name}");
    browser.press("\u{e007}").await;
    let opened = format!("return location.pathname === '/tx/{}'", txs[0]);
    browser.until("the page of the tx", &opened).await;
}

/// Slots of the large account.
const SLOTS: usize = 20_000;
/// Transactions of a batch.
const BATCH: usize = 1_000;
/// A page that does not react for longer than this feels stuck.
const FRAME_MAX_MS: u64 = 500;

#[tokio::test(flavor = "multi_thread")]
async fn page_of_twenty_thousand_slots_stays_fluid_while_it_is_refreshed() {
    let dev = Dev::start().await;
    let (chain, account) = first_account(&dev).await;
    let payload = json!({ "to": TARGET, "value": "1", "gas": 30_000 });
    let item = json!({ "submitter": account, "payload": payload });
    let accepted = AtomicUsize::new(0);
    // The queue of an account is bounded: what is refused is asked for again.
    wait::until("all to be accepted", || async {
        let missing = (SLOTS - accepted.load(Ordering::Relaxed)).min(BATCH);
        let items = json!({ "items": vec![&item; missing] });
        let made = api(&dev, "POST", "/api/v1/tx/batch", &items).await;
        let taken = made["items"].as_array().unwrap().iter().filter(|one| one["status"] == 202);
        accepted.fetch_add(taken.count(), Ordering::Relaxed);
        (accepted.load(Ordering::Relaxed) == SLOTS).then_some(())
    })
    .await;
    let browser = Browser::start().await;
    browser.open(&format!("{}/submitters/{chain}/{account}?from=0&to=22000", dev.url)).await;
    browser.until("the page to listen", IS_LIVE).await;
    let cells = browser.run("return document.querySelectorAll('.ladder .cell').length").await;
    assert!(cells.as_u64().unwrap() <= 640, "{cells}");
    // The longest time between two frames, while the slots become confirmed before one's eyes.
    browser
        .run(
            "window.longest = 0; window.refreshes = 0; let last = performance.now(); \
             const tick = (now) => { longest = Math.max(longest, now - last); last = now; requestAnimationFrame(tick); }; \
             requestAnimationFrame(tick); \
             new MutationObserver(() => { refreshes += 1; }).observe(document.querySelector('main'), \
                 { childList: true, subtree: true }); \
             return true",
        )
        .await;
    let all = "const it = document.querySelector('#ladder-legend .confirmed'); \
               return it !== null && it.parentElement.querySelector('b').textContent === '20000'";
    wait::until("all to be final", || async {
        let shown = api(&dev, "GET", &format!("/api/v1/submitters/{account}"), &Value::Null).await;
        shown["depth"].as_object().unwrap().values().all(|open| *open == 0).then_some(())
    })
    .await;
    browser.until("the ladder to show all as confirmed", all).await;
    let refreshes = browser.run("return window.refreshes").await;
    assert!(refreshes.as_u64().unwrap() > 0, "it was live");
    let longest = browser.run("return Math.round(window.longest)").await.as_u64().unwrap();
    assert!(longest < FRAME_MAX_MS, "{longest} ms without a frame");
}
