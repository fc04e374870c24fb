/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Benchmark: cxx_json. Stresses documents as a web service has them: in each of ROUNDS rounds a
 * JSON text of 2,000 orders is parsed into a tree of variants (strings, vectors, maps), changed,
 * and written again; the last eight documents stay alive. Blocks of many sizes that grow (vectors,
 * strings) with lives of very different lengths.
 *
 * Checksum: every text that was written. It never starts a thread; the parser knows just the JSON
 * that the writer writes, and ends the program where it finds something else.
 */
#include "bench.h"

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace
{

constexpr uint64_t ORDERS = 2000;
constexpr size_t WINDOW = 8;

struct value;
using array = std::vector<value>;
using object = std::map<std::string, value>;

struct value {
    std::variant<int64_t, std::string, array, object> is;
};

void write(const value &v, std::string &out)
{
    if (const auto *number = std::get_if<int64_t>(&v.is)) {
        out += std::to_string(*number);
    } else if (const auto *text = std::get_if<std::string>(&v.is)) {
        out += '"';
        out += *text;
        out += '"';
    } else if (const auto *list = std::get_if<array>(&v.is)) {
        out += '[';
        for (const value &item : *list) {
            write(item, out);
            out += ',';
        }
        out += ']';
    } else {
        out += '{';
        for (const auto &[key, item] : std::get<object>(v.is)) {
            out += '"' + key + "\":";
            write(item, out);
            out += ',';
        }
        out += '}';
    }
}

class parser
{
  public:
    explicit parser(std::string_view text) : text_(text) {}

    value parse()
    {
        switch (text_[at_]) {
        case '"':
            return {string()};
        case '[':
            return {list()};
        case '{':
            return {fields()};
        default:
            return {number()};
        }
    }

  private:
    void expect(char c)
    {
        if (at_ >= text_.size() || text_[at_] != c)
            bench_die(1, "the text is damaged at %zu: '%c' expected", at_, c);
        at_++;
    }

    std::string string()
    {
        expect('"');
        size_t begin = at_;
        while (at_ < text_.size() && text_[at_] != '"')
            at_++;
        std::string found(text_.substr(begin, at_ - begin));
        expect('"');
        return found;
    }

    int64_t number()
    {
        int64_t found = 0;
        size_t begin = at_;
        for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; at_++)
            found = found * 10 + (text_[at_] - '0');
        if (at_ == begin)
            bench_die(1, "the text is damaged at %zu: a number expected", at_);
        return found;
    }

    array list()
    {
        array found;
        for (expect('['); text_[at_] != ']'; expect(','))
            found.push_back(parse());
        at_++;
        return found;
    }

    object fields()
    {
        object found;
        for (expect('{'); text_[at_] != '}'; expect(',')) {
            std::string key = string();
            expect(':');
            found.emplace(std::move(key), parse());
        }
        at_++;
        return found;
    }

    std::string_view text_;
    size_t at_ = 0;
};

value make_order(uint64_t number, uint64_t *random)
{
    object order;
    uint64_t r = bench_random(random);
    order["id"] = {static_cast<int64_t>(number)};
    order["customer"] = {"customer-" + std::to_string(r % 5000)};
    order["notes"] = {std::string(r >> 57, static_cast<char>('a' + r % 26))};
    array lines;
    for (uint64_t n = r % 7 + 1; n > 0; n--) {
        object line;
        line["item"] = {"sku/" + std::to_string((r >> n) % 1000000)};
        line["count"] = {static_cast<int64_t>(n)};
        lines.push_back({std::move(line)});
    }
    order["lines"] = {std::move(lines)};
    return {std::move(order)};
}

/* Every second order gets longer notes, every third loses its lines. */
void change(array &orders)
{
    for (size_t i = 0; i < orders.size(); i++) {
        auto &order = std::get<object>(orders[i].is);
        if (i % 2 == 0)
            std::get<std::string>(order.at("notes").is) += " - called back, please deliver soon";
        if (i % 3 == 0)
            order.erase("lines");
    }
}

uint64_t digest(uint64_t checksum, const std::string &text)
{
    for (size_t i = 0; i + 8 <= text.size(); i += 8) {
        uint64_t word;
        memcpy(&word, text.data() + i, sizeof word);
        checksum = bench_mix(checksum, word);
    }
    return bench_mix(checksum, text.size());
}

uint64_t run(uint64_t rounds)
{
    uint64_t random = bench_seed(42, 0), checksum = 0;
    std::deque<value> window;
    for (uint64_t round = 0; round < rounds; round++) {
        array orders;
        for (uint64_t n = 0; n < ORDERS; n++)
            orders.push_back(make_order(round * ORDERS + n, &random));
        std::string text, changed;
        write({std::move(orders)}, text);
        value document = parser(text).parse();
        change(std::get<array>(document.is));
        write(document, changed);
        checksum = digest(digest(checksum, text), changed);
        window.push_back(std::move(document));
        if (window.size() > WINDOW)
            window.pop_front();
    }
    return checksum;
}

} // namespace

int main(int argc, char **argv)
{
    bench_expect_args(argc, argv, 1, 1, "cxx_json ROUNDS");
    uint64_t rounds = bench_number(argc, argv, 1, "ROUNDS", 1, UINT32_MAX);
    uint64_t begin = bench_now_ns();
    uint64_t checksum = run(rounds);
    bench_report("cxx_json", rounds * ORDERS, bench_now_ns() - begin, checksum);
    bench_work_freed("cxx_json");
    return 0;
}
