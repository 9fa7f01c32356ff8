-- Says what a consumer is to do with a message that has come, and notes down that it
-- was delivered: from then on it cannot be cancelled.
--
-- KEYS: 1 claimed, 2 the hash of the ID's record, 3 base key of the envelopes (lib.lua),
--       4 kept
-- ARGV: 1 ID, 2 and 3 when it was published and is due in Unix ms, or 0 if that is not
--       known, 4 its version, 5 how long to remember a delivery in ms, 6 the same where
--       there is more than one version, 7 window in ms, for which an ID is remembered from
--       when it was published, 8 its path, or ''
-- Returns {1 deliver it}, {2 drop it: cancelled, when}, {3 drop it: rescheduled, due}, or
-- {4 park it again, due}. O(log N) in the messages that are kept.
local id, now = ARGV[1], clock()
local published, version = tonumber(ARGV[2]), tonumber(ARGV[4])
local stored = redis.call('HGET', KEYS[2], id)
local r = stored and read(stored)
if r and is_another(r, published) then return {1} end
if not r then
  r = {due = tonumber(ARGV[3]), published = published, version = version, state = waiting}
end
if r.version ~= version then return {3, r.due} end
if r.state == cancelled then return {2, r.parked_at} end
if r.state == delivered then return {1} end
if r.state == moved and r.due > now then return {4, r.due} end
local over = now + (version > 0 and ARGV[6] or ARGV[5])
redis.call('HSET', KEYS[2], id, head(r.due, now, version, delivered, r.direct, published) .. (ARGV[8] ~= '' and '\t' .. ARGV[8] or ''))
redis.call('ZADD', KEYS[4], math.max(over, published + ARGV[7]), id)
-- If it was to be promoted again, that is not needed any more; a claim skips its entry.
redis.call('ZREM', KEYS[1], id)
return {1}
