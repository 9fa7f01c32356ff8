-- Puts messages that were taken out of an old shard into a new one (take.lua). Each old shard
-- says of each range of its slots what of it is for this one, even if that is nothing, in order.
-- What has arrived already does not change.
--
-- KEYS: 1 schedule, 2 state, 3 base key of the envelopes (lib.lua), 4 kept
-- ARGV: 1 old shard, 2 number of old shards, 3 and 4 range, 5 wake channel, 6 shard, 7 number of
--       lanes, then their TTLs in ms, longest first; the number of messages, then for each its key,
--       the score under which it is kept, or nothing, its record, and its group within its
--       entry, or nothing; and then for each ID that has others its key, and their names
-- Returns the number of messages that have arrived now. O(log N) per message.
if redis.call('HGET', KEYS[2], 'from') ~= ARGV[2] then return 0 end -- the move is over
local field, stop, now = 'arrived:' .. ARGV[1], tonumber(ARGV[4]), clock()
local arrived = tonumber(redis.call('HGET', KEYS[2], field) or 0)
if arrived >= stop then return 0 end
local first_lane = 8
local last_lane = 7 + ARGV[7]
local first_message = last_lane + 2
local after = first_message + 4 * ARGV[last_lane + 1]
local notes, earliest, coming = {}, nil, {}

for i = first_message, after - 1, 4 do
  local key, kept, stored, group = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if slot_of(key, 0) >= arrived then
    local r = read(stored)
    if kept == '' and (r.state == waiting or r.unsettled) then
      local at, part = place(r.due, r.parked_at, r.direct, ARGV, first_lane, last_lane)
      schedule_note(notes, part, at, key)
      if not earliest or at < earliest then earliest = at end
    end
    if r.state ~= waiting or kept ~= '' and r.due <= now then group = '' end
    coming[#coming + 1] = {key, kept, stored, group, r}
  end
end
schedule_add(KEYS[1], notes)
for _, one in ipairs(coming) do
  if one[4] ~= '' then join_group(KEYS[3], one[4], one[1], one[5].digest, one[5].due) end
end
for i = after, #ARGV, 2 do
  if slot_of(ARGV[i], 0) >= arrived then redis.call('HSET', others_key(KEYS[3]), ARGV[i], ARGV[i + 1]) end
end
for _, one in ipairs(coming) do
  local key = one[1]
  replace_record(KEYS[3], key, redis.call('HGET', envelopes_key(KEYS[3], key), key), one[3])
  if one[2] ~= '' then redis.call('ZADD', KEYS[4], one[2], key) end
end
write_weights(KEYS[3])
redis.call('HSET', KEYS[2], field, ARGV[4])
if earliest then wake(KEYS[2], earliest, ARGV[5], ARGV[6]) end
return #coming
