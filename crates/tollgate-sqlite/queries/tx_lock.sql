-- What a row is now, for a comparison. BEGIN IMMEDIATE holds it still.
select chain_id, submitter, state, version from managed_tx where tx_id = ?1
