-- Says that a node is alive, and for which chain.
insert into node (node_id, advertise_url, draining, chain_id) values ($1, $2, $3, $4)
on conflict (node_id) do update
   set advertise_url = excluded.advertise_url, draining = excluded.draining,
       chain_id = excluded.chain_id, heartbeat_at = clock_timestamp()
