-- Says that a node is alive.
insert into node (node_id, advertise_url, draining) values ($1, $2, $3)
on conflict (node_id) do update
   set advertise_url = excluded.advertise_url, draining = excluded.draining,
       heartbeat_at = clock_timestamp()
