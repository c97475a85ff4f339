-- A submitter's status from ?3 to ?4, by comparison, and why (?5).
update submitter_cursor
   set status = ?4, status_reason = ?5, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and status = ?3
