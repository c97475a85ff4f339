//! The settings of each of several chains: those of the node, with what the chain's entry changes.

use tollgate_model::ChainId;
use tollgate_model::refusal::TxLimit;

use super::settings::{ChainEntry, Settings};
use super::value::{Source, Sourced};

/// A chain of `[[chains]]`.
#[derive(Clone)]
pub(crate) struct ConfiguredChain {
    pub(crate) id: ChainId,
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// The settings that accounts may change and this entry sets.
    pub(crate) sets: Vec<&'static str>,
}

impl Settings {
    /// The chains of a node that serves several; empty for a node that serves `[chain]`.
    pub(crate) fn chains(&self) -> Vec<ConfiguredChain> {
        self.node.chains.iter().map(|entry| self.with_entry(entry)).collect()
    }

    fn with_entry(&self, entry: &ChainEntry) -> ConfiguredChain {
        let mut settings = self.clone();
        let (node, chain, submitter) =
            (&mut settings.node, &mut settings.chain, &mut settings.submitter);
        chain.id = Some(Sourced { value: entry.id, source: Source::Default });
        chain.rpc_urls.clone_from(&entry.rpc_urls);
        chain.private_rpc_urls.clear();
        replace(&mut node.finality, entry.finality);
        replace(&mut submitter.mode, entry.mode);
        replace(&mut submitter.window, entry.window);
        replace(&mut submitter.unfinal_max, entry.unfinal_max);
        replace(&mut chain.max_fee_per_gas, entry.max_fee_per_gas);
        replace(&mut chain.max_tx_fee, entry.max_tx_fee);
        for (limit, own) in [
            (&mut chain.max_tx_gas, entry.max_tx_gas),
            (&mut chain.max_initcode_bytes, entry.max_initcode_bytes),
            (&mut chain.max_tx_bytes, entry.max_tx_bytes),
        ] {
            replace(limit, Some(own).filter(|own| *own != TxLimit::ByChain));
        }
        replace(&mut chain.fan_out, entry.fan_out);
        replace(&mut chain.poll_interval, entry.poll_interval);
        replace(&mut chain.lag_grace, entry.lag_grace);
        if entry.answers != Default::default() {
            chain.answers = entry.answers.clone();
        }
        let sets = [
            ("window", entry.window.is_some()),
            ("max_fee_per_gas", entry.max_fee_per_gas.is_some()),
            ("max_tx_fee", entry.max_tx_fee.is_some()),
        ];
        let sets = sets.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
        ConfiguredChain { id: entry.id, name: entry.name.clone(), settings, sets }
    }
}

fn replace<T>(setting: &mut T, by: Option<T>) {
    if let Some(by) = by {
        *setting = by;
    }
}
