//! The faults of one endpoint: rules, a seeded plan, and the decision for each call.
//!
//! Pure: decides, the server carries it out. Time is an argument; chance follows from the seed and
//! the order of the calls.

mod decide;
mod plan;

pub use decide::{CallFaults, Faults};
pub use plan::{BlockFault, Fault, FaultPlan, FaultRule, Loss, ReorgFault};
