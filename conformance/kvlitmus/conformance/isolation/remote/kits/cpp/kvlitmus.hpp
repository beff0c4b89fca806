// The protocol of kvlitmus for a cache in C++17: JSON lines on stdin and stdout.  Copy it, and json.hpp.
// A cache is a table of methods by the names that the ports give them (kvlitmus init-adapter --list).
#pragma once
#include <unistd.h>

#include <functional>
#include <iostream>
#include <map>
#include <new>
#include <stdexcept>
#include <string>

#include "json.hpp"

namespace kvlitmus {

// Thrown by `make` for a configuration that the cache doesn't have, with the reason.
struct Unsupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The version of what is spoken here.
constexpr int PROTOCOL = 1;

using Method = std::function<Json(const Json& args, const Json& kwargs)>;
using Cache = std::map<std::string, Method>;

// The line to the suite; the process's own standard output goes where its errors go, so that nobody prints in between.
inline int& line() {
    static int file = -1;
    return file;
}

inline void say(const Json::Object& message) {
    std::string data;
    write(data, Json(message));
    data += '\n';
    for (size_t at = 0; at < data.size();) {
        ssize_t sent = ::write(line(), data.data() + at, data.size() - at);
        if (sent < 0) std::exit(0);  // nobody listens any more
        at += static_cast<size_t>(sent);
    }
}

inline Json hear() {
    std::string data;
    if (!std::getline(std::cin, data)) std::exit(0);
    return Reader{data.c_str()}.read();
}

// Calls back what the suite has lent: its storage (exists, get, put), or the host memory of a prefetch's plan.
inline Json ask(const char* name, Json::Array args) {
    say({{"ask", name}, {"args", std::move(args)}});
    Json told = hear();
    if (!told["raised"].null()) throw std::runtime_error(told["raised"].text());
    return told["told"];
}

// What came of a call: `answer`, or `raised` for what was thrown.
inline std::pair<std::string, Json> outcome(const Cache& cache, const std::string& name, const Json& args, const Json& kwargs) {
    try {
        return {"answer", cache.at(name)(args, kwargs)};
    } catch (const std::bad_alloc& error) {
        return {"raised", std::string("MemoryError: ") + error.what()};
    } catch (const std::invalid_argument& error) {
        return {"raised", std::string("ValueError: ") + error.what()};
    } catch (const std::exception& error) {
        return {"raised", std::string("RuntimeError: ") + error.what()};
    }
}

// What these looks show after a call, or of a fresh cache.
inline Json::Object looks(const Cache& cache, const Json& names) {
    Json::Object found;
    if (!names.null())
        for (const Json& look : names.array()) {
            auto seen = outcome(cache, look.text(), Json::Array{}, {});
            found.emplace_back(look.text(), seen.first == "answer" ? seen.second : Json(Json::Object{seen}));
        }
    return found;
}

// Serves until the suite hangs up.  `hello`: ports, profile, version and so on; `make`: a fresh cache of a configuration.
inline void serve(const Json::Object& hello, const std::function<Cache(const Json& config)>& make) {
    line() = dup(1);
    dup2(2, 1);
    std::ios::sync_with_stdio(false);
    Cache cache;
    while (true) {
        const Json message = hear();
        if (!message["hello"].null()) {
            const int64_t theirs = message["hello"]["protocol"].number();
            if (theirs == PROTOCOL)
                say({{"hello", hello}, {"protocol", PROTOCOL}});
            else
                say({{"refused", "it speaks protocol " + std::to_string(PROTOCOL) + ", and was asked for " + std::to_string(theirs)}});
        } else if (!message["make"].null()) {
            try {
                cache = make(message["make"]);
                say({{"made", true}, {"looks", looks(cache, message["looks"])}});
            } catch (const Unsupported& why) {
                say({{"unsupported", why.what()}});
            }
        } else {
            auto came = outcome(cache, message["call"].text(), message["args"], message["kwargs"]);
            say({came, {"looks", looks(cache, message["looks"])}});
        }
    }
}

}  // namespace kvlitmus
