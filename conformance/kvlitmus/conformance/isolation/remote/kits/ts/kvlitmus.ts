// The protocol of kvlitmus for a cache in TypeScript on Node: JSON lines on stdin and stdout.  Copy it; it needs
// nothing else.
import { readSync, writeSync } from "node:fs";

/** The version of what is spoken here. */
const PROTOCOL = 1;

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Which KV is meant. */
export interface Key {
  namespace: string | null;
  tokens: number[];
  bigram: boolean;
}

/** What a cache is to be like. */
export interface Config {
  page_size: number;
  pages: number;
  policy: string;
  bigram: boolean;
  pool: string;
  host_pages: number;
  write: string;
  storage: string;
}

/** A cache has the ports' methods by their names (kvlitmus init-adapter --list); `kwargs` come last. */
export type Cache = { [method: string]: (...args: any[]) => unknown };

/** Thrown by `make` for a configuration that the cache doesn't have, with the reason. */
export class Unsupported extends Error {}

// What is printed must not get between the answers.
console.log = console.info = console.debug = console.error;

let rest = Buffer.alloc(0);
const chunk = Buffer.alloc(1 << 16);

function hear(): any {
  for (;;) {
    const end = rest.indexOf("\n");
    if (end >= 0) {
      const line = rest.toString("utf8", 0, end);
      rest = rest.subarray(end + 1);
      return JSON.parse(line);
    }
    let many = 0;
    try {
      many = readSync(0, chunk);
    } catch (error) {
      if ((error as { code?: string }).code === "EAGAIN") continue;
      if ((error as { code?: string }).code !== "EOF") throw error;
    }
    if (many === 0) process.exit(0);
    rest = Buffer.concat([rest, chunk.subarray(0, many)]);
  }
}

function say(message: unknown): void {
  let data = Buffer.from(JSON.stringify(message) + "\n");
  while (data.length > 0) {
    try {
      data = data.subarray(writeSync(1, data));
    } catch (error) {
      if ((error as { code?: string }).code !== "EAGAIN") process.exit(0); // nobody listens any more
    }
  }
}

/** Calls back what the suite has lent: its storage (exists, get, put), or the host memory of a prefetch's plan. */
export function ask(name: string, ...args: Json[]): Json {
  say({ ask: name, args });
  const heard = hear();
  if (heard.raised !== undefined) throw new Error(heard.raised);
  return heard.told;
}

/** What came of a call: `answer`, or `raised` for what was thrown. */
function outcome(cache: Cache, name: string, args: Json[], kwargs: Json): { answer?: unknown; raised?: string } {
  try {
    return { answer: cache[name](...args, kwargs) ?? null };
  } catch (error) {
    return { raised: error instanceof Error ? `${error.name}: ${error.message}` : `Error: ${error}` };
  }
}

/** What these looks show after a call, or of a fresh cache. */
function looks(cache: Cache, names: string[] = []): { [name: string]: unknown } {
  const found: { [name: string]: unknown } = {};
  for (const look of names) {
    const seen = outcome(cache, look, [], {});
    found[look] = "answer" in seen ? seen.answer : seen;
  }
  return found;
}

/**
 * Serves until the suite hangs up.  `hello`: ports, profile, version and so on; `make`: a fresh cache of a
 * configuration.
 */
export function serve(hello: Json, make: (config: Config) => Cache): void {
  let cache: Cache = {};
  for (;;) {
    const message = hear();
    if (message.hello !== undefined) {
      const theirs = message.hello.protocol;
      if (theirs === PROTOCOL) say({ hello, protocol: PROTOCOL });
      else say({ refused: `it speaks protocol ${PROTOCOL}, and was asked for ${theirs}` });
    } else if (message.make !== undefined) {
      try {
        cache = make(message.make);
        say({ made: true, looks: looks(cache, message.looks) });
      } catch (error) {
        if (!(error instanceof Unsupported)) throw error;
        say({ unsupported: error.message });
      }
    } else {
      const came = outcome(cache, message.call, message.args, message.kwargs ?? {});
      say({ ...came, looks: looks(cache, message.looks) });
    }
  }
}
