-- Products of whole numbers, which may need 126 bits.

local function limbs(high, low)
  local thousands = floor(low / 1000000)
  return { low % 1000000, thousands + high % 1000 * 1000, floor(high / 1000) % 1000000, floor(high / GIGA) }
end

-- The product in limbs of 1e6, the lowest first. A sum of four products of limbs is exact.
local function exact_product(high, low, by_high, by_low)
  local one, other = limbs(high, low), limbs(by_high, by_low)
  local product, carry = {}, 0
  for place = 2, 8 do
    local sum = carry
    for index = math.max(1, place - 4), math.min(4, place - 1) do
      sum = sum + one[index] * other[place - index]
    end
    product[place - 1] = sum % 1000000
    carry = floor(sum / 1000000)
  end
  product[8] = carry
  return product
end

-- The product as a pair. What is beyond 64 bits is only known to be so.
local function times(high, low, by_high, by_low)
  local rough = double(high, low) * double(by_high, by_low)
  if rough < EXACT then
    local quotient = floor(rough / GIGA)
    return quotient, rough - quotient * GIGA
  end
  local p = exact_product(high, low, by_high, by_low)
  local rest = floor(p[2] / 1000)
  return rest + p[3] * 1000 + p[4] * 1e9 + p[5] * 1e15 + p[6] * 1e21 + p[7] * 1e27 + p[8] * 1e33,
    p[1] + p[2] % 1000 * 1000000
end

-- True if a * b < c * d.
local function product_is_less(a_high, a_low, b_high, b_low, c_high, c_low, d_high, d_low)
  local one = double(a_high, a_low) * double(b_high, b_low)
  local other = double(c_high, c_low) * double(d_high, d_low)
  -- Each is off by less than 2^-51 of itself: only what is closer than that needs more digits.
  local doubt = (one + other) / 1e15
  if one + other < EXACT or one < other - doubt or one > other + doubt then return one < other end
  one = exact_product(a_high, a_low, b_high, b_low)
  other = exact_product(c_high, c_low, d_high, d_low)
  for place = 8, 1, -1 do
    if one[place] ~= other[place] then return one[place] < other[place] end
  end
  return false
end
