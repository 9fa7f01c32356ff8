-- Parks a message again that was rescheduled while its envelope was not at hand: it has
-- come to its consumer at a time that is no longer its own, or was found in a tier.
--
-- KEYS: 1 schedule, 2 state, 3 the hash of the ID's record, 4 base key of the envelopes
--       (lib.lua), 5 kept
-- ARGV: 1 wake channel, 2 shard, 3 ID, 4 when it was published in Unix ms, or 0 if that
--       is not known, 5 its version, 6 the digest of its content, 7 envelope, 8 its group within
--       its entry, or empty, 9... TTLs of the lanes in ms, longest first
-- Returns 1, or 0 if it is not to be parked (any more). O(log N) in the messages of the
-- shard.
local absent = refusal(KEYS[4], ARGV[3])
if absent then return absent end
local id, now, published, version = ARGV[3], clock(), tonumber(ARGV[4]), tonumber(ARGV[5])
local stored = redis.call('HGET', KEYS[3], id)
local r = stored and read(stored)
if not r or r.state ~= moved or is_newer(r.version, version) or is_another(r, published) then return 0 end
local at, part = place(r.due, now, r.direct, ARGV, 9, #ARGV)
local notes = {}
schedule_note(notes, part, at, id)
schedule_add(KEYS[1], notes)
if ARGV[8] ~= '' then join_group(KEYS[4], ARGV[8], id, ARGV[6], r.due) end
redis.call('ZREM', KEYS[5], id)
replace_record(KEYS[4], id, stored, head(r.due, now, version + 1, waiting, r.direct, published, ARGV[6]) .. ARGV[7])
write_weights(KEYS[4])
wake(KEYS[2], at, ARGV[1], ARGV[2])
return 1
