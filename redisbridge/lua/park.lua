-- Stores messages to be promoted in time, each unless it waits already. A message with the
-- ID and the content of one that waits is that one. One with the ID and other content is
-- another message: it is stored beside the first one, or refused.
--
-- KEYS: 1 schedule, 2 state, 3 base key of the envelopes, 4 kept
-- ARGV: 1 wake channel, 2 shard, 3 window in ms, for which an ID is remembered from when
--       it was published, 4 number of lanes, then their TTLs in ms, longest first, and
--       then for each message its key, a packed request, and its record from the stamp
--       on. The request is a byte (1 for a delay, 0 for Unix time, 2 more for a message
--       that goes into no lane, and 4 more for one that is refused where another message
--       has its ID), 6 bytes with its milliseconds, 6 bytes with the Unix ms that this
--       clock showed, at most, when the delay began to run, or 0 for now, and the slot of
--       the record.
-- Returns this clock in Unix microseconds, and a string with a byte (1 parked, 2 parked
-- before, 3 overdue, 4 cancelled before, 5 refused, 255 there is no room) and the due time,
-- 6 bytes of Unix ms, for each message.
-- O(log N) in the messages of the shard, per message.
local pack, unpacked, sub = struct.pack, struct.unpack, string.sub -- quicker to find, in a loop
local now, us = clock()
local parked_at = pack('>I6', now)
local first_message = 5 + ARGV[4]
local window = tonumber(ARGV[3])
local ttls = {}
for i = 5, first_message - 1 do ttls[i] = tonumber(ARGV[i]) end
local most_wait = 500
local base = KEYS[3] .. ':'
local some_others = redis.call('EXISTS', others_key(KEYS[3])) == 1

-- What has become of a key, as a status and the due time, or nil where it may be used
-- again.
local function before(key, r)
  local status = r.state == cancelled and '\4' or '\2'
  if r.state == delivered and r.published + window <= now then return nil end
  if r.state ~= waiting or r.due <= now then
    local over = redis.call('ZSCORE', KEYS[4], key)
    if over and tonumber(over) <= now or not over and r.state ~= waiting then return nil end
  end
  return status, pack('>I6', r.due)
end

-- Whether a message is over of which the broker may still have a copy with an old due time.
-- Its record alone tells that it is one: the next message with the ID goes beside it.
local function has_copies(key, r)
  if r.state ~= delivered or r.version == 0 then return false end
  local over = redis.call('ZSCORE', KEYS[4], key)
  return over and tonumber(over) > now
end

local answers, n, earliest, notes, new, full = {}, 0, nil, {}, {}, false
local used, stale = {}, {} -- instants of publishing of other messages; keys that begin anew

-- The record under a key, of this call or before it.
local function stored_under(hash, key)
  local stored = new[key] or redis.call('HGET', hash, key)
  return stored, stored and read(stored)
end

-- An instant at which no message with the same ID was published: by it the messages are told
-- apart when they come to a consumer.
local function unused_instant(key)
  local instant, taken = now, {}
  for _, one in ipairs(keys_of(KEYS[3], key)) do
    local _, r = stored_under(envelopes_key(KEYS[3], one), one)
    if r then taken[r.published] = true end
  end
  for _, one in ipairs(used[key] or {}) do taken[one] = true end
  while taken[instant] do instant = instant + 1 end
  used[key] = used[key] or {}
  table.insert(used[key], instant)
  return instant
end

for i = first_message, #ARGV, 3 do
  local key, request = ARGV[i], ARGV[i + 1]
  local wants, due, began = unpacked('>BI6I6', request)
  local direct, alone = math.floor(wants / 2) % 2 == 1, wants >= 4
  if wants % 2 == 1 then
    -- A call that waited for its turn is late by no more than it may be: the
    -- clock may have been set meanwhile.
    local from = now
    if began > 0 then from = math.max(math.min(from, began), from - most_wait) end
    due = due + from
  end
  local hash, packed, status = base .. sub(request, 14), pack('>I6', due), '\1'
  local stored, r = stored_under(hash, key)
  local record, digest, first = ARGV[i + 2], sub(ARGV[i + 2], 3, 2 + digest_length), nil
  local known, known_due
  if r and r.state == moved and r.published == 0 then -- before it came here, out of the inbox
    due = math.max(r.due, now + 1)
    packed = pack('>I6', due)
  else
    if r then known, known_due = before(key, r) end
    local is_other = known == '\2' and r.digest ~= digest and r.digest ~= no_digest
    local beside = r and not known and has_copies(key, r)
    if is_other or beside or not known and (used[key] or some_others) then
      -- It may be another one of those with its ID, or become one.
      local its_key = other_key(digest, key)
      local its_hash = envelopes_key(KEYS[3], its_key)
      local its_stored, its = stored_under(its_hash, its_key)
      local its_known, its_due
      if its then its_known, its_due = before(its_key, its) end
      if its_known then
        known, known_due = its_known, its_due
      elseif is_other and alone then
        known = '\5'
      elseif is_other or beside then
        known, first = nil, key
        hash, key, stored = its_hash, its_key, its_stored
      end
    end
  end
  if known then
    status, packed = known, known_due
    if new[key] then new[#new + 1] = {n + 1} end -- which has to be stored first
  elseif due <= now then
    status = '\3'
  else
    local at, part = place(due, now, direct, ttls, 5, first_message - 1)
    schedule_note(notes, part, at, key)
    if not earliest or at < earliest then earliest = at end
    if first then
      local _, _, stamp = unpacked('>I6I6I2', packed .. parked_at .. record)
      if stamp < 16384 then
        record = pack('>I2', stamp + 16384) .. digest .. pack('>I6', unused_instant(first)) .. sub(record, 3 + digest_length)
      end
    end
    new[key] = packed .. parked_at .. record
    new[#new + 1] = {n + 1, hash, key, stored, first, digest}
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
-- Before the records are ones that are not to be forgotten.
for i = 1, full and 0 or #stale, most_args do
  redis.call('ZREM', KEYS[4], unpack(stale, i, math.min(i + most_args - 1, #stale)))
end
for _, one in ipairs(new) do
  if full then
    answers[one[1]] = '\255'
  elseif one[2] then
    if one[5] then add_other(KEYS[3], one[6], one[5]) end
    redis.call(one[4] and 'HSET' or 'HSETNX', one[2], one[3], new[one[3]])
  end
end
if earliest and not full then wake(KEYS[2], earliest, ARGV[1], ARGV[2]) end
return {us, table.concat(answers)}
