//! The searches. The protocol as built must pass, with every sighting made; each broken variant must
//! fail.

mod as_built;
mod broken;
mod paths;
mod symmetry;
