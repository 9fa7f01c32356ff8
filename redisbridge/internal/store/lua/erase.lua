-- Removes the messages with an ID, and all that is remembered of them. Where the broker may
-- have a copy, a tombstone stays that has the ID and the instant of this call alone, so that
-- the consumer drops that copy. So it does where nothing is known of the ID: its message may
-- be in a tier or in the inbox. The groups of the messages are not touched.
--
-- Each message becomes a tombstone first, as when it is cancelled, and is forgotten then: so
-- each beginning of this script does no harm (lib.lua).
--
-- KEYS: 1 schedule, 2 claimed, 3 base key of the envelopes (lib.lua), 4 kept
-- ARGV: 1 key, 2 how long a copy may be with the broker in ms, from when the message is due,
--       3 the same from now, where nothing is known of the ID, 4 TTL of the longest tier in
--       ms, 5 'retry' to leave no tombstone under the key, or until when one has to stay at
--       least, Unix ms, or 0, 6... TTLs of the lanes in ms, longest first
-- Returns this clock in Unix ms, until when the broker may have a copy, Unix ms, or 0, and
-- for each message a code (1 parked, 2 being promoted, 3 with the broker, 4 cancelled,
-- 5 delivered, 6 rescheduled out of reach), its due time, and the TTL of its lane in ms, or 0.
-- O(log N) in the messages of the shard, per message with the ID, and for each of the
-- buckets of the next minutes.
local absent = refusal(KEYS[3], ARGV[1])
if absent then return absent end
local first, now, longest, mode = ARGV[1], clock(), tonumber(ARGV[4]), ARGV[5]
local over = mode == 'retry' and 0 or tonumber(mode)
local near_ms = 120000 -- so far from now may a message wait that a queue has refused
local bare = head(0, now, 0, cancelled, false, 0, no_digest)

-- What has become of a message, as returned, and whether the broker may have a copy.
local function state_of(key, r, at)
  if r.state == cancelled then
    -- One that was cancelled so long before it was due had not left Redis.
    return 4, r.published == 0 or r.version > 0 or r.parked_at >= r.due - longest
  end
  if r.state == delivered then return 5, r.version > 0 or r.unsettled end
  if r.state == moved then return 6, true end
  if redis.call('ZSCORE', KEYS[4], key) then return 3, true end
  if redis.call('ZSCORE', KEYS[2], key) then return 2, true end
  return 1, at <= now or r.version > 0 -- as reschedule.lua
end

-- A message that a queue has refused waits elsewhere than its record tells.
local function remove_refused(key)
  local from, to = math.floor((now - near_ms) / bucket_ms), math.floor((now + near_ms) / bucket_ms)
  for _, part in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    for _, bucket in ipairs(redis.call('ZRANGEBYSCORE', part_key(KEYS[1], part), from, to)) do
      schedule_remove(KEYS[1], part, bucket * bucket_ms, key)
    end
  end
end

local answer, stored_keys = {}, {}
for _, key in ipairs(keys_of(KEYS[3], first)) do
  local stored = redis.call('HGET', envelopes_key(KEYS[3], key), key)
  if stored then
    local r = read(stored)
    local at, part = place(r.due, r.parked_at, r.direct, ARGV, 6, #ARGV)
    local code, may_be_there = state_of(key, r, at)
    if may_be_there then
      local kept = tonumber(redis.call('ZSCORE', KEYS[4], key) or 0)
      over = math.max(over, r.state == cancelled and kept or math.max(r.due, now) + ARGV[2])
    end
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3] = code, r.due, tonumber(part)
    replace_record(KEYS[3], key, stored, bare)
    redis.call('ZADD', KEYS[4], now, key)
    schedule_remove(KEYS[1], part, at, key)
    remove_refused(key)
    redis.call('ZREM', KEYS[2], key)
    stored_keys[#stored_keys + 1] = key
  end
end
if #stored_keys == 0 and mode == '0' then over = now + ARGV[3] end
local stays = over > now and mode ~= 'retry'
for i = #stored_keys, 1, -1 do
  local key = stored_keys[i]
  if key ~= first or not stays then
    redis.call('ZREM', KEYS[4], key)
    forget_record(KEYS[3], key)
  end
end
if stays then
  local stored = redis.call('HGET', envelopes_key(KEYS[3], first), first)
  if not stored then replace_record(KEYS[3], first, nil, bare) end
  redis.call('ZADD', KEYS[4], over, first)
end
write_weights(KEYS[3])
forget_entries(KEYS[3])
table.insert(answer, 1, over)
table.insert(answer, 1, now)
return answer
