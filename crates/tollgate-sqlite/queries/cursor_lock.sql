-- Where the cursor is, whether the submitter takes work, and its mode. BEGIN IMMEDIATE holds it still.
select next_nonce, status, mode from submitter_cursor where chain_id = ?1 and submitter = ?2
