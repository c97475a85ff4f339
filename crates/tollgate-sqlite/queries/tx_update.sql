-- One change of one row that is still what the writer saw and still its submitter's; else no row.
update managed_tx set
  state = ?6,
  version = version + 1,
  fencing_token = ?7,
  attempts = attempts + ?8,
  nonce = case when ?10 is not null then null else coalesce(?9, nonce) end,
  mined_hash = case ?11 when 0 then mined_hash when 1 then ?12 end,
  block_number = case ?11 when 0 then block_number when 1 then ?13 end,
  block_hash = case ?11 when 0 then block_hash when 1 then ?14 end,
  gas_used = case ?11 when 0 then gas_used when 1 then ?15 end,
  succeeded = case ?11 when 0 then succeeded when 1 then ?16 end,
  revert_reason = case ?11 when 0 then revert_reason when 1 then ?17 end,
  next_resubmit_at = case ?18 when 0 then next_resubmit_at when 1 then db_now() + ?19 end,
  resubmits = resubmits + ?20,
  last_error = nullif(coalesce(?21, last_error), ''),
  updated_at = db_now(),
  finished_at = case when ?6 between 40 and 59 then db_now() end
where tx_id = ?1 and version = ?2 and state = ?3 and chain_id = ?4 and submitter = ?5
  and (?10 is null or nonce = ?10)
returning attempts, request_id, mined_hash
