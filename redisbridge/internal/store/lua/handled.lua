-- Notes down how far the consumer of a queue is with a message that was delivered. There
-- is a line for each queue, the last one first.
--
-- KEYS: 1 base key of the envelopes (lib.lua), 2 kept
-- ARGV: 1 key, 2 when it was published in Unix ms, or 0 if that is not known, 3 queue,
--       without tabs and line feeds, 4 since when that is so, in Unix ms, 5 what to say of
--       it, without line feeds, 6 until when to keep that, Unix ms
-- Returns 1, or 0 where the message is not known, or not the one that was delivered, or
-- something later is known of the queue.
-- O(log N) in the messages that are kept.
local absent = refusal(KEYS[1], ARGV[1])
if absent then return absent end
local most = 8 -- queues
local published, queue = tonumber(ARGV[2]), ARGV[3] .. '\t'
local key, stored, r
for _, one in ipairs(keys_of(KEYS[1], ARGV[1])) do
  local its_stored = redis.call('HGET', envelopes_key(KEYS[1], one), one)
  local its = its_stored and read(its_stored)
  if its and its.state == delivered and not r and (published == 0 or its.published == 0 or published == its.published) then
    key, stored, r = one, its_stored, its
  end
end
if not r then return 0 end
local path, lines = '', {queue .. ARGV[4] .. '\t' .. ARGV[5]}
for line in string.gmatch(string.sub(stored, r.body), '[^\n]+') do
  if string.sub(line, 1, 1) == '\t' then
    path = line
  elseif string.sub(line, 1, #queue) == queue then
    -- What was told of a retry may come after what became of that.
    if tonumber(string.match(line, '^[^\t]*\t(%d+)')) > tonumber(ARGV[4]) then return 0 end
  elseif #lines < most then
    lines[#lines + 1] = line
  end
end
if not r.unsettled then redis.call('ZADD', KEYS[2], 'GT', ARGV[6], key) end
replace_record(KEYS[1], key, stored, string.sub(stored, 1, r.body - 1) .. path .. '\n' .. table.concat(lines, '\n'))
write_weights(KEYS[1])
return 1
