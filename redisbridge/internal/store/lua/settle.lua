-- Notes that the broker has confirmed messages, wherever they are by now: another
-- bridge may have taken the shard over meanwhile. They are kept until they are due,
-- or longer where an ID is remembered for longer. A message that is no longer the
-- confirmed one, since it was planned anew, cancelled or delivered, stays as it is.
--
-- KEYS: 1 schedule, 2 claimed, 3 base key of the envelopes, 4 kept, 5 state
-- ARGV: 1 window in ms, for which an ID is remembered from when it was published, 2 the
--       same from when a message is due that was rescheduled, then for each message
--       its ID, and the record's first 14 bytes, 6 each of Unix ms for when it was
--       published and for promote at, and the part of the schedule, in one
-- Returns the number of messages settled. O(log N) per message.
local most = 500 -- messages that one call can bear, and more
local now, settled, left, bytes = clock(), 0, 0, 0
local window, after = tonumber(ARGV[1]), tonumber(ARGV[2])

-- Notes down in told what is left of a record whose message was delivered before this, and
-- returns until when that is kept, or 0. Only what is due can have been delivered.
local function note_delivered(id, told)
  local stored = redis.call('HGET', envelopes_key(KEYS[3], id), id)
  local r = stored and read(stored)
  if not r or not r.unsettled then return 0 end
  told[#told + 1] = {KEYS[3], id, stored, head(r.due, r.parked_at, r.version, delivered, r.direct, r.published, r.digest) .. string.sub(stored, r.body)}
  return r.kept
end

for first = 3, #ARGV, 2 * most do
  local ids, ours, kept, gone, back, told = {}, {}, {}, {}, {}, {}
  for i = first, math.min(first + 2 * most, #ARGV) - 1, 2 do ids[#ids + 1] = ARGV[i] end
  local claimed = redis.call('ZMSCORE', KEYS[2], unpack(ids))
  for n, id in ipairs(ids) do
    local promoted = ARGV[first + 2 * n - 1]
    local due, _, stamp, published, at = struct.unpack('>I6I6I2I6I6', promoted)
    local version = stamp % 1024
    local is_ours = claimed[n] and tonumber(claimed[n]) == score(at, version)
    if not is_ours then
      local stored = redis.call('HGET', envelopes_key(KEYS[3], id), id)
      local its = stored and read(stored)
      local was_delivered = its and its.unsettled and its.due == due and its.version == version and its.published == published
      if was_delivered or stored and string.sub(stored, 1, 14) == string.sub(promoted, 1, 14) then
        is_ours = true
        back[#back + 1] = {string.sub(promoted, 27), at, id}
      end
    end
    if is_ours then
      local over = math.max(due, published + window)
      if version > 0 then over = math.max(over, due + after) end
      if due <= now then over = math.max(over, note_delivered(id, told)) end
      if over <= now then bytes = bytes + redis.call('HSTRLEN', envelopes_key(KEYS[3], id), id) end
      if over > now or bytes > most_bytes then -- what is much, claims forget step by step
        local k = #kept
        kept[k + 1], kept[k + 2] = over, id
      else
        gone[#gone + 1] = id
      end
      ours[#ours + 1] = id
    end
  end
  if #kept > 0 then redis.call('ZADD', KEYS[4], unpack(kept)) end
  -- A repeated call may find what an earlier one has kept.
  if #gone > 0 then redis.call('ZREM', KEYS[4], unpack(gone)) end
  for _, one in ipairs(told) do replace_record(unpack(one)) end
  for _, id in ipairs(gone) do forget_record(KEYS[3], id) end
  for _, one in ipairs(back) do
    if schedule_remove(KEYS[1], one[1], one[2], one[3]) then left = left + 1 end
  end
  if #ours > 0 then redis.call('ZREM', KEYS[2], unpack(ours)) end
  settled = settled + #ours
end
write_weights(KEYS[3])
if settled > 0 then forget_entries(KEYS[3]) end
if left > 0 then redis.call('HINCRBY', KEYS[5], 'left', left) end -- which had taken them for put back (flow.lua)
return settled
