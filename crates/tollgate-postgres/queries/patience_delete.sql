-- Deletes how long transactions that end were waited for.
delete from tx_patience where tx_id = any ($1::uuid[])
