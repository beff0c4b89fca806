// A radix tree over a pool of pages: runs of pages that were cached together share a node, and a node splits.
//
//	go build -o cache . && kvlitmus run exec:./cache
//
// Put your own cache in its place.  With --slip NAME it has one bug.
package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
)

type node struct {
	id       int
	parent   *node
	pages    [][]int // the tokens of each page
	numbers  []int   // and where it is
	children []*node // in the order in which they came
	locks    int
	used     int
}

type tenantRoot struct {
	tenant *string
	root   *node
}

type radixTree struct {
	size  int
	free  []int
	roots []tenantRoot
	byID  map[int]*node
	now   int
	ids   int
	slip  string
}

func newRadixTree(pages, size int, slip string) *radixTree {
	tree := &radixTree{size: size, byID: map[int]*node{}, slip: slip}
	for page := range pages {
		tree.free = append(tree.free, page)
	}
	return tree
}

func (tree *radixTree) newNode(parent *node, pages [][]int, numbers []int) *node {
	tree.ids++
	made := &node{id: tree.ids, parent: parent, pages: pages, numbers: numbers}
	tree.byID[made.id] = made
	return made
}

func (tree *radixTree) root(tenant *string) *node {
	for _, one := range tree.roots {
		if (one.tenant == nil) == (tenant == nil) && (tenant == nil || *one.tenant == *tenant) {
			return one.root
		}
	}
	root := tree.newNode(nil, nil, nil)
	tree.roots = append(tree.roots, tenantRoot{tenant, root})
	return root
}

func (tree *radixTree) chunks(tokens []int) (found [][]int) {
	for at := 0; at+tree.size <= len(tokens); at += tree.size {
		found = append(found, tokens[at:at+tree.size])
	}
	return found
}

// match finds the pages of the longest cached prefix, and the node where it ends.
func (tree *radixTree) match(key Key) (pages []int, at *node) {
	at = tree.root(key.Namespace)
	tree.now++
	for chunks := tree.chunks(key.Tokens); len(chunks) > 0; {
		which := slices.IndexFunc(at.children, func(one *node) bool { return slices.Equal(one.pages[0], chunks[0]) })
		if which < 0 {
			break
		}
		child, same := at.children[which], 0
		for same < len(child.pages) && same < len(chunks) && slices.Equal(child.pages[same], chunks[same]) {
			same++
		}
		if same < len(child.pages) {
			child = tree.split(at, which, same)
		}
		child.used = tree.now
		pages = append(pages, child.numbers...)
		at, chunks = child, chunks[same:]
	}
	return pages, at
}

// split makes the first pages of a node a node above it; whoever locks the one locks the other.
func (tree *radixTree) split(parent *node, which, at int) *node {
	lower := parent.children[which]
	upper := tree.newNode(parent, lower.pages[:at], lower.numbers[:at])
	upper.used = lower.used
	if tree.slip != "split-unlocked" {
		upper.locks = lower.locks
	}
	upper.children = []*node{lower}
	parent.children[which] = upper
	lower.parent, lower.pages, lower.numbers = upper, lower.pages[at:], lower.numbers[at:]
	return upper
}

// insert caches a prompt's pages; it tells how many of them were cached before.
func (tree *radixTree) insert(key Key, numbers []int) int {
	cached, at := tree.match(key)
	before := len(cached)
	if chunks := tree.chunks(key.Tokens)[before:]; len(chunks) > 0 {
		made := tree.newNode(at, chunks, numbers[before:before+len(chunks)])
		made.used = at.used
		if at.parent == nil {
			tree.now++
			made.used = tree.now
		}
		at.children = append(at.children, made)
	}
	return before
}

// lock protects a path from its end to the root, or gives it back.
func (tree *radixTree) lock(end int, change int) {
	for at := tree.byID[end]; at != nil; at = at.parent {
		at.locks += change
	}
}

// evict frees pages from the ends of unlocked leaves, the least recently used first; it tells how many.
func (tree *radixTree) evict(wanted int) (freed int) {
	for freed < wanted {
		var leaf *node
		for _, one := range tree.nodes() {
			held := one.locks > 0 && tree.slip != "evicts-the-locked"
			if len(one.children) == 0 && !held && (leaf == nil || one.used < leaf.used) {
				leaf = one
			}
		}
		if leaf == nil {
			break
		}
		leaf.parent.children = slices.DeleteFunc(leaf.parent.children, func(one *node) bool { return one == leaf })
		delete(tree.byID, leaf.id)
		if tree.slip != "loses-pages" {
			tree.free = append(tree.free, leaf.numbers...)
		}
		freed += len(leaf.pages)
	}
	return freed
}

// nodes are all but the roots, parents first.
func (tree *radixTree) nodes() (found []*node) {
	for _, one := range tree.roots {
		found = append(found, one.root.children...)
	}
	for at := 0; at < len(found); at++ {
		found = append(found, found[at].children...)
	}
	return found
}

// The suite speaks of slots, one a token; page p has those from p * size on.

func (tree *radixTree) slots(pages []int) []int {
	found := []int{}
	for _, page := range pages {
		for at := range tree.size {
			found = append(found, page*tree.size+at)
		}
	}
	return found
}

func (tree *radixTree) numbers(slots []int) (found []int) {
	for at := 0; at < len(slots); at += tree.size {
		found = append(found, slots[at]/tree.size)
	}
	return found
}

func (tree *radixTree) view() any {
	type shown struct {
		Parent    int     `json:"parent"`
		Namespace *string `json:"namespace"`
		Units     []int   `json:"units"`
		Slots     []int   `json:"slots"`
		Locks     int     `json:"locks"`
	}
	nodes, index, tenants := []shown{}, map[*node]int{}, map[*node]*string{}
	for _, one := range tree.roots {
		tenants[one.root] = one.tenant
	}
	for at, one := range tree.nodes() {
		parent, there := index[one.parent]
		if !there {
			parent = -1
		}
		index[one], tenants[one] = at, tenants[one.parent]
		units, slots := slices.Concat(one.pages...), tree.slots(one.numbers)
		nodes = append(nodes, shown{parent, tenants[one], units, slots, one.locks})
	}
	return map[string]any{"free": append([]int{}, tree.free...), "nodes": nodes}
}

func (tree *radixTree) methods() Cache {
	type args = []json.RawMessage
	type named = map[string]json.RawMessage
	return Cache{
		"alloc": func(given args, _ named) (any, error) {
			pages := Arg[int](given[0]) / tree.size
			if pages > len(tree.free) {
				return nil, nil
			}
			taken := tree.free[:pages]
			tree.free = slices.Clone(tree.free[pages:])
			return tree.slots(taken), nil
		},
		"free": func(given args, _ named) (any, error) {
			tree.free = append(tree.free, tree.numbers(Arg[[]int](given[0]))...)
			return nil, nil
		},
		"available": func(args, named) (any, error) { return len(tree.free) * tree.size, nil },
		"match": func(given args, _ named) (any, error) {
			pages, at := tree.match(Arg[Key](given[0]))
			return map[string]any{"length": len(pages) * tree.size, "slots": tree.slots(pages), "handle": at.id}, nil
		},
		"insert": func(given args, _ named) (any, error) {
			already := tree.insert(Arg[Key](given[0]), tree.numbers(Arg[[]int](given[1])))
			return map[string]any{"already": already * tree.size}, nil
		},
		"lock": func(given args, _ named) (any, error) {
			tree.lock(Arg[int](given[0]), 1)
			return given[0], nil
		},
		"unlock": func(given args, _ named) (any, error) {
			tree.lock(Arg[int](given[0]), -1)
			return nil, nil
		},
		"evict": func(given args, _ named) (any, error) {
			return tree.evict((Arg[int](given[0])+tree.size-1)/tree.size) * tree.size, nil
		},
		"view": func(args, named) (any, error) { return tree.view(), nil },
	}
}

func main() {
	slip := ""
	if len(os.Args) == 3 && os.Args[1] == "--slip" {
		slip = os.Args[2]
	}
	hello := map[string]any{
		"ports":   []string{"pool", "tree", "locks", "evict", "inspect"},
		"profile": map[string]any{"reserved": 0, "hit_counts": "none", "evict_granularity": "node"},
	}
	Serve(hello, func(config Config) (Cache, error) {
		if config.Policy != "lru" || config.Bigram || config.Pool != "device" || config.HostPages > 0 {
			return nil, errors.New("LRU, plain tokens, one pool on the device")
		}
		return newRadixTree(config.Pages, config.PageSize, slip).methods(), nil
	})
}
