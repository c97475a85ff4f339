-- A transaction in a used slot, of which no endpoint can show what is in it or how it ended, says so.
insert into tx_state (code, state, sub_state) values (67, 'STUCK', 'UNPROVEN');
