-- Reads a page of a part of the schedule, of what is claimed, or of what is kept.
--
-- KEYS: 1 schedule, 2 claimed, 3 kept, 4 base key of the envelopes (lib.lua)
-- ARGV: 1 part, or 'claimed' or 'kept', 2 most IDs to look at, 3 most bytes of records to
--       read, 4 bucket to go on in, of a part, 5 score and 6 ID to go on after, or no ID
--       for the first with that score, 7 score at which to stop, of what is kept, 8 what
--       IDs are to begin with, 9 bytes to return of each record at most, 10... TTLs of the
--       lanes in ms, longest first
-- Returns this clock in Unix ms, 1 if there is more, the bucket, score and ID reached, and
-- then for each message that waits there its key, instant of promotion in Unix ms, the
-- length of its record, and the record, cut off. What is kept waits only until it is due.
-- O(log N) per ID looked at.
local what, most, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local bucket, score, id = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local stop, prefix, cut = tonumber(ARGV[7]), ARGV[8], tonumber(ARGV[9])
local now = clock()
local answer = {now, 1, 0, '', ''}

-- Adds a message to the answer, if it waits where its ID was found.
local function add(found, at)
  if string.sub(id_of(found), 1, #prefix) ~= prefix then return end
  local stored = redis.call('HGET', envelopes_key(KEYS[4], found), found)
  if not stored then return end
  bytes = bytes - #stored
  if not is_waiting(stored) then return end
  if what == 'kept' then
    local r = read(stored)
    if r.due <= now then return end
    at = place(r.due, r.parked_at, r.direct, ARGV, 10, #ARGV)
  elseif redis.call('ZSCORE', KEYS[3], found) or what ~= 'claimed' and redis.call('ZSCORE', KEYS[2], found) then
    return
  end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = found, at, #stored, string.sub(stored, 1, cut)
end

-- Goes over a set from the position on; true at its end.
local function walk(key, start)
  local list = page(key, score, id, most)
  for i = 1, #list, 2 do
    if tonumber(list[i + 1]) >= stop then return true end
    if bytes <= 0 then return false end
    id, score = list[i], list[i + 1]
    most = most - 1
    add(id, what == 'kept' and 0 or start + math.floor(score))
  end
  return most > 0
end

if what == 'claimed' or what == 'kept' then
  if walk(what == 'kept' and KEYS[3] or KEYS[2], 0) then answer[2] = 0 end
else
  local key = part_key(KEYS[1], what)
  while most > 0 and walk(bucket_key(key, bucket), bucket * bucket_ms) do
    local after = redis.call('ZRANGEBYSCORE', key, '(' .. string.format('%.0f', bucket), '+inf', 'LIMIT', 0, 1)[1]
    if not after then
      answer[2] = 0
      break
    end
    bucket, score, id = tonumber(after), '-inf', ''
    most = most - 1
  end
end
answer[3], answer[4], answer[5] = bucket, score, id
return answer
