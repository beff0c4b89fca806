//! A block table, as vLLM has it: blocks chained by keys, reference counts, a queue of free blocks that allocations
//! evict from.
//!
//!     rustc --edition=2021 -O -o cache cache.rs && kvlitmus run exec:./cache
//!
//! Put your own cache in its place.  With `--slip NAME` it has one bug.

mod json;
mod kvlitmus;

use json::Json::{self, *};
use kvlitmus::Cache;
use std::collections::HashMap;

const ORPHAN: i64 = -2; // the parent of a block that is still listed, though the block before it is gone

#[derive(Clone, Default)]
struct Block {
    held: i64,
    key: String, // by which it is found once it is full: all tokens up to its end, with their salt
    parent: String,
    salt: Option<String>,
    prefix: Vec<i64>,
}

#[derive(Clone, Default)]
struct Request {
    table: Vec<usize>,
    salt: Option<String>,
    tokens: Vec<i64>,
}

struct BlockTable {
    size: usize,
    blocks: Vec<Block>,
    queue: Vec<usize>,                   // free, the first one is used first
    cached: HashMap<String, Vec<usize>>, // of equal blocks each stays cached
    requests: HashMap<i64, Request>,
    slip: String,
}

impl BlockTable {
    fn new(pages: usize, size: usize, slip: &str) -> BlockTable {
        BlockTable {
            size,
            blocks: vec![Block::default(); pages],
            queue: (0..pages).collect(),
            cached: HashMap::new(),
            requests: HashMap::new(),
            slip: slip.to_string(),
        }
    }

    /// The key of each full block, chained from the one before.
    fn keys(&self, salt: &Option<String>, tokens: &[i64]) -> Vec<String> {
        let mut before = if self.slip == "no-salt" { String::new() } else { format!("{salt:?}") };
        let chained = tokens.chunks_exact(self.size).map(|chunk| {
            before.push_str(&format!(" {chunk:?}"));
            before.clone()
        });
        chained.collect()
    }

    /// The blocks that a prompt can begin with; its last token is always computed.
    fn computed(&self, salt: &Option<String>, tokens: &[i64]) -> Vec<usize> {
        let keys = self.keys(salt, &tokens[..tokens.len().saturating_sub(1)]);
        keys.iter().map_while(|key| self.cached.get(key)).map(|places| places[0]).collect()
    }

    /// One request more holds these blocks.
    fn take(&mut self, blocks: &[usize]) {
        for &block in blocks {
            self.blocks[block].held += 1;
            self.queue.retain(|&one| one != block);
        }
    }

    /// One request less holds these blocks; those that nobody holds are free, the last one is used first.
    fn put_back(&mut self, blocks: &[usize]) {
        let mut order = blocks.to_vec();
        if self.slip != "frees-heads-first" {
            order.reverse(); // others hang on the first
        }
        for block in order {
            self.blocks[block].held -= 1;
            if self.blocks[block].held == 0 {
                self.queue.push(block);
            }
        }
    }

    /// The blocks at the head of the queue; what was cached in them is evicted.
    fn new_blocks(&mut self, count: usize) -> Option<Vec<usize>> {
        if count > self.queue.len() {
            return None;
        }
        let blocks = self.queue[..count].to_vec();
        self.take(&blocks);
        for &block in &blocks {
            let key = std::mem::take(&mut self.blocks[block].key);
            if let Some(places) = self.cached.get_mut(&key).filter(|_| self.slip != "still-found") {
                places.retain(|&one| one != block);
                if places.is_empty() {
                    self.cached.remove(&key);
                }
            }
        }
        Some(blocks)
    }

    /// Begins a request, or goes on with it; whether there was room.
    fn allocate(&mut self, rid: i64, salt: Option<String>, tokens: Vec<i64>) -> bool {
        let known = self.requests.get(&rid).cloned();
        let hit = if known.is_some() { vec![] } else { self.computed(&salt, &tokens) };
        self.take(&hit);
        let mut table = known.unwrap_or_default().table;
        let Some(new) = self.new_blocks(tokens.len().div_ceil(self.size) - table.len() - hit.len()) else {
            self.put_back(&hit);
            return false;
        };
        table.extend(hit.into_iter().chain(new));
        let mut before = String::new();
        for (at, key) in self.keys(&salt, &tokens).into_iter().enumerate() {
            let block = &mut self.blocks[table[at]];
            if block.key.is_empty() {
                let prefix = tokens[..(at + 1) * self.size].to_vec();
                *block = Block { held: block.held, key: key.clone(), parent: before, salt: salt.clone(), prefix };
                self.cached.entry(key.clone()).or_default().push(table[at]);
            }
            before = key;
        }
        self.requests.insert(rid, Request { table, salt, tokens });
        true
    }

    // The suite speaks of slots, one a token; block b has those from b * size on.

    fn slots(&self, blocks: &[usize]) -> Vec<i64> {
        blocks.iter().flat_map(|block| block * self.size..(block + 1) * self.size).map(|slot| slot as i64).collect()
    }

    fn row(&self, rid: i64) -> Vec<i64> {
        let request = &self.requests[&rid];
        self.slots(&request.table)[..request.tokens.len()].to_vec()
    }

    fn units(&self, blocks: usize) -> Json {
        Number((blocks * self.size) as i64)
    }

    fn begun(&self, rid: i64, cached: usize) -> Json {
        Json::object([("row", Json::numbers(self.row(rid))), ("cached", self.units(cached))])
    }

    fn view(&self) -> Json {
        let mut full: Vec<usize> = (0..self.blocks.len()).filter(|&block| !self.blocks[block].key.is_empty()).collect();
        full.sort_by_key(|&block| self.blocks[block].prefix.len());
        let mut index = HashMap::from([("", -1)]);
        let mut nodes = vec![];
        for number in full {
            let block = &self.blocks[number];
            let units = &block.prefix[block.prefix.len() - self.size..];
            index.insert(&block.key, nodes.len() as i64);
            nodes.push(Json::object([
                ("parent", Number(index.get(block.parent.as_str()).copied().unwrap_or(ORPHAN))),
                ("namespace", block.salt.clone().map_or(Null, Text)),
                ("units", Json::numbers(units.iter().copied())),
                ("slots", Json::numbers(self.slots(&[number]))),
                ("locks", Number(block.held)),
            ]));
        }
        let free = Json::numbers(self.queue.iter().map(|&block| block as i64));
        Json::object([("free", free), ("nodes", Array(nodes))])
    }
}

impl Cache for BlockTable {
    fn call(&mut self, name: &str, args: &Json, _kwargs: &Json) -> Result<Json, String> {
        let number = args[0].number();
        let salted = |key: &Json| key["namespace"].text().map(String::from);
        Ok(match name {
            "alloc" => {
                let blocks = self.new_blocks(number as usize / self.size);
                blocks.map_or(Null, |blocks| Json::numbers(self.slots(&blocks)))
            }
            "free" => {
                let slots = args[0].list();
                let blocks: Vec<usize> = slots.iter().step_by(self.size).map(|&one| one as usize / self.size).collect();
                self.put_back(&blocks);
                Null
            }
            "available" => self.units(self.queue.len()),
            "match" => {
                let blocks = self.computed(&salted(&args[0]), &args[0]["tokens"].list());
                Json::object([("length", self.units(blocks.len())), ("slots", Json::numbers(self.slots(&blocks)))])
            }
            "begin" => {
                let (salt, tokens) = (salted(&args[1]), args[1]["tokens"].list());
                let cached = self.computed(&salt, &tokens).len();
                if self.allocate(number, salt, tokens) { self.begun(number, cached) } else { Null }
            }
            "grow" => {
                let mut request = self.requests[&number].clone();
                let before = request.tokens.len();
                request.tokens.extend(args[1].list());
                let there = self.allocate(number, request.salt, request.tokens);
                if there { Json::numbers(self.row(number).split_off(before)) } else { Null }
            }
            "publish" => self.begun(number, self.requests[&number].tokens.len() / self.size),
            "end" => {
                let request = self.requests.remove(&number).ok_or("KeyError: no such request")?;
                self.put_back(&request.table);
                Null
            }
            "view" => self.view(),
            _ => return Err(format!("AttributeError: {name}")),
        })
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let slip = if words.len() == 3 && words[1] == "--slip" { words[2].clone() } else { String::new() };
    let text = |one: &str| Text(one.to_string());
    let hello = Json::object([
        ("ports", Array(["pool", "requests", "lookup", "inspect"].map(text).to_vec())),
        (
            "profile",
            Json::object([
                ("reserved", Number(0)),
                ("publish", text("at_alloc")),
                ("duplicates", text("kept")),
                ("match_cap", text("len-1")),
                ("evict_moment", text("alloc")),
                ("hit_counts", text("none")),
            ]),
        ),
    ]);
    kvlitmus::serve(hello, |config| {
        let usual = config["policy"].text() == Some("lru") && config["pool"].text() == Some("device");
        if !usual || config["bigram"] == Flag(true) || config["host_pages"] != Number(0) {
            return Err("LRU, plain tokens, one pool on the device".to_string());
        }
        let (pages, size) = (config["pages"].number() as usize, config["page_size"].number() as usize);
        Ok(Box::new(BlockTable::new(pages, size, &slip)))
    });
}
