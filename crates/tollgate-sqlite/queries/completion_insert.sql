-- The outcome of a transaction, its only one.
insert into tx_completion (seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, db_now())
