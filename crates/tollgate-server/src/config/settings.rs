//! All settings of a node: one typed table, by section.
//!
//! Every setting is declared here once, with its type, default, limits, flag, variables and
//! documentation. A setting that has no effect is not declared.

mod chain;
mod database;
mod node;
mod stuck;
mod submitter;

pub(crate) use chain::ChainSettings;
pub(crate) use database::DatabaseSettings;
pub(crate) use node::{
    ChainEntry, DrainSettings, HttpSettings, LogSettings, NodeSettings, StartupSettings,
};
pub(crate) use stuck::{
    CancelSettings, DiagnoseSettings, GasBumpSettings, GreyZoneSettings, HookSettings,
    ReconcileSettings, ResubmitSettings, StuckSettings, TimeoutSettings,
};
pub(crate) use submitter::{
    KeySettings, LeaseSettings, NonceSettings, ReservationSettings, StrictSettings,
    SubmitterSettings, WriterSettings,
};

use super::field::Field;
use super::load::Values;
use super::table::{Table, TableReader};
use super::value::Problem;

/// Lists the sections of the file, in the order of the documents.
macro_rules! sections {
    ($($name:ident: $table:ty = $path:literal;)+) => {
        /// Every setting, typed.
        #[derive(Clone)]
        pub(crate) struct Settings { $(pub(crate) $name: $table,)+ }

        /// The path of each section and its settings. The first is the top of the file.
        pub(crate) const SECTIONS: &[(&str, &[Field])] = &[$(($path, <$table>::FIELDS),)+];

        impl Settings {
            /// Reads every section. What can't be used is replaced by its default, and `problems`
            /// says why.
            pub(super) fn read(values: &Values, problems: &mut Vec<Problem>) -> Option<Self> {
                $(let $name = <$table>::read(&mut TableReader::of_section($path, values, problems));)+
                Some(Self { $($name: $name?,)+ })
            }
        }
    };
}

sections! {
    node: NodeSettings = "";
    database: DatabaseSettings = "database";
    chain: ChainSettings = "chain";
    keys: KeySettings = "keys";
    submitter: SubmitterSettings = "submitter";
    nonce: NonceSettings = "nonce";
    strict: StrictSettings = "strict";
    lease: LeaseSettings = "lease";
    writer: WriterSettings = "writer";
    resubmit: ResubmitSettings = "resubmit";
    timeout: TimeoutSettings = "timeout";
    grey_zone: GreyZoneSettings = "grey_zone";
    gasbump: GasBumpSettings = "gasbump";
    cancel: CancelSettings = "cancel";
    diagnose: DiagnoseSettings = "mempool.diagnose";
    stuck: StuckSettings = "stuck";
    hook: HookSettings = "stuck.hook";
    reconcile: ReconcileSettings = "reconcile";
    reservations: ReservationSettings = "reservations";
    http: HttpSettings = "http";
    startup: StartupSettings = "startup";
    drain: DrainSettings = "drain";
    log: LogSettings = "log";
}
