-- What a submitter waits for, and since when.
select kind, nonce, since from submitter_wait
 where chain_id = $1 and submitter = $2 order by kind, nonce
