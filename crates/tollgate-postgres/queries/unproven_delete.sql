-- Deletes since when nothing is proven about the slots of transactions that end.
delete from tx_unproven where tx_id = any ($1::uuid[])
