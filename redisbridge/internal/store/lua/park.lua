-- Stores messages to be promoted in time, each unless it waits already. A message with the
-- ID and the content of one that waits is that one. One with the ID and other content is
-- another message: it is stored beside the first one, or refused.
--
-- KEYS: 1 schedule, 2 state, 3 base key of the envelopes, 4 kept
-- ARGV: 1 wake channel, 2 shard, 3 window in ms, for which an ID is remembered from when
--       it was published, 4 number of lanes, then their TTLs in ms, longest first, and
--       then for each message its key, a packed request, and its record from the stamp
--       on. The request is a byte (1 for a delay, 0 for Unix time, 2 more for a message
--       that goes into no lane, 4 more for one that is refused where another message
--       has its ID, and 8 more where its entry has no room for one more), 6 bytes with its milliseconds, 6 bytes with the Unix ms that this
--       clock showed, at most, when the delay began to run, or 0 for now, the slot of
--       the record, and the group of the message within its entry, if it has one.
-- Returns this clock in Unix microseconds, and a string with a byte (1 parked, 2 parked
-- before, 3 overdue, 4 cancelled before, 5 refused, 254 its entry has no room, 255 Redis
-- has none) and the due time,
-- 6 bytes of Unix ms, for each message.
-- O(log N) in the messages of the shard, per message.
local pack, unpacked, sub = struct.pack, struct.unpack, string.sub -- quicker to find, in a loop
local now, us = clock()
local parked_at = pack('>I6', now)
local first_message = 5 + ARGV[4]
local window = tonumber(ARGV[3])
local moves = moves_of(KEYS[3])
for i = first_message, #ARGV, 3 do
  local absent = absence(moves, ARGV[i])
  if absent then return redis.error_reply(absent) end -- the caller parts the batch anew
end
local ttls = {}
for i = 5, first_message - 1 do ttls[i] = tonumber(ARGV[i]) end
local most_wait = 500
local base = KEYS[3] .. ':'
local some_others = redis.call('EXISTS', others_key(KEYS[3])) == 1

-- When a record is to be forgotten; 0 where it is not kept.
local function kept_until(key) return tonumber(redis.call('ZSCORE', KEYS[4], key) or 0) end

-- Whether a message has left, or may have: its due time has passed, or a consumer has taken
-- it. It may be delivered before its bridge settles it.
local function has_left(r)
  return r.state == delivered or r.state == moved or r.state == waiting and r.due <= now
end

-- What has become of a key, as a status and the due time, or nil where it may be used
-- again.
local function before(key, r)
  local published = math.min(r.published, r.parked_at) -- its publisher's clock may be ahead
  local is_kept = r.state == waiting or r.unsettled or kept_until(key) > now
  if has_left(r) and (window == 0 or published + window <= now) or not is_kept then return nil end
  return r.state == cancelled and '\4' or '\2', pack('>I6', r.due)
end

-- Whether a record must stay, though its key may be used again; the next message with the ID
-- is stored beside it. Either the message is not settled yet, or an old copy of it may still be
-- delivered, and the record tells the consumer what to do with that.
local function is_needed(key, r)
  local over = kept_until(key)
  return (r.state == waiting or r.unsettled) and over == 0 or has_left(r) and (r.version > 0 or r.state == moved) and over > now
end

local answers, n, earliest, notes, new, full = {}, 0, nil, {}, {}, false
local joining = {} -- messages with a group
local beside, stale = {}, {} -- keys of other messages, by their ID's; keys that begin anew

-- The record under a key, of this call or before it.
local function stored_under(hash, key)
  local stored = new[key] or redis.call('HGET', hash, key)
  return stored, stored and read(stored)
end

-- The other messages with an ID, of this call or before it.
local function others_of(key)
  local keys = keys_of(KEYS[3], key)
  table.remove(keys, 1)
  for _, one in ipairs(beside[key] or {}) do keys[#keys + 1] = one end
  return keys
end

-- An instant at which no message with the same ID was published: by it the messages are told
-- apart when they come to a consumer.
local function unused_instant(key)
  local instant, taken, keys = now, {}, others_of(key)
  keys[#keys + 1] = key
  for _, one in ipairs(keys) do
    local _, r = stored_under(envelopes_key(KEYS[3], one), one)
    if r then taken[r.published] = true end
  end
  while taken[instant] do instant = instant + 1 end
  return instant
end

-- What has become of another message with the ID and this content, as above.
local function before_beside(key, digest)
  for _, one in ipairs(others_of(key)) do
    local _, r = stored_under(envelopes_key(KEYS[3], one), one)
    if r and r.digest == digest then
      local known, due = before(one, r)
      if known then return known, due end
    end
  end
end

-- A key for another message with the ID, and the name in it: what is stored there, if
-- anything, is over.
local function key_beside(key, digest)
  local name = digest
  while true do
    local one = other_key(name, key)
    local hash = envelopes_key(KEYS[3], one)
    local stored, r = stored_under(hash, one)
    if not r or not before(one, r) and not is_needed(one, r) then return one, hash, stored, name end
    name = sub(redis.sha1hex(name), 1, digest_length)
  end
end

for i = first_message, #ARGV, 3 do
  local key, request = ARGV[i], ARGV[i + 1]
  local wants, due, began = unpacked('>BI6I6', request)
  local direct, alone, no_room = math.floor(wants / 2) % 2 == 1, math.floor(wants / 4) % 2 == 1, wants >= 8
  if wants % 2 == 1 then
    -- A call that waited for its turn is late by no more than it may be: the
    -- clock may have been set meanwhile.
    local from = now
    if began > 0 then from = math.max(math.min(from, began), from - most_wait) end
    due = due + from
  end
  local hash, packed, status = base .. sub(request, 14, 18), pack('>I6', due), '\1'
  local stored, r = stored_under(hash, key)
  local record, digest, first = ARGV[i + 2], sub(ARGV[i + 2], 3, 2 + digest_length), nil
  local known, known_due, name
  if r and r.state == moved and r.published == 0 then -- before it came here, out of the inbox
    due = math.max(r.due, now + 1)
    packed = pack('>I6', due)
  else
    if r then known, known_due = before(key, r) end
    local is_other = known == '\2' and r.digest ~= digest and r.digest ~= no_digest
    local stays = r and not known and is_needed(key, r)
    if is_other or not known and (stays or beside[key] or some_others) then
      local its_known, its_due = before_beside(key, digest)
      if its_known then
        known, known_due = its_known, its_due
      elseif is_other and alone then
        known = '\5'
      elseif is_other or stays then
        known, first = nil, key
        key, hash, stored, name = key_beside(key, digest)
      end
    end
  end
  if known then
    status, packed = known, known_due
    if new[key] then new[#new + 1] = {n + 1} end -- which has to be stored first
  elseif due <= now then
    status = '\3'
  elseif no_room then
    status = '\254'
  else
    local at, part = place(due, now, direct, ttls, 5, first_message - 1)
    schedule_note(notes, part, at, key)
    if not earliest or at < earliest then earliest = at end
    if first then
      beside[first] = beside[first] or {}
      table.insert(beside[first], key)
      local _, _, stamp = unpacked('>I6I6I2', packed .. parked_at .. record)
      if stamp < 16384 then
        record = pack('>I2', stamp + 16384) .. digest .. pack('>I6', unused_instant(first)) .. sub(record, 3 + digest_length)
      end
    end
    new[key] = packed .. parked_at .. record
    new[#new + 1] = {n + 1, hash, key, stored, first, name}
    if #request > 18 then joining[#joining + 1] = {sub(request, 19), key, digest, due} end
    stale[#stale + 1] = key
  end
  answers[n + 1], answers[n + 2] = status, packed
  n = n + 2
end
-- The schedule first: Redis may lose the end of this if it is killed while it writes
-- its append-only file. An entry without an envelope does no harm.
local ok, err = pcall(schedule_add, KEYS[1], notes)
if not ok then
  err = type(err) == 'table' and err or {err = tostring(err)}
  -- The first write meets this, or none. What is parked already needs none.
  if not string.find(err.err, 'OOM', 1, true) then return err end
  full = true
end
for _, one in ipairs(full and {} or joining) do join_group(KEYS[3], unpack(one)) end
-- Before the records are ones that are not to be forgotten.
for i = 1, full and 0 or #stale, most_args do
  redis.call('ZREM', KEYS[4], unpack(stale, i, math.min(i + most_args - 1, #stale)))
end
for _, one in ipairs(new) do
  if full then
    answers[one[1]] = '\255'
  elseif one[2] then
    if one[5] then add_other(KEYS[3], one[6], one[5]) end
    local is_new = redis.call(one[4] and 'HSET' or 'HSETNX', one[2], one[3], new[one[3]]) == 1
    if one[4] or is_new then weigh(one[3], one[4], new[one[3]]) end
  end
end
write_weights(KEYS[3])
if earliest and not full then wake(KEYS[2], earliest, ARGV[1], ARGV[2]) end
return {us, table.concat(answers)}
