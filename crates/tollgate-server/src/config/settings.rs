//! All settings of a node: one typed table, by section.
//!
//! Every setting is declared here once, with its type, default, limits, flag, variables and
//! documentation. A setting that has no effect is not declared.

mod alerts;
mod audit;
mod chain;
mod database;
mod events;
mod node;
mod retention;
mod stuck;
mod submitter;
mod tls;
mod top_up;

pub(crate) use alerts::AlertSettings;
pub(crate) use audit::AuditSettings;
pub(crate) use database::DatabaseSettings;
pub(crate) use events::{EventSettings, NatsSettings, WebhookSettings};
pub(crate) use node::{ChainEntry, TraceSettings};
pub(crate) use retention::RetentionSettings;
pub(crate) use submitter::KeySettings;
pub(crate) use top_up::TopUpEntry;

use super::field::Field;
use super::load::Values;
use super::table::{Table, TableReader};
use super::value::Problem;

/// Lists the sections of the file, in the order of the documents.
macro_rules! sections {
    ($($name:ident: $table:ty = $path:literal;)+) => {
        /// Every setting, typed.
        #[derive(Clone)]
        pub(crate) struct Settings { $(pub(crate) $name: $table,)+ }

        /// The path of each section and its settings. The first is the top of the file.
        pub(crate) const SECTIONS: &[(&str, &[Field])] = &[$(($path, <$table>::FIELDS),)+];

        impl Settings {
            /// Reads every section. What can't be used is replaced by its default, and `problems`
            /// says why.
            pub(super) fn read(values: &Values, problems: &mut Vec<Problem>) -> Option<Self> {
                $(let $name = <$table>::read(&mut TableReader::of_section($path, values, problems));)+
                Some(Self { $($name: $name?,)+ })
            }
        }
    };
}

sections! {
    node: node::NodeSettings = "";
    database: DatabaseSettings = "database";
    chain: chain::ChainSettings = "chain";
    keys: KeySettings = "keys";
    submitter: submitter::SubmitterSettings = "submitter";
    nonce: submitter::NonceSettings = "nonce";
    strict: submitter::StrictSettings = "strict";
    lease: submitter::LeaseSettings = "lease";
    writer: submitter::WriterSettings = "writer";
    resubmit: stuck::ResubmitSettings = "resubmit";
    timeout: stuck::TimeoutSettings = "timeout";
    grey_zone: stuck::GreyZoneSettings = "grey_zone";
    private: stuck::PrivateSettings = "private";
    gasbump: stuck::GasBumpSettings = "gasbump";
    cancel: stuck::CancelSettings = "cancel";
    diagnose: stuck::DiagnoseSettings = "mempool.diagnose";
    stuck: stuck::StuckSettings = "stuck";
    hook: stuck::HookSettings = "stuck.hook";
    reconcile: stuck::ReconcileSettings = "reconcile";
    reservations: submitter::ReservationSettings = "reservations";
    confirmations: node::ConfirmationSettings = "confirmations";
    retention: RetentionSettings = "retention";
    events: EventSettings = "events";
    webhook: WebhookSettings = "events.webhook";
    nats: NatsSettings = "events.nats";
    alerts: AlertSettings = "alerts";
    audit: AuditSettings = "audit";
    http: node::HttpSettings = "http";
    tls: tls::TlsSettings = "tls";
    operators: tls::OperatorSettings = "operators";
    cluster: tls::ClusterSettings = "cluster";
    startup: node::StartupSettings = "startup";
    drain: node::DrainSettings = "drain";
    metrics: node::MetricsSettings = "metrics";
    traces: node::TraceSettings = "traces";
    log: node::LogSettings = "log";
}
