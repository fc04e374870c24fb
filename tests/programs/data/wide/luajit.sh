# luajit: compiled loops, tables, FFI blocks from malloc.
cat > work.lua <<'L'
local ffi = require("ffi")
ffi.cdef [[void *malloc(size_t n); void free(void *p); void *realloc(void *p, size_t n);]]
local sum = 0
for i = 1, 200000 do
  local p = ffi.cast("int32_t *", ffi.C.malloc(i % 3000 + 8))
  p[0], p[1] = i, i + 1
  p = ffi.cast("int32_t *", ffi.C.realloc(p, i % 5000 + 8))
  sum = sum + p[0] + p[1]
  ffi.C.free(p)
end
print("sum", sum)
local t = {}
for i = 1, 100000 do t[i] = ("%d"):format(i * 7919 % 100003) end
table.sort(t)
print(t[1], t[50000], #table.concat(t))
L
luajit work.lua
