-- A submitter's mode.
select mode from submitter_cursor where chain_id = ?1 and submitter = ?2
