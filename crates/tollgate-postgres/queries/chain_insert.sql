-- Makes a chain known, once.
insert into chain (chain_id, genesis) values ($1, $2) on conflict do nothing
