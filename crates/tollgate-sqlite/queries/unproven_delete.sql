-- Deletes since when nothing is proven about the slot of a transaction that ends.
delete from tx_unproven where tx_id = ?1
