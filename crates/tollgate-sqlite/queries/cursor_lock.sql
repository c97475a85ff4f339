-- Where the cursor is and whether the submitter takes work. BEGIN IMMEDIATE holds it still.
select next_nonce, status from submitter_cursor where chain_id = ?1 and submitter = ?2
