//! Alerts to people (`docs/operations/alerts.md`).
//!
//! [`AlertCollector`] takes the alerts of engines into the store without making anybody wait;
//! [`AlertDelivery`] claims the notices about them (I11) and sends each to its sink. A sink that fails or is
//! slow delays no other sink and no transaction. Decides no alert: that is `tollgate_model::alert`.

mod collect;
mod deliver;
mod message;
mod send;
mod sink;

pub use collect::{AlertCollector, OnNewAlert};
pub use deliver::{AlertCounts, AlertDelivery};
pub use send::{SendFailure, SinkSender, test_notice};
pub use sink::{BadSink, Sink, SinkKind, SinkOptions};
