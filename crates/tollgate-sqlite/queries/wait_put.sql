-- Adds something that a submitter waits for.
insert into submitter_wait (chain_id, submitter, kind, nonce, since) values (?1, ?2, ?3, ?4, ?5)
