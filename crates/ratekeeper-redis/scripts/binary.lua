-- Versioned binary: the state of one rule as the fields of a hash, big-endian.

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

-- Microseconds as nanoseconds; nil if that is beyond 64 bits.
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

local function binary_log(count, entries)
  local high, low = unpack_integer(count, 1)
  if #entries % 16 ~= 0 or high ~= 0 or low * 16 ~= #entries then return nil end
  local log, sum_high, sum_low = {}, 0, 0
  for at = 1, #entries, 16 do
    high, low = unpack_integer(entries, at)
    local cost_high, cost_low = unpack_integer(entries, at + 8)
    sum_high, sum_low = log_takes(log, sum_high, sum_low, high, low, cost_high, cost_low)
    if not sum_high then return nil end
  end
  return log
end

-- The state in a hash; nil if it is not understood.
local function binary_state(algorithm, fields)
  local found = {}
  for at = 1, #fields, 2 do found[fields[at]] = fields[at + 1] end
  if #fields ~= 2 * #algorithm.names + 2 or found.v ~= '1' then return nil end
  for index, name in ipairs(algorithm.names) do
    local content = found[name]
    local is_entries = not algorithm.kinds and index == 2
    if not content or #content ~= 8 and not is_entries then return nil end
  end
  if not algorithm.kinds then return binary_log(found.n, found.e) end
  local state, size = {}, 0
  for index, kind in ipairs(algorithm.kinds) do
    local content = found[algorithm.names[index]]
    if kind == 'd' then
      local number = struct.unpack('>d', content)
      if number - number ~= 0 then return nil end
      size = size + 1
      state[size] = number
    else
      if kind == 'u' then
        state[size + 1], state[size + 2] = unpack_micros(content)
      else
        state[size + 1], state[size + 2] = unpack_integer(content, 1)
      end
      if not state[size + 1] or kind == 'n' and state[size + 1] < 0 then return nil end
      size = size + 2
    end
  end
  return state
end

-- The contents of the fields after `v`, in the order of their names.
local function binary_contents(algorithm, state)
  if not algorithm.kinds then
    local entries = {}
    for at = 1, #state, 2 do entries[#entries + 1] = pack_integer(state[at], state[at + 1]) end
    return { pack_integer(0, #state / 4), table.concat(entries) }
  end
  local contents, at = {}, 1
  for index, kind in ipairs(algorithm.kinds) do
    if kind == 'd' then
      contents[index], at = struct.pack('>d', state[at]), at + 1
    else
      local pack = kind == 'u' and pack_micros or pack_integer
      contents[index], at = pack(state[at], state[at + 1]), at + 2
    end
  end
  return contents
end

-- Writes the state of a rule to a hash, each field after the same prefix.
local function binary_write(key, prefix, algorithm, state)
  local contents, names = binary_contents(algorithm, state), algorithm.names
  if #names == 1 then
    redis.call('HSET', key, 'v', '1', prefix .. names[1], contents[1])
  elseif #names == 2 then
    redis.call('HSET', key, 'v', '1', prefix .. names[1], contents[1], prefix .. names[2], contents[2])
  else
    redis.call('HSET', key, 'v', '1', prefix .. names[1], contents[1], prefix .. names[2], contents[2],
      prefix .. names[3], contents[3])
  end
end

-- What who asked is told: the contents of the fields after `v`, one after another.
local function binary_told(_, rules, brief_of)
  local state = rules[1].found
  if not state then return false end
  if rules[1].algorithm.brief then state = brief_of(rules[1]) end
  if not state then return false end
  return table.concat(binary_contents(rules[1].algorithm, state))
end

ENCODINGS.b = {
  load = function(key, rules)
    local fields = redis.call('HGETALL', key)
    if #fields == 0 then return false end
    rules[1].found = binary_state(rules[1].algorithm, fields)
    if not rules[1].found then return fields, true end
    return fields
  end,

  told = binary_told,

  save = function(key, rules, high, low)
    binary_write(key, '', rules[1].algorithm, rules[1].new)
    redis.call('PEXPIRE', key, format('%d', lifetime(high, low)))
  end,

  forget = function(key) redis.call('DEL', key) end,
}
