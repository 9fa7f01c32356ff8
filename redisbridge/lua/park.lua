-- Stores messages to be promoted in time, each unless its ID is parked already.
--
-- KEYS: 1 schedule, 2 state, 3 base key of the envelopes, 4 kept
-- ARGV: 1 wake channel, 2 shard, 3 window in ms, for which an ID is remembered from when
--       it was published, 4 number of lanes, then their TTLs in ms, longest first, and
--       then for each message its ID, a packed request, and its record from the stamp
--       on. The request is a byte (1 for a delay, 0 for Unix time, and 2 more for a
--       message that goes into no lane), 6 bytes with its milliseconds, 6 bytes with
--       the Unix ms that this clock showed, at most, when the delay began to run, or 0
--       for now, and the slot of the record.
-- Returns this clock in Unix microseconds, and a string with a byte (1 parked, 2 parked
-- before, 3 overdue, 4 cancelled before, 255 there is no room) and the due time, 6 bytes
-- of Unix ms, for each message.
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

-- What has become of an ID, as a status and the due time, or nil where it may be used
-- again.
local function before(id, r)
  local status = r.state == cancelled and '\4' or '\2'
  if r.state == delivered and r.published + window <= now then return nil end
  if r.state ~= waiting or r.due <= now then
    local over = redis.call('ZSCORE', KEYS[4], id)
    if over and tonumber(over) <= now or not over and r.state ~= waiting then return nil end
  end
  return status, pack('>I6', r.due)
end

local answers, n, earliest, notes, new, full = {}, 0, nil, {}, {}, false
for i = first_message, #ARGV, 3 do
  local id, request = ARGV[i], ARGV[i + 1]
  local relative, due, began = unpacked('>BI6I6', request)
  local direct = relative >= 2
  if relative % 2 == 1 then
    -- A call that waited for its turn is late by no more than it may be: the
    -- clock may have been set meanwhile.
    local from = now
    if began > 0 then from = math.max(math.min(from, began), from - most_wait) end
    due = due + from
  end
  local key, packed, status = base .. sub(request, 14), pack('>I6', due), '\1'
  local stored = new[id] or redis.call('HGET', key, id)
  local known, known_due
  if stored then
    local r = read(stored)
    if r.state == moved and r.published == 0 then -- before it came here, out of the inbox
      due = math.max(r.due, now + 1)
      packed = pack('>I6', due)
    else
      known, known_due = before(id, r)
    end
  end
  if known then
    status, packed = known, known_due
    if new[id] then new[#new + 1] = {n + 1} end -- which has to be stored first
  elseif due <= now then
    status = '\3'
  else
    local at, part = place(due, now, direct, ttls, 5, first_message - 1)
    schedule_note(notes, part, at, id)
    if not earliest or at < earliest then earliest = at end
    new[id] = packed .. parked_at .. ARGV[i + 2]
    new[#new + 1] = {n + 1, key, id, stored}
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
for _, one in ipairs(new) do
  if full then
    answers[one[1]] = '\255'
  elseif one[4] then -- the ID is used again
    redis.call('ZREM', KEYS[4], one[3]) -- before the record is one that is not to be forgotten
    redis.call('HSET', one[2], one[3], new[one[3]])
  elseif one[2] then
    redis.call('HSETNX', one[2], one[3], new[one[3]])
  end
end
if earliest and not full then wake(KEYS[2], earliest, ARGV[1], ARGV[2]) end
return {us, table.concat(answers)}
