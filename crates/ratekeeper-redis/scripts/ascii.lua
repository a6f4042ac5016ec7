-- Compact ASCII: all rules of a plan in one string. Read here is what is written here and by the engine's encoder;
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

-- The state of one rule that is no window; nil if it is not understood.
local function ascii_state(algorithm, text)
  if algorithm.header == '71' then return ascii_log(text) end
  local fields = { match(text, algorithm.pattern) }
  if not fields[1] then return nil end
  local state, size, kinds = { 0, 0, 0 }, 0, algorithm.kinds
  for index = 1, #kinds do
    local kind = kinds[index]
    if kind == 'd' then
      state[size + 1] = ascii_double(fields[index])
      if not state[size + 1] then return nil end
      size = size + 1
    else
      state[size + 1], state[size + 2] = integer(fields[index])
      if not state[size + 1] then return nil end
      size = size + 2
    end
  end
  return state
end

-- The states of a plan's windows, which share one part.
local function ascii_windows(rules, text)
  local count = 0
  for _, rule in ipairs(rules) do
    if rule.name then count = count + 1 end
  end
  local at, stop, windows = find(text, '^23|(%d)')
  if not at or tonumber(windows) ~= count then return nil end
  for _, rule in ipairs(rules) do
    if rule.name then
      local name, passed, start
      at, stop, name, passed, start = find(text, '^|([^|]+)|(%d+)|(%-?%d+)', stop + 1)
      if name ~= rule.name then return nil end
      local state = {}
      state[1], state[2] = integer(passed)
      state[3], state[4] = integer(start)
      if not state[1] or not state[3] then return nil end
      rule.found = state
    end
  end
  return stop == #text
end

-- Reads the states of a plan's rules: true if the text was understood.
local function ascii_read(rules, text)
  -- The last part is the one that no `51|` goes before; a plan's windows are all in the part of the first.
  local last, had_windows = 0, false
  for index = 1, #rules do
    local rule = rules[index]
    if not (rule.name and had_windows) then last = index end
    had_windows = had_windows or rule.name
  end
  had_windows = false
  for index = 1, #rules do
    local rule = rules[index]
    if not (rule.name and had_windows) then
      local part = text
      if index < last then
        if sub(text, 1, 3) ~= '51|' then return false end
        local at = find(text, '$', 4, true)
        if not at then return false end
        part, text = sub(text, 4, at - 1), sub(text, at + 1)
      end
      if rule.name then
        had_windows = true
        if not ascii_windows(rules, part) then return false end
      else
        rule.found = ascii_state(rule.algorithm, part)
        if not rule.found then return false end
      end
    end
  end
  return true
end

-- One rule's state as text; a window without its header.
local function ascii_text(rule, state)
  local algorithm = rule.algorithm
  if rule.name then
    return '|' .. rule.name .. '|' .. decimal(state[1], state[2]) .. '|' .. decimal(state[3], state[4])
  end
  if algorithm.header == '71' then
    local pieces = { '71|' .. #state / 4 }
    for at = 1, #state, 4 do
      pieces[#pieces + 1] = decimal(state[at], state[at + 1])
      pieces[#pieces + 1] = decimal(state[at + 2], state[at + 3])
    end
    return table.concat(pieces, '|')
  end
  local text, at = algorithm.header, 1
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

-- All rules as one text. `state_of` tells the state of each.
local function ascii_join(rules, state_of)
  local parts, windows, count = { nil, nil }, nil, 0
  for index = 1, #rules do
    local rule = rules[index]
    local text = ascii_text(rule, state_of(rule))
    if not rule.name then
      parts[#parts + 1] = text
    else
      if not windows then
        windows = #parts + 1
        parts[windows] = ''
      end
      parts[windows], count = parts[windows] .. text, count + 1
    end
  end
  if windows then parts[windows] = '23|' .. count .. parts[windows] end
  local text = parts[#parts]
  for index = #parts - 1, 1, -1 do text = '51|' .. parts[index] .. '$' .. text end
  return text
end

ENCODINGS.a = {
  load = function(key, rules)
    local text = redis.call('GET', key)
    if text and not ascii_read(rules, text) then return text, true end
    return text
  end,

  -- What who asked is told: the text as it was read, but for a long log a short one that says the same.
  told = function(text, rules, brief_of)
    if not text then return false end
    for index = 1, #rules do
      if rules[index].algorithm.brief then return ascii_join(rules, brief_of) end
    end
    return text
  end,

  save = function(key, rules, high, low)
    local text = ascii_join(rules, function(rule) return rule.new or rule.algorithm.fresh(rule) end)
    redis.call('SET', key, text, 'PX', lifetime(high, low))
  end,
}
