-- Lists the bridges alive with what each has reported. Writes nothing.
--
-- KEYS: 1 bridges, 2 reports
-- Returns Redis' clock in Unix ms, and for each bridge its ID, the instant in Unix ms at
-- which its entry ends, and its report with the instant that it is from, or '' where it
-- makes none. O(B) in the number of bridges.
local now = clock()
local answer = {now}
local alive = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES')
for i = 1, #alive, 2 do
  local n = #answer
  answer[n + 1], answer[n + 2] = alive[i], tonumber(alive[i + 1])
  answer[n + 3] = redis.call('HGET', KEYS[2], alive[i]) or ''
end
return answer
