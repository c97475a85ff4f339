-- A nonce below the cursor (?4) that nobody has goes to the pool; no row if somebody has it (I3).
insert into nonce_reservation (
  chain_id, submitter, nonce, state, owner_token, deadline, reason, created_at, updated_at)
select ?1, ?2, ?3, 3, zeroblob(16), db_now(), ?5, db_now(), db_now()
 where ?3 < ?4
   and not exists (select 1 from managed_tx t
                    where t.chain_id = ?1 and t.submitter = ?2 and t.nonce = ?3)
on conflict (chain_id, submitter, nonce) do nothing
returning nonce
