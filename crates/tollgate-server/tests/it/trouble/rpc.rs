//! A chain that can't be asked.
