//! Settings of events.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_hook::HookSecret;
use tollgate_model::event::{EventKind, EventKinds};

use crate::config::table::settings;
use crate::config::types::{Age, EventMode, HookUrl, NatsUrl, StreamName, SubjectPrefix};

settings! {
    /// Events for receivers outside, see [events](events.md).
    struct EventSettings {
        /// Write events: one more row for each batch of changes. If not, nobody can follow them, and nothing is
        /// delivered. `dev` writes them unless this is set.
        enabled: bool = "false";
        /// Way in which events leave the node, besides `GET /api/v1/events`. `poll`: not at all. `log`: into the log.
        /// `webhook`: to `events.webhook.url`. `nats`: to a stream of NATS JetStream, in a binary that was built with
        /// the feature `nats`. One node of all delivers at a time.
        mode: EventMode = "poll";
        /// Kinds that are written; all of them if not set. Give all nodes the same.
        kinds: Vec<EventKind>, example = "[\"TxConfirmed\", \"TxFailed\", \"TxStuck\"]";
        /// Age from which events are removed, delivered or not.
        retention: Age = "7d", min = "1m";
        /// Number of events that are kept at most; older ones are removed.
        retention_max: u64 = "50000000", range = (10_000, 10_000_000_000);
    }

    /// The receiver of events.
    struct WebhookSettings {
        /// URL that events are posted to, one by one.
        url: Option<HookUrl>, example = "\"https://hooks.example.com/tollgate\"";
        /// Secret that signs events: `whsec_` and 24 to 64 bytes in base64.
        secret: Option<HookSecret>, has_file = true, example = "\"whsec_…\"";
        /// Secret of before, while it is replaced: events have a signature by each.
        previous_secret: Option<HookSecret>, has_file = true, needs = "events.webhook.url",
            example = "\"whsec_…\"";
        /// Kinds that are posted, of those that are written; all of them if not set.
        kinds: Vec<EventKind>, needs = "events.webhook.url",
            example = "[\"TxConfirmed\", \"TxFailed\"]";
        /// The longest time for one try.
        timeout: Duration = "10s", min = "10ms", needs = "events.webhook.url";
        /// Events that are posted at a time, each of another transaction.
        concurrency: usize = "16", range = (1, 256), needs = "events.webhook.url";
        /// Failed tries after which an event becomes a dead letter. Only those count between which the
        /// receiver took other events: a receiver that takes nothing is waited for.
        max_attempts: u32 = "8", range = (1, 1_000), needs = "events.webhook.url";
        /// The longest pause between two tries.
        pause_max: Duration = "1m", min = "1s", needs = "events.webhook.url";
        /// Allow private, loopback and link-local addresses.
        allow_private: bool = "false", needs = "events.webhook.url";
    }

    /// The stream of NATS JetStream that receives events.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "checked, though nothing is built that reads it"))]
    struct NatsSettings {
        /// URL of a server of the cluster; the others are learned from it.
        url: Option<NatsUrl>, example = "\"nats://nats.example.com:4222\"";
        /// Stream that must store the events. It is not created.
        stream: StreamName = "TOLLGATE", needs = "events.nats.url";
        /// First part of the subjects: an event goes to `SUBJECT.CHAIN.KIND`.
        subject: SubjectPrefix = "tollgate.events", needs = "events.nats.url";
        /// File of credentials (`.creds`) of the NATS account.
        credentials_file: Option<PathBuf>, needs = "events.nats.url",
            example = "\"/run/secrets/tollgate.creds\"";
    }
}

impl EventSettings {
    /// The kinds that are written.
    pub(crate) fn written(&self) -> EventKinds {
        if self.enabled { set_of(&self.kinds) } else { EventKinds::NONE }
    }
}

impl WebhookSettings {
    /// The kinds that are posted.
    pub(crate) fn posted(&self) -> EventKinds {
        set_of(&self.kinds)
    }
}

/// All kinds, if none is named.
fn set_of(kinds: &[EventKind]) -> EventKinds {
    match kinds {
        [] => EventKinds::ALL,
        kinds => kinds.iter().fold(EventKinds::NONE, |set, kind| set.with(*kind)),
    }
}
