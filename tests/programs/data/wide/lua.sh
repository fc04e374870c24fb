# lua: tables, string buffers, closures, coroutines.
cat > work.lua <<'L'
local t = {}
for i = 1, 200000 do t["k" .. i * 7919 % 50021] = { i, tostring(i) } end
local n = 0
for _ in pairs(t) do n = n + 1 end
print("keys", n)
local parts = {}
for i = 1, 50000 do parts[#parts + 1] = string.format("%05d;", i * 31 % 50021) end
local s = table.concat(parts)
print("text", #s, (s:gsub("7", "seven")):len())
local co = coroutine.wrap(function() for i = 1, 20000 do coroutine.yield({ i }) end end)
local sum = 0
for i = 1, 20000 do sum = sum + co()[1] end
print("sum", sum)
t, parts = nil, nil
collectgarbage()
print("kept", collectgarbage("count") < 50000)
L
lua5.4 work.lua
