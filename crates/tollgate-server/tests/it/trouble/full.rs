//! No connection is to be had.
