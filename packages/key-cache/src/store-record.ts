import { recordTtlMs } from '@postern/contracts/internal'

/**
 * Stores a record (`KEYS[1]` key, `ARGV[1]` record, `ARGV[2]` end, epoch ms) unless Redis has the same or a newer `<key
 * version>.<tenant version>.<read at>`, so a slow read never replaces a revocation. Returns 1 or 0.
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
