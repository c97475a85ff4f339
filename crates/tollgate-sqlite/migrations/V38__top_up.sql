-- Top-ups are found by the account that pays them, without a look at its other transactions. Neither the request id
-- nor the time of acceptance ever changes; other transactions are not in the index.
create index managed_tx_top_up on managed_tx (chain_id, submitter, created_at)
  where substr(request_id, 1, 6) = 'topup:';
