-- Lists the bridges alive with what each has reported. Writes nothing.
--
-- KEYS: 1 bridges, 2 reports
-- Returns Redis' clock in Unix ms, and for each bridge its ID and its report with the
-- instant that it is from, or '' where it makes none. O(B) in the number of bridges.
local now = clock()
local answer = {now}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')) do
  answer[#answer + 1] = id
  answer[#answer + 1] = redis.call('HGET', KEYS[2], id) or ''
end
return answer
