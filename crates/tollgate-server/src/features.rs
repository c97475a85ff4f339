//! The cargo features of this binary, and the refusal to serve with those that are for tests.
//!
//! `cargo build --workspace` gives the server the features that tests enable. Such a binary works, but
//! contains points at which a test can kill it.

use std::sync::LazyLock;

use crate::failure::Failure;

/// Allows `serve` in a binary with test features. Set by tests.
const ALLOW: &str = "TOLLGATE_ALLOW_TEST_FEATURES";

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = match test_features().as_slice() {
        [] => "none".to_owned(),
        features => features.join(", "),
    };
    format!("{}\ntest features: {features}", env!("CARGO_PKG_VERSION"))
});

/// The version and the test features, for `--version`.
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
