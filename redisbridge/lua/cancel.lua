-- Takes a message out that is parked and not being promoted.
--
-- KEYS: 1 schedule, 2 claimed, 3 the hash of the ID's envelope, 4 base key of the
--       envelopes (lib.lua)
-- ARGV: 1 ID, 2... TTLs of the lanes in ms, longest first
-- Returns 1, or 0 if no such message waits.
-- O(log N) in the messages of the shard.
local stored = redis.call('HGET', KEYS[3], ARGV[1])
if not stored or redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
local due, parked_at = struct.unpack('>I6I6', stored)
local at, part = place(due, parked_at, ARGV, 2, #ARGV)
redis.call('HDEL', KEYS[3], ARGV[1])
-- One that a queue has refused waits elsewhere. A claim skips what has no envelope.
schedule_remove(KEYS[1], part, at, ARGV[1])
return 1
