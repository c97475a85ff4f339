-- Replaces how long transactions have been waited for.
insert into tx_patience (tx_id, since, resends)
select u.tx_id, u.since, u.resends
  from unnest($1::uuid[], $2::timestamptz[], $3::integer[]) as u (tx_id, since, resends)
on conflict (tx_id) do update set since = excluded.since, resends = excluded.resends
