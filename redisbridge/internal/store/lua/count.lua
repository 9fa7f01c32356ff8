-- Counts what a part of the schedule holds, some of its buckets with each call. Writes
-- nothing.
--
-- KEYS: 1 schedule, 2 base key of the envelopes (lib.lua)
-- ARGV: 1 part, 2 most buckets, 3 bucket to go on after, or '-inf'
-- Returns the number of messages, and the bucket reached, or '' at the end. O(1) per
-- bucket, except the first.
local key, most = part_key(KEYS[1], ARGV[1]), tonumber(ARGV[2])
local buckets = redis.call('ZRANGEBYSCORE', key, '(' .. ARGV[3], '+inf', 'LIMIT', 0, most)
local n = 0
for _, bucket in ipairs(buckets) do n = n + redis.call('ZCARD', bucket_key(key, bucket)) end
return {n, #buckets == most and buckets[most] or ''}
