-- Looks an ID up. Writes nothing.
--
-- KEYS: 1 the hash of the ID's record, 2 claimed, 3 kept, 4 base key of the envelopes
--       (lib.lua)
-- ARGV: 1 ID
-- Returns this clock in Unix ms, the record, its score in claimed and in kept, each empty
-- where there is none. O(log N) in the messages that are claimed or kept.
local id = ARGV[1]
return {
  clock(), redis.call('HGET', KEYS[1], id) or '',
  redis.call('ZSCORE', KEYS[2], id) or '', redis.call('ZSCORE', KEYS[3], id) or '',
}
