-- Cancels a message. One that waits is taken out; what its ID leaves behind is a
-- tombstone, so that copies that the broker may have are dropped when they come out,
-- and publishing it again has no effect. An ID that nothing is known of gets one, too:
-- its message may be in a tier, where Redis has never seen it.
--
-- KEYS: 1 schedule, 2 claimed, 3 the hash of the ID's record, 4 base key of the
--       envelopes (lib.lua), 5 kept
-- ARGV: 1 ID, 2 and 3 how long to keep the tombstone in ms: where no copy is under way,
--       and otherwise from when the message is due, 4 1 to have the envelope returned
--       that the record had, where it had one, 5... TTLs of the lanes in ms, longest first
-- Returns {1 cancelled, now, due}, {2 cancelled before, when, due}, {3 delivered, when,
-- due}, or {4 unknown, now, due}, with 0 for an unknown due time; each perhaps with the
-- envelope. O(log N) in the messages of the shard.
local id, now = ARGV[1], clock()
local stored = redis.call('HGET', KEYS[3], id)
local r = stored and read(stored) or {due = 0, parked_at = 0, published = 0, version = 0, state = moved}
if r.state == cancelled then return {r.published == 0 and 4 or 2, r.parked_at, r.due} end
if r.state == delivered then return {3, r.parked_at, r.due} end

local kept = redis.call('ZSCORE', KEYS[5], id)
local with_broker = kept or r.state == moved
local known = r.state ~= moved and not (with_broker and r.due <= now)
local at, part = place(r.due, r.parked_at, r.direct, ARGV, 5, #ARGV)
local over = now + ARGV[2]
if with_broker or at <= now then over = math.max(r.due, now) + ARGV[3] end
redis.call('HSET', KEYS[3], id, head(r.due, now, r.version, cancelled, r.direct, r.published))
redis.call('ZADD', KEYS[5], over, id)
-- One that a queue has refused waits elsewhere. A claim skips what does not wait.
schedule_remove(KEYS[1], part, at, id)
redis.call('ZREM', KEYS[2], id)
return {known and 1 or 4, now, r.due, ARGV[4] == '1' and r.state == waiting and string.sub(stored, r.body) or nil}
