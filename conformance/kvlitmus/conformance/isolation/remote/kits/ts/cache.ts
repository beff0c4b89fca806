// A radix tree over a pool of pages: runs of pages that were cached together share a node, and a node splits.
//
//     tsc -p . && kvlitmus run "exec:node cache.js"
//
// Put your own cache in its place.  With `--slip NAME` it has one bug.
import { Cache, Config, Key, serve, Unsupported } from "./kvlitmus.js";

type Page = number[];

const same = (one: Page, other: Page): boolean => one.every((token, at) => token === other[at]);

class TreeNode {
  children: TreeNode[] = []; // in the order in which they came
  locks = 0;
  used = 0;

  constructor(
    readonly id: number,
    public parent: TreeNode | null,
    public pages: Page[], // the tokens of each page
    public numbers: number[], // and where it is
  ) {}
}

class RadixTree {
  free: number[];
  roots = new Map<string | null, TreeNode>();
  byId = new Map<number, TreeNode>();
  now = 0;
  ids = 0;

  constructor(
    pages: number,
    readonly size: number,
    readonly slip: string,
  ) {
    this.free = [...Array(pages).keys()];
  }

  node(parent: TreeNode | null, pages: Page[], numbers: number[]): TreeNode {
    const made = new TreeNode(++this.ids, parent, pages, numbers);
    this.byId.set(made.id, made);
    return made;
  }

  root(tenant: string | null): TreeNode {
    const found = this.roots.get(tenant) ?? this.node(null, [], []);
    this.roots.set(tenant, found);
    return found;
  }

  chunks(tokens: number[]): Page[] {
    const whole = Math.floor(tokens.length / this.size);
    return [...Array(whole).keys()].map((page) => tokens.slice(page * this.size, (page + 1) * this.size));
  }

  /** The pages of the longest cached prefix, and the node where it ends. */
  match(key: Key): { pages: number[]; at: TreeNode } {
    const pages: number[] = [];
    let at = this.root(key.namespace);
    let chunks = this.chunks(key.tokens);
    this.now++;
    while (chunks.length > 0) {
      const which = at.children.findIndex((one) => same(one.pages[0], chunks[0]));
      if (which < 0) break;
      let child = at.children[which];
      const alike = child.pages.findIndex((page, place) => place >= chunks.length || !same(page, chunks[place]));
      if (alike >= 0) child = this.split(at, which, alike);
      child.used = this.now;
      pages.push(...child.numbers);
      chunks = chunks.slice(child.pages.length);
      at = child;
    }
    return { pages, at };
  }

  /** The first pages of a node become a node above it; whoever locks the one locks the other. */
  split(parent: TreeNode, which: number, at: number): TreeNode {
    const lower = parent.children[which];
    const upper = this.node(parent, lower.pages.slice(0, at), lower.numbers.slice(0, at));
    upper.used = lower.used;
    if (this.slip !== "split-unlocked") upper.locks = lower.locks;
    upper.children = [lower];
    parent.children[which] = upper;
    [lower.parent, lower.pages, lower.numbers] = [upper, lower.pages.slice(at), lower.numbers.slice(at)];
    return upper;
  }

  /** Caches a prompt's pages; how many of them were cached before. */
  insert(key: Key, numbers: number[]): number {
    const { pages, at } = this.match(key);
    const chunks = this.chunks(key.tokens).slice(pages.length);
    if (chunks.length > 0) {
      const made = this.node(at, chunks, numbers.slice(pages.length, pages.length + chunks.length));
      made.used = at.parent ? at.used : ++this.now;
      at.children.push(made);
    }
    return pages.length;
  }

  /** Protects a path from its end to the root, or gives it back. */
  lock(end: number, change: number): void {
    for (let at = this.byId.get(end) ?? null; at; at = at.parent) at.locks += change;
  }

  /** Frees pages from the ends of unlocked leaves, the least recently used first; how many. */
  evict(wanted: number): number {
    let freed = 0;
    while (freed < wanted) {
      const held = (one: TreeNode) => one.locks > 0 && this.slip !== "evicts-the-locked";
      const leaves = this.nodes().filter((one) => one.children.length === 0 && !held(one));
      if (leaves.length === 0) break;
      const leaf = leaves.reduce((first, one) => (one.used < first.used ? one : first));
      const above = leaf.parent as TreeNode;
      above.children = above.children.filter((one) => one !== leaf);
      this.byId.delete(leaf.id);
      if (this.slip !== "loses-pages") this.free.push(...leaf.numbers);
      freed += leaf.pages.length;
    }
    return freed;
  }

  /** Every node but the roots, parents first. */
  nodes(): TreeNode[] {
    const found = [...this.roots.values()].flatMap((root) => root.children);
    for (let at = 0; at < found.length; at++) found.push(...found[at].children);
    return found;
  }

  // The suite speaks of slots, one a token; page p has those from p * size on.

  slots(pages: number[]): number[] {
    return pages.flatMap((page) => [...Array(this.size).keys()].map((at) => page * this.size + at));
  }

  numbers(slots: number[]): number[] {
    return slots.filter((_, at) => at % this.size === 0).map((slot) => Math.floor(slot / this.size));
  }

  view(): unknown {
    const index = new Map<TreeNode | null, number>();
    const tenants = new Map([...this.roots].map(([tenant, root]) => [root as TreeNode | null, tenant]));
    const nodes = this.nodes().map((one, at) => {
      index.set(one, at);
      tenants.set(one, tenants.get(one.parent) ?? null);
      const [parent, namespace] = [index.get(one.parent) ?? -1, tenants.get(one)];
      return { parent, namespace, units: one.pages.flat(), slots: this.slots(one.numbers), locks: one.locks };
    });
    return { free: this.free, nodes };
  }

  methods(): Cache {
    return {
      alloc: (n: number) => {
        const pages = Math.floor(n / this.size);
        return pages > this.free.length ? null : this.slots(this.free.splice(0, pages));
      },
      free: (slots: number[]) => {
        this.free.push(...this.numbers(slots));
      },
      available: () => this.free.length * this.size,
      match: (key: Key) => {
        const { pages, at } = this.match(key);
        return { length: pages.length * this.size, slots: this.slots(pages), handle: at.id };
      },
      insert: (key: Key, slots: number[]) => ({ already: this.insert(key, this.numbers(slots)) * this.size }),
      lock: (handle: number) => {
        this.lock(handle, 1);
        return handle;
      },
      unlock: (receipt: number) => this.lock(receipt, -1),
      evict: (n: number) => this.evict(Math.ceil(n / this.size)) * this.size,
      view: () => this.view(),
    };
  }
}

const slip = process.argv[2] === "--slip" ? process.argv[3] : "";
const hello = {
  ports: ["pool", "tree", "locks", "evict", "inspect"],
  profile: { reserved: 0, hit_counts: "none", evict_granularity: "node" },
};

serve(hello, (config: Config): Cache => {
  if (config.policy !== "lru" || config.bigram || config.pool !== "device" || config.host_pages > 0) {
    throw new Unsupported("LRU, plain tokens, one pool on the device");
  }
  return new RadixTree(config.pages, config.page_size, slip).methods();
});
