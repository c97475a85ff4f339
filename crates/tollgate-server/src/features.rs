//! The cargo features of this binary, and the refusal to serve with those that are for tests.
//!
//! `cargo build --workspace` gives the server the features that tests enable. Such a binary works, but
//! contains points at which a test can kill it.

use std::sync::LazyLock;

use crate::failure::Failure;

/// Allows `serve` in a binary with test features. Set by tests.
const ALLOW: &str = "TOLLGATE_ALLOW_TEST_FEATURES";

/// Events can go to NATS JetStream.
pub(crate) const HAS_NATS: bool = cfg!(feature = "nats");

/// Spans can go to a collector.
pub(crate) const HAS_OTLP: bool = cfg!(feature = "otlp");

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let listed = |features: Vec<&str>| match features.as_slice() {
        [] => "none".to_owned(),
        features => features.join(", "),
    };
    let features = listed(
        [(HAS_NATS, "nats"), (HAS_OTLP, "otlp")]
            .into_iter()
            .filter_map(|(has, it)| has.then_some(it))
            .collect(),
    );
    let test_features = listed(test_features());
    let version = env!("CARGO_PKG_VERSION");
    format!("{version}\nfeatures: {features}\ntest features: {test_features}")
});

/// The version and the features, for `--version`.
pub(crate) fn version() -> &'static str {
    &VERSION
}

/// Refuses to serve with test features, unless the environment allows them.
pub(crate) fn check_for_serving() -> Result<(), Failure> {
    let features = test_features();
    if features.is_empty() || std::env::var_os(ALLOW).is_some() {
        return Ok(());
    }
    Err(format!(
        "this binary was built with test features ({}) and does not serve: build it with \
         `cargo build --release -p tollgate-server`",
        features.join(", ")
    )
    .into())
}

fn test_features() -> Vec<&'static str> {
    if cfg!(feature = "failpoints") { vec!["failpoints"] } else { Vec::new() }
}
