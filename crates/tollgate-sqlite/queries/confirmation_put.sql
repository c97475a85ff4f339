-- The confirmation list of a transaction, replaced as a whole.
insert into confirmation (tx_id, first_block, hashes, new_fork, updated_at)
values (?1, ?2, ?3, ?4, db_now())
on conflict (tx_id) do update
  set first_block = excluded.first_block, hashes = excluded.hashes, new_fork = excluded.new_fork,
      updated_at = db_now()
