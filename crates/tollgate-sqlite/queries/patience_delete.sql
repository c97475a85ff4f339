-- Deletes how long a transaction that ends was waited for.
delete from tx_patience where tx_id = ?1
