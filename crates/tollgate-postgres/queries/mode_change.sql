-- I12: changes a submitter's mode, by comparison, while nothing of it is open and callers hold none of its nonces. The cursor's lock, which the batch holds, keeps it so until the commit.
update submitter_cursor c
   set mode = $4, updated_at = clock_timestamp()
 where c.chain_id = $1 and c.submitter = $2 and c.mode = $3
   and not exists (select 1 from managed_tx m
                    where m.chain_id = c.chain_id and m.submitter = c.submitter
                      and m.finished_at is null)
   and not exists (select 1 from nonce_reservation r
                    where r.chain_id = c.chain_id and r.submitter = c.submitter and r.state = 1)
