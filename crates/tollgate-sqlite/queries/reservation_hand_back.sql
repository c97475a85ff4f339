-- A nonce below the cursor (?4) goes to the pool by an operator's word: one that nobody has, that is there already, or, if ?6, that a caller said to use; no row if it does not. A managed transaction keeps its slot (I3).
insert into nonce_reservation (
  chain_id, submitter, nonce, state, owner_token, deadline, reason, created_at, updated_at)
select ?1, ?2, ?3, 3, zeroblob(16), db_now(), ?5, db_now(), db_now()
 where ?3 < ?4
   and not exists (select 1 from managed_tx t
                    where t.chain_id = ?1 and t.submitter = ?2 and t.nonce = ?3)
on conflict (chain_id, submitter, nonce) do update
   set state = 3, owner_token = excluded.owner_token, deadline = excluded.deadline,
       tx_hash = null, reason = excluded.reason, updated_at = excluded.updated_at
 where nonce_reservation.state = 3 or ?6 and nonce_reservation.state = 2
returning nonce
