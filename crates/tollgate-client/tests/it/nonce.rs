//! `with_nonce` against a real node over HTTP, on a dev chain.

mod crashes;
mod example;
mod outcomes;
mod site;
