-- A slot goes back to the pool; no row if the nonce is in a caller's hands or free already (I3).
insert into nonce_reservation (
  chain_id, submitter, nonce, state, owner_token, deadline, reason, created_at, updated_at)
values (?1, ?2, ?3, 3, zeroblob(16), db_now(), 'slot recycled', db_now(), db_now())
on conflict (chain_id, submitter, nonce) do update
  set state = 3, owner_token = excluded.owner_token, deadline = db_now(), tx_hash = null,
      reason = excluded.reason, updated_at = db_now()
  where state = 2
