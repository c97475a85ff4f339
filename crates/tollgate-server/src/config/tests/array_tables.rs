//! A section as a list of tables: what several chains in one node need.

use tollgate_evm::endpoint::EndpointConfig;
use tollgate_model::ChainId;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::Mode;

use crate::config::field::NUMBER_MAX;
use crate::config::file;
use crate::config::load::Layer;
use crate::config::table::{EntryForm, Table, TableReader, entry_types, settings};
use crate::config::value::{Problem, Value};

settings! {
    /// One of several chains.
    struct ChainEntry {
        /// Id.
        id: ChainId, range = (1, NUMBER_MAX);
        /// Endpoints.
        endpoints: Vec<EndpointConfig>;
        /// Finality.
        finality: FinalityRule = "confirmations:20";
        /// Mode.
        mode: Mode = "pipelined";
        /// Window.
        window: u32 = "64", range = (1, 100_000);
    }

    /// The top of the file.
    struct Node {
        /// Chains.
        chains: Vec<ChainEntry>;
    }
}

entry_types! {
    ChainEntry: EntryForm {
        noun: "a chain",
        list_words: "list of chains",
        example: "{ id = 1, endpoints = [\"https://…\"] }",
        may_be_text: false,
    };
}

/// Reads `[[chains]]` from TOML. The product has no such setting yet, so that the text is given as
/// the list of one that it has.
fn read(text: &str) -> (Vec<ChainEntry>, Vec<String>) {
    let parsed = file::parse("t.toml", &text.replace("[[chains", "[[stuck.rules"));
    let values: Layer = parsed.layer.into_values().map(|value| ("chains", value)).collect();
    assert!(matches!(values["chains"].value, Value::List(_)));
    let mut problems = parsed.problems;
    let node = Node::read(&mut TableReader::of_section("", &values.into(), &mut problems));
    problems.sort();
    (node.unwrap().chains, problems.iter().map(Problem::to_string).collect())
}

#[test]
fn entries_are_read_with_their_own_lists_of_tables_and_defaults() {
    let (chains, problems) = read(
        "[[chains]]\nid = 1\nendpoints = [\"https://a\", { url = \"https://b\", timeout = \"1s\" }]\n\
         finality = \"finalized\"\n\n[[chains]]\nid = 10\nmode = \"strict\"\nwindow = 7\n\
         [[chains.endpoints]]\nurl = \"wss://c\"\n[[chains.endpoints]]\nurl = \"wss://d\"\n",
    );
    assert_eq!(problems, [""; 0]);
    let ids: Vec<u64> = chains.iter().map(|chain| chain.id.get()).collect();
    let urls: Vec<Vec<&str>> = chains
        .iter()
        .map(|chain| chain.endpoints.iter().map(|end| end.url.as_str()).collect())
        .collect();
    assert_eq!(
        (ids, urls),
        (vec![1, 10], vec![vec!["https://a", "https://b"], vec!["wss://c", "wss://d"]])
    );
    let rules: Vec<(FinalityRule, Mode, u32)> =
        chains.iter().map(|chain| (chain.finality, chain.mode, chain.window)).collect();
    assert_eq!(
        rules,
        [
            (FinalityRule::Finalized, Mode::Pipelined, 64),
            (FinalityRule::Confirmations(20), Mode::Strict, 7)
        ]
    );
}

#[test]
fn problems_inside_entries_name_the_path_and_the_place() {
    let (chains, problems) = read(
        "[[chains]]\nid = 0\nwindow = \"many\"\n\n[[chains]]\nid = 10\nmod = \"strict\"\n\
         [[chains.endpoints]]\nurl = \"wss://c\"\nrole = \"both\"\n\n[[chains]]\nmode = \"strict\"\n",
    );
    assert!(chains.is_empty());
    assert_eq!(
        problems,
        [
            "t.toml:2:6: chains: id \"0\" must be a whole number, at least 1",
            "t.toml:3:10: chains: window \"many\" must be a whole number from 1 to 100000",
            "t.toml:7:1: chains: mod is unknown; a chain has id, endpoints, finality, mode, window; \
             did you mean mode?",
            "t.toml:10:8: chains.endpoints: role \"both\" must be full or send_only or read_only or private",
            "t.toml:12:1: chains: a chain needs an id",
        ]
    );
}
