-- Versioned binary, read and written with care: for fields in another order, and for numbers that a double does not hold.

-- 64 bits, two's complement, of a pair.
local function pack_integer(high, low)
  local rest = high % 65536
  local product = (high - rest) / 65536 * GIGA
  -- high * 1e9 = product * 2^16 + rest * 1e9
  local lower = product % 65536 * 65536 + rest * GIGA + low
  local upper = floor(product / 65536) + floor(lower / 4294967296)
  return struct.pack('>I4I4', upper % 4294967296, lower % 4294967296)
end

local function unpack_integer(bytes, at)
  local upper, lower = struct.unpack('>I4I4', bytes, at)
  if upper >= 2147483648 then upper = upper - 4294967296 end
  -- Long division by 1e9, 16 bits at a time.
  local high, rest = floor(upper / GIGA), upper % GIGA
  rest = rest * 65536 + floor(lower / 65536)
  high, rest = high * 65536 + floor(rest / GIGA), rest % GIGA
  rest = rest * 65536 + lower % 65536
  return high * 65536 + floor(rest / GIGA), rest % GIGA
end

-- An instant in microseconds, rounded up.
local function pack_micros(high, low)
  local micros = math.ceil(low / 1000)
  -- high * 1e6 + micros, as a pair.
  local thousandth = floor(high / 1000)
  local rest = (high - thousandth * 1000) * 1000000 + micros
  return pack_integer(thousandth + floor(rest / GIGA), rest % GIGA)
end

-- Microseconds as nanoseconds; nothing if that is beyond 64 bits.
local function unpack_micros(bytes)
  local high, low = unpack_integer(bytes, 1)
  if high > 9223373 or high < -9223373 then return nil end
  local nanos = low % 1000000 * 1000
  high = high * 1000 + floor(low / 1000000)
  -- The last instant, rounded up, lies beyond itself.
  if high == LAST_HIGH and nanos == 854776000 then return LAST_HIGH, LAST_LOW end
  if less(LAST_HIGH, LAST_LOW, high, nanos) or less(high, nanos, FIRST_HIGH, FIRST_LOW) then return nil end
  return high, nanos
end

-- The contents of these fields of a hash, in this order; nothing if it has others, or not all.
local function contents_of(fields, names)
  local found = {}
  for at = 1, #fields, 2 do found[fields[at]] = fields[at + 1] end
  if #fields ~= 2 * #names + 2 or found.v ~= '1' then return nil end
  for index = 1, #names do
    if not found[names[index]] then return nil end
  end
  return found[names[1]], found[names[2]], found[names[3]]
end

-- Makes room in a hash that quotas share, which has so many fields at most: a state goes as a whole, the first in the hash
-- first, but not the one that was just written.
local function make_room(key, prefix, most)
  local surplus = redis.call('HLEN', key) - most
  local states, order = {}, {}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local state = match(field, '^(.*/)')
    if state and state ~= prefix then
      if not states[state] then states[state], order[#order + 1] = {}, state end
      table.insert(states[state], field)
    end
  end
  for index = 1, #order do
    if surplus <= 0 then break end
    surplus = surplus - redis.call('HDEL', key, unpack(states[order[index]]))
  end
end
