-- Compact ASCII: the states of all rules of a plan in one string, by name: 81|rule=state$rule=state. What belongs to
-- rules of other versions of the plan is kept as it is. Read here is what is written here and by the engine's encoder;
-- any other text goes back unread, and who asked decides whether it is state.

local function ascii_double(text)
  if not (match(text, '^%-?%d+%.?%d*$') or match(text, '^%-?%d+%.?%d*e[+-]%d+$')) then return nil end
  local number = tonumber(text)
  -- Too large for a double is no number to the engine.
  if not number or number - number ~= 0 then return nil end
  return number
end

-- Whole numbers in as few digits as need be, others so that they read back as the same double.
local function ascii_number(number)
  if number == floor(number) and number < 1e15 then return format('%d', number) end
  return format('%.17g', number)
end

local function ascii_log(text)
  local at, stop, entries = 0, 0, nil
  at, stop, entries = find(text, '^71|(%d+)')
  if not at or #entries > 7 then return nil end
  local log, sum_high, sum_low = {}, 0, 0
  for _ = 1, tonumber(entries) do
    local instant, cost
    at, stop, instant, cost = find(text, '^|(%-?%d+)|(%d+)', stop + 1)
    if not at then return nil end
    local high, low = integer(instant)
    local cost_high, cost_low = integer(cost)
    if not high or not cost_high then return nil end
    sum_high, sum_low = log_takes(log, sum_high, sum_low, high, low, cost_high, cost_low)
    if not sum_high then return nil end
  end
  if stop ~= #text then return nil end
  return log
end

-- The state of one rule; nil if it is not understood.
local function ascii_state(rule, text)
  local algorithm = rule.algorithm
  if algorithm.header == '71' then return ascii_log(text) end
  local fields = { match(text, algorithm.pattern) }
  if not fields[1] then return nil end
  local first = 1
  if algorithm.header == '23' then
    if fields[1] ~= rule.name then return nil end
    first = 2
  end
  local state, size, kinds = { 0, 0, 0 }, 0, algorithm.kinds
  for index = 1, #kinds do
    local kind, field = kinds[index], fields[first]
    first = first + 1
    if kind == 'd' then
      state[size + 1] = ascii_double(field)
      if not state[size + 1] then return nil end
      size = size + 1
    else
      state[size + 1], state[size + 2] = integer(field)
      if not state[size + 1] then return nil end
      size = size + 2
    end
  end
  return state
end

-- What one quota of a request shares, alone, has no name if it needs no length: whose it is, by its header.
local PLAIN = { ['12|'] = 'bucket', ['32|'] = 'leaky', ['42|'] = 'gcra' }

-- Reads a text of just these rules in their order, which most are: true if it was one.
local function ascii_read_ordered(rules, text)
  local at, size = 4, #text
  for index = 1, #rules do
    local rule = rules[index]
    local start = at + #rule.name + 1
    if sub(text, at, start - 1) ~= rule.name .. '=' then return false end
    local stop = find(text, '$', start, true) or size + 1
    rule.found = ascii_state(rule, sub(text, start, stop - 1))
    if not rule.found then return false end
    at = stop + 1
  end
  return at == size + 2
end

-- Reads the states of rules: true if the text was understood. What others wrote is noted.
local function ascii_read(rules, text)
  local plain = rules.shared and PLAIN[sub(text, 1, 3)]
  if plain and not find(text, '$', 1, true) then
    if rules[1].name == plain then
      rules[1].found = ascii_state(rules[1], text)
      return rules[1].found
    end
    rules.others = { plain .. '=' .. text }
    return find(text, '^[%p%w]+$')
  end
  if sub(text, 1, 3) ~= '81|' then return false end
  if ascii_read_ordered(rules, text) then return true end
  for index = 1, #rules do rules[index].found = false end
  local at, size, seen, count = 4, #text, {}, 0
  while at <= size + 1 do
    local stop = find(text, '$', at, true) or size + 1
    local equals = find(text, '=', at, true)
    if not equals or equals > stop then return false end
    local name = sub(text, at, equals - 1)
    count = count + 1
    if seen[name] or count > MOST_NAMES or #name > 64 or not find(name, '^[%w_:.@+-]+$') then return false end
    seen[name] = true
    local rule, state = nil, sub(text, equals + 1, stop - 1)
    for index = 1, #rules do
      if rules[index].name == name then rule = rules[index] end
    end
    if rule then
      rule.found = ascii_state(rule, state)
      if not rule.found then return false end
    elseif not find(state, '^[%p%w]+$') then
      return false
    else
      local others = rules.others or {}
      if #others < MOST_OTHERS then others[#others + 1] = sub(text, at, stop - 1) end
      rules.others = others
    end
    at = stop + 1
  end
  return true
end

-- One rule's state as text.
local function ascii_text(rule, state)
  local algorithm = rule.algorithm
  if algorithm.header == '71' then
    local pieces = { '71|' .. #state / 4 }
    for at = 1, #state, 4 do
      pieces[#pieces + 1] = decimal(state[at], state[at + 1])
      pieces[#pieces + 1] = decimal(state[at + 2], state[at + 3])
    end
    return table.concat(pieces, '|')
  end
  local text, at = algorithm.header, 1
  if text == '23' then text = '23|1|' .. rule.name end
  local kinds = algorithm.kinds
  for index = 1, #kinds do
    if kinds[index] == 'd' then
      text, at = text .. '|' .. ascii_number(state[at]), at + 1
    else
      text, at = text .. '|' .. decimal(state[at], state[at + 1]), at + 2
    end
  end
  return text
end

-- All rules that have a state, and what belongs to others, as one text; nil if there is nothing. `state_of` tells the
-- state of each.
local function ascii_join(rules, others, state_of)
  if #rules == 1 and not others and not rules.shared then
    local state = state_of(rules[1])
    return state and '81|' .. rules[1].name .. '=' .. ascii_text(rules[1], state)
  end
  local pieces = {}
  for index = 1, #rules do
    local state = state_of(rules[index])
    if state then pieces[#pieces + 1] = rules[index].name .. '=' .. ascii_text(rules[index], state) end
  end
  for index = 1, others and #others or 0 do pieces[#pieces + 1] = others[index] end
  if #pieces == 0 then return nil end
  if rules.shared and #pieces == 1 then
    local equals = find(pieces[1], '=', 1, true)
    if PLAIN[sub(pieces[1], equals + 1, equals + 3)] == sub(pieces[1], 1, equals - 1) then
      return sub(pieces[1], equals + 1)
    end
  end
  return '81|' .. table.concat(pieces, '$')
end

local function ascii_new(rule) return rule.new end

ENCODINGS.a = {
  load = function(key, rules)
    local text = redis.call('GET', key)
    if text and not ascii_read(rules, text) then return text, true end
    return text
  end,

  -- What who asked is told: the text as it was read, but without what belongs to others, and for a long log a short one
  -- that says the same.
  told = function(text, rules, brief_of)
    if not text then return false end
    local is_rewritten = rules.others
    for index = 1, #rules do is_rewritten = is_rewritten or rules[index].algorithm.brief end
    if is_rewritten then return ascii_join(rules, nil, brief_of) or false end
    return text
  end,

  save = function(key, rules, high, low)
    local text = ascii_join(rules, rules.others, ascii_new)
    local millis = lifetime(high, low)
    -- The TAT of GCRA tells everybody the same time to live; others depend on the quota.
    if rules.others or rules.shared and rules[1].algorithm.header ~= '42' then millis = no_shorter(key, millis) end
    redis.call('SET', key, text, 'PX', format('%d', millis))
  end,

  -- Nothing is left of these rules.
  forget = function(key, rules)
    if rules.others then
      redis.call('SET', key, ascii_join(rules, rules.others, ascii_new), 'KEEPTTL')
    else
      redis.call('DEL', key)
    end
  end,
}
ENCODINGS.A = ENCODINGS.a
