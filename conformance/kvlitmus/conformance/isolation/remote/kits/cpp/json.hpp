// JSON, as little of it as the protocol needs.  If your project has a JSON library, use that one instead.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvlitmus {

// A value.  Objects keep their order; what is missing in one, or in an array, is null.
struct Json {
    using Array = std::vector<Json>;
    using Object = std::vector<std::pair<std::string, Json>>;
    std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value = nullptr;

    Json() = default;
    Json(bool one) : value(one) {}
    Json(int one) : value(int64_t{one}) {}
    Json(int64_t one) : value(one) {}
    Json(const char* one) : value(std::string(one)) {}
    Json(std::string one) : value(std::move(one)) {}
    Json(Array all) : value(std::move(all)) {}
    Json(Object all) : value(std::move(all)) {}
    Json(const std::vector<int64_t>& all) : value(Array(all.begin(), all.end())) {}

    bool null() const { return value.index() == 0; }
    bool flag() const { return !null() && std::get<bool>(value); }
    int64_t number() const { return null() ? 0 : std::get<int64_t>(value); }
    const std::string& text() const { return std::get<std::string>(value); }
    const Array& array() const { return std::get<Array>(value); }
    std::vector<int64_t> numbers() const {
        std::vector<int64_t> found;
        for (const Json& one : array()) found.push_back(one.number());
        return found;
    }
    const Json& operator[](int at) const { return static_cast<size_t>(at) < array().size() ? array()[at] : nothing(); }
    const Json& operator[](const char* name) const {
        if (auto* all = std::get_if<Object>(&value))
            for (const auto& [key, one] : *all)
                if (key == name) return one;
        return nothing();
    }
    static const Json& nothing() {
        static const Json none;
        return none;
    }
};

inline void write(std::string& to, const std::string& text) {
    to += '"';
    for (unsigned char one : text) {
        char code[8];
        if (one < 0x20 || one == '"' || one == '\\') to.append(code, std::snprintf(code, sizeof code, "\\u%04x", one));
        else to += static_cast<char>(one);
    }
    to += '"';
}

inline void write(std::string& to, const Json& json) {
    const char* before = "";
    if (json.null()) to += "null";
    else if (auto* flag = std::get_if<bool>(&json.value)) to += *flag ? "true" : "false";
    else if (auto* number = std::get_if<int64_t>(&json.value)) to += std::to_string(*number);
    else if (auto* real = std::get_if<double>(&json.value)) to += std::to_string(*real);
    else if (auto* text = std::get_if<std::string>(&json.value)) write(to, *text);
    else if (auto* all = std::get_if<Json::Array>(&json.value)) {
        to += '[';
        for (const Json& one : *all) to += before, before = ",", write(to, one);
        to += ']';
    } else {
        to += '{';
        for (const auto& [key, one] : std::get<Json::Object>(json.value))
            to += before, before = ",", write(to, key), to += ':', write(to, one);
        to += '}';
    }
}

// Reads what the suite says: valid JSON, without spaces, with escapes for control characters alone.
struct Reader {
    const char* at;

    Json read() {
        switch (*at) {
            case '{': {
                Json::Object all;
                for (++at; *at != '}'; at += *at == ',') {
                    std::string key = string();
                    ++at;
                    all.emplace_back(std::move(key), read());
                }
                return ++at, Json(std::move(all));
            }
            case '[': {
                Json::Array all;
                for (++at; *at != ']'; at += *at == ',') all.push_back(read());
                return ++at, Json(std::move(all));
            }
            case '"': return Json(string());
            case 'n': return at += 4, Json();
            case 't': return at += 4, Json(true);
            case 'f': return at += 5, Json(false);
        }
        char* end;
        Json number(static_cast<int64_t>(std::strtoll(at, &end, 10)));
        if (*end == '.' || *end == 'e') number.value = std::strtod(at, &end);
        return at = end, number;
    }

    std::string string() {
        std::string text;
        for (++at; *at != '"'; ++at) {
            if (*at != '\\') text += *at;
            else if (*++at == 'u') text += static_cast<char>(std::strtol(std::string(at + 1, 4).c_str(), nullptr, 16)), at += 4;
            else text += *at == 'n' ? '\n' : *at == 'r' ? '\r' : *at == 't' ? '\t' : *at == 'b' ? '\b' : *at == 'f' ? '\f' : *at;
        }
        return ++at, text;
    }
};

}  // namespace kvlitmus
