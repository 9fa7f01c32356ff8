-- Wakes the bridges, where they must act earlier than they expect, for messages
-- that were parked by plain commands (lot_plain.go).
--
-- KEYS: 1 state, 2 base key of the envelopes (lib.lua)
-- ARGV: 1 wake channel, 2 shard, 3 instant of the first promotion, Unix ms
-- Returns this clock in Unix microseconds. O(1).
wake(KEYS[1], tonumber(ARGV[3]), ARGV[1], ARGV[2])
local _, us = clock()
return us
