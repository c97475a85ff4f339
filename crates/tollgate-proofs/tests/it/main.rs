//! The searches. Those of the protocol as built must find nothing, and must have had a chance to;
//! those of the broken variants must find what is broken.

mod as_built;
mod broken;
mod stories;
mod symmetry;
