-- Pauses, protects or resumes a submitter, by comparison.
update submitter_cursor
   set status = $4, status_reason = $5, updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and status = $3
