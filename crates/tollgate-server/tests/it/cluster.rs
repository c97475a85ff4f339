//! Several nodes on one database: any of them takes any request.

mod forwarding;
mod seats;
