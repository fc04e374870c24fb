/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: cxx_trees. Stresses objects of one small size in numbers: complete binary trees are
 * built with new and destroyed, ROUNDS times with DEPTH levels, while an older tree lives on, whose
 * parts are replaced. What compilers, evaluators and games do.
 *
 * Checksum: the number of nodes and the sum of their values, counted on the way down. It never
 * starts a thread.
 */
#include "bench.h"

#include <memory>

namespace
{

struct node {
    std::unique_ptr<node> left, right;
    uint64_t value = 0;
};

std::unique_ptr<node> build(unsigned depth, uint64_t value)
{
    auto root = std::make_unique<node>();
    root->value = value;
    if (depth > 1) {
        root->left = build(depth - 1, 2 * value);
        root->right = build(depth - 1, 2 * value + 1);
    }
    return root;
}

uint64_t sum(const node *root)
{
    return root == nullptr ? 0
                           : 1 + root->value + 3 * sum(root->left.get()) + sum(root->right.get());
}

/* Replaces the subtree at the end of a random path. */
void replace_part(node *root, unsigned depth, uint64_t random)
{
    for (unsigned level = 1; level + 4 < depth; level++, random >>= 1)
        root = (random & 1) != 0 ? root->left.get() : root->right.get();
    root->left.reset();
    root->left = build(depth > 4 ? 4 : 1, random & 0xff);
}

} // namespace

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 2, 2, "cxx_trees DEPTH ROUNDS");
    unsigned depth = static_cast<unsigned>(bench_number(argc, argv, 1, "DEPTH", 2, 28));
    uint64_t rounds = bench_number(argc, argv, 2, "ROUNDS", 1, UINT32_MAX);
    uint64_t random = bench_seed(42, 0), checksum = 0, replaced = uint64_t{1} << depth;
    uint64_t begin = bench_now_ns();
    auto old = build(depth, 1);
    for (uint64_t round = 0; round < rounds; round++) {
        auto tree = build(depth, round);
        for (uint64_t n = 0; n < replaced / 64; n++)
            replace_part(old.get(), depth, bench_random(&random));
        checksum = bench_mix(checksum, sum(tree.get()));
    }
    checksum = bench_mix(checksum, sum(old.get()));
    old.reset();
    bench_report("cxx_trees", rounds * replaced, bench_now_ns() - begin, checksum);
    return 0;
}
