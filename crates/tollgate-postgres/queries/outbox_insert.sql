-- Events, written with the changes that they tell of.
insert into outbox (kind, key, tx_id, body)
select u.kind, u.key, u.tx_id, u.body
  from unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[]) as u (kind, key, tx_id, body)
