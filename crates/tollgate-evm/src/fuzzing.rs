//! The fuzz targets of this crate (`docs/fuzzing.md`): whatever an RPC node answers is read without a
//! panic.

pub use crate::chain::fuzzing::rpc_results;
pub use crate::endpoint::fuzzing::{send_answer, web_socket};

#[cfg(test)]
mod tests {
    #[test]
    fn send_answer_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("send_answer", super::send_answer);
    }

    #[test]
    fn rpc_results_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("rpc_results", super::rpc_results);
    }

    #[test]
    fn web_socket_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("web_socket", super::web_socket);
    }
}
