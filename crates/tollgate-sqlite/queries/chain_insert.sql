-- Makes a chain known; one that is known stays as it is.
insert into chain (chain_id, genesis, registered_at) values (?1, ?2, db_now())
on conflict (chain_id) do nothing
