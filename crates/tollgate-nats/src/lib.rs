//! Publishes messages to a stream of NATS JetStream (`docs/events.md`).
//!
//! One call is one try, which succeeds only if the stream says that it has stored the message. Keeps one connection,
//! which mends itself. Never repeats a message, keeps none, and creates no stream.

mod ack;
mod publisher;

pub use publisher::{BadNats, NatsMessage, NatsOptions, NatsPublisher, NotStored};
