-- Looks the messages with an ID up. Writes nothing.
--
-- KEYS: 1 claimed, 2 kept, 3 base key of the envelopes (lib.lua)
-- ARGV: 1 key, 2... TTLs of the lanes in ms, longest first
-- Returns this clock in Unix ms, and for each message its key, record, score in claimed and
-- in kept, each empty where there is none, and the instant of promotion in Unix ms that its
-- record tells. O(log N) in the messages that are claimed or kept, per message with the ID.
local absent = refusal(KEYS[3], ARGV[1])
if absent then return absent end
local now = clock()
local answer = {now}
for _, key in ipairs(keys_of(KEYS[3], ARGV[1])) do
  local stored = redis.call('HGET', envelopes_key(KEYS[3], key), key)
  if stored then
    local r, n = read(stored), #answer
    answer[n + 1], answer[n + 2] = key, stored
    answer[n + 3], answer[n + 4] = redis.call('ZSCORE', KEYS[1], key) or '', redis.call('ZSCORE', KEYS[2], key) or ''
    answer[n + 5] = place(r.due, r.parked_at, r.direct, ARGV, 2, #ARGV)
  end
end
return answer
