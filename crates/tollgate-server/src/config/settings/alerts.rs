//! Settings of alerts: the sinks, and the thresholds of what is measured.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_alert::{Sink, SinkKind, SinkOptions};
use tollgate_model::Wei;
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::AlertKind;
use zeroize::Zeroizing;

use crate::config::load::read_secret;
use crate::config::table::{EntryForm, entry_types, settings};
use crate::config::types::{Age, HookUrl, Secret};
use crate::config::value::Sourced;

settings! {
    /// Alerts.
    struct AlertSettings {
        /// Receivers of alerts, besides the log, see [alerts](operations/alerts.md). Also as
        /// `[[alerts.sinks]]`.
        sinks: Vec<SinkEntry>, entries_max = 20,
            example = "[{ name = \"ops\", type = \"slack\", url = \"https://hooks.slack.com/services/…\" }]";
        /// Interval at which a node measures what it raises alerts about, and at which one node of all looks which
        /// are over.
        interval: Duration = "15s", min = "100ms";
        /// Time after which an alert about something that is measured is over if it was not found again. At least
        /// three times `alerts.interval`.
        resolve_after: Duration = "2m", min = "300ms";
        /// Age from which resolved alerts are deleted.
        keep: Age = "30d", min = "1s";
        /// Submitters lost to other nodes in a minute, for a minute, from which `fenced_surge` is raised.
        fenced_per_minute: u64 = "30", range = (1, 1_000_000);
        /// Resends of a node in a minute, for a minute, from which `resubmit_rate` is raised.
        resubmits_per_minute: u64 = "300", range = (1, 1_000_000_000);
        /// Sent transactions of an account without a receipt from which `receipt_backlog` is raised, if the
        /// oldest open one is older than `alerts.receipt_backlog_age`.
        receipt_backlog: u64 = "500", range = (1, 1_000_000_000);
        /// See `alerts.receipt_backlog`.
        receipt_backlog_age: Duration = "10m";
        /// Percentage of `reservations.max_outstanding` from which `reservations_piling_up` is raised.
        reservations_percent: u64 = "80", range = (1, 100);
        /// Time for which an account has sends with an unknown outcome before `grey_zone` is raised.
        grey_zone_after: Duration = "2m";
        /// Balance below which `low_balance` is raised for an account that this node serves. Off if not set.
        balance_floor: Option<Wei>, example = "\"0.1 ether\"";
        /// Days for which a balance must last at the present burn; below that `low_balance` is raised. 0 turns
        /// this off.
        low_balance_days: u64 = "3", range = (0, 3_650);
        /// Time without an answer of an endpoint before `endpoint_down` is raised.
        endpoint_down_after: Duration = "2m";
        /// Time without a new block, while transactions wait for one, before `chain_stalled` is raised.
        chain_stalled_after: Duration = "5m";
        /// Difference between the clocks of a node and its database from which `clock_drift` is raised.
        clock_drift: Duration = "2s", min = "1ms";
    }

    /// A receiver of alerts.
    struct SinkEntry {
        /// Name of the sink, the same at all nodes.
        name: String;
        /// Format of the receiver.
        r#type: SinkKind;
        /// URL of the receiver. With PagerDuty it is known.
        url: Option<Sourced<HookUrl>>;
        /// Secret that signs messages; with PagerDuty the routing key.
        secret: Option<Secret>;
        /// File that holds the secret. At most 64 KiB.
        secret_file: Option<Sourced<PathBuf>>;
        /// Alerts below this level are not sent.
        min_level: AlertLevel = "warning";
        /// Kinds of alerts that are sent; all if it is empty.
        kinds: Vec<AlertKind>;
        /// Messages in a minute, of all nodes together.
        per_minute: u32 = "20", range = (1, 10_000);
        /// The longest time for one message.
        timeout: Duration = "10s", min = "10ms";
        /// Allow a link-local address (169.254.0.0/16, fe80::/10).
        allow_link_local: bool = "false";
    }
}

entry_types! {
    SinkEntry: EntryForm {
        noun: "a sink",
        list_words: "list of sinks",
        example: "{ name = \"ops\", type = \"slack\", url = \"https://…\" }",
        may_be_text: false,
    };
}

impl SinkEntry {
    /// The sink, with the secret of its file.
    ///
    /// # Errors
    /// The reason why it can't be used, without anything of the secret.
    pub(crate) fn sink(&self) -> Result<Sink, String> {
        let secret = match (&self.secret, &self.secret_file) {
            (Some(_), Some(_)) => return Err("has a secret and a secret_file".to_owned()),
            (Some(secret), None) => Some(secret.0.clone()),
            (None, Some(file)) => {
                let text = read_secret(&file.value)
                    .map_err(|why| format!("secret_file {}: {why}", file.value.display()))?;
                Some(Zeroizing::new(text.trim().to_owned()))
            }
            (None, None) => None,
        };
        let options = SinkOptions {
            name: self.name.clone(),
            kind: self.r#type,
            url: self.url.clone().map(|url| url.value.0),
            secret,
            min_level: self.min_level,
            kinds: self.kinds.clone(),
            per_minute: self.per_minute,
            timeout: self.timeout,
            allows_link_local: self.allow_link_local,
        };
        Sink::new(options).map_err(|bad| bad.to_string())
    }
}

impl AlertSettings {
    /// All sinks.
    ///
    /// # Errors
    /// The reason why one can't be used.
    pub(crate) fn sinks(&self) -> Result<Vec<Sink>, String> {
        let sink = |entry: &SinkEntry| {
            entry.sink().map_err(|why| format!("alerts.sinks: sink {:?} {why}", entry.name))
        };
        self.sinks.iter().map(sink).collect()
    }
}
