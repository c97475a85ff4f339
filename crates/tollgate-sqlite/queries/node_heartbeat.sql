-- A node is alive, and works on chain ?4.
insert into node (node_id, advertise_url, draining, chain_id, started_at, heartbeat_at)
values (?1, ?2, ?3, ?4, db_now(), db_now())
on conflict (node_id) do update
  set advertise_url = excluded.advertise_url, draining = excluded.draining,
      chain_id = excluded.chain_id, heartbeat_at = db_now()
