-- Counts a page of what is kept. Writes nothing.
--
-- KEYS: 1 kept, 2 base key of the envelopes (lib.lua)
-- ARGV: 1 most IDs to look at, 2 most bytes of records to read, 3 score and 4 ID to go on
--       after, or no ID for the first with that score
-- Returns 1 if there is more, the score and ID reached, and the numbers of messages that
-- wait in a lane, that were due and of which nothing else is known, that were cancelled,
-- delivered, and rescheduled out of reach. O(log N) per ID looked at.
local most, bytes, score, id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
local now = clock()
local in_lane, counts = 0, {[waiting] = 0, [cancelled] = 0, [delivered] = 0, [moved] = 0}
local list = page(KEYS[1], score, id, most)
local more = #list == 2 * most and 1 or 0
for i = 1, #list, 2 do
  if bytes <= 0 then
    more = 1
    break
  end
  id, score = list[i], list[i + 1]
  local stored = redis.call('HGET', envelopes_key(KEYS[2], id), id)
  if stored then
    local r = read(stored)
    bytes = bytes - #stored
    counts[r.state] = (counts[r.state] or 0) + 1
    if r.state == waiting and r.due > now then in_lane = in_lane + 1 end
  end
end
local due = counts[waiting] - in_lane
return {more, score, id, in_lane, due, counts[cancelled], counts[delivered], counts[moved]}
