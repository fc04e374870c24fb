// SPDX-License-Identifier: Apache-2.0 OR MIT
// A program for tests/programs: buffers, JSON, compression and worker threads of node.
// What it prints depends on nothing but this file. Usage: node workload.js
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort } = require('worker_threads');

function work() {
    const digest = crypto.createHash('sha256');
    for (let round = 0; round < 60; round++) {
        const rows = Array.from({ length: 400 }, (_, i) => ({ id: i * round, text: 'row '.repeat(i % 20) }));
        const packed = zlib.gzipSync(Buffer.from(JSON.stringify(rows)), { level: 6 });
        const unpacked = JSON.parse(zlib.gunzipSync(packed).toString());
        const buffer = Buffer.alloc(64 * 1024 + round * 1000, round);
        digest.update(JSON.stringify(unpacked.slice(0, 50))).update(buffer);
    }
    return digest.digest('hex');
}

if (!isMainThread) {
    parentPort.postMessage(work());
} else {
    console.log('main', work());
    const workers = [1, 2].map(() => new Promise((resolve, reject) => {
        const worker = new Worker(__filename);
        worker.on('message', resolve);
        worker.on('error', reject);
    }));
    Promise.all(workers).then((answers) => console.log('workers', answers.join(' ')));
}
