-- A submitter's own row.
select chain_id, submitter, next_nonce, mode, status, status_reason
  from submitter_cursor where chain_id = ?1 and submitter = ?2
