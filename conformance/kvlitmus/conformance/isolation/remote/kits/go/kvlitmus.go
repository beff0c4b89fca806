// The protocol of kvlitmus for a cache in Go: JSON lines on stdin and stdout.  Copy it; it needs nothing else.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// A Method takes the arguments of a call by their places, and those that go by name.
type Method func(args []json.RawMessage, kwargs map[string]json.RawMessage) (any, error)

// A Cache has the ports' methods by their names (kvlitmus init-adapter --list).
type Cache map[string]Method

// A Key says which KV is meant; without a namespace it is nil.
type Key struct {
	Namespace *string `json:"namespace"`
	Tokens    []int   `json:"tokens"`
	Bigram    bool    `json:"bigram"`
}

// Protocol is the version of what is spoken here.
const Protocol = 1

// A Config is what a cache is to be like.
type Config struct {
	PageSize  int    `json:"page_size"`
	Pages     int    `json:"pages"`
	Policy    string `json:"policy"`
	Bigram    bool   `json:"bigram"`
	Pool      string `json:"pool"`
	HostPages int    `json:"host_pages"`
	Write     string `json:"write"`
	Storage   string `json:"storage"`
}

type message struct {
	Hello  *struct{ Protocol int }    `json:"hello"`
	Make   *Config                    `json:"make"`
	Call   string                     `json:"call"`
	Args   []json.RawMessage          `json:"args"`
	Kwargs map[string]json.RawMessage `json:"kwargs"`
	Looks  []string                   `json:"looks"`
	Told   json.RawMessage            `json:"told"`
	Raised *string                    `json:"raised"`
}

var (
	in  = bufio.NewReader(os.Stdin)
	out = os.Stdout
)

// Arg reads an argument as what it is promised to be.
func Arg[T any](raw json.RawMessage) T {
	var found T
	if err := json.Unmarshal(raw, &found); err != nil {
		panic(err)
	}
	return found
}

func say(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		os.Exit(0) // nobody listens any more
	}
}

func hear() (found message) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		os.Exit(0)
	}
	if err := json.Unmarshal(line, &found); err != nil {
		panic(err)
	}
	return found
}

// Ask calls back what the suite has lent: its storage (exists, get, put), or the host memory of a prefetch's plan.
func Ask(name string, args ...any) (json.RawMessage, error) {
	say(map[string]any{"ask": name, "args": args})
	heard := hear()
	if heard.Raised != nil {
		return nil, errors.New(*heard.Raised)
	}
	return heard.Told, nil
}

func outcome(cache Cache, name string, args []json.RawMessage, kwargs map[string]json.RawMessage) (string, any) {
	method, there := cache[name]
	if !there {
		return "raised", "AttributeError: " + name
	}
	answer, err := method(args, kwargs)
	if err != nil {
		return "raised", fmt.Sprintf("RuntimeError: %v", err)
	}
	return "answer", answer
}

func looks(cache Cache, names []string) map[string]any {
	found := map[string]any{}
	for _, name := range names {
		how, seen := outcome(cache, name, nil, nil)
		if how != "answer" {
			seen = map[string]any{how: seen}
		}
		found[name] = seen
	}
	return found
}

// Serve goes on until the suite hangs up.  hello: ports, profile, version and so on; make: a fresh cache of a
// configuration, or why there is none.
func Serve(hello any, make_ func(config Config) (Cache, error)) {
	os.Stdout = os.Stderr // what the cache prints must not get between
	var cache Cache
	for {
		heard := hear()
		switch {
		case heard.Hello != nil:
			if heard.Hello.Protocol == Protocol {
				say(map[string]any{"hello": hello, "protocol": Protocol})
			} else {
				why := fmt.Sprintf("it speaks protocol %d, and was asked for %d", Protocol, heard.Hello.Protocol)
				say(map[string]any{"refused": why})
			}
		case heard.Make != nil:
			made, err := make_(*heard.Make)
			if err != nil {
				say(map[string]any{"unsupported": err.Error()})
				continue
			}
			cache = made
			say(map[string]any{"made": true, "looks": looks(cache, heard.Looks)})
		default:
			how, answer := outcome(cache, heard.Call, heard.Args, heard.Kwargs)
			say(map[string]any{how: answer, "looks": looks(cache, heard.Looks)})
		}
	}
}
