-- Compact ASCII, read and written piece by piece: for texts that are not just the states of these rules in their order.
-- What is read is what is written here and by the engine's encoder; any other text goes back unread, and who asked
-- decides whether it is state.

-- A double; nothing if it is none to the engine, which knows no infinity.
local function decimal_double(text)
  if not (match(text, '^%-?%d+%.?%d*$') or match(text, '^%-?%d+%.?%d*e[+-]%d+$')) then return nil end
  local number = tonumber(text)
  if not number or number - number ~= 0 then return nil end
  return number
end

-- What one quota of a request shares, alone, has no name if it needs no length: whose it is, by its header.
local PLAIN = { ['12|'] = 'bucket', ['32|'] = 'leaky', ['42|'] = 'gcra' }

-- The names of the rules, of the format of their states. One without a name is what quotas share.
local function names_of(layout)
  local names = {}
  for name in string.gmatch(layout, '([%w_:.@+-]+)=') do names[#names + 1] = name end
  if #names == 0 then names[1] = PLAIN[sub(layout, 1, 3)] end
  return names
end

-- The texts of the rules' states by name, and a list of `name=state` of others; nothing if it is not understood.
local function split(text, names, is_shared)
  local texts, others, wanted = {}, nil, {}
  local plain = is_shared and PLAIN[sub(text, 1, 3)]
  if plain and not find(text, '$', 1, true) then
    if names[1] == plain then
      texts[plain] = text
    elseif find(text, '^[%p%w]+$') then
      others = { plain .. '=' .. text }
    else
      return nil
    end
    return texts, others
  end
  if sub(text, 1, 3) ~= '81|' then return nil end
  for index = 1, #names do wanted[names[index]] = true end
  local at, size, seen, count = 4, #text, {}, 0
  while at <= size + 1 do
    local stop = find(text, '$', at, true) or size + 1
    local equals = find(text, '=', at, true)
    if not equals or equals > stop then return nil end
    local name = sub(text, at, equals - 1)
    count = count + 1
    if seen[name] or count > MOST_NAMES or #name > 64 or not find(name, '^[%w_:.@+-]+$') then return nil end
    seen[name] = true
    local state = sub(text, equals + 1, stop - 1)
    if wanted[name] then
      texts[name] = state
    elseif not find(state, '^[%p%w]+$') then
      return nil
    else
      others = others or {}
      if #others < MOST_OTHERS then others[#others + 1] = sub(text, at, stop - 1) end
    end
    at = stop + 1
  end
  return texts, others
end

-- All of these `name=state` as one text; nothing if there are none.
local function join(pieces, others, is_shared)
  for index = 1, others and #others or 0 do pieces[#pieces + 1] = others[index] end
  if #pieces == 0 then return nil end
  if is_shared and #pieces == 1 then
    local equals = find(pieces[1], '=', 1, true)
    if PLAIN[sub(pieces[1], equals + 1, equals + 3)] == sub(pieces[1], 1, equals - 1) then
      return sub(pieces[1], equals + 1)
    end
  end
  return '81|' .. table.concat(pieces, '$')
end
