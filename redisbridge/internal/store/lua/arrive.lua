-- Says what a consumer is to do with a message that has come, and notes down that it
-- was delivered: from then on it cannot be cancelled.
--
-- KEYS: 1 claimed, 2 base key of the envelopes (lib.lua), 3 kept
-- ARGV: 1 key, 2 and 3 when it was published and is due in Unix ms, or 0 if that is not
--       known, 4 its version, 5 how long to remember a delivery in ms, 6 the same where
--       there is more than one version, 7 window in ms, for which an ID is remembered from
--       when it was published, 8 its path, or '', 9 for how many ms it has been on its way,
--       at least, 10 the digest of its content
-- Returns {1 deliver it}, {2 drop it: cancelled, when}, {3 drop it: rescheduled, due}, or
-- {4 park it again, due}. O(log N) in the messages that are kept, per message with the ID.
local absent = refusal(KEYS[2], ARGV[1])
if absent then return absent end
local now = clock()
local published, version = tonumber(ARGV[2]), tonumber(ARGV[4])

-- Redis gives each message with an ID an instant of its own. What went straight to a tier or to
-- the ready exchange has that of its publisher's clock, and is known by its content, too. What is
-- tried again, or replayed, may be either: its content tells it from what waits only, since that
-- of a parked message may have a due time of which the message says nothing.
local again = ARGV[8] == 'parked, then retry' or ARGV[8] == 'replayed'
local by_redis = not again and ARGV[8] ~= 'direct' and string.sub(ARGV[8], 1, 5) ~= 'tier '
local function is_its(its)
  if is_another(its, published) then return false end
  return by_redis or published == 0 or its.published == 0 or its.digest == no_digest or its.digest == ARGV[10] or
    again and (its.state ~= waiting or its.version ~= version)
end

-- The record of the message is that which was published at the same instant; otherwise one
-- of which, or of the message, the instant is not known.
local key, r, was, envelope, exact, same, tombstone
for _, one in ipairs(keys_of(KEYS[2], ARGV[1])) do
  local stored = redis.call('HGET', envelopes_key(KEYS[2], one), one)
  local its = stored and read(stored)
  if its and not exact and is_its(its) then
    key, r, exact = one, its, its.published == published
    was, envelope = stored, string.sub(stored, its.body)
    same = exact and published > 0
  end
  if its and its.state == cancelled and published <= its.parked_at + clocks_ms then tombstone = its end
end
if not r then
  -- A copy of which Redis has no record, such as one in a tier, was published before the ID
  -- was cancelled, or one cannot tell.
  if tombstone then return {2, tombstone.parked_at} end
  if redis.call('HEXISTS', envelopes_key(KEYS[2], ARGV[1]), ARGV[1]) == 1 then return {1} end -- it is another message's
  key, r = ARGV[1], nothing()
  r.due, r.published, r.version, r.state, r.digest = tonumber(ARGV[3]), published, version, waiting, ARGV[10]
end
if r.state == cancelled then return {2, r.parked_at} end
-- Of a copy of a newer version Redis has lost the reschedule: it is the message.
if r.version ~= version and not is_newer(version, r.version) then
  -- What came out of a tier is another message with the ID where its content is another one, or
  -- where it was published after the message had been delivered. This clock tells that, where
  -- the instant of publishing is not known or is another clock's.
  if version == 0 and not same and r.digest ~= no_digest and r.digest ~= ARGV[10] then return {1} end
  if r.state == delivered and version == 0 and not same and now - ARGV[9] >= r.parked_at then return {1} end
  return {3, r.due}
end
if r.state == delivered then return {1} end
if r.state == moved and r.due > now then return {4, r.due} end
local over = math.max(now + (version > 0 and ARGV[6] or ARGV[5]), published + ARGV[7])
local path = ARGV[8] ~= '' and '\t' .. ARGV[8] or ''
if envelope and r.state == waiting and r.due <= now and not redis.call('ZSCORE', KEYS[3], key) then
  replace_record(KEYS[2], key, was, deliver_unsettled(r, now, over, envelope, path))
  write_weights(KEYS[2])
  return {1}
end
replace_record(KEYS[2], key, was, head(r.due, now, version, delivered, r.direct, published, r.digest) .. path)
write_weights(KEYS[2])
redis.call('ZADD', KEYS[3], over, key)
-- What came from elsewhere before it is due is not promoted again; a claim skips its entry.
redis.call('ZREM', KEYS[1], key)
return {1}
