-- Gives the messages with an ID another due time. Where the broker may have a copy with the
-- old one, the message gets another version, and the copy is dropped when it comes out.
-- Where the envelope is not at hand, the new time is noted down, and the consumer that meets
-- the message parks it again.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 base key of the envelopes (lib.lua), 5 kept
-- ARGV: 1 wake channel, 2 shard, 3 key, 4 1 for a delay, 0 for Unix time, 5 its ms, 6 how
--       long to remember a version from when it is due, in ms, 7 1 to have the envelope
--       returned that the first record has, 8... TTLs of the lanes in ms, longest first
-- Returns a code, an instant, the due time, the number of messages of which that is true,
-- and until when a note is kept, or 0: {1 rescheduled, when}, {2 cancelled, when},
-- {3 delivered, when} or {4 recorded, now}; due is the new time after 1 and 4. Each perhaps
-- with the envelope. O(log N) in the messages of the shard, per message with the ID.
local absent = refusal(KEYS[4], ARGV[3])
if absent then return absent end
local first, now = ARGV[3], clock()
local due = tonumber(ARGV[5])
if ARGV[4] == '1' then due = due + now end
due = math.max(due, now)
local answers = {}

local function answer(code, at, its_due, over, envelope)
  local a = answers[code]
  if not a then
    a = {code, at, its_due, 0, over}
    answers[code] = a
  end
  a[4] = a[4] + 1
  if envelope and ARGV[7] == '1' then a[6] = envelope end
end

local function reschedule(key, stored)
  local r = stored and read(stored) or nothing()
  if r.state == cancelled then return answer(2, r.parked_at, r.due, 0) end
  if r.state == delivered then return answer(3, r.parked_at, r.due, 0) end

  local with_broker = redis.call('ZSCORE', KEYS[5], key)
  if r.state == moved or with_broker and r.due <= now then
    local over = due + ARGV[6]
    replace_record(KEYS[4], key, stored, head(due, now, r.version, moved, r.direct, r.published, r.digest))
    redis.call('ZADD', KEYS[5], over, key)
    return answer(4, now, due, over, r.state == waiting and string.sub(stored, r.body) or nil)
  end
  local old_at, old_part = place(r.due, r.parked_at, r.direct, ARGV, 8, #ARGV)
  local version = r.version
  -- It may have been claimed before that instant by a bridge with other tiers.
  if with_broker or old_at <= now or redis.call('ZSCORE', KEYS[3], key) then version = version + 1 end
  local at, part = place(due, now, r.direct, ARGV, 8, #ARGV)
  local notes = {}
  schedule_note(notes, part, at, key)
  schedule_add(KEYS[1], notes)
  redis.call('ZREM', KEYS[5], key) -- before the record is one that is not to be forgotten
  replace_record(KEYS[4], key, stored, head(due, now, version, waiting, r.direct, r.published, r.digest) .. string.sub(stored, r.body))
  if part ~= old_part or math.floor(at / bucket_ms) ~= math.floor(old_at / bucket_ms) then
    schedule_remove(KEYS[1], old_part, old_at, key)
  end
  redis.call('ZREM', KEYS[3], key)
  wake(KEYS[2], at, ARGV[1], ARGV[2])
  answer(1, now, due, 0, string.sub(stored, r.body))
end

local keys = keys_of(KEYS[4], first)
for _, key in ipairs(keys) do
  local stored = redis.call('HGET', envelopes_key(KEYS[4], key), key)
  if stored or #keys == 1 then reschedule(key, stored) end
end
write_weights(KEYS[4])
return answers[1] or answers[4] or answers[2] or answers[3]
