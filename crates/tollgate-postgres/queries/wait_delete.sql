-- Deletes everything that a submitter waits for.
delete from submitter_wait where chain_id = $1 and submitter = $2
