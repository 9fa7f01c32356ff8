-- Cancels the messages with an ID. One that waits is taken out; what it leaves behind is a
-- tombstone, so that copies that the broker may have are dropped when they come out, and
-- publishing it again has no effect. An ID of which no message waits gets one, too: its
-- message may be in a tier, where Redis has never seen it, or in the inbox.
--
-- KEYS: 1 schedule, 2 claimed, 3 base key of the envelopes (lib.lua), 4 kept
-- ARGV: 1 key, 2 how long to keep a tombstone in ms, from when the message is due, 3 the
--       same from now, where nothing is known of the ID, 4 1 to have the envelope returned
--       that the first record had, 5... TTLs of the lanes in ms, longest first
-- Returns a code, an instant, the due time, the number of messages of which that is true,
-- and until when a tombstone is kept: {1 cancelled, now}, {2 cancelled before, when},
-- {3 delivered, when} or {4 recorded, now}, with 0 for an unknown due time; each perhaps with
-- the envelope. O(log N) in the messages of the shard, per message with the ID.
local absent = refusal(KEYS[3], ARGV[1])
if absent then return absent end
local first, now = ARGV[1], clock()
local answers = {}

local function answer(code, at, due, over, envelope)
  local a = answers[code]
  if not a then
    a = {code, at, due, 0, over}
    answers[code] = a
  end
  a[4], a[5] = a[4] + 1, math.max(a[5], over)
  if envelope and ARGV[4] == '1' then a[6] = envelope end
end

local function cancel(key, stored)
  local r = stored and read(stored) or nothing()
  local kept = tonumber(redis.call('ZSCORE', KEYS[4], key) or 0)
  if r.state == cancelled then -- which reaches what was published since then, too
    local over = math.max(kept, now + ARGV[3])
    replace_record(KEYS[3], key, stored, head(r.due, now, r.version, cancelled, r.direct, r.published, r.digest))
    redis.call('ZADD', KEYS[4], over, key)
    return answer(r.published == 0 and 4 or 2, r.parked_at, r.due, over)
  end
  if r.state == delivered then return answer(3, r.parked_at, r.due, kept) end
  -- Of one that was due and promoted nothing is known but that.
  local known = r.state ~= moved and not (kept > 0 and r.due <= now)
  local over = math.max(r.due, now) + ARGV[2]
  if not stored then over = now + ARGV[3] end
  local at, part = place(r.due, r.parked_at, r.direct, ARGV, 5, #ARGV)
  replace_record(KEYS[3], key, stored, head(r.due, now, r.version, cancelled, r.direct, r.published, r.digest))
  redis.call('ZADD', KEYS[4], over, key)
  -- One that a queue has refused waits elsewhere. A claim skips what does not wait.
  schedule_remove(KEYS[1], part, at, key)
  redis.call('ZREM', KEYS[2], key)
  answer(known and 1 or 4, now, r.due, over, r.state == waiting and string.sub(stored, r.body) or nil)
end

local keys = keys_of(KEYS[3], first)
for i = #keys, 1, -1 do -- the first one last: its tombstone is also that of the ID
  local stored = redis.call('HGET', envelopes_key(KEYS[3], keys[i]), keys[i])
  if stored or i == 1 then cancel(keys[i], stored) end
end
write_weights(KEYS[3])
-- The tombstone of an ID that is known by other messages alone tells nothing by itself.
if #keys > 1 and answers[4] and (answers[1] or answers[2]) then
  local a = answers[1] or answers[2]
  a[5] = math.max(a[5], answers[4][5])
end
return answers[1] or answers[4] or answers[2] or answers[3]
