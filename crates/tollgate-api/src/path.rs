//! The paths of the API, for those who call it.

/// Creates and lists.
pub const TX: &str = "/api/v1/tx";
/// Batches of creates.
pub const BATCH: &str = "/api/v1/tx/batch";
/// A transaction by its request id.
pub const BY_REQUEST: &str = "/api/v1/tx/by-request";
/// A transaction by the hash of one of its attempts.
pub const BY_HASH: &str = "/api/v1/tx/by-hash";
/// The fees of a period.
pub const COSTS: &str = "/api/v1/reports/costs";
/// The feed of completions.
pub const COMPLETIONS: &str = "/api/v1/tx/completions";
/// The log of events.
pub const EVENTS: &str = "/api/v1/events";
/// The submitters.
pub const SUBMITTERS: &str = "/api/v1/submitters";

/// The account pools.
pub const POOLS: &str = "/api/v1/pools";

/// The chains of a node.
pub const CHAINS: &str = "/api/v1/chains";

/// The nodes that share the database.
pub const NODES: &str = "/api/v1/nodes";

/// The API keys.
pub const API_KEYS: &str = "/api/v1/api-keys";

/// The audit log.
pub const AUDIT: &str = "/api/v1/audit";

/// One transaction.
pub fn tx(tx_id: &str) -> String {
    format!("{TX}/{}", escaped(tx_id))
}

/// One submitter.
pub fn submitter(address: &str) -> String {
    format!("{SUBMITTERS}/{}", escaped(address))
}

/// The nonces of one submitter that callers hold.
pub fn nonces(address: &str) -> String {
    format!("{}/nonces", submitter(address))
}

/// One account pool.
pub fn pool(name: &str) -> String {
    format!("{POOLS}/{}", escaped(name))
}

/// A path with the parameters that have a value.
pub fn with_query(path: &str, params: &[(&str, Option<String>)]) -> String {
    let given: Vec<String> = params
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|v| format!("{name}={}", escaped(v))))
        .collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

/// Text as a part of a path or a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped += &format!("%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_parameters_are_escaped_and_others_left_out() {
        let params = [("a", Some("x y&z=é".to_owned())), ("b", None), ("c", Some("1".to_owned()))];
        assert_eq!(with_query("/p", &params), "/p?a=x%20y%26z%3D%C3%A9&c=1");
        assert_eq!(with_query("/p", &[("b", None)]), "/p");
        assert_eq!(tx("../submitters"), "/api/v1/tx/..%2Fsubmitters");
    }
}
