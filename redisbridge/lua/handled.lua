-- Notes down how far the consumer of a queue is with a message that was delivered. There
-- is a line for each queue, the last one first.
--
-- KEYS: 1 the hash of the ID's record, 2 base key of the envelopes (lib.lua), 3 kept
-- ARGV: 1 ID, 2 when it was published in Unix ms, or 0 if that is not known, 3 queue,
--       without tabs and line feeds, 4 what to say of it, without line feeds, 5 until when
--       to keep that, Unix ms
-- Returns 1, or 0 where the message is not known, or not the one that was delivered.
-- O(log N) in the messages that are kept.
local most = 8 -- queues
local id, published, queue = ARGV[1], tonumber(ARGV[2]), ARGV[3] .. '\t'
local stored = redis.call('HGET', KEYS[1], id)
local r = stored and read(stored)
if not r or r.state ~= delivered then return 0 end
if published > 0 and r.published > 0 and published ~= r.published then return 0 end
local path, lines = '', {queue .. ARGV[4]}
for line in string.gmatch(string.sub(stored, r.body), '[^\n]+') do
  if string.sub(line, 1, 1) == '\t' then
    path = line
  elseif string.sub(line, 1, #queue) ~= queue and #lines < most then
    lines[#lines + 1] = line
  end
end
redis.call('ZADD', KEYS[3], 'GT', ARGV[5], id)
redis.call('HSET', KEYS[1], id, string.sub(stored, 1, r.body - 1) .. path .. '\n' .. table.concat(lines, '\n'))
return 1
