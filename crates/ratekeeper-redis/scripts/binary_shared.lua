-- Versioned binary, of what the quotas of requests share: one hash, each field after the name of its state and a slash.

-- The most fields that the quotas of requests may have in one hash: the version, and three for each state that is kept
-- and the one that is written.
local MOST_FIELDS = 1 + 3 * (MOST_OTHERS + 1)

-- The fields of a rule's state.
local function binary_fields(rule)
  local fields = {}
  for index, name in ipairs(rule.algorithm.names) do fields[index] = rule.name .. '/' .. name end
  return fields
end

ENCODINGS.B = {
  load = function(key, rules)
    local algorithm = rules[1].algorithm
    local found = redis.call('HMGET', key, 'v', unpack(binary_fields(rules[1])))
    if found[1] ~= '1' then
      local fields = redis.call('HGETALL', key)
      if #fields == 0 then return false end
      return fields, true
    end
    local fields = { 'v', '1' }
    for index, name in ipairs(algorithm.names) do
      if found[index + 1] then fields[#fields + 1], fields[#fields + 2] = name, found[index + 1] end
    end
    if #fields == 2 then return fields end
    rules[1].found = binary_state(algorithm, fields)
    if not rules[1].found then return redis.call('HGETALL', key), true end
    return fields
  end,

  told = binary_told,

  -- Whatever is there.
  all = function(key) return redis.call('HGETALL', key) end,

  save = function(key, rules, high, low)
    local prefix = rules[1].name .. '/'
    -- Before the write: a hash that it makes has no time to live yet, which is not for ever.
    local millis = no_shorter(key, lifetime(high, low))
    binary_write(key, prefix, rules[1].algorithm, rules[1].new)
    redis.call('PEXPIRE', key, format('%d', millis))
    if rules[1].found then return end
    local surplus = redis.call('HLEN', key) - MOST_FIELDS
    if surplus <= 0 then return end
    -- A state goes as a whole, the first in the hash first.
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
  end,

  forget = function(key, rules)
    redis.call('HDEL', key, unpack(binary_fields(rules[1])))
    if redis.call('HLEN', key) <= 1 then redis.call('DEL', key) end
  end,
}
