//! Events of a node: numbers and retention of the log, and delivery to a receiver.

mod dispatcher;
#[cfg(feature = "nats")]
mod nats;
mod sink;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tollgate_hook::{BadHook, Webhook, WebhookOptions};
use tollgate_model::NodeId;
use tollgate_model::event::EventKinds;
use tollgate_model::event::delivery::DeliveryRules;
use tollgate_model::port::{Page, Store, StoreError};
use tracing::{debug, warn};

use crate::clock::SystemClock;
use crate::config::{Age, EventMode, EventSettings, NatsSettings, WebhookSettings};
use crate::failure::Failure;
use dispatcher::{Dispatcher, DispatcherOptions, stopped};
use sink::{EventSink, LogSink, WebhookSink};
pub(crate) use sink::{NATS, WEBHOOK};

/// The interval at which new events get numbers while nobody follows them.
const NUMBER_EVERY: Duration = Duration::from_secs(5);
/// Looks between two removals of old events.
const LOOKS_PER_REMOVAL: u32 = 12;
/// Dead letters that are kept (I13); older ones are deleted.
const LETTERS_MAX: u32 = 10_000;
/// The pause after the first failed try to deliver an event.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Events into the log at a time.
const LOG_CONCURRENCY: usize = 64;
/// Events to NATS at a time, each of another transaction.
const NATS_CONCURRENCY: usize = 64;

/// The background tasks of a node.
pub(crate) struct EventTasks {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl EventTasks {
    /// Starts what the settings ask for; nothing if events are off.
    ///
    /// # Errors
    /// The receiver can't be used.
    pub(crate) fn start(
        store: &Arc<dyn Store>,
        node: &NodeId,
        events: &EventSettings,
        webhook: &WebhookSettings,
        nats: &NatsSettings,
    ) -> Result<Self, Failure> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Vec::new();
        if !events.enabled {
            return Ok(Self { stop, tasks });
        }
        let upkeep = Upkeep {
            store: store.clone(),
            age: age(events.retention),
            keep: events.retention_max,
            stop: stopped.clone(),
        };
        tasks.push(tokio::spawn(upkeep.run()));
        if let Some((sink, options)) = sink(events, webhook, nats)? {
            let dispatcher = Dispatcher {
                store: store.clone(),
                node: node.clone(),
                sink,
                options,
                stop: stopped,
            };
            tasks.push(tokio::spawn(dispatcher.run()));
        }
        Ok(Self { stop, tasks })
    }

    /// Begins no further delivery.
    pub(crate) fn request_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until what has begun is over.
    pub(crate) async fn stop(self) {
        self.request_stop();
        for task in self.tasks {
            // A task that panicked has ended as well.
            let _ = task.await;
        }
    }
}

const fn age(Age(age): Age) -> Duration {
    age
}

type Receiver = (Arc<dyn EventSink>, DispatcherOptions);

/// The receiver that the settings name.
fn sink(
    events: &EventSettings,
    webhook: &WebhookSettings,
    nats: &NatsSettings,
) -> Result<Option<Receiver>, Failure> {
    let rules = DeliveryRules {
        failures_max: webhook.max_attempts,
        pause_first: PAUSE_FIRST,
        pause_max: webhook.pause_max,
    };
    Ok(match events.mode {
        EventMode::Poll => None,
        EventMode::Log => {
            let options =
                DispatcherOptions { kinds: EventKinds::ALL, concurrency: LOG_CONCURRENCY, rules };
            Some((Arc::new(LogSink), options))
        }
        EventMode::Webhook => {
            let receiver =
                receiver(webhook)?.ok_or("events.mode: webhook needs events.webhook.url")?;
            let options = DispatcherOptions {
                kinds: webhook.posted(),
                concurrency: webhook.concurrency,
                rules,
            };
            Some((Arc::new(WebhookSink(receiver)), options))
        }
        EventMode::Nats => {
            let options =
                DispatcherOptions { kinds: EventKinds::ALL, concurrency: NATS_CONCURRENCY, rules };
            Some((nats_sink(nats)?, options))
        }
    })
}

#[cfg(feature = "nats")]
fn nats_sink(settings: &NatsSettings) -> Result<Arc<dyn EventSink>, Failure> {
    Ok(Arc::new(nats::NatsSink::new(settings)?))
}

/// The settings refuse the mode before anything starts; this is for a caller that did not ask them.
#[cfg(not(feature = "nats"))]
fn nats_sink(_: &NatsSettings) -> Result<Arc<dyn EventSink>, Failure> {
    Err("events.mode: this binary was built without nats".into())
}

/// The receiver of the settings; `None` if there is none.
pub(crate) fn receiver(webhook: &WebhookSettings) -> Result<Option<Webhook>, BadHook> {
    let (Some(url), Some(secret)) = (&webhook.url, &webhook.secret) else { return Ok(None) };
    let secrets = [secret].into_iter().chain(&webhook.previous_secret).cloned().collect();
    let options = WebhookOptions {
        url: url.0.clone(),
        secrets,
        timeout: webhook.timeout,
        connections: webhook.concurrency,
        allows_private: webhook.allow_private,
    };
    Webhook::new(options, Arc::new(SystemClock)).map(Some)
}

/// Gives numbers to events that nobody waits for, and removes old ones.
struct Upkeep {
    store: Arc<dyn Store>,
    age: Duration,
    keep: u64,
    stop: watch::Receiver<bool>,
}

impl Upkeep {
    async fn run(mut self) {
        let mut looks: u32 = 0;
        loop {
            if let Err(error) = self.look(looks.is_multiple_of(LOOKS_PER_REMOVAL)).await {
                warn!(%error, "events can't be numbered or removed; retrying");
            }
            looks = looks.wrapping_add(1);
            tokio::select! {
                () = stopped(&mut self.stop) => return,
                () = sleep(NUMBER_EVERY) => {}
            }
        }
    }

    async fn look(&self, removes: bool) -> Result<(), StoreError> {
        let page = Page::new(Page::MAX)?;
        while self.store.number_events(page).await? >= page.limit() && !*self.stop.borrow() {}
        while removes && !*self.stop.borrow() {
            let removed = self.store.remove_events(self.age, self.keep, page).await?;
            if removed > 0 {
                debug!(removed, "old batches of events removed");
            }
            if removed < page.limit() {
                break;
            }
        }
        if removes {
            let gone = self.store.forget_dead_letters(LETTERS_MAX, page).await?;
            if gone > 0 {
                warn!(removed = gone, "more dead letters than are kept; the oldest deleted");
            }
        }
        Ok(())
    }
}
