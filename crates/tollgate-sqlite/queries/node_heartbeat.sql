-- A node is alive, works on chain ?4, and serves the accounts of set ?5.
insert into node (node_id, advertise_url, draining, chain_id, serves, started_at, heartbeat_at)
values (?1, ?2, ?3, ?4, ?5, db_now(), db_now())
on conflict (node_id) do update
  set advertise_url = excluded.advertise_url, draining = excluded.draining,
      chain_id = excluded.chain_id, serves = excluded.serves, heartbeat_at = db_now()
