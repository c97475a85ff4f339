//! The state of a chain's endpoints, as rows.

use tollgate_api::Endpoint;

use super::format::Badge;

/// An endpoint.
pub(crate) struct EndpointRow {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) badge: Badge,
    /// The number of blocks by which it is behind the highest of the chain's endpoints.
    pub(crate) lag: Option<String>,
}

/// All endpoints of a chain.
pub(crate) fn endpoint_rows(endpoints: &[Endpoint]) -> Vec<EndpointRow> {
    let highest = endpoints.iter().filter_map(|endpoint| endpoint.head).max();
    endpoints.iter().map(|endpoint| endpoint_row(endpoint, highest)).collect()
}

fn endpoint_row(endpoint: &Endpoint, highest: Option<u64>) -> EndpointRow {
    let badge = match (endpoint.resting, &*endpoint.check) {
        (true, _) => Badge { class: "stuck", sign: "!", words: "not answering" },
        (false, "good") => Badge { class: "confirmed", sign: "✓", words: "answers" },
        (false, "unchecked") => Badge { class: "stale", sign: "…", words: "not checked yet" },
        (false, _) => Badge { class: "stuck", sign: "!", words: "not usable" },
    };
    let lag =
        endpoint.head.zip(highest).map(|(head, highest)| highest - head).filter(|lag| *lag > 0);
    EndpointRow {
        name: endpoint.name.clone(),
        role: endpoint.role.replace('_', " "),
        badge,
        lag: lag.map(|lag| format!("{lag} behind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_behind_the_others_says_by_how_much() {
        let endpoint = |head| Endpoint {
            name: "a".to_owned(),
            role: "read_only".into(),
            check: "good".to_owned(),
            resting: false,
            head,
        };
        assert_eq!(endpoint_row(&endpoint(Some(7)), Some(9)).lag.as_deref(), Some("2 behind"));
        assert_eq!(endpoint_row(&endpoint(Some(9)), Some(9)).lag, None);
        assert_eq!(endpoint_row(&endpoint(None), Some(9)).lag, None);
    }
}
