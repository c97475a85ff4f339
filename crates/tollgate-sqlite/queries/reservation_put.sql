-- A nonce goes into a caller's hands for ?5 microseconds: new, or from the pool of free ones.
insert into nonce_reservation (
  chain_id, submitter, nonce, state, owner_token, deadline, created_at, updated_at)
values (?1, ?2, ?3, 1, ?4, db_now() + ?5, db_now(), db_now())
on conflict (chain_id, submitter, nonce) do update
  set state = 1, owner_token = excluded.owner_token, deadline = excluded.deadline, tx_hash = null,
      reason = null, updated_at = db_now()
  where state = 3
returning nonce, state, owner_token, deadline, tx_hash, reason
