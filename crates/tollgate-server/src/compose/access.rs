//! Access of callers, as a node decides about it at its start.

use tollgate_model::port::Store;
use tollgate_model::port::clock::Clock;
use tollgate_server::api_keys::KeyAdmin;

use crate::clock::SystemClock;
use crate::failure::Failure;

/// Access of callers to the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Every call but health checks and documents needs an API key.
    ApiKeys,
    /// Everybody who can reach the node may do everything.
    Open,
}

/// The number of keys that callers can use now. Without any, nobody could use the node.
pub(super) async fn usable_keys(store: &dyn Store) -> Result<usize, Failure> {
    let now = SystemClock.now();
    let keys = KeyAdmin::of_database(store, now).all().await?;
    match keys.iter().filter(|key| key.check_usable(now).is_ok()).count() {
        0 => Err("no usable API key is in the database: make one with `tollgate api-key new --name NAME --role admin` \
                  and the same --config or --database-url; or start with --no-auth, for tests on loopback"
            .into()),
        usable => Ok(usable),
    }
}
