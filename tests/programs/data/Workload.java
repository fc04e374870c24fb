// SPDX-License-Identifier: Apache-2.0 OR MIT
// A program for tests/programs: threads, direct buffers and compression of java (memory outside its
// heap comes from malloc). What it prints depends on nothing but this file. Usage: java Workload.java
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Workload {
    static long work(int seed) {
        CRC32 sum = new CRC32();
        for (int round = 0; round < 40; round++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(256 * 1024);
            while (buffer.hasRemaining())
                buffer.put((byte) (buffer.position() * seed + round));
            buffer.flip();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            Deflater deflater = new Deflater();
            deflater.setInput(bytes);
            deflater.finish();
            byte[] packed = new byte[bytes.length + 100];
            sum.update(packed, 0, deflater.deflate(packed));
            deflater.end();
        }
        return sum.getValue();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Callable<Long>> jobs = new ArrayList<>();
        for (int i = 1; i <= 8; i++) {
            int seed = i;
            jobs.add(() -> work(seed));
        }
        for (var result : pool.invokeAll(jobs))
            System.out.println("job " + result.get());
        pool.shutdown();
        Map<String, Integer> words = new HashMap<>();
        for (int i = 0; i < 200000; i++)
            words.merge("word" + i % 1000, i, Integer::sum);
        System.out.println("words " + words.size() + " " + words.get("word7"));
    }
}
