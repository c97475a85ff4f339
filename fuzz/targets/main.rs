//! The entry of libFuzzer: the target that TOLLGATE_FUZZ_TARGET names, in one program, so that the
//! dependencies are linked once.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 11] = [
    ("json_bodies", tollgate_server::fuzzing::json_bodies),
    ("api_keys", tollgate_server::fuzzing::api_keys),
    ("events", tollgate_server::fuzzing::events),
    ("node_headers", tollgate_server::fuzzing::node_headers),
    ("page_forms", tollgate_server::fuzzing::page_forms),
    ("query_strings", tollgate_server::fuzzing::query_strings),
    ("settings", tollgate_server::fuzzing::settings),
    ("raw_transaction", tollgate_signer::fuzzing::raw_transaction),
    ("send_answer", tollgate_evm::fuzzing::send_answer),
    ("rpc_results", tollgate_evm::fuzzing::rpc_results),
    ("web_socket", tollgate_evm::fuzzing::web_socket),
];

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TOLLGATE_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    found.unwrap_or_else(|| panic!("TOLLGATE_FUZZ_TARGET must be {}", names.join(", "))).1
});

fuzz_target!(|data: &[u8]| CHOSEN(data));
