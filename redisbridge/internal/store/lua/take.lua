-- Takes the messages of some slots out of an old shard, to be implanted into the shards of the
-- next generation: from then on they are neither here nor there until they have arrived. What
-- was taken before, and not dropped, is returned again. The process that takes may die: another one
-- goes on.
--
-- A message that is claimed ends the range before its slot: it is settled or put back soon. The
-- others with an ID go with its first message.
--
-- What is between the shards is a hash: the range, as numbers of slots, and for each message a
-- colon and its key, with the score under which it is kept, or nothing, a space, and its record;
-- and for each ID that has others a plus and its key, with their names.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 base key of the envelopes (lib.lua), 5 kept, 6 what is
--       between the shards
-- ARGV: 1 most slots, 2 and 3 this many messages or bytes end the range after their slot, 4... TTLs
--       of the lanes in ms, longest first
-- Returns the range, its first slot and the one after its last, and a list of fields and values
-- of that hash. O(1) per slot, O(log N) per message, and O(N) in the IDs that have others.
local range = redis.call('HGET', KEYS[6], 'range')
local frontier = tonumber(redis.call('HGET', KEYS[2], 'frontier') or 0)
local start, stop = frontier, frontier
if range then
  start, stop = string.match(range, '^(%d+) (%d+)$')
  start, stop = tonumber(start), tonumber(stop)
end

-- Whether nothing of them is claimed.
local function are_free(keys)
  if #keys == 0 then return true end
  for i = 1, #keys, most_args do
    for _, score in ipairs(redis.call('ZMSCORE', KEYS[3], unpack(keys, i, math.min(i + most_args - 1, #keys)))) do
      if score then return false end
    end
  end
  return true
end

-- IDs that have others, by the slot of the first.
local function others_by_slot(most)
  local by = {}
  for _, first in ipairs(redis.call('HKEYS', others_key(KEYS[4]))) do
    local slot = slot_of(first, 0)
    if slot >= frontier and slot < frontier + most then
      by[slot] = by[slot] or {}
      table.insert(by[slot], first)
    end
  end
  return by
end

-- The key of a slot's hash.
local function slot_key(slot)
  return KEYS[4] .. ':' .. string.format('%04x', math.floor(slot / 2)) .. string.format('%.0f', slot % 2)
end

-- Reads slots from the frontier on, and returns their messages, the others' names, and the end.
local function read_slots()
  local most = tonumber(ARGV[1])
  local fields, messages, bytes, slot = {}, 0, 0, frontier
  local others = others_by_slot(most)
  while slot < all_slots and slot < frontier + most and messages < tonumber(ARGV[2]) and bytes < tonumber(ARGV[3]) do
    local found, keys = {}, {}
    local list = redis.call('HGETALL', slot_key(slot))
    for i = 1, #list, 2 do
      if string.byte(list[i]) ~= 1 then
        found[list[i]] = list[i + 1]
        keys[#keys + 1] = list[i]
      end
    end
    for _, first in ipairs(others[slot] or {}) do
      local all = keys_of(KEYS[4], first)
      for i = 2, #all do
        found[all[i]] = redis.call('HGET', envelopes_key(KEYS[4], all[i]), all[i])
        if found[all[i]] then keys[#keys + 1] = all[i] end
      end
    end
    if not are_free(keys) then break end
    for _, key in ipairs(keys) do
      local n = #fields
      fields[n + 1] = ':' .. key
      fields[n + 2] = (redis.call('ZSCORE', KEYS[5], key) or '') .. ' ' .. found[key]
      messages, bytes = messages + 1, bytes + #found[key]
    end
    for _, first in ipairs(others[slot] or {}) do
      local n = #fields
      fields[n + 1], fields[n + 2] = '+' .. first, redis.call('HGET', others_key(KEYS[4]), first)
    end
    slot = slot + 1
  end
  return fields, slot
end

local fields
if range and stop == frontier then
  fields = redis.call('HGETALL', KEYS[6])
else -- a beginning of this script may have left something, which counts for nothing
  redis.call('DEL', KEYS[6])
  fields, stop = read_slots()
  start = frontier
  if stop == start then return {start, stop, {}} end
  for i = 1, #fields, most_args do
    redis.call('HSET', KEYS[6], unpack(fields, i, math.min(i + most_args - 1, #fields)))
  end
  redis.call('HSET', KEYS[6], 'range', string.format('%.0f %.0f', start, stop))
  -- An entry that is elsewhere, since a queue has refused its message, is skipped by claims.
  for i = 1, #fields, 2 do
    if string.byte(fields[i]) == 58 then -- a colon
      local key, r = string.sub(fields[i], 2), read(string.sub(fields[i + 1], string.find(fields[i + 1], ' ', 1, true) + 1))
      local at, part = place(r.due, r.parked_at, r.direct, ARGV, 4, #ARGV)
      schedule_remove(KEYS[1], part, at, key)
    end
  end
  redis.call('HSET', KEYS[2], 'frontier', string.format('%.0f', stop))
end

-- Also of what was taken before: a beginning of this script may have left it here.
for i = 1, #fields, 2 do
  local kind, key = string.byte(fields[i]), string.sub(fields[i], 2)
  if kind == 58 then
    redis.call('ZREM', KEYS[5], key)
    local hash = envelopes_key(KEYS[4], key)
    local stored = redis.call('HGET', hash, key)
    if stored then
      weigh(key, stored, nil)
      redis.call('HDEL', hash, key)
    end
  elseif kind == 43 then -- a plus
    redis.call('HDEL', others_key(KEYS[4]), key)
  end
end
write_weights(KEYS[4])
return {start, stop, fields}
