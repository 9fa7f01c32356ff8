-- Gives a message another due time. Where the broker may have a copy with the old one,
-- the message gets another version, and the copy is dropped when it comes out. Where the
-- envelope is not at hand, the new time is noted down, and the consumer that meets the
-- message parks it again.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 the hash of the ID's record, 5 base key of the
--       envelopes (lib.lua), 6 kept
-- ARGV: 1 wake channel, 2 shard, 3 ID, 4 1 for a delay, 0 for Unix time, 5 its ms, 6 how
--       long to remember a version from when it is due, in ms, 7 1 to have the envelope
--       returned that the record has, where it has one, 8... TTLs of the lanes in ms,
--       longest first
-- Returns {1 rescheduled, when, due}, {2 cancelled, when, due}, {3 delivered, when, due},
-- or {4 unknown, now, due}; due is the new time after 1 and 4. Each perhaps with the
-- envelope. O(log N) in the messages of the shard.
local id, now = ARGV[3], clock()
local due = tonumber(ARGV[5])
if ARGV[4] == '1' then due = due + now end
due = math.max(due, now)
local stored = redis.call('HGET', KEYS[4], id)
local r = stored and read(stored) or {due = 0, parked_at = 0, published = 0, version = 0, state = moved}
if r.state == cancelled then return {2, r.parked_at, r.due} end
if r.state == delivered then return {3, r.parked_at, r.due} end

local with_broker = redis.call('ZSCORE', KEYS[6], id)
if r.state == moved or with_broker and r.due <= now then
  redis.call('HSET', KEYS[4], id, head(due, now, r.version, moved, r.direct, r.published))
  redis.call('ZADD', KEYS[6], due + ARGV[6], id)
  return {4, now, due, ARGV[7] == '1' and r.state == waiting and string.sub(stored, r.body) or nil}
end
local old_at, old_part = place(r.due, r.parked_at, r.direct, ARGV, 8, #ARGV)
local version = r.version
if with_broker or old_at <= now then version = version + 1 end
local at, part = place(due, now, r.direct, ARGV, 8, #ARGV)
local notes = {}
schedule_note(notes, part, at, id)
schedule_add(KEYS[1], notes)
redis.call('ZREM', KEYS[6], id) -- before the record is one that is not to be forgotten
redis.call('HSET', KEYS[4], id, head(due, now, version, waiting, r.direct, r.published) .. string.sub(stored, r.body))
if part ~= old_part or math.floor(at / bucket_ms) ~= math.floor(old_at / bucket_ms) then
  schedule_remove(KEYS[1], old_part, old_at, id)
end
redis.call('ZREM', KEYS[3], id)
wake(KEYS[2], at, ARGV[1], ARGV[2])
return {1, now, due, ARGV[7] == '1' and string.sub(stored, r.body) or nil}
