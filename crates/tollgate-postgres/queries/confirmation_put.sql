-- Replaces the confirmation lists of transactions as a whole.
insert into confirmation (tx_id, first_block, hashes, new_fork)
select u.tx_id, u.first_block, u.hashes, u.new_fork
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::boolean[])
       as u (tx_id, first_block, hashes, new_fork)
on conflict (tx_id) do update
   set first_block = excluded.first_block, hashes = excluded.hashes,
       new_fork = excluded.new_fork, updated_at = clock_timestamp()
