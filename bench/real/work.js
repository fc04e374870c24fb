// SPDX-License-Identifier: Apache-2.0 OR MIT
// Work for node: buffers, which come from malloc, JSON and maps, which V8 keeps in memory of its own. Prints a digest
// that depends on the number of rounds only. Usage: node work.js ROUNDS
'use strict';

const crypto = require('crypto');
const zlib = require('zlib');

const rounds = Number(process.argv[2]);
const hash = crypto.createHash('sha256');
let seed = 42;
const kept = [];

function dice(limit) {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return (seed >>> 12) % limit;
}

function order(number) {
    const lines = [];
    for (let i = dice(8); i >= 0; i--)
        lines.push({ item: `sku/${dice(100000)}`, count: i + 1 });
    return { id: number, notes: 'n'.repeat(dice(80)), lines };
}

for (let round = 0; round < rounds; round++) {
    const orders = [];
    for (let i = 0; i < 1000; i++)
        orders.push(order(round * 1000 + i));
    const text = JSON.stringify(orders);
    const packed = zlib.deflateSync(Buffer.from(text), { level: 1 });
    const parsed = JSON.parse(zlib.inflateSync(packed).toString());
    const parts = [];
    for (let i = 0; i < 300; i++)
        parts.push(Buffer.alloc(5000 + dice(20000), i & 255));
    kept.push(Buffer.concat(parts.slice(dice(200))));
    if (kept.length > 8)
        kept.shift();
    hash.update(text).update(String(parsed.length)).update(kept[0].subarray(0, 1000));
}
console.log(`${rounds} rounds, ${kept.length} kept, ${hash.digest('hex')}`);
