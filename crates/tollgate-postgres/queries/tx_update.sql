-- Changes rows that are still what their writer saw; returns their places in the input. Found by id alone: `+ 0` keeps the planner off the indexes that begin with the chain.
update managed_tx m
   set state = u.to_state,
       version = m.version + 1,
       fencing_token = u.token,
       nonce = case when u.frees then null else coalesce(u.nonce, m.nonce) end,
       attempts = m.attempts + u.adds_attempt,
       next_resubmit_at = case when u.schedule = 0 then m.next_resubmit_at
                               when u.schedule = 1
                               then clock_timestamp() + u.delay * interval '1 microsecond' end,
       resubmits = m.resubmits + u.resubmitted,
       last_error = nullif(coalesce(u.last_error, m.last_error), ''),
       mined_hash = case u.evidence when 0 then m.mined_hash when 1 then u.mined_hash end,
       block_number = case u.evidence when 0 then m.block_number when 1 then u.block_number end,
       block_hash = case u.evidence when 0 then m.block_hash when 1 then u.block_hash end,
       gas_used = case u.evidence when 0 then m.gas_used when 1 then u.gas_used end,
       succeeded = case u.evidence when 0 then m.succeeded when 1 then u.succeeded end,
       revert_reason = case u.evidence when 0 then m.revert_reason when 1 then u.revert_reason end,
       updated_at = clock_timestamp(),
       finished_at = case when u.to_state between 40 and 59 then clock_timestamp() end
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::smallint[], $6::integer[],
              $7::smallint[], $8::bigint[], $9::boolean[], $10::smallint[], $11::smallint[],
              $12::bigint[], $13::integer[], $14::text[], $15::smallint[], $16::bytea[],
              $17::bigint[], $18::bytea[], $19::bigint[], $20::boolean[], $21::text[])
       with ordinality
       as u (tx_id, chain_id, submitter, token, from_state, from_version,
             to_state, nonce, frees, adds_attempt, schedule,
             delay, resubmitted, last_error, evidence, mined_hash,
             block_number, block_hash, gas_used, succeeded, revert_reason, place)
 where m.tx_id = u.tx_id and m.chain_id + 0 = u.chain_id and m.submitter = u.submitter
   and m.version = u.from_version and m.state = u.from_state
   and (not u.frees or m.nonce = u.nonce)
returning u.place, m.attempts, m.request_id, m.mined_hash
