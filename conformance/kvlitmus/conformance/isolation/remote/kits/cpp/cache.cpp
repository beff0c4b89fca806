// A prefix cache with host memory: a trie of pages, each copied to the host when it is inserted, and loaded back when
// it is wanted.  Least recently used pages leave first; what is locked stays.
//
//     c++ -std=c++17 -O2 -o cache cache.cpp && kvlitmus run exec:./cache
//
// Everything below `serve` in this file is the cache; put your own in its place.  With `--slip NAME` it has one bug.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "kvlitmus.hpp"

using kvlitmus::Json;
using Numbers = std::vector<int64_t>;

static std::string slip;  // the bug to have, for trying out what the suite says of it

constexpr int64_t NOWHERE = -1;

struct Node {
    Node* parent = nullptr;
    Numbers units;  // one page of tokens
    int64_t id = 0, device = NOWHERE, host = NOWHERE, used = 0, locks = 0, depth = 0;
    std::map<Numbers, std::unique_ptr<Node>> children;
};

using Path = std::vector<Node*>;

class TwoTiers {
  public:
    TwoTiers(int64_t pages, int64_t host_pages, int64_t page_size)
        : size(page_size), device(pages * page_size), host(host_pages * page_size) {
        for (int64_t page = 0; page < pages; ++page) device_free.push_back(page);
        for (int64_t page = 0; page < host_pages; ++page) host_free.push_back(page);
    }

    const int64_t size;
    Numbers device, host;  // what is in each slot
    Numbers device_free, host_free;

    // What is cached of a prompt, on either tier; used now.
    Path path(const Json& key) {
        const Numbers tokens = key["tokens"].numbers();
        Path found;
        Node* at = root(key["namespace"]);
        ++now;
        for (size_t end = size; end <= tokens.size(); end += size) {
            auto next = at->children.find(Numbers(tokens.begin() + (end - size), tokens.begin() + end));
            if (next == at->children.end()) break;
            at = next->second.get();
            at->used = now;
            found.push_back(at);
        }
        return found;
    }

    // Caches a prompt's pages, and copies them to the host; how many were on the device before.
    size_t insert(const Json& key, const Numbers& pages) {
        const size_t here = on_device(path(key)).size();
        const Numbers tokens = key["tokens"].numbers();
        Node* at = root(key["namespace"]);
        ++now;
        for (size_t page = 0; page < tokens.size() / size && page < pages.size(); ++page) {
            at = child(at, Numbers(tokens.begin() + page * size, tokens.begin() + (page + 1) * size));
            at->used = now;
            if (at->device == NOWHERE) at->device = pages[page];
            if (at->host == NOWHERE && (!host_free.empty() || evict_host(1))) {
                at->host = take(host_free);
                if (slip != "no-copy") copy(device, at->device, host, at->host);
            }
        }
        return here;
    }

    // Brings back what is on the host alone: the pages before it, and those that came; none without room.
    std::pair<size_t, Path> load_back(const Json& key) {
        const Path all = path(key);
        Path wanted;
        for (Node* node : all)
            if (node->device == NOWHERE) wanted.push_back(node);
        const size_t before = all.size() - wanted.size();
        if (wanted.size() > device_free.size())
            evict(wanted.size() - device_free.size(), slip == "evicts-its-own" ? Path() : all);
        if (wanted.size() > device_free.size()) return {before, {}};
        for (Node* node : wanted) copy(host, node->host, device, node->device = take(device_free));
        return {before, wanted};
    }

    // Makes room on the device, without these pages; what has a copy on the host stays cached.
    size_t evict(size_t wanted, const Path& spared = {}) {
        size_t freed = 0;
        for (; freed < wanted; ++freed) {
            Node* node = victim([&](Node* one) {
                const bool locked = one->locks && slip != "evicts-the-locked";
                return one->device != NOWHERE && !locked && std::count(spared.begin(), spared.end(), one) == 0;
            });
            if (!node) break;
            device_free.push_back(std::exchange(node->device, NOWHERE));
            if (node->host == NOWHERE) drop(node);
        }
        return freed;
    }

    // Makes room on the host, by what is there alone.
    size_t evict_host(size_t wanted) {
        size_t freed = 0;
        for (; freed < wanted; ++freed) {
            Node* node = victim([](Node* one) { return one->device == NOWHERE; });
            if (!node) break;
            host_free.push_back(node->host);
            drop(node);
        }
        return freed;
    }

    void lock(int64_t end, int64_t change) {
        auto found = by_id.find(end);
        for (Node* node = found == by_id.end() ? nullptr : found->second; node && node->parent; node = node->parent)
            node->locks += change;
    }

    static Path on_device(Path path) {
        path.erase(std::find_if(path.begin(), path.end(), [](Node* one) { return one->device == NOWHERE; }), path.end());
        return path;
    }

    // Every page with its tenant, parents first.
    void each(const std::function<void(Node*, const Json& tenant)>& see) {
        for (auto& [name, root] : roots) {
            Path waiting{&root};
            const Json tenant = name.empty() ? Json() : Json(name.substr(1));
            while (!waiting.empty()) {
                Node* node = waiting.back();
                waiting.pop_back();
                if (node->parent) see(node, tenant);
                for (auto& [units, child] : node->children) waiting.push_back(child.get());
            }
        }
    }

  private:
    int64_t now = 0, ids = 0;
    std::map<std::string, Node> roots;
    std::unordered_map<int64_t, Node*> by_id;

    Node* root(const Json& tenant) { return &roots[tenant.null() || slip == "one-tenant" ? "" : "." + tenant.text()]; }

    Node* child(Node* parent, Numbers units) {
        auto& place = parent->children[units];
        if (!place) {
            place = std::make_unique<Node>();
            place->parent = parent, place->units = std::move(units), place->depth = parent->depth + 1;
            by_id[place->id = ++ids] = place.get();
        }
        return place.get();
    }

    // Of the pages that may go the least recently used one, and of a path its end.
    Node* victim(const std::function<bool(Node*)>& may_go) {
        Node* first = nullptr;
        each([&](Node* node, const Json&) {
            if (may_go(node) && (!first || std::pair(node->used, -node->depth) < std::pair(first->used, -first->depth)))
                first = node;
        });
        return first;
    }

    void drop(Node* node) {
        by_id.erase(node->id);
        node->parent->children.erase(Numbers(node->units));
    }

    int64_t take(Numbers& free) {
        const int64_t page = free.back();
        free.pop_back();
        return page;
    }

    void copy(const Numbers& from, int64_t page, Numbers& to, int64_t other) {
        std::copy_n(from.begin() + page * size, size, to.begin() + other * size);
    }
};

// The ports' methods.  The suite speaks of slots, one a token; page p has those from p * size on.

static kvlitmus::Cache methods(std::shared_ptr<TwoTiers> cache) {
    const int64_t size = cache->size;
    auto slots = [size](const Numbers& pages) {
        Numbers found;
        for (int64_t page : pages)
            for (int64_t at = 0; at < size; ++at) found.push_back(page * size + at);
        return found;
    };
    auto pages = [size](const Json& slots) {
        const Numbers all = slots.numbers();
        Numbers found;
        for (size_t at = 0; at < all.size(); at += size) found.push_back(all[at] / size);
        return found;
    };
    auto devices = [slots](const Path& path) {
        Numbers found;
        for (Node* node : path) found.push_back(node->device);
        return slots(found);
    };
    auto rounded = [size](const Json& n) { return static_cast<size_t>((n.number() + size - 1) / size); };
    auto units = [size](size_t pages) { return static_cast<int64_t>(pages) * size; };
    return {
        {"alloc", [=](const Json& args, const Json&) -> Json {
             const size_t wanted = args[0].number() / size;
             Numbers& free = cache->device_free;
             if (wanted > free.size()) return {};
             const Numbers taken(free.rbegin(), free.rbegin() + wanted);
             free.resize(free.size() - wanted);
             return slots(taken);
         }},
        {"free", [=](const Json& args, const Json&) -> Json {
             for (int64_t page : pages(args[0])) cache->device_free.push_back(page);
             return {};
         }},
        {"available", [=](const Json&, const Json&) -> Json { return units(cache->device_free.size()); }},
        {"match", [=](const Json& args, const Json&) -> Json {
             const Path all = cache->path(args[0]), here = TwoTiers::on_device(all);
             return Json::Object{{"length", units(here.size())}, {"slots", devices(here)},
                                 {"handle", here.empty() ? 0 : here.back()->id},
                                 {"host", units(all.size() - here.size())}};
         }},
        {"insert", [=](const Json& args, const Json&) -> Json {
             return Json::Object{{"already", units(cache->insert(args[0], pages(args[1])))}};
         }},
        {"lock", [=](const Json& args, const Json&) -> Json { return cache->lock(args[0].number(), 1), args[0]; }},
        {"unlock", [=](const Json& args, const Json&) -> Json { return cache->lock(args[0].number(), -1), Json(); }},
        {"evict", [=](const Json& args, const Json&) -> Json { return units(cache->evict(rounded(args[0]))); }},
        {"host_available", [=](const Json&, const Json&) -> Json { return units(cache->host_free.size()); }},
        {"evict_host", [=](const Json& args, const Json&) -> Json { return units(cache->evict_host(rounded(args[0]))); }},
        {"load_back", [=](const Json& args, const Json&) -> Json {
             const auto [before, came] = cache->load_back(args[0]);
             return Json::Object{{"before", units(before)}, {"slots", came.empty() ? Json() : devices(came)}};
         }},
        {"poke", [=](const Json& args, const Json&) -> Json {
             const Numbers at = args[0].numbers(), values = args[1].numbers();
             for (size_t one = 0; one < at.size(); ++one) cache->device.at(at[one]) = values.at(one);
             return {};
         }},
        {"peek", [=](const Json& args, const Json&) -> Json {
             Numbers found = args[1].numbers();
             for (int64_t& slot : found) slot = (args[0].text() == "device" ? cache->device : cache->host).at(slot);
             return found;
         }},
        {"tiers", [=](const Json&, const Json&) -> Json {
             Json::Array nodes;
             std::map<Node*, int64_t> index;
             cache->each([&](Node* node, const Json& tenant) {
                 const auto above = index.find(node->parent);
                 auto place = [&](int64_t page) { return page == NOWHERE ? Json() : Json(slots({page})); };
                 nodes.push_back(Json::Object{{"parent", above == index.end() ? -1 : above->second},
                                              {"namespace", tenant}, {"units", node->units},
                                              {"slots", place(node->device)}, {"host", place(node->host)},
                                              {"locks", node->locks}});
                 index[node] = static_cast<int64_t>(nodes.size()) - 1;
             });
             return Json::Object{{"free", cache->device_free}, {"nodes", nodes}, {"host_free", cache->host_free}};
         }},
    };
}

int main(int count, char** words) {
    if (count == 3 && std::string(words[1]) == "--slip") slip = words[2];
    const Json::Array ports{"pool", "tree", "locks", "evict", "host", "tiers", "data"};
    const Json::Array configs{Json::Object{{"page_size", 1}, {"pages", 16}, {"host_pages", 20}},
                              Json::Object{{"page_size", 4}, {"pages", 12}, {"host_pages", 8}}};
    const Json::Object profile{{"reserved", 0}, {"hit_counts", "none"}};
    kvlitmus::serve({{"ports", ports}, {"profile", profile}, {"configs", configs}}, [](const Json& config) {
        const bool usual = config["policy"].text() == "lru" && config["write"].text() == "write_through";
        if (!usual || config["bigram"].flag() || !config["host_pages"].number() || config["storage"].text() != "none")
            throw kvlitmus::Unsupported("LRU, plain tokens, write-through, host memory without storage");
        return methods(std::make_shared<TwoTiers>(config["pages"].number(), config["host_pages"].number(),
                                                  config["page_size"].number()));
    });
}
