//! Settings of the process: its address, its HTTP server, start, stop and logs.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate_evm::Overrides;
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::Mode;
use tollgate_model::refusal::TxLimit;
use tollgate_model::{ChainId, GasPrice, Text, Wei};
use tollgate_server::ConnectionLimits;

use crate::config::field::NUMBER_MAX;
use crate::config::table::{EntryForm, entry_types, settings};
use crate::config::types::{Cap, HookUrl, HostName, LogFormat, NodeName, WebOrigin};

use super::top_up::TopUpEntry;

settings! {
    /// The top of the file.
    struct NodeSettings {
        /// Address and port that the API listens on.
        listen: SocketAddr = "127.0.0.1:8550", flag = "listen";
        /// URL under which the other nodes reach this one, at most 500 bytes.
        advertise_url: Option<Text<500>>, flag = "advertise-url",
            derived = "`http://`, or `https://` with TLS, and `listen`; with the node's name if it listens on \
                       all interfaces",
            example = "\"http://tollgate-1.internal:8550\"";
        /// Name of this node in logs and in the table of nodes. Each start adds a new id to it, so
        /// that a restarted node is a new owner.
        node_name: NodeName, flag = "node-name", derived = "the host's name",
            example = "\"tollgate-1\"";
        /// Serve without API keys, for tests and private networks. `dev` never asks for keys.
        no_auth: bool = "false", flag = "no-auth";
        /// With `no_auth`, allow an address that is not loopback. Whoever can reach the address can
        /// spend from the accounts.
        allow_unauthenticated_network: bool = "false", flag = "allow-unauthenticated-network";
        /// When a receipt is final: after N confirmations, the block of the receipt included, or
        /// when the chain's `safe` or `finalized` block reaches it. Use `confirmations:1` on a chain
        /// that makes no empty blocks; otherwise nothing is final until later blocks exist.
        finality: FinalityRule = "confirmations:20", flag = "finality";
        /// The chains of a node that serves several, in place of `[chain]`, at most 100. Settings
        /// that an entry leaves out are those of the node. Usually written as `[[chains]]`, see
        /// [chains](chains.md).
        chains: Vec<ChainEntry>, entries_max = 100,
            example = "[{ name = \"base\", id = 8453, rpc_urls = [\"https://base.example.com\"] }]";
        /// Accounts with a floor of their own, and those that are paid from a funding account when they are below
        /// it, at most 100. Usually written as `[[topup]]`, see [top-ups](operations/top-up.md). Give all nodes
        /// the same.
        topup: Vec<TopUpEntry>, entries_max = 100,
            example = "[{ account = \"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\", floor = \"0.1 ether\" }]";
    }

    /// One of several chains.
    struct ChainEntry {
        /// Name of the chain in logs and lists.
        name: String;
        /// Id of the chain that every endpoint must be on.
        id: ChainId, range = (1, NUMBER_MAX);
        /// RPC endpoints of the chain, as in `chain.rpc_urls`.
        rpc_urls: Vec<EndpointConfig>, entries_max = 64;
        /// As the node's `finality`.
        finality: Option<FinalityRule>;
        /// As `submitter.mode`.
        mode: Option<Mode>;
        /// As `submitter.window`.
        window: Option<u32>, range = (1, 100_000);
        /// As `submitter.unfinal_max`.
        unfinal_max: Option<u32>, range = (1, 1_000_000);
        /// As `chain.max_fee_per_gas`.
        max_fee_per_gas: Option<Cap<GasPrice>>;
        /// As `chain.max_tx_fee`.
        max_tx_fee: Option<Cap<Wei>>;
        /// As `chain.max_tx_gas`.
        max_tx_gas: TxLimit;
        /// As `chain.max_initcode_bytes`.
        max_initcode_bytes: TxLimit;
        /// As `chain.max_tx_bytes`.
        max_tx_bytes: TxLimit;
        /// As `chain.fan_out`.
        fan_out: Option<usize>, range = (1, 64);
        /// As `chain.poll_interval`.
        poll_interval: Option<Duration>, min = "10ms";
        /// As `chain.lag_grace`.
        lag_grace: Option<Duration>;
        /// As `chain.answers`.
        answers: Overrides;
    }

    /// Confirmations in the API.
    struct ConfirmationSettings {
        /// Show callers the blocks on top of a transaction (`confirmations`), and whether it was in a
        /// block that left the chain (`newFork`).
        expose: bool = "false";
    }

    /// The HTTP server.
    struct HttpSettings {
        /// Names under which the API is called, without a port, besides loopback and the host of
        /// `advertise_url`. Requests with any other name in the `Host` header are refused; IP
        /// addresses are accepted unless the node listens on loopback.
        allowed_hosts: Vec<HostName>, example = "[\"tollgate.example.com\"]";
        /// Origins of web pages that may call the API besides its own, for example that of a TLS
        /// proxy in front of it. No CORS headers are sent.
        allowed_origins: Vec<WebOrigin>, example = "[\"https://tollgate.example.com\"]";
        /// Connections served at once. Lowered at the start to what the limit on open files allows.
        /// Above it, 32 more connections are accepted for `/livez` and `/readyz` only.
        max_connections: usize = "4096", range = (1, 1_000_000);
        /// Connections served at once for one address, or one /64 network of IPv6, so that no address takes
        /// all. Raise it to `http.max_connections` if all callers come through one proxy.
        max_connections_per_address: Option<usize>, range = (1, 1_000_000),
            derived = "three quarters of `http.max_connections`", example = "3072";
        /// The longest time for the head of a new connection's first request, the TLS handshake included;
        /// then the connection is closed.
        header_timeout: Duration = "10s", min = "10ms";
        /// The longest time for the body of a request, however slowly it comes; then the request is refused
        /// with `request_timeout`.
        body_timeout: Duration = "10s", min = "10ms";
        /// The longest idle time of a connection after a response; then it is closed. Keep it above
        /// the 50 s for which nodes keep idle connections to each other.
        idle_timeout: Duration = "75s", min = "10ms";
    }

    /// The start.
    struct StartupSettings {
        /// The longest wait of a start for a PostgreSQL server or a chain that does not answer; then it
        /// fails. `0s` fails at once.
        wait: Duration = "10s";
    }

    /// The stop.
    struct DrainSettings {
        /// Time for which a stopping node keeps forwarding requests to the other nodes, so that load
        /// balancers notice. Without another node it stops at once.
        wait: Duration = "2s";
    }

    /// Metrics, see [metrics](metrics.md).
    struct MetricsSettings {
        /// Address and port for `/metrics` alone. Without it, `/metrics` is on the API's address. Nothing can be
        /// changed there, so no key is asked for.
        listen: Option<SocketAddr>, example = "\"127.0.0.1:9550\"";
        /// Show depth, age and balance of each account, with its address as a label, for up to 1,000 accounts.
        per_submitter: bool = "false";
        /// Interval at which the balances of up to 1,000 accounts are read, for `tollgate_balance_lowest_ether` and
        /// `tollgate_balance_left_seconds`. `0s` reads none.
        balance_interval: Duration = "1m";
    }

    /// Spans for a tracing system, see [logs](logs.md#spans).
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "checked, though nothing is built that reads it"))]
    struct TraceSettings {
        /// URL of a collector that takes OTLP over HTTP; spans are posted to its `/v1/traces`. In a binary that was
        /// built with the feature `otlp`.
        otlp_url: Option<HookUrl>, example = "\"http://127.0.0.1:4318\"";
        /// Requests without a `traceparent` that begin a trace, of 100. A caller's own header decides about its trace.
        sample_percent: u32 = "100", range = (0, 100), needs = "traces.otlp_url";
    }

    /// Logs.
    struct LogSettings {
        /// Format of the logs, which go to stderr. `RUST_LOG` sets the level.
        format: LogFormat = "pretty", flag = "log";
    }
}

entry_types! {
    ChainEntry: EntryForm {
        noun: "a chain",
        list_words: "list of chains",
        example: "{ name = \"base\", id = 8453, rpc_urls = [\"https://…\"] }",
        may_be_text: false,
    };
}

impl HttpSettings {
    pub(crate) fn connection_limits(&self) -> ConnectionLimits {
        ConnectionLimits {
            max: self.max_connections,
            max_per_address: self.max_connections_per_address,
            header_timeout: self.header_timeout,
            body_timeout: self.body_timeout,
            idle_timeout: self.idle_timeout,
        }
    }
}
