//! Settings of the chain and of its endpoints.

use std::time::Duration;

use tollgate_evm::chain::ChainConfig;
use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_evm::{Override, Overrides};
use tollgate_model::answer::AnswerClass;
use tollgate_model::refusal::TxLimit;
use tollgate_model::{ChainId, GasPrice, Wei};

use crate::config::field::{Field, NUMBER_MAX};
use crate::config::table::{Context, EntryForm, entry_types, settings};
use crate::config::types::{Cap, EndpointUrl};
use crate::config::value::{Sourced, SourcedValue};
use crate::config::value_type::{SettingType, ValueType};

settings! {
    /// The chain.
    struct ChainSettings {
        /// Id of the chain that every endpoint must be on. The endpoints are asked in any case; a
        /// different answer stops the start.
        id: Option<Sourced<ChainId>>, range = (1, NUMBER_MAX), example = "1";
        /// RPC endpoints of the chain, at most 64. `serve` needs at least one; `dev` starts a chain
        /// of its own without.
        rpc_urls: Vec<EndpointConfig>, flag = "rpc-url", has_file = true, entries_max = 64,
            example = "[\"https://rpc.example.com\", { url = \"https://relay.example.com\", role = \"send_only\" }]";
        /// Private endpoints of the chain, for example relays to block builders, at most 16. They get the
        /// transactions with `route: "private"` and no others. The same as endpoints of `chain.rpc_urls`
        /// with the role `private`; see [private routing](private-routing.md).
        private_rpc_urls: Vec<EndpointConfig>, flag = "private-rpc-url", has_file = true, entries_max = 16,
            example = "[\"https://relay.example.com\"]";
        /// The highest price per unit of gas that a transaction offers. A transaction that needs
        /// more waits, with an alert; it does not fail.
        max_fee_per_gas: Cap<GasPrice> = "1000 gwei";
        /// The highest total fee of a transaction if it uses all of its gas. A transaction that
        /// needs more waits, with an alert; it does not fail.
        max_tx_fee: Cap<Wei> = "1 ether";
        /// The highest gas limit that the chain allows for one transaction. A create with more is
        /// refused. The margin added to an estimate stops here, or at 16777216 if nothing is set.
        max_tx_gas: TxLimit, example = "16777216",
            derived = "16777216 (EIP-7825) on Ethereum and its test networks; none elsewhere";
        /// The longest initcode of a contract creation, in bytes. A create with more is refused.
        max_initcode_bytes: TxLimit, example = "49152",
            derived = "49152 (EIP-3860) on Ethereum and its test networks; none elsewhere";
        /// The longest transaction that the chain's nodes accept into their pools, in bytes. A
        /// create with more data is refused.
        max_tx_bytes: TxLimit, example = "131072",
            derived = "131072, the limit of the pools of the common clients";
        /// Number of endpoints that a transaction is first sent to. Each resend doubles it; the
        /// other endpoints follow if none accepts it.
        fan_out: usize = "1", range = (1, 64);
        /// Interval at which the head is asked for if no WebSocket announces it.
        poll_interval: Duration = "1s", min = "10ms";
        /// The longest time for one read, over all endpoints that are tried.
        read_deadline: Duration = "10s", min = "100ms";
        /// The longest time for one send, over all endpoints that are tried.
        send_deadline: Duration = "10s", min = "100ms";
        /// Wait for the first endpoints of a send before the others get it too. Must be
        /// below `chain.send_deadline`.
        send_patience: Duration = "2s", min = "10ms";
        /// Time for which an endpoint may lack a block that another endpoint has before it counts as
        /// lagging.
        lag_grace: Duration = "5s";
        /// Time for which the last head is kept after no healthy endpoint reports it.
        head_hold: Duration = "30s";
        /// Time for which a fee quote is reused before the endpoints are asked again.
        fee_cache: Duration = "2s";
        /// Phrases in send answers that mean something else on this chain than elsewhere; see
        /// [send answers](errors/send-answers.md) for the classes.
        answers: Overrides,
            example = "[{ phrase = \"mempool is taking a nap\", class = \"pool_full\" }]";
    }

    fields of EndpointConfig {
        /// URL of the endpoint. May hold user, password and a key.
        url: EndpointUrl;
        /// Use of the endpoint: `send_only` for a relay that only takes transactions,
        /// `read_only` for an archive that only answers reads, `private` for a relay that only takes
        /// private transactions.
        role: Role = "full";
        /// The longest time for one call, including the wait for a free slot of `concurrency`.
        timeout: Duration = "5s", min = "1ms";
        /// The longest time to establish a connection.
        connect_timeout: Duration = "3s", min = "1ms";
        /// Calls in flight at once; further calls wait.
        concurrency: usize = "32", range = (1, 10_000);
        /// The longest response, in bytes. A longer one is an error of the endpoint.
        response_bytes_max: usize = "67108864", range = (1_024, 1 << 30);
        ..EndpointConfig::new("")
    }

    fields of Override {
        /// The phrase, in any letter case. `..` stands for a few words.
        phrase: String;
        /// Class of an answer with this phrase.
        class: AnswerClass;
    }
}

entry_types! {
    EndpointConfig: EntryForm {
        noun: "an endpoint",
        list_words: "list of endpoints",
        example: "{ url = \"https://…\", role = \"full\" }",
        may_be_text: true,
    };
    Override: EntryForm {
        noun: "an answer",
        list_words: "list of `{ phrase, class }`",
        example: "{ phrase = \"…\", class = \"…\" }",
        may_be_text: false,
    };
}

impl SettingType for Overrides {
    const TYPE: ValueType = Vec::<Override>::TYPE;

    fn read(value: &SourcedValue, field: &Field, context: &mut Context<'_>) -> Option<Self> {
        let list = Vec::read(value, field, context)?;
        Self::new(list).map_err(|bad| context.refuse(&value.source, bad.to_string())).ok()
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

impl ChainSettings {
    /// All endpoints, each with its role.
    pub(crate) fn endpoints(&self) -> Vec<EndpointConfig> {
        let private = self.private_rpc_urls.iter().cloned();
        let private = private.map(|endpoint| EndpointConfig { role: Role::Private, ..endpoint });
        self.rpc_urls.iter().cloned().chain(private).collect()
    }

    pub(crate) fn chain_config(&self) -> ChainConfig {
        ChainConfig {
            chain_id: self.id.as_ref().map(|id| id.value),
            poll_interval: self.poll_interval,
            read_deadline: self.read_deadline,
            send_deadline: self.send_deadline,
            send_patience: self.send_patience,
            fan_out: self.fan_out,
            lag_grace: self.lag_grace,
            head_hold: self.head_hold,
            fee_cache: self.fee_cache,
            overrides: self.answers.clone(),
            ..ChainConfig::new(self.endpoints())
        }
    }
}
