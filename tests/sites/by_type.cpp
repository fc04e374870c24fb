// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Call sites: compiled with clang's -fsanitize=alloc-token, so that the compiler itself calls the
// entry points that take a token. What dies soon and what lives on are told
// apart by their types. Runs for a second and a half.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

struct Message {
    char text[96];
};
struct Session {
    Session *before;
    long numbers[7];
};

int main()
{
    using clock = std::chrono::steady_clock;
    std::vector<Session *> sessions;
    std::size_t sum = 0;
    clock::time_point end = clock::now() + std::chrono::milliseconds(1500);
    while (clock::now() < end) {
        std::vector<Message *> some(50000); // more than bins hold
        for (Message *&m : some) {
            m = static_cast<Message *>(std::malloc(sizeof(Message)));
            std::memset(m, 5, sizeof *m);
            if (sessions.size() < 2000000 && sum++ % 16 == 0)
                sessions.push_back(new Session{});
        }
        for (Message *m : some)
            std::free(m);
    }
    for (Session *s : sessions)
        delete s;
    std::printf("by_type: %zu\n", sum);
    return sum == 0;
}
