-- The cursor's step from ?3 to ?4, by comparison and never back (I4).
update submitter_cursor set next_nonce = ?4, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and next_nonce = ?3 and ?4 >= ?3
