import { recordTtlMs } from '@postern/contracts/internal'

/**
 * Lua for Redis: stores a record unless one of the same or a later state is there, so that a slow fill never replaces a
 * tombstone. `KEYS[1]` is the record's key, `ARGV[1]` the encoded record, `ARGV[2]` its end in milliseconds since the
 * epoch. Returns 1 when it stored and 0 when it left what was there.
 *
 * A value begins with `<key version>.<tenant version>.<read at>|`. All three only grow with the moment of reading, so
 * comparing them from left to right tells which of two records was read later. What does not begin so is no record and
 * is replaced. The end is absolute (PXAT): a process that was frozen between reading a row and storing it plants nothing
 * that lives longer than the row was good for; an end that has passed stores nothing. It is at most
 * `recordTtlMs` away by Redis's own clock: a database whose clock runs ahead names one that is an hour away.
 */
export const storeRecordScript: string = `
local function order(value)
  local version, tenant, read = string.match(value, '^(%d+)%.(%d+)%.(%d+)|')
  if version == nil then return nil end
  return { tonumber(version), tonumber(tenant), tonumber(read) }
end
local given = order(ARGV[1])
if given == nil then return redis.error_reply('not a record') end
local stored = redis.call('GET', KEYS[1])
local there = stored and order(stored)
if there then
  for place = 1, 3 do
    if given[place] > there[place] then break end
    if given[place] < there[place] or place == 3 then return 0 end
  end
end
local now = redis.call('TIME')
local last = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000) + ${recordTtlMs}
redis.call('SET', KEYS[1], ARGV[1], 'PXAT', string.format('%.0f', math.min(tonumber(ARGV[2]), last)))
return 1
`
