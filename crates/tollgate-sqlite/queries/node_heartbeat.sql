-- A node is alive.
insert into node (node_id, advertise_url, draining, started_at, heartbeat_at)
values (?1, ?2, ?3, db_now(), db_now())
on conflict (node_id) do update
  set advertise_url = excluded.advertise_url, draining = excluded.draining,
      heartbeat_at = db_now()
