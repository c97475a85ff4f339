-- Says that a node is alive, for which chain, and which accounts it serves.
insert into node (node_id, advertise_url, draining, chain_id, serves) values ($1, $2, $3, $4, $5)
on conflict (node_id) do update
   set advertise_url = excluded.advertise_url, draining = excluded.draining,
       chain_id = excluded.chain_id, serves = excluded.serves, heartbeat_at = clock_timestamp()
