-- Shared by every script; prepended to each.
--
-- A shard's schedule has a part for each lane, named by the lane's TTL in ms, and
-- part 0 for what is meant for none. A part holds messages in the order of their
-- promotion, which within a lane is the order in which they are due. A part has
-- two levels, which costs about a third of the memory of one large sorted set: a
-- sorted set of bucket numbers, and each bucket a small sorted set of message
-- IDs, scored by the milliseconds since the bucket's start. The key of the whole
-- is the set of the parts that hold something, and beside it is a hash with the
-- number of entries of each part. Envelopes live in many small
-- hashes by ID. Which of these keys a script needs depends on the server's clock
-- and on what is due, so they are derived here from a key that was passed, and
-- share its hash tag.
--
-- No key has the name of the envelopes' base. Each script that writes several keys
-- is given it nevertheless: while a Redis Cluster moves the keys of a slot one by
-- one, it refuses a call of which a key is missing (TRYAGAIN, ASK). Otherwise it
-- would stop the script at the first missing key, half-way.
--
-- What a script writes reaches the append-only file as one transaction. If Redis is
-- killed while it writes that, it starts without the transaction, but leaves its
-- beginning in the file; after another restart that beginning has happened. So every
-- script writes in an order in which each beginning does no harm: an envelope always
-- has an entry in the schedule or the claimed set, and what is in the set of those that
-- are kept always has a record. A record that should be kept and is not does no harm.
--
-- What is stored of a message is its record: 6 bytes of Unix ms for when it is due, 6 for
-- when it was parked (or planned anew, or came to its end), 2 bytes of stamp, 8 of a digest
-- of its content, 6 for when it was published first, where that is another instant, and the
-- envelope. Go has the same (format/record.go). The stamp is, from its lowest bit on, 10 bits of version,
-- which tells the copies of a message that was rescheduled apart, 3 of state, one that
-- says that the message goes into no lane, one that the 6 bytes are there, and one that
-- the message was delivered and is not settled. That has to be promoted until the broker
-- confirms it, as it may lead to another queue, which refuses it: before its envelope are 6
-- bytes of Unix ms until when it is kept then, and 4 of the envelope's length, and behind it
-- is what is told of its delivery.
--
-- Once the broker has a message, and once it was cancelled or delivered, its key is in
-- the set of those that are kept, scored by the instant from which it can be forgotten.
-- Its record goes only together with that entry.
--
-- While the number of shards changes (reshard.go), messages move from the shards of one
-- generation to those of the next, slot by slot. The state of an old shard has a frontier: what
-- is in slots before it has gone to the next generation. The state of a new shard has the number
-- of old shards, and for each of those how far it has arrived. Each ID is in one shard at any
-- time, or between two: scripts about an ID answer GONE or NOTYET then, and write nothing.
--
-- The key of a record is the message's ID within its entry (format/keys.go). Another message with
-- the same ID has a record of its own beside it: its key is a byte 1, a name, which is the
-- digest of its content where that is free, and the first one's key. The hash of the others
-- has, for each key that has such messages, their names.
local bucket_ms = 2000

-- What one command can bear, and more; even.
local most_args = 1000

-- A message that no lane suits is claimed so long before it is due, and waits
-- for the rest with the bridge. Go has the same number (route.go).
local ahead_ms = 50

-- The server's clock in ms, rounded down, and in microseconds.
local function clock()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return math.floor(us / 1000), us
end

local function part_key(schedule, part)
  return schedule .. ':' .. part
end

local function bucket_key(part_key, bucket)
  return part_key .. ':' .. string.format('%.0f', bucket)
end

-- Where id's envelope is. Go computes the same (format/keys.go).
local function envelopes_key(base, id)
  local sum = redis.sha1hex(id)
  return base .. ':' .. string.sub(sum, 1, 4) .. (string.byte(sum, 5) < 56 and '0' or '1') -- 56 is an 8
end

local function state_key(base)
  return string.sub(base, 1, -4) .. 'state' -- base ends with env
end

-- What is between an old shard and new ones: see take.lua.
local function moving_key(base)
  return string.sub(base, 1, -4) .. 'moving'
end

-- The key of the first message with the ID of key: its slot is that of all of them.
local function first_of(key)
  if string.byte(key) == 1 then return string.sub(key, 10) end
  return key
end

-- The number of the slot that decides when a message moves, and its shard of this many.
local all_slots = 131072
local function slot_of(key, shards)
  local sum = redis.sha1hex(first_of(key))
  local slot = 2 * tonumber(string.sub(sum, 1, 4), 16) + (string.byte(sum, 5) < 56 and 0 or 1)
  return slot, shards > 0 and tonumber(string.sub(sum, 9, 16), 16) % shards or 0
end

-- What a shard knows of a move to or from it, of which most know nothing.
local function moves_of(base)
  local state = state_key(base)
  local frontier, from = redis.call('HGET', state, 'frontier'), redis.call('HGET', state, 'from')
  return {state = state, frontier = tonumber(frontier or 0), from = tonumber(from or 0), arrived = {}}
end

-- Why the messages with the ID of key are not here, or nil if they are.
local function absence(moves, key)
  if moves.frontier == 0 and moves.from == 0 then return nil end
  local slot, old = slot_of(key, moves.from)
  if slot < moves.frontier then return 'GONE ' .. string.format('%.0f', moves.frontier) end
  if moves.from == 0 then return nil end
  if not moves.arrived[old] then
    moves.arrived[old] = tonumber(redis.call('HGET', moves.state, 'arrived:' .. string.format('%.0f', old)) or 0)
  end
  if slot >= moves.arrived[old] then return 'NOTYET ' .. string.format('%.0f', old) end
end

-- The same for those who ask about one ID, as what to answer.
local function refusal(base, key)
  local why = absence(moves_of(base), key)
  return why and redis.error_reply(why)
end

-- States of a record. A message that waits may be parked, claimed or promoted. One that
-- was moved was rescheduled without its envelope at hand.
local waiting, cancelled, delivered, moved = 0, 1, 2, 3

local digest_length = 8
local no_digest = string.rep('\0', digest_length) -- of a message that Redis has never had

-- Packs what comes before the envelope.
local function head(due, parked_at, version, state, direct, published, digest, unsettled)
  local stamp = version % 1024 + 1024 * state + (direct and 8192 or 0) + (unsettled and 32768 or 0)
  if published == parked_at then return struct.pack('>I6I6I2', due, parked_at, stamp) .. digest end
  return struct.pack('>I6I6I2', due, parked_at, stamp + 16384) .. digest .. struct.pack('>I6', published)
end

-- What comes before the envelope at most, and its part up to the stamp. A record that is
-- shorter was cut off; it must not hold up others.
local longest_head, stamped_head = 28, 14
local function padded(stored)
  return stored .. string.rep('\0', longest_head - #stored)
end

-- Reads a record; r.body is where its envelope begins, or what is told of its delivery.
local function read(stored)
  local r, stamp = {}
  if #stored < longest_head then stored = padded(stored) end
  r.due, r.parked_at, stamp = struct.unpack('>I6I6I2', stored)
  r.version, r.state = stamp % 1024, math.floor(stamp / 1024) % 8
  r.direct = math.floor(stamp / 8192) % 2 == 1
  r.digest = string.sub(stored, 15, 22)
  r.published, r.body = r.parked_at, 23
  if math.floor(stamp / 16384) % 2 == 1 then
    r.published, r.body = struct.unpack('>I6', stored, 23), 29
  end
  if stamp >= 32768 and #stored >= r.body + 9 then
    r.unsettled = true
    r.kept, r.length = struct.unpack('>I6I4', stored, r.body)
    r.body = r.body + 10 + r.length
  end
  return r
end

-- Says of what waits that it was delivered, until it is settled.
local function deliver_unsettled(r, now, over, envelope, path)
  return head(r.due, now, r.version, delivered, r.direct, r.published, r.digest, true) ..
    struct.pack('>I6I4', over, #envelope) .. envelope .. path
end

-- The part of a record that each claim needs, without a table: when it is due, version,
-- state, and whether it was delivered and is not settled.
local function glimpse(stored)
  if #stored < stamped_head then stored = padded(stored) end
  local due, _, stamp = struct.unpack('>I6I6I2', stored)
  return due, stamp % 1024, math.floor(stamp / 1024) % 8, stamp >= 32768
end

-- Whether a message that was published at an instant, or 0 where that is not known, is
-- another one than that of the record, with the same ID.
local clocks_ms = 5000 -- so far apart may the clocks of a publisher and of this server be
local function is_another(r, published)
  if r.published == 0 then return published > r.parked_at + clocks_ms end
  return r.published ~= published
end

-- The record of an ID that nothing is known of.
local function nothing()
  return {due = 0, parked_at = 0, published = 0, version = 0, state = moved, digest = no_digest}
end

local function others_key(base)
  return base .. ':others'
end

local function other_key(name, key)
  return '\1' .. name .. key
end

-- The keys of all messages with the ID of key: the first one's, and those of the others.
local function keys_of(base, key)
  local keys = {key}
  local names = redis.call('HGET', others_key(base), key) or ''
  for i = 1, #names, digest_length do
    keys[#keys + 1] = other_key(string.sub(names, i, i + digest_length - 1), key)
  end
  return keys
end

-- The ID of a message; Go makes the same of its key (format/keys.go).
local function id_of(key)
  if string.byte(key) == 1 then key = string.sub(key, 2 + digest_length) end
  if string.byte(key) ~= 2 then return key end
  return string.sub(key, string.find(key, '\2', 2, true) + 1)
end

-- Notes down that there is another message.
local function add_other(base, name, key)
  local names = redis.call('HGET', others_key(base), key) or ''
  for i = 1, #names, digest_length do
    if string.sub(names, i, i + digest_length - 1) == name then return end
  end
  redis.call('HSET', others_key(base), key, names .. name)
end

local function is_waiting(stored)
  local _, _, state = glimpse(stored)
  return state == waiting
end

-- What is stored of each entry: a hash with, for each entry, its messages, whose envelope is there, and the
-- bytes of all its records and their keys. A beginning of a script may leave it wrong, as with the counts of
-- the parts.
local function usage_key(base)
  return string.sub(base, 1, -4) .. 'usage' -- base ends with env
end

-- The entry of a message; Go makes its key (format/keys.go).
local function entry_of(key)
  if string.byte(key) == 1 then key = string.sub(key, 2 + digest_length) end
  if string.byte(key) ~= 2 then return '' end
  return string.sub(key, 2, string.find(key, '\2', 2, true) - 1)
end

local function has_envelope(stored)
  local _, _, state, unsettled = glimpse(stored)
  return (state == waiting or unsettled) and 1 or 0
end

local weighed = {} -- by entry, what the call has added
local most_bytes = 4194304 -- of records that one call reads to weigh them; one may be larger

-- Takes down that a record gives way to another one; nil or false is none.
local function weigh(key, old, new)
  local entry = entry_of(key)
  local sum = weighed[entry]
  if not sum then
    sum = {0, 0}
    weighed[entry] = sum
  end
  if old then
    sum[1], sum[2] = sum[1] - has_envelope(old), sum[2] - #key - #old
  end
  if new then
    sum[1], sum[2] = sum[1] + has_envelope(new), sum[2] + #key + #new
  end
end

-- Notes down what was weighed.
local function write_weights(base)
  local key = usage_key(base)
  for entry, sum in pairs(weighed) do
    if sum[1] ~= 0 then redis.call('HINCRBY', key, 'messages:' .. entry, sum[1]) end
    if sum[2] ~= 0 then redis.call('HINCRBY', key, 'bytes:' .. entry, sum[2]) end
  end
  weighed = {}
end

-- Forgets the entries of which nothing is stored. Publishers may not delete, so bridges do.
local function forget_entries(base)
  local key = usage_key(base)
  local usage = redis.call('HGETALL', key)
  for i = 1, #usage, 2 do
    local entry = string.match(usage[i], '^bytes:(.*)$')
    if entry and tonumber(usage[i + 1]) <= 0 then redis.call('HDEL', key, usage[i], 'messages:' .. entry) end
  end
end

-- Writes a record in the place of another one.
local function replace_record(base, key, old, new)
  redis.call('HSET', envelopes_key(base, key), key, new)
  weigh(key, old, new)
end

-- Forgets a record. Its entry in the set of those that are kept has to go before: one that
-- is left behind would take the next message with that key with it.
local function forget_record(base, key)
  local hash = envelopes_key(base, key)
  weigh(key, redis.call('HGET', hash, key), nil)
  redis.call('HDEL', hash, key)
  if string.byte(key) ~= 1 then return end
  local name, first, rest = string.sub(key, 2, 1 + digest_length), string.sub(key, 2 + digest_length), ''
  local names = redis.call('HGET', others_key(base), first) or ''
  for i = 1, #names, digest_length do
    local one = string.sub(names, i, i + digest_length - 1)
    if one ~= name then rest = rest .. one end
  end
  if rest == '' then
    redis.call('HDEL', others_key(base), first)
  else
    redis.call('HSET', others_key(base), first, rest)
  end
end

-- How a claimed message is scored: by the instant of its promotion and, as a fraction,
-- its version, so that no other version is taken for it. A command can be given the
-- number itself, of which nothing is lost, as tostring would round it.
local function score(at, version)
  return at + version / 1024
end

-- Whether a version is one after another one, by serial numbers (RFC 1982).
local function is_newer(version, than)
  return version ~= than and (version - than) % 1024 < 512
end

-- The version in such a score, as a command returns it.
local function version_in(score)
  return tonumber(score) % 1 * 1024
end

-- Where a message belongs that is due at an instant and was parked at another:
-- the instant of its promotion, and the part. The TTLs of the lanes are in ttls,
-- longest first, from index first on.
local function place(due, parked_at, direct, ttls, first, last)
  for i = first, direct and 0 or last do
    if tonumber(ttls[i]) <= due - parked_at then
      return due - ttls[i], ttls[i]
    end
  end
  return math.max(due - ahead_ms, parked_at), '0'
end

-- Takes down what is to enter the schedule. Much of what comes together is due
-- together, and so needs one command for many.
local function schedule_note(notes, part, at, id)
  local bucket = math.floor(at / bucket_ms)
  local buckets = notes[part]
  if not buckets then
    buckets = {}
    notes[part] = buckets
  end
  local entries = buckets[bucket]
  if not entries then
    entries = {}
    buckets[bucket] = entries
  end
  local n = #entries
  entries[n + 1], entries[n + 2] = at - bucket * bucket_ms, id
end

-- How many entries each part has. A beginning of a script may leave it wrong; a bridge
-- puts it right when it takes the shard (claim.lua).
local function counts_key(schedule)
  return schedule .. ':counts'
end

local function count(schedule, part, by)
  if by ~= 0 then redis.call('HINCRBY', counts_key(schedule), part, by) end
end

local function schedule_add(schedule, notes)
  for part, buckets in pairs(notes) do
    local key, added = part_key(schedule, part), 0
    for bucket, entries in pairs(buckets) do
      local ids = bucket_key(key, bucket)
      if redis.call('EXISTS', ids) == 0 then -- otherwise it can be found already
        redis.call('SADD', schedule, part)
        redis.call('ZADD', key, bucket, string.format('%.0f', bucket))
      end
      for first = 1, #entries, most_args do
        added = added + redis.call('ZADD', ids, unpack(entries, first, math.min(first + most_args - 1, #entries)))
      end
    end
    count(schedule, part, added)
  end
end

-- Returns whether there was such an entry.
local function schedule_remove(schedule, part, at, id)
  local key, bucket = part_key(schedule, part), math.floor(at / bucket_ms)
  local ids = bucket_key(key, bucket)
  if redis.call('ZREM', ids, id) == 0 then return false end
  if redis.call('EXISTS', ids) == 0 then redis.call('ZREM', key, string.format('%.0f', bucket)) end
  count(schedule, part, -1)
  return true
end

-- The instant of a part's first message, or nil.
local function part_head(key)
  while true do
    local bucket = redis.call('ZRANGE', key, 0, 0)[1]
    if not bucket then return nil end
    local first = redis.call('ZRANGE', bucket_key(key, bucket), 0, 0, 'WITHSCORES')
    if first[1] then return bucket * bucket_ms + first[2] end
    redis.call('ZREM', key, bucket)
  end
end

-- The instant of the first message, or nil. Forgets parts that are empty.
local function schedule_head(schedule)
  local earliest
  for _, part in ipairs(redis.call('SMEMBERS', schedule)) do
    local head = part_head(part_key(schedule, part))
    if not head then
      redis.call('SREM', schedule, part)
      redis.call('HDEL', counts_key(schedule), part)
    elseif not earliest or head < earliest then
      earliest = head
    end
  end
  return earliest
end

-- A group has, under its name within its entry, a hash with the keys of the messages that were parked
-- with it, each with the digest of its content: a record of another digest is of a later message with
-- that key. All groups together have a sorted set of group and key, scored by when to look whether the
-- message has left (sweep.lua): when it is due, or after a day. Without groups there is neither.
local look_ms = 86400000

local function groups_key(base)
  return string.sub(base, 1, -4) .. 'groups' -- base ends with env
end

local function group_key(base, group)
  return groups_key(base) .. ':' .. group
end

-- Takes a message into a group. Before its record is written: an entry without a record does no harm.
local function join_group(base, group, key, digest, due)
  redis.call('ZADD', groups_key(base), math.min(due, clock() + look_ms), struct.pack('>I2', #group) .. group .. key)
  redis.call('HSET', group_key(base, group), key, digest)
end

-- Wakes the sleeping bridges if one must act at the given instant, earlier than
-- the earliest for which they have set their alarm.
local function wake(state, at, channel, shard)
  local alarm = redis.call('HGET', state, 'alarm')
  if alarm and at < tonumber(alarm) then
    redis.call('HSET', state, 'alarm', string.format('%.0f', at))
    redis.call('PUBLISH', channel, shard)
  end
end
