# numpy: matrices, a sort, a transform.
PYTHONMALLOC=malloc python3 - <<'P'
import numpy as np
rng = np.random.default_rng(7)
a = rng.integers(0, 1000, (400, 400))
print("product", int((a @ a).trace()), "sum", int(a.sum()))
b = np.sort(rng.random(400_000))
print("sorted", bool((b[1:] >= b[:-1]).all()), f"{b[200_000]:.6f}")
f = np.abs(np.fft.fft(np.sin(np.arange(1 << 16) * 2 * np.pi / 64)))
print("peak at", int(f[: 1 << 15].argmax()))
for n in range(1, 400):
    np.concatenate([np.arange(n * 100), np.zeros(n * 50)]).reshape(-1, 1)
print("uniques", np.unique(a).size)
P
